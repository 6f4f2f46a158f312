package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/google/uuid"
)

// quantity is what each message adds to its row.
const quantity = 3

// update is the business write of one message.
const update = "UPDATE stock SET n = n + $1 WHERE id = $2"

// updateMany is that of many messages in one statement.
const updateMany = "UPDATE stock SET n = stock.n + v.n FROM unnest($1::bigint[], $2::bigint[]) v (id, n) WHERE stock.id = v.id"

// event is the body of a message, about 200 bytes.
type event struct {
	ID       string `json:"event_id"`
	Seq      int    `json:"seq"`
	Item     int64  `json:"item"`
	Quantity int64  `json:"quantity"`
	Fail     bool   `json:"fail"`
	Note     string `json:"note"`
}

func decode(body []byte) (event, error) {
	var e event
	if err := json.Unmarshal(body, &e); err != nil {
		return e, fmt.Errorf("decode event: %w", err)
	}
	return e, nil
}

func newKey(timely bool) (string, error) {
	id, err := uuid.NewRandom()
	if timely {
		id, err = uuid.NewV7()
	}
	return id.String(), err
}

// events makes the messages of one measurement, the same ones in the same order for every system of a round.
type events struct {
	random    *rand.Rand
	rows      int
	failEvery int
	timely    bool // keys in the order of time, UUIDv7, instead of at random, UUIDv4
	made      int
}

func newEvents(seed uint64, rows int) *events {
	return &events{random: rand.New(rand.NewPCG(seed, 0)), rows: rows}
}

func (s *events) next() (event, error) {
	key, err := newKey(s.timely)
	e := event{
		ID: key, Seq: s.made, Item: 1 + s.random.Int64N(int64(s.rows)), Quantity: quantity,
		Note: "Two of these stood at the window, the third is on its way from the other store.",
	}
	s.made++
	e.Fail = s.failEvery > 0 && s.made%s.failEvery == 0
	return e, err
}
