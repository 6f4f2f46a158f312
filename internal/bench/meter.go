package main

import (
	"sync"
	"sync/atomic"
	"time"
)

// meter counts what became of the messages of one measurement.
type meter struct {
	want    int64 // so many end it; 0: somebody else counts
	begun   chan struct{}
	done    chan struct{}
	each    int64         // every so many settled messages,
	mark    func(n int64) // this is called, on the goroutine of a handler
	settled atomic.Int64
	first   atomic.Int64 // Unix time of the first one settled, ns
	last    atomic.Int64

	undone atomic.Int64 // runs that the database undid (deadlocks and the like), to be run again
	failed atomic.Int64 // other runs that failed
	nacked atomic.Int64 // messages put back to the queue

	mu        sync.Mutex
	latencies []time.Duration
	why       error // of the first failure
}

func newMeter(want int) *meter {
	return &meter{want: int64(want), begun: make(chan struct{}), done: make(chan struct{})}
}

// settle counts one message whose effect is committed and whose ack is the next thing that its consumer does.
func (m *meter) settle() {
	now := time.Now().UnixNano()
	n := m.settled.Add(1)
	m.last.Store(now)
	if n == 1 {
		m.first.Store(now)
		close(m.begun)
	}
	if n == m.want {
		close(m.done)
	}
	if m.each > 0 && n%m.each == 0 {
		m.mark(n)
	}
}

// begin starts the clock before the first message is settled: for work that settles all of them at once.
func (m *meter) begin() { m.first.Store(time.Now().UnixNano()); close(m.begun) }

// settleAll ends what begin began.
func (m *meter) settleAll(n int) {
	m.last.Store(time.Now().UnixNano())
	m.settled.Add(int64(n))
	close(m.done)
}

func (m *meter) took() time.Duration { return time.Duration(m.last.Load() - m.first.Load()) }

// latency notes how long ago a message was published.
func (m *meter) latency(d time.Duration) {
	m.mu.Lock()
	m.latencies = append(m.latencies, d)
	m.mu.Unlock()
}

// fail counts a run that failed.
func (m *meter) fail(err error) {
	m.failed.Add(1)
	m.mu.Lock()
	if m.why == nil {
		m.why = err
	}
	m.mu.Unlock()
}

func (m *meter) firstFailure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.why
}
