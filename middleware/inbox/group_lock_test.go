package inbox

import (
	"testing"
	"time"
)

// After a deadlock groups lock alone until the clock's next minute; right after that
// nobody begins because of others, or instances would keep each other at it for ever.
func TestLockMode(t *testing.T) {
	minute := time.Date(2026, 1, 1, 12, 30, 0, 0, time.UTC)
	for _, c := range []struct {
		what        string
		now, locked time.Time
		want        LockMode
	}{
		{"no deadlock yet", minute.Add(30 * time.Second), time.Time{}, LockYielding},
		{"after one", minute.Add(30 * time.Second), minute.Add(lockPeriod), LockAlone},
		{"at the minute's end", minute.Add(lockPeriod), minute.Add(lockPeriod), LockShared},
		{"in the pause", minute.Add(lockPause - 1), minute.Add(-lockPeriod), LockShared},
		{"after the pause", minute.Add(lockPause), minute, LockYielding},
		{"a deadlock in the pause", minute.Add(lockPause / 2), minute.Add(lockPeriod), LockAlone},
	} {
		if got := lockMode(c.now, c.locked); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
	l := &lane{inbox: &Inbox{}}
	l.takeTurns()
	if left := time.Until(l.locked); left <= 0 || left > lockPeriod {
		t.Errorf("locked for %s", left)
	}
}
