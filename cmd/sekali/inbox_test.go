package main

import (
	"strings"
	"testing"
	"time"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/source"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

func TestMigrateCheckAndStats(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.call("inbox", "migrate", "--json").wants(exitDone).line() // again does no harm
		if printed := s.call("inbox", "migrate", "--print").wants(exitDone).out; !strings.Contains(printed, "CREATE TABLE") {
			t.Errorf("printed no statements: %s", printed)
		}
		s.call("inbox", "stats").wants(exitDone, "No consumer is registered yet")
		s.register("stock", "mail")
		s.process("stock", "a", "b")
		s.call("inbox", "check").wants(exitDone, "ok", "2 consumers")
		s.call("inbox", "stats").wants(exitDone, "CONSUMER", "stock", "enforce", "mail")
		line := s.call("inbox", "stats", "stock", "--json").wants(exitDone).line()
		if line["consumer"] != "stock" || line["claims"] != 2.0 || line["splits"] != 0.0 || line["key_rule"] != "header:event_id" || line["service"] != "shop" {
			t.Errorf("stats are %v", line)
		}
		for _, name := range []string{"horizon", "oldest", "newest"} {
			if _, err := time.Parse(time.RFC3339Nano, line[name].(string)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		s.call("inbox", "stats", "stok").wants(exitFailed, `there is no consumer "stok": there are mail, stock`)
	})
}

func TestShowTellsWhetherAKeyWasProcessed(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		long := strings.Repeat("k", 300)
		s.register("stock")
		s.process("stock", "a", long)
		s.call("inbox", "show", "stock").wants(exitDone, "header:event_id", "shop", "Horizon")
		s.call("inbox", "show", "stock", "a", "b").wants(exitDone, "processed at", "no claim; not processed since")
		for _, key := range []string{long, inbox.StoredKey(long)} { // as the message has it, and as it is printed
			line := s.call("inbox", "show", "stock", key, "--json").wants(exitDone).line()
			if line["found"] != true || line["key"] != inbox.StoredKey(long) {
				t.Errorf("claim is %v", line)
			}
		}
		s.call("inbox", "show", "other").wants(exitFailed, "there are stock")
	})
}

func TestForgetLetsTheNextCopyRunAndIsAudited(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.register("stock")
		s.process("stock", "a", "b")
		s.call("inbox", "forget", "stock", "a", "--why", "rolled back, ticket 881").
			wants(exitDone, "Forgotten: a of stock", "Next: the next copy runs again", "sekali dlq redrive --key 'a'")
		if s.claimed("stock", "a") || !s.claimed("stock", "b") {
			t.Error("the wrong claim is gone, or none")
		}
		s.call("inbox", "forget", "stock", "a", "--why", "again").wants(exitFailed, "nothing to forget")
		s.process("stock", "a")
		act := s.call("inbox", "audit", "--json").wants(exitDone).line()
		if act["act"] != "forget" || act["who"] != "ada" || act["why"] != "rolled back, ticket 881" || act["key"] != "a" {
			t.Errorf("the audit has %v", act)
		}
		s.call("inbox", "audit").wants(exitDone, "forget", "ada", "ticket 881")
	})
}

func TestForgetFindsTheClaimThatAPrintedKeyNames(t *testing.T) {
	s := newShop(t, places[0])
	s.register("stock")
	long := strings.Repeat("k", 300)
	s.process("stock", long)
	s.call("inbox", "forget", "stock", inbox.StoredKey(long), "--why", "x").wants(exitDone, "Forgotten")
	if s.claimed("stock", long) {
		t.Error("the claim is still there")
	}
	// A producer that uses such texts as keys: which one is meant?
	s.process("stock", long, inbox.StoredKey(long))
	s.call("inbox", "forget", "stock", inbox.StoredKey(long), "--why", "x").wants(exitFailed, "the printed form of one claim and the key of another")
}

func TestModeKeyRuleAndHorizonChangeTheRow(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.register("stock")
		s.call("inbox", "mode", "stock", "observe", "--why", "first days").wants(exitDone, "stock observes")
		s.call("inbox", "mode", "stock", "enforce", "--why", "all well", "--json").wants(exitDone)
		s.call("inbox", "accept-key-rule", "stock", "json:/order/id", "--why", "new producer").wants(exitDone, "Next: start the new version")
		s.call("inbox", "accept-key-rule", "stock", "json:/order/id", "--why", "again").wants(exitFailed, "has this key rule already")
		s.call("inbox", "horizon", "stock", "now", "--why", "restored").wants(exitDone, "The horizon of stock is", "dlq list --consumer stock --verdict unknown")
		s.call("inbox", "horizon", "stock", "2020-01-01T00:00:00Z", "--why", "x").wants(exitFailed, "it never moves back")
		s.call("inbox", "horizon", "stock", "2999-01-01T00:00:00Z", "--why", "x").wants(exitFailed, "in the future")
		row, _, err := s.box.Consumer(t.Context(), "stock")
		if err != nil || row.KeyRule != "json:/order/id" || row.Mode != inbox.Enforce {
			t.Errorf("the row is %+v, %v", row, err)
		}
		if acts := s.call("inbox", "audit", "--json").lines(); len(acts) != 4 {
			t.Errorf("the audit has %d acts, want 4: %v", len(acts), acts)
		}
	})
}

