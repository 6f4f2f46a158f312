// Package cqrstest runs Watermill's cqrs processors inside of the stack, on an
// in-process broker and a SQLite inbox: what is promised there, and what the
// processors' settings that hide errors do. It has no code of its own.
package cqrstest
