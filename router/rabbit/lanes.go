package rabbit

import "slices"

// lanes keeps the deliveries that wait to be handed out. Without OrderBy there
// is one lane that is never busy.
type lanes struct {
	ordered bool
	ready   []*item            // their lanes are free
	waiting map[string][]*item // behind the busy one of their lane; the key exists while the lane is busy
}

func newLanes(ordered bool) lanes {
	return lanes{ordered: ordered, waiting: make(map[string][]*item)}
}

func (l *lanes) push(it *item) {
	if l.ordered {
		if queue, busy := l.waiting[it.lane]; busy {
			l.waiting[it.lane] = append(queue, it)
			return
		}
		l.waiting[it.lane] = nil
	}
	l.ready = append(l.ready, it)
}

func (l *lanes) peek() *item {
	if len(l.ready) == 0 {
		return nil
	}
	return l.ready[0]
}

func (l *lanes) pop() {
	l.ready[0] = nil
	l.ready = l.ready[1:]
}

// free lets the next one of the item's lane through.
func (l *lanes) free(it *item) {
	if !l.ordered {
		return
	}
	queue := l.waiting[it.lane]
	if len(queue) == 0 {
		delete(l.waiting, it.lane)
		return
	}
	l.ready = append(l.ready, queue[0])
	l.waiting[it.lane] = queue[1:]
}

// drop takes out what came from ses; nil means all.
func (l *lanes) drop(ses *session) (dropped []*item) {
	gone := func(it *item) bool {
		if ses != nil && it.ses != ses {
			return false
		}
		dropped = append(dropped, it)
		return true
	}
	for lane, queue := range l.waiting {
		l.waiting[lane] = slices.DeleteFunc(queue, gone)
	}
	before := len(dropped)
	l.ready = slices.DeleteFunc(l.ready, gone)
	for _, it := range dropped[before:] {
		l.free(it) // it stood for its lane
	}
	return dropped
}
