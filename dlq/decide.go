package dlq

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"

	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// step is what a redrive does with one letter.
type step uint8

const (
	stay step = iota
	send
	resolve
	park
	stayCopy
	stayHeld
)

// decision on one letter of a redrive. The dry run and the run share it.
type decision struct {
	step step
	// n is the number of the redrive, for send.
	n int64
	// key to give it, see letter.HeaderKey; "" for none.
	key string
	// once: nobody would recognise a second copy.
	once    bool
	verdict Verdict
	why     string
}

// decide says what becomes of a letter. It is pure.
func (c RedriveConfig) decide(r *row, j Judgement, run string) decision {
	d := decision{verdict: j.Verdict, why: j.Why, n: int64(r.Redrives) + 1}
	given := r.State == Sending && r.sentKey != "" // it may be in the queue, under this key
	if r.State == Sending {
		d.n = r.sendN
	}
	switch {
	case r.Queue == "":
		d.why = "nothing tells which queue it died in"
		return d
	case r.State == Sending && r.once:
		d.step, d.why = stayHeld, "an earlier run may have sent it, and its consumer would not recognise a second copy: look, then reopen, park or discard it"
		return d
	case r.State == Waiting && r.CopyOf != 0 && r.Key == "" && len(c.Filter.IDs) == 0:
		d.step, d.why = stayCopy, fmt.Sprintf("it may be a second delivery of letter %d, and has no key: only its id sends it", r.CopyOf)
		return d
	case c.AsNew && !given:
		if j.Inbox == "" || r.Consumer == "" {
			d.why = "a new key is read by consumers of the given inboxes only: " + j.Why
			return d
		}
		d.key = bareKey(r) + "#redrive-" + run
	case j.Verdict == Processed && (j.Compared || c.TrustKey):
		d.step = resolve
		return d
	case j.Verdict == New:
	case j.Verdict == Unknown && c.AcceptUnknown:
		if r.Key == "" {
			d.once = j.Inbox == "" || r.Consumer == ""
			if !d.once {
				d.key = ownKey(r)
			}
		}
	default:
		return d
	}
	if given {
		d.key = r.sentKey
	}
	if r.State == Waiting && int64(r.Redrives)-r.spared >= int64(c.Cap) {
		d.step, d.why = park, fmt.Sprintf("it came back from %d redrives", int64(r.Redrives)-r.spared)
		return d
	}
	d.step = send
	return d
}

// ownKey is the key of a letter that has none. The token keeps it apart from the
// letter of that id in a table that was made anew.
func ownKey(r *row) string { return fmt.Sprintf("sekali-letter:%d.%s", r.ID, r.token) }

var redriveSuffix = regexp.MustCompile(`#redrive-[0-9A-Za-z-]+$`)

// bareKey is the key without the mark of an earlier redrive as new.
func bareKey(r *row) string {
	key := r.Key
	if r.Message != nil {
		if given, ok := letter.KeyFor(r.Message.header(letter.HeaderKey), r.Consumer); ok && inbox.StoredKey(given) == r.Key && given == clean(given, len(given)) {
			key = given // what no database keeps goes on in its stored form
		}
	}
	return redriveSuffix.ReplaceAllString(cmp.Or(key, ownKey(r)), "")
}

// clone copies the counts.
func (c Counts) clone() Counts {
	c.Stayed = maps.Clone(c.Stayed)
	return c
}

// add counts a decision.
func (c *Counts) add(d decision) {
	c.Looked++
	switch d.step {
	case send: // counted when it is confirmed
	case resolve:
		c.Resolved++
	case park:
		c.Parked++
	case stayCopy:
		c.Copies++
	case stayHeld:
		c.Held++
	case stay:
		if c.Stayed == nil {
			c.Stayed = make(map[Verdict]int64)
		}
		c.Stayed[d.verdict]++
	}
}
