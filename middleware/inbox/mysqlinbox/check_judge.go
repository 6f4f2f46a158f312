package mysqlinbox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// columns is what the statements must know of the live table's.
type columns struct {
	timestamp   bool // processed_at is a TIMESTAMP
	local       bool // a DATETIME that others filled by the session's time zone
	fingerprint int  // bytes that the column holds
}

// byteCollations compare VARCHAR byte by byte, trailing blanks included.
var byteCollations = []string{"utf8mb4_nopad_bin", "utf8mb4_0900_bin"}

// judge adds a sentence for every reason why claims in this table would not
// hold, and notes what it can do.
func (r relation) judge(f *sqlstore.Faults, t *sqlstore.Table) columns {
	switch r.kind {
	case "BASE TABLE":
	case "TEMPORARY":
		f.Addf("is temporary, it belongs to one connection: create it without TEMPORARY")
		return columns{}
	default:
		f.Addf("is a %s: claims need a table of their own, set Table to another name", strings.ToLower(r.kind))
		return columns{}
	}
	if !strings.EqualFold(r.engine, "InnoDB") {
		f.Addf("has the engine %s, which undoes nothing: ALTER TABLE %s ENGINE = InnoDB", r.engine, r.name)
	}
	if len(r.triggers) > 0 {
		f.Addf("has the trigger %s, which may change a claim or refuse it: DROP TRIGGER %s", strings.Join(r.triggers, ", "), quote(r.triggers[0]))
	}
	if len(r.foreign) > 0 {
		f.Addf("has the foreign key %s, which may refuse a claim: ALTER TABLE %s DROP FOREIGN KEY %s", strings.Join(r.foreign, ", "), r.name, quote(r.foreign[0]))
	}
	cols := r.judgeColumns(f, t)
	r.judgeKey(f)
	return cols
}

func (r relation) judgeColumns(f *sqlstore.Faults, t *sqlstore.Table) (cols columns) {
	t.Fingerprint = false
	known := map[string]bool{"consumer_name": false, "message_key": false, "processed_at": false, "fingerprint": true}
	for _, c := range r.columns {
		if _, ok := known[c.name]; !ok {
			if c.notNull && !c.def && !c.generated {
				f.Addf("column %s is NOT NULL without a default, so a claim cannot be inserted: give it a default, or make it NULL", c.name)
			}
			continue
		}
		known[c.name] = true
		if c.generated {
			f.Addf("column %s is generated, so a claim cannot be inserted: make it an ordinary column", c.name)
		}
		switch c.name {
		case "consumer_name":
			r.judgeText(f, c, inbox.MaxConsumerBytes)
		case "message_key":
			r.judgeText(f, c, inbox.MaxKeyBytes)
		case "processed_at":
			r.judgeTime(f, c)
			cols.timestamp, cols.local = c.typ == "timestamp", c.typ == "datetime" && c.defaultsToNow
		case "fingerprint":
			if c.typ != "varbinary" || c.length < len(inbox.Fingerprint(nil)) {
				f.Addf("column fingerprint has type %s(%d): ALTER TABLE %s MODIFY fingerprint VARBINARY(255)", c.typ, c.length, r.name)
			}
			cols.fingerprint, t.Fingerprint = c.length, true
		}
	}
	for _, c := range []string{"consumer_name", "message_key", "processed_at"} {
		if !known[c] {
			f.Addf("has no column %s: set Table to another name, and ask this table through Config.Already", c)
		}
	}
	return cols
}

func (r relation) judgeText(f *sqlstore.Faults, c column, length int) {
	alter := fmt.Sprintf("ALTER TABLE %s MODIFY %s VARBINARY(%d) NOT NULL", r.name, c.name, length)
	switch {
	case c.typ == "varbinary", c.typ == "varchar" && slices.Contains(byteCollations, c.collation):
		if c.length < length {
			f.Addf("column %s is too short for a key of %d bytes, it holds %d: %s", c.name, length, c.length, alter)
		}
	case c.typ == "varchar":
		f.Addf("column %s has the collation %s, which folds case or ignores trailing blanks, or holds no emoji, so different keys look alike: %s", c.name, c.collation, alter)
	default:
		f.Addf("column %s has type %s, which does not compare byte by byte: %s", c.name, c.typ, alter)
	}
	if !c.notNull {
		f.Addf("column %s may be NULL, and NULLs are never equal: %s", c.name, alter)
	}
}

func (r relation) judgeTime(f *sqlstore.Faults, c column) {
	switch {
	case c.typ != "datetime" && c.typ != "timestamp":
		f.Addf("column processed_at has type %s: rename it, and ADD COLUMN processed_at DATETIME(6) NOT NULL", c.typ)
	case c.onUpdate:
		f.Addf("column processed_at changes with every update: ALTER TABLE %s MODIFY processed_at DATETIME(6) NOT NULL", r.name)
	case c.typ == "timestamp" && !c.defaultsToNow:
		f.Addf("column processed_at has no default: ALTER TABLE %s MODIFY processed_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)", r.name)
	}
}

// judgeKey wants one unique key, on exactly the two columns.
func (r relation) judgeKey(f *sqlstore.Faults) {
	found := false
	for _, ix := range r.unique {
		switch {
		case slices.Equal(ix.columns, []string{"consumer_name", "message_key"}) && ix.whole:
			found = true
		case slices.Equal(ix.columns, []string{"consumer_name", "message_key"}):
			f.Addf("the unique key %s covers only the beginning of a column, so different keys look alike: ALTER TABLE %s DROP INDEX %s, ADD UNIQUE KEY (consumer_name, message_key)", ix.name, r.name, quote(ix.name))
			found = true
		default:
			f.Addf("has another unique key, %s on (%s), so a claim may be refused that is not there: drop it", ix.name, strings.Join(ix.columns, ", "))
		}
	}
	switch {
	case found:
	case r.partitioned:
		f.Addf("is partitioned, so its keys hold the partition's column and tell no duplicates: ALTER TABLE %s REMOVE PARTITIONING, and give it PRIMARY KEY (consumer_name, message_key)", r.name)
	default:
		f.Addf("has no unique key on exactly (consumer_name, message_key), so it tells no duplicates: ALTER TABLE %s ADD PRIMARY KEY (consumer_name, message_key)", r.name)
	}
}

func (r relation) judgeRegistry(f *sqlstore.Faults) {
	if r.kind != "BASE TABLE" || !strings.EqualFold(r.engine, "InnoDB") {
		f.Addf("is no InnoDB table: drop or rename it and call mysqlinbox.Migrate")
		return
	}
	for _, name := range []string{"name", "service", "queue", "key_rule", "mode", "horizon", "former_names"} {
		if !slices.ContainsFunc(r.columns, func(c column) bool { return c.name == name }) {
			f.Addf("has no column %s: it is not the registry of mysqlinbox.Schema, drop or rename it and call mysqlinbox.Migrate", name)
		}
	}
	if !slices.ContainsFunc(r.columns, func(c column) bool { return c.name == "name" && c.typ == "varbinary" }) {
		f.Addf("column name does not compare byte by byte: ALTER TABLE %s MODIFY name VARBINARY(%d) NOT NULL", r.name, inbox.MaxConsumerBytes)
	}
	if !slices.ContainsFunc(r.unique, func(ix index) bool { return slices.Equal(ix.columns, []string{"name"}) && ix.whole }) {
		f.Addf("has no unique key on name: ALTER TABLE %s ADD PRIMARY KEY (name)", r.name)
	}
}
