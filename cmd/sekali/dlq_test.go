package main

import (
	"strings"
	"testing"
)

func TestLettersGoTheWholeCircle(t *testing.T) {
	atEvery(t, func(t *testing.T, p place) {
		d := newDesk(t, p)
		d.letters(3)

		kind := d.call("dlq", "kinds", "--json").wants(exitDone).line()
		if kind["count"] != 3.0 || kind["queue"] != "orders.stock" || !strings.Contains(kind["shape"].(string), "no such item") {
			t.Errorf("kind is %v", kind)
		}
		d.call("dlq", "kinds").wants(exitDone, "COUNT", "orders.stock", "no such item")
		letters := d.call("dlq", "list", "--json").wants(exitDone).lines()
		if len(letters) != 3 || letters[0]["verdict"] != "new" || letters[0]["state"] != "waiting" || letters[0]["key"] != "order-3" && letters[0]["key"] != "order-1" && letters[0]["key"] != "order-2" {
			t.Errorf("letters are %v", letters)
		}
		d.call("dlq", "list", "--limit", "2").wants(exitDone, "VERDICT", "new", "--limit 0 lists all")
		d.call("dlq", "count", "--fail-over", "2").wants(exitLeft, "3 letters, more than 2")
		d.call("dlq", "count", "--fail-over", "3").wants(exitDone)

		plan := d.call("dlq", "redrive", "--queue", "orders.stock", "--dry-run", "--json").wants(exitDone).line()
		if plan["sent"] != 3.0 || plan["dry_run"] != true || plan["queues"].(map[string]any)["orders.stock"] != 3.0 {
			t.Errorf("the plan is %v", plan)
		}
		d.call("dlq", "redrive", "--queue", "orders.stock", "--dry-run").wants(exitDone, "Dry run: nothing is changed", "TO QUEUE")
		if n := d.count("--state", "waiting"); n != 3 || d.depth("orders.stock") != 0 {
			t.Errorf("the dry run changed something: %d letters wait", n)
		}

		d.mend()
		run := d.call("dlq", "redrive", "--queue", "orders.stock", "--why", "fixed in 1.4", "--json").wants(exitDone).line()
		if run["sent"] != 3.0 || run["who"] != "ada" || run["state"] != "done" {
			t.Errorf("the run is %v", run)
		}
		d.processed("order-1", "order-2", "order-3")
		id, _ := run["run"].(string)
		fates := d.call("dlq", "runs", id, "--json").wants(exitDone).line()["fates"].(map[string]any)
		if fates["processed"] != 3.0 {
			t.Errorf("fates are %v", fates)
		}
		if n := d.count("--state", "resolved"); n != 3 {
			t.Errorf("%d letters are resolved, want 3", n)
		}
		if n := d.handled("order-1"); n != 1 {
			t.Errorf("order-1 ran %d times", n)
		}
		d.call("dlq", "runs").wants(exitDone, id, "ada", "fixed in 1.4")
		d.call("dlq", "redrive", "--queue", "orders.stock").wants(exitDone, "there is nothing to redrive")
	})
}