func TestHoldAndResumeAConsumer(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.register("stock")
		s.call("hold", "stock", "--why", "wrong prices").wants(exitDone, "Held: stock starts nothing", "To go on: sekali resume stock")
		if !s.held("stock") {
			t.Error("it is not held")
		}
		s.call("inbox", "stats").wants(exitDone, "enforce, held")
		s.call("inbox", "show", "stock").wants(exitDone, "by ada: wrong prices")
		s.call("hold", "stock", "--why", "x").wants(exitFailed, "is held already", "ada: wrong prices")
		s.call("resume", "stock", "--why", "fixed").wants(exitDone, "Resumed: within 10 s")
		if s.held("stock") {
			t.Error("it is still held")
		}
		s.call("resume", "stock", "--why", "x").wants(exitFailed, "is not held")
	})
}

func TestRenameMovesAllClaims(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.register("stock", "mail")
		s.process("stock", "a", "b")
		s.call("inbox", "rename", "stock", "orders.stock", "--why", "x").wants(exitFailed, "is not held", "--stopped")
		s.call("hold", "stock", "--why", "x").wants(exitDone)
		s.call("inbox", "rename", "stock", "orders.stock", "--why", "x").wants(exitFailed, "try again in 2m3", "--stopped")
		s.call("inbox", "rename", "stock", "orders.stock", "--why", "x", "--deadline", "10m").wants(exitFailed, "try again in 20m3")
		s.call("inbox", "rename", "stock", "mail", "--stopped", "--why", "x").wants(exitFailed, "the name is taken")
		s.call("inbox", "rename", "stock", "orders.stock", "--stopped", "--why", "one name per queue").
			wants(exitDone, "Renamed: stock is orders.stock now, with 2 claims")
		if !s.claimed("orders.stock", "a") || s.claimed("stock", "a") {
			t.Error("a claim was left behind")
		}
		s.call("inbox", "show", "stock").wants(exitFailed, `consumer "stock" is called "orders.stock" now`)
	})
}

func TestPurgeDeletesWhatIsOldEnough(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.register("stock")
		s.process("stock", "old", "young")
		s.exec(s.place.aged)
		line := s.call("inbox", "purge", "stock", "--keep", "24h", "--why", "monthly", "--json").wants(exitDone).line()
		if line["deleted"] != 1.0 || line["looked"] != 2.0 || line["complete"] != true {
			t.Errorf("purged %v", line)
		}
		if s.claimed("stock", "old") || !s.claimed("stock", "young") {
			t.Error("the wrong claim is gone")
		}
		s.call("inbox", "purge", "stock", "--keep", "24h", "--why", "monthly").
			wants(exitDone, "Deleted: 0 claims of stock", "no table of letters")
		s.call("inbox", "audit").wants(exitDone, "purge", "ada", "monthly") // as --why promises
	})
}

func TestOnATerminalItAsksBeforeItDeletes(t *testing.T) {
	s := newShop(t, places[0])
	s.register("stock")
	s.process("stock", "a")
	s.asks, s.answers = true, "n\n"
	s.call("inbox", "forget", "stock", "a", "--why", "x").wants(exitFailed, "This forgets that stock processed a. Go on? [y/N]", "nothing was done")
	if !s.claimed("stock", "a") {
		t.Error("forgotten after a no")
	}
	s.answers = "y\n"
	s.call("inbox", "forget", "stock", "a", "--why", "x").wants(exitDone, "Forgotten")
}

func TestAConsumerInTwoInboxesMustBeNamedWithItsInbox(t *testing.T) {
	one, two := newShop(t, places[0]), newShop(t, places[0])
	one.register("stock")
	two.register("stock")
	both := caller{t: t, env: []string{"SEKALI_INBOX_A=" + one.dsn, "SEKALI_INBOX_B=" + two.dsn, "SEKALI_WHO=ada"}}
	both.call("hold", "stock", "--why", "x").wants(exitUsage, "is in several inboxes (a, b): say which with --in")
	both.call("hold", "stock", "--why", "x", "--in", "b").wants(exitDone)
	if one.held("stock") || !two.held("stock") {
		t.Error("the wrong one is held")
	}
}

func TestCheckSaysWhatIsMissing(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.exec("DROP TABLE sekali_consumers")
		for _, args := range [][]string{{"inbox", "check"}, {"inbox", "stats"}} {
			r := s.call(args...)
			if r.exit != exitFailed && r.exit != exitLeft {
				t.Errorf("%v ended with %d", args, r.exit)
			}
			r.wants(r.exit, "sekali_consumers", "does not exist", `run "sekali inbox migrate"`)
			if strings.Contains(r.out+r.errText, ".Migrate") || strings.Contains(r.out+r.errText, "inbox.") {
				t.Errorf("words of Go: %s%s", r.out, r.errText)
			}
		}
	})
}

func TestATableOfAnotherNameIsUsed(t *testing.T) {
	s := newShop(t, places[0])
	s.call("inbox", "migrate", "--table", "handled").wants(exitDone)
	src, err := source.Parse("test", s.dsn)
	if err != nil {
		t.Fatal(err)
	}
	if s.box, err = src.Inbox(t.Context(), s.db, source.Options{Table: "handled"}); err != nil {
		t.Fatal(err)
	}
	s.register("stock")
	s.process("stock", "a")
	if line := s.call("inbox", "stats", "--table", "handled", "--json").line(); line["claims"] != 1.0 {
		t.Errorf("stats are %v", line)
	}
	if line := s.call("inbox", "stats", "--json").line(); line["claims"] != 0.0 {
		t.Errorf("stats of the default table are %v", line)
	}
}
