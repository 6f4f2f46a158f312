package main

import (
	"errors"
	"fmt"
)

// Exit codes.
const (
	exitDone   = 0 // done
	exitFailed = 1 // failed; the sentence on stderr says why and what to do
	exitUsage  = 2 // wrong use; nothing was done
	exitLeft   = 3 // done as far as it goes; something is left that needs an operator
)

// usageError is a wrong use of the command.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{text: fmt.Sprintf(format, args...)} }

// leftError ends a command that did what it could. What is left was printed with
// the result; the text, if any, adds to it.
type leftError struct{ text string }

func (e *leftError) Error() string { return e.text }

func leftf(format string, args ...any) error { return &leftError{text: fmt.Sprintf(format, args...)} }

// sayError is a sentence for the operator that is complete as it is.
type sayError struct{ text string }

func (e *sayError) Error() string { return e.text }

func failf(format string, args ...any) error { return &sayError{text: fmt.Sprintf(format, args...)} }

// code gives the exit code of an error. started tells whether the arguments had
// been found right.
func code(err error, started bool) int {
	switch {
	case err == nil:
		return exitDone
	case isA[*leftError](err):
		return exitLeft
	case isA[*usageError](err) || !started:
		return exitUsage
	}
	return exitFailed
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
