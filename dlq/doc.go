// Package dlq is the operator's table of dead letters: they are collected from
// dead letter queues, judged by what the consumers' inboxes can prove, and put
// back to the queues they died in.
package dlq
