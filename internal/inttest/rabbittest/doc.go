// Package rabbittest holds tests of router/rabbit that need more than the
// published module links: Watermill's acceptance suite and a proxy for faults of
// the network. It has no code of its own.
package rabbittest
