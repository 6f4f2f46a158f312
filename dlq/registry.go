package dlq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// registryAge is how long the consumers' rows are believed: what hangs on them
// (where a letter belongs, its key rule) changes by deployments. Horizons are
// never taken from here: they come with the claims, from one statement.
const registryAge = 5 * time.Second

// registry knows the consumers of all inboxes.
type registry struct {
	inboxes map[string]*inbox.Inbox

	mu   sync.Mutex
	at   time.Time
	rows []registered
}

// registered is one consumer and where it is registered.
type registered struct {
	inbox.Consumer
	at   string // name of the inbox
	box  *inbox.Inbox
	key  inbox.Key // nil when only its service can compute keys
	rule error     // why not
}

func (r *registry) all(ctx context.Context) ([]registered, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.IsZero() && time.Since(r.at) < registryAge {
		return r.rows, nil
	}
	var rows []registered
	for _, name := range slices.Sorted(maps.Keys(r.inboxes)) {
		cs, err := r.inboxes[name].Consumers(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the consumers of inbox %q: %w", name, err)
		}
		for _, c := range cs {
			row := registered{Consumer: c, at: name, box: r.inboxes[name]}
			row.key, row.rule = inbox.ParseKey(c.KeyRule)
			rows = append(rows, row)
		}
	}
	r.rows, r.at = rows, time.Now()
	return rows, nil
}

// errForeign: no inbox has a consumer for a letter.
var errForeign = errors.New("no consumer of the given inboxes is registered for it")

// find gives the consumer of a letter: by its name, or a former one, and by its
// queue; hint is a name to choose by where a queue has several consumers. The
// error says in a sentence why there is none, or not one only.
//
// told says that the queue is what the broker says. A name registered for another
// queue is then another consumer: its claims would prove the wrong thing.
func findConsumer(rows []registered, name, queue, hint string, told bool) (*registered, error) {
	var named, queued []*registered
	for i := range rows {
		r := &rows[i]
		if name != "" && (r.Name == name || slices.Contains(r.FormerNames, name)) {
			named = append(named, r)
		}
		if queue != "" && r.Queue == queue {
			queued = append(queued, r)
		}
	}
	if name != "" {
		c, err := choose(named, queue, fmt.Sprintf("consumer %q", name))
		if err == nil && c.Queue != queue && (told || c.Queue != c.Name) {
			return nil, fmt.Errorf("consumer %q is registered for queue %q, and this letter is of queue %q: it is another consumer's of that name, give its inbox", name, c.Queue, queue)
		}
		return c, err
	}
	if len(queued) > 1 && hint != "" {
		queued = slices.DeleteFunc(queued, func(r *registered) bool { return r.Name != hint })
	}
	return choose(queued, queue, fmt.Sprintf("queue %q", queue))
}

// choose takes the only one, or the only one of that queue.
func choose(rows []*registered, queue, what string) (*registered, error) {
	switch len(rows) {
	case 0:
		return nil, fmt.Errorf("%s: %w", what, errForeign)
	case 1:
		return rows[0], nil
	}
	var one *registered
	for _, r := range rows {
		if r.Queue != queue {
			continue
		}
		if one != nil {
			return nil, fmt.Errorf("%s is registered more than once for queue %q (in inboxes %q and %q): give only the inbox that is meant", what, queue, one.at, r.at)
		}
		one = r
	}
	if one == nil {
		return nil, fmt.Errorf("%s is registered in inboxes %q and %q, both with another queue than %q: give only the inbox that is meant", what, rows[0].at, rows[1].at, queue)
	}
	return one, nil
}
