package sqlstore

import (
	"errors"
	"testing"
)

// A ROLLBACK TO clears an error that came after its savepoint, and no other.
func TestPoints(t *testing.T) {
	no := errors.New("no")
	const fails = "FAILS"
	for _, c := range []struct {
		texts  []string
		doomed bool
	}{
		{[]string{"SAVEPOINT a", fails, "ROLLBACK TO a"}, false},
		{[]string{"SAVEPOINT a", fails, "rollback work to savepoint A"}, false},
		{[]string{fails, "SAVEPOINT a", "ROLLBACK TO a"}, true},
		{[]string{"SAVEPOINT a", fails, "SAVEPOINT b", "ROLLBACK TO b"}, true},
		{[]string{"SAVEPOINT a", fails, "SAVEPOINT b", "ROLLBACK TO b", "ROLLBACK TO a"}, false},
		{[]string{"SAVEPOINT a", fails, "SAVEPOINT a", "ROLLBACK TO a"}, true},
		{[]string{"SAVEPOINT a", fails, "SAVEPOINT a", "RELEASE a", "ROLLBACK TO SAVEPOINT a"}, false},
		{[]string{"SAVEPOINT a", "RELEASE SAVEPOINT a", fails, "ROLLBACK TO a"}, true},
		{[]string{"SAVEPOINT a", "SAVEPOINT b", "ROLLBACK TO a", fails, "ROLLBACK TO b"}, true},
		{[]string{"SAVEPOINT a", "SAVEPOINT b", "ROLLBACK TO a", fails, "ROLLBACK TO a"}, false},
		{[]string{fails, "ROLLBACK TO a"}, true},
		{[]string{fails, "SAVEPOINT a; ROLLBACK TO a"}, true},
		{[]string{"SAVEPOINT a; SAVEPOINT b", fails, "ROLLBACK TO a; SAVEPOINT c"}, false},
		{[]string{"SAVEPOINT a", fails, "ROLLBACK TO a; SAVEPOINT c", fails, "ROLLBACK TO c"}, false},
	} {
		var p Points
		var doomed error
		for _, text := range c.texts {
			if text == fails {
				doomed = no
				continue
			}
			ms := likePostgres.Judge(text).Marks
			p.Send(ms, doomed)
			doomed = p.Done(ms, doomed)
		}
		if (doomed != nil) != c.doomed {
			t.Errorf("%q: doomed is %v", c.texts, doomed)
		}
	}
}
