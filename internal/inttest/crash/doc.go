// Package crash holds tests that kill a consumer, a real process, at each point
// of a message's life, and look at what it left: claim and effect both or none,
// the message still with the broker, and all of it right after the next process
// has come. It has no code of its own.
package crash
