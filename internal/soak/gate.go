package main

import "sync"

// gate lets its users pass, or holds them.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed while the gate is open
	// inside counts those that have passed and not left.
	inside sync.WaitGroup
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

// pass waits until the gate is open or done is closed; then it returns false.
// Who passed says leave.
func (g *gate) pass(done <-chan struct{}) bool {
	for {
		g.mu.Lock()
		open := g.open
		select {
		case <-open:
			g.inside.Add(1)
			g.mu.Unlock()
			return true
		default:
		}
		g.mu.Unlock()
		select {
		case <-open:
		case <-done:
			return false
		}
	}
}

func (g *gate) leave() { g.inside.Done() }

// shut holds all that come, and returns when those that had passed have left.
func (g *gate) shut() {
	g.hold()
	g.inside.Wait()
}

// hold holds all that come.
func (g *gate) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
		g.open = make(chan struct{})
	default:
	}
}

func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}