func TestShowAndExplainTellAllOfALetter(t *testing.T) {
	d := newDesk(t, places[1])
	d.letters(1)
	line := d.call("dlq", "list", "--json").line()
	id := itoa(line["id"])
	r := d.call("dlq", "show", id).wants(exitDone,
		"Verdict", "new:", "Died in", "orders.stock", "Collected from", "orders.stock.dlq", "no such item 4711",
		"count (int64): 7", `(bytes): 0102`, "event_id (string): order-1", "message-id", "application/json", `{"order":1}`,
		"History", "collected", "Next: sekali dlq redrive "+id)
	if strings.ContainsRune(r.out, '\x1b') {
		t.Error("a header steers the terminal")
	}
	shown := d.call("dlq", "show", id, "--json").wants(exitDone).line()
	message := shown["message"].(map[string]any)
	if message["text"] != `{"order":1}` || message["headers"].(map[string]any)["count"].(map[string]any)["type"] != "int64" {
		t.Errorf("shown is %v", shown)
	}
	if body := d.call("dlq", "show", id, "--body").wants(exitDone).out; body != `{"order":1}` {
		t.Errorf("the body is %q", body)
	}
	d.call("dlq", "show", "999999").wants(exitFailed, "there is no letter of this id")
	d.call("dlq", "history", id).wants(exitDone, "collected")
	d.call("dlq", "history", "999999").wants(exitFailed, "there is no letter of this id")

	d.call("explain", "order-1").wants(exitDone, "Claims", "no claim; not processed since", "Letters", "waiting, died in orders.stock", "new:", "Next: sekali dlq redrive")
	d.mend()
	d.call("dlq", "redrive", id).wants(exitDone)
	d.processed("order-1")
	d.call("inbox", "forget", "orders.stock", "order-1", "--why", "ticket 881").wants(exitDone)
	d.call("explain", "order-1").wants(exitDone, "forget", "ticket 881", "sent")
	kinds := map[string]bool{}
	for _, part := range d.call("explain", "order-1", "--json").wants(exitDone).lines() {
		kinds[part["kind"].(string)] = true
	}
	for _, kind := range []string{"claim", "act", "letter", "event"} {
		if !kinds[kind] {
			t.Errorf("explain --json has no %s", kind)
		}
	}
	d.call("explain", "nothing-like-it").wants(exitDone, "none in the table")
}

func TestVerdictsDecideWhatARedriveDoes(t *testing.T) {
	d := newDesk(t, places[1])
	d.mend()
	for _, key := range []string{"done", "other"} {
		d.publish("orders.stock", key, "body of "+key)
	}
	d.processed("done", "other")
	// A foreign tool put these into the DLQ: nothing but the message tells.
	d.publish("orders.stock.dlq", "done", "body of done")
	d.publish("orders.stock.dlq", "other", "quite another body")
	d.publish("orders.stock.dlq", "lost", "body of lost")
	d.publish("orders.stock.dlq", "", "body without a key")
	d.until("they are in the DLQ", func() bool { return d.depth("orders.stock.dlq") == 4 })
	d.collect("orders.stock.dlq", 4)

	verdicts := map[string]string{}
	ids := map[string]string{}
	for _, l := range d.call("dlq", "list", "--json").wants(exitDone).lines() {
		key, _ := l["key"].(string)
		verdicts[key], ids[key] = l["verdict"].(string), itoa(l["id"])
	}
	for key, want := range map[string]string{"done": "processed", "other": "conflict", "lost": "unknown", "": "unknown"} {
		if verdicts[key] != want {
			t.Errorf("the verdict on %q is %q, want %q", key, verdicts[key], want)
		}
	}
	d.call("dlq", "redrive", "--queue", "orders.stock").wants(exitLeft,
		"resolved: processed already", "stayed: conflict", "stayed: unknown", "ask the producer", "--accept-unknown", "some letters stay")
	if d.handled("done") != 1 || d.handled("other") != 1 || d.handled("lost") != 0 {
		t.Error("something ran that must not")
	}
	d.call("dlq", "redrive", ids["lost"], ids[""], "--accept-unknown", "--why", "looked: not done").wants(exitDone)
	d.processed("lost")
	d.call("dlq", "redrive", ids["other"], "--as-new", "--why", "customer wants both").wants(exitDone)
	d.until("the letter without a key and the one under a new key ran", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.runs) == 5
	})
}

