package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTheRunbookIsTrue runs what docs/runbook.md shows and compares what is
// printed. With SEKALI_UPDATE_RUNBOOK=1 it writes down what was printed.
func TestTheRunbookIsTrue(t *testing.T) {
	const path = "../../docs/runbook.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	var d *desk
	heading, inBlock, run := "", false, ""
	var printed, shown []string
	compare := func() {
		if got, want := normal(printed), normal(shown); got != want && (!varies[heading] || !within(want, got)) {
			t.Errorf("%s: it prints\n%s\nand the runbook shows\n%s", heading, got, want)
		}
		out = append(out, printed...)
		printed, shown = nil, nil
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		switch {
		case strings.HasPrefix(line, "## "):
			heading, d, run = strings.TrimPrefix(line, "## "), nil, ""
		case line == "```console":
			inBlock = true
			if d == nil {
				t.Log(heading)
				d = newDesk(t, places[0])
				d.env = append(d.env, "SEKALI_MANAGEMENT_URL=")
				setup, ok := situations[heading]
				if !ok {
					t.Fatalf("no situation for %q", heading)
				}
				setup(d)
			}
		case inBlock && line == "```":
			compare()
			inBlock = false
		case inBlock && strings.HasPrefix(line, "# "):
			compare()
			meanwhile[strings.TrimPrefix(line, "# ")](d)
		case inBlock && strings.HasPrefix(line, "$ "):
			compare()
			if found := lastRun(d); found != "" {
				run = found
			}
			args := words(strings.TrimPrefix(line, "$ sekali "))
			for i := range args {
				if runID.MatchString(args[i]) {
					line, args[i] = strings.Replace(line, args[i], run, 1), run
				}
			}
			r := d.call(args...)
			printed = strings.Split(strings.TrimSuffix(r.both, "\n"), "\n")
		case inBlock:
			shown = append(shown, line)
			continue
		}
		out = append(out, line)
	}
	if os.Getenv("SEKALI_UPDATE_RUNBOOK") != "" {
		written := hostAndName.ReplaceAllString(strings.Join(out, "\n"), "PostgreSQL at db:5432/shop")
		if err := os.WriteFile(path, []byte(vhost.ReplaceAllString(written, "rabbit:5672/")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// situations that the sections begin in.
var situations = map[string]func(d *desk){
	"Letters arrive": func(d *desk) { d.dead(3) },
	"A bug was fixed and 10,000 letters must go back": func(d *desk) { d.letters(12) },
	"A redrive stopped": func(d *desk) {
		d.letters(60)
		d.mend()
		p := d.spawn("dlq", "redrive", "--queue", "orders.stock", "--rate", "10", "--batch", "2", "--why", "fixed in 1.4")
		d.until("some were sent", func() bool { return d.count("--state", "sent,resolved") > 0 })
		p.interrupt().wants(exitLeft)
	},
	"Was this message processed?": func(d *desk) { d.letters(1) },
	"Letters that stay": func(d *desk) {
		d.mend()
		for _, key := range []string{"order-1", "order-2"} {
			d.publish("orders.stock", key, "body of "+key)
		}
		d.processed("order-1", "order-2")
		for i, key := range []string{"order-1", "order-2", "order-3"} {
			d.publish("orders.stock.dlq", key, "another body")
			d.until("it is in the DLQ", func() bool { return d.depth("orders.stock.dlq") == 1 })
			d.collect("orders.stock.dlq", 1)
			if n := d.count(); n != i+1 {
				d.t.Fatalf("%d letters, want %d", n, i+1)
			}
		}
		d.exec(`UPDATE processed_messages SET fingerprint = x'00' WHERE message_key = 'order-2'`)
	},
	"Hold a consumer":                    func(*desk) {},
	"The key rule of a consumer changes": func(*desk) {},
	"A consumer is renamed":              func(*desk) {},
	"The claims table grows": func(d *desk) {
		d.mend()
		d.publish("orders.stock", "old", "x")
		d.publish("orders.stock", "young", "x")
		d.processed("old", "young")
		d.exec(strings.ReplaceAll(d.place.aged, "- 2 *", "- 40 *"))
	},
	"The database was restored from a backup": func(d *desk) { d.letters(1) },
	"Something cannot be reached":             func(*desk) {},
}

// meanwhile is what happens between two commands.
var meanwhile = map[string]func(d *desk){
	"the fix is deployed": func(d *desk) { d.mend() },
	"a moment later": func(d *desk) {
		for i := range 12 {
			d.processed(fmt.Sprintf("order-%d", i+1))
		}
	},
}

// varies: where an interrupt strikes is chance, and with it whether some letters
// turn out to be processed already.
var varies = map[string]bool{"A redrive stopped": true}

// within tells whether all lines are in text, in their order.
func within(lines, text string) bool {
	rest := strings.Split(text, "\n")
	for line := range strings.SplitSeq(lines, "\n") {
		i := slices.Index(rest, line)
		if i < 0 {
			return false
		}
		rest = rest[i+1:]
	}
	return true
}

// dead makes n letters that are not collected yet.
func (d *desk) dead(n int) {
	d.t.Helper()
	for i := range n {
		d.publish(d.queue, fmt.Sprintf("order-%d", i+1), fmt.Sprintf(`{"order":%d}`, i+1))
	}
	d.until("the letters are in the DLQ", func() bool { return d.depth(d.queue+".dlq") == n })
}

func lastRun(d *desk) string {
	if all := d.call("dlq", "runs", "--limit", "1", "--json").lines(); len(all) > 0 {
		id, _ := all[0]["run"].(string)
		return id
	}
	return ""
}

// words of a line, with double quotes around those that have blanks.
func words(line string) (all []string) {
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}

var (
	runID       = regexp.MustCompile(`\b\d{8}-\d{6}-[0-9a-f]{8}\b`)
	hostAndName = regexp.MustCompile(`(?:PostgreSQL|SQLite) at [^ ]+`)
	vhost       = regexp.MustCompile(`127\.0\.0\.1:\d+/[a-z0-9_]*`)
	variable    = []*regexp.Regexp{
		runID,
		regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z`),
		regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]+\b`),
		regexp.MustCompile(`\b(\d+(\.\d+)?(ms|s|m|h|d))+\b`),
		regexp.MustCompile(`\b[0-9a-f]{16,}\b`),
		regexp.MustCompile(`\b\d+\b`),
	}
	blanks = regexp.MustCompile(`[ ]+`)
)

// normal form: without what differs from run to run.
func normal(lines []string) string {
	text := strings.Join(lines, "\n")
	text = vhost.ReplaceAllString(hostAndName.ReplaceAllString(text, "PostgreSQL"), "rabbit:5672/")
	for _, v := range variable {
		text = v.ReplaceAllString(text, "~")
	}
	text = strings.ReplaceAll(text, "~ letters", "~ letter")
	return strings.TrimSpace(strings.ReplaceAll(blanks.ReplaceAllString(text, " "), " \n", "\n"))
}
