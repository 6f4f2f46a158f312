package dlq

import "errors"

var (
	// ErrNoLetter: there is no letter of that id.
	ErrNoLetter = errors.New("there is no such letter")
	// ErrNoRun: there is no run of that id.
	ErrNoRun = errors.New("there is no such run")
	// ErrBusy: another run redrives letters of the same queue.
	ErrBusy = errors.New("another run has this queue: wait for it, or cancel it")
	// ErrPaused: the run stopped by itself; Resume goes on with it.
	ErrPaused = errors.New("run is paused: mend what makes its letters come back, then resume it")
	// ErrCancelled: the run was cancelled.
	ErrCancelled = errors.New("run was cancelled")
	// ErrNoFilter: an act without any condition.
	ErrNoFilter = errors.New("no letters are chosen: give ids or a condition, or say that all are meant")
	// ErrNoNote: a named act without a name.
	ErrNoNote = errors.New("say who does it and why")
)
