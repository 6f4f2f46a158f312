package settle

// grow makes the stack of a goroutine that is about to handle a message as large as
// that takes, 16 KiB, at once and while there is little on it. Left alone it would
// double two or three times, each time with all the frames of a handler's call to be
// copied and adjusted: an eighth of the processor time of a message, measured with
// handlers that use pgx.
//
//go:noinline
func grow() byte {
	var room [10 << 10]byte
	return room[len(room)-1-int(one)]
}

// one keeps the compiler from seeing through grow.
var one byte = 1
