package main

import "fmt"

// items that the shop sells. There are many orders of each, so that processes
// meet on the same rows.
const items = 100

// order is the event that the producer publishes.
type order struct {
	ID   int    `json:"id"`
	Item string `json:"item"`
	Gift bool   `json:"gift,omitempty"`
}

// newOrder makes an order of a run, which has so many messages and gifts.
func newOrder(id, messages, gifts int) order {
	// As many of them as gifts, at equal distances.
	gift := id*gifts/messages < (id+1)*gifts/messages
	return order{ID: id, Item: itemName(id % items), Gift: gift}
}

func itemName(n int) string { return fmt.Sprintf("item-%02d", n) }

// eventID names the order, not the message: it is the same in every copy, from
// whichever process.
func (o order) eventID() string { return fmt.Sprintf("order-%d", o.ID) }

// copies that the producer sends of an order: a third of them twice.
func (o order) copies() int {
	if o.ID%3 == 0 {
		return 2
	}
	return 1
}