func TestParkReopenAndDiscardLetters(t *testing.T) {
	atEvery(t, func(t *testing.T, p place) {
		d := newDesk(t, p)
		d.letters(2)
		first := itoa(d.call("dlq", "list", "--oldest", "--limit", "1", "--json").line()["id"])
		d.call("dlq", "park", first, "--why", "asked the shop").wants(exitDone, "1 letter parked", "Next:")
		d.mend()
		d.call("dlq", "redrive", "--yes").wants(exitDone, "sent")
		if n := d.count("--state", "parked"); n != 1 {
			t.Errorf("%d letters are parked", n)
		}
		d.call("dlq", "reopen", first, "--why", "confirmed", "--json").wants(exitDone)
		d.call("dlq", "discard", first, "--why", "test order").wants(exitDone, "1 letter discarded")
		d.call("dlq", "discard", first, "--why", "again").wants(exitDone, "No letter was discarded")
		d.call("dlq", "show", first).wants(exitDone, "discarded", "ada", "test order", "sekali dlq reopen "+first)
		d.call("dlq", "park", "--why", "all of it").wants(exitUsage, "This parks all letters: give --yes")
	})
}

func TestARedriveIsRefusedBeforeAnythingIsSent(t *testing.T) {
	d := newDesk(t, places[0])
	d.letters(1)
	d.declare("ghost.dlq")
	d.publish("ghost.dlq", "x", "y")
	d.until("it is in the DLQ", func() bool { return d.depth("ghost.dlq") == 1 })
	d.collect("ghost.dlq", 1)
	d.call("dlq", "redrive").wants(exitUsage, "give --yes to do this in a script")
	r := d.call("dlq", "redrive", "--yes", "--accept-unknown", "--why", "x").wants(exitFailed,
		"nothing was sent", `queue "ghost" does not exist: create it, or leave its 1 letter out with --queue`)
	if n := d.count("--state", "waiting"); n != 2 {
		t.Errorf("%d letters wait, want both\n%s", n, r.errText)
	}
	d.call("dlq", "redrive", "--dry-run", "--accept-unknown", "--why", "x").wants(exitLeft, "missing", "would be refused")
	// A queue that nobody consumes from is no fault, but worth a word.
	d.declare("ghost")
	d.call("dlq", "redrive", "--queue", "ghost", "--accept-unknown", "--why", "x").wants(exitDone, `queue "ghost" has no consumer`)
	if d.depth("ghost") != 1 {
		t.Error("it was not sent")
	}
}

func TestAskingBeforeAllLettersAreSent(t *testing.T) {
	d := newDesk(t, places[0])
	d.letters(2)
	d.mend()
	d.asks, d.answers = true, "\n"
	d.call("dlq", "redrive").wants(exitFailed, "This sends 2 letters", "[y/N]", "nothing was done")
	d.answers = "yes\n"
	d.call("dlq", "redrive").wants(exitDone, "sent")
	d.processed("order-1", "order-2")
}

func TestPurgeSparesClaimsThatLettersNeed(t *testing.T) {
	d := newDesk(t, places[1])
	d.mend()
	d.publish("orders.stock", "old", "body")
	d.processed("old")
	d.publish("orders.stock.dlq", "old", "body")
	d.until("it is in the DLQ", func() bool { return d.depth("orders.stock.dlq") == 1 })
	d.collect("orders.stock.dlq", 1)
	d.exec(d.place.aged)
	d.call("inbox", "purge", "orders.stock", "--keep", "24h", "--why", "monthly").wants(exitDone, "Deleted: 0 claims", "Kept for letters that are open: 1")
	d.call("dlq", "redrive", "--yes").wants(exitDone, "resolved: processed already")
	d.call("inbox", "purge", "orders.stock", "--keep", "24h", "--why", "monthly").wants(exitDone, "Deleted: 1 claim")
}

func TestCheckLooksAtTheQueuesOfAllConsumers(t *testing.T) {
	d := newDesk(t, places[1])
	d.call("inbox", "check").wants(exitDone, "broker", "answers", "queue orders.stock")
	if _, err := d.channel.QueueDelete("orders.stock.dlq", false, false, false); err != nil {
		t.Fatal(err)
	}
	d.call("inbox", "check").wants(exitLeft, "fault", "queue orders.stock.dlq: does not exist", "1 fault to repair")
	for _, line := range d.call("inbox", "check", "--json").wants(exitLeft).lines() {
		if line["severity"] == "" || line["text"] == "" {
			t.Errorf("line is %v", line)
		}
	}
}
