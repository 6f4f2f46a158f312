// Soak runs router/rabbit at full rate for a while and disturbs it all the time:
//
//	go run ./internal/soak -for 3m
//
// Connections are cut every five seconds, the broker is killed once and started
// again, the queue is deleted twice when it is empty and once when it is full.
// Every message is published again until it is confirmed. At the end the books
// are checked: each confirmed message took effect, except those that the operator
// destroyed with the full queue; goroutines are back to their number at the
// start; the heap has not grown. It prints a table and ends with 1 when one of
// these is broken.
//
// The broker is a private one of scripts/services.
package main
