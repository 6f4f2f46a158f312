package postgres

import (
	"slices"
	"strings"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// kinds of relations that hold no claims, in words.
var kinds = map[string]string{"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "c": "a type", "i": "an index"}

// judge adds a sentence for every reason why claims in this table would not
// hold, and notes what it can do.
func (r relation) judge(f *sqlstore.Faults, t *sqlstore.Table) {
	if word, ok := kinds[r.kind]; ok {
		f.Addf("is %s: claims need a table of their own, set Table to another name", word)
		return
	}
	switch r.persistence {
	case "u":
		f.Addf("is unlogged, so a crash empties it: ALTER TABLE %s SET LOGGED", r.name)
	case "t":
		f.Addf("is temporary, it belongs to one connection: create it without TEMP")
	}
	if r.rowSecurity {
		f.Addf("has row security that binds this user, so a claim of another may be hidden: ALTER TABLE %s DISABLE ROW LEVEL SECURITY", r.name)
	}
	if len(r.triggers) > 0 {
		f.Addf("has the trigger %s, which may swallow a claim or change it: DROP TRIGGER %s ON %s", strings.Join(r.triggers, ", "), sqlstore.QuoteDouble(r.triggers[0]), r.name)
	}
	if len(r.rules) > 0 {
		f.Addf("has the rule %s, which may swallow a claim or change it: DROP RULE %s ON %s", strings.Join(r.rules, ", "), sqlstore.QuoteDouble(r.rules[0]), r.name)
	}
	if len(r.inherit) > 0 {
		f.Addf("has the child table %s, whose rows its key does not cover: ALTER TABLE %s NO INHERIT %s", strings.Join(r.inherit, ", "), r.inherit[0], r.name)
	}
	if !r.mayRead || !r.mayWrite {
		f.Addf("this user may not use it: GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO %s, as its owner", r.name, sqlstore.QuoteDouble(r.user))
	}
	r.judgeColumns(f, t)
	r.judgeKey(f)
}

func (r relation) judgeColumns(f *sqlstore.Faults, t *sqlstore.Table) {
	t.Fingerprint = false
	known := map[string]bool{"consumer_name": false, "message_key": false, "processed_at": false, "fingerprint": true}
	for _, c := range r.columns {
		if _, ok := known[c.name]; ok {
			known[c.name] = true
		} else if c.notNull && !c.def {
			f.Addf("column %s is NOT NULL without a default, so a claim cannot be inserted: ALTER TABLE %s ALTER COLUMN %s DROP NOT NULL", c.name, r.name, sqlstore.QuoteDouble(c.name))
		}
		switch c.name {
		case "consumer_name":
			r.judgeText(f, c, inbox.MaxConsumerBytes)
		case "message_key":
			r.judgeText(f, c, inbox.MaxKeyBytes)
		case "processed_at":
			if c.typ != "timestamp with time zone" {
				f.Addf("column processed_at has type %s, which is another moment in every time zone: ALTER TABLE %s ALTER COLUMN processed_at TYPE timestamptz USING processed_at AT TIME ZONE 'UTC'", c.typ, r.name)
			}
			if !c.def {
				f.Addf("column processed_at has no default: ALTER TABLE %s ALTER COLUMN processed_at SET DEFAULT CURRENT_TIMESTAMP", r.name)
			}
		case "fingerprint":
			if c.typ != "bytea" {
				f.Addf("column fingerprint has type %s: rename it, and ADD COLUMN fingerprint BYTEA", c.typ)
			}
			t.Fingerprint = true
		}
	}
	for _, c := range []string{"consumer_name", "message_key", "processed_at"} {
		if !known[c] {
			f.Addf("has no column %s: set Table to another name, and ask this table through Config.Already", c)
		}
	}
}

func (r relation) judgeText(f *sqlstore.Faults, c column, length int) {
	if c.typ != "character varying" && c.typ != "text" {
		f.Addf("column %s has type %s, which does not compare byte by byte: ALTER TABLE %s ALTER COLUMN %s TYPE varchar(%d) COLLATE \"C\"", c.name, c.typ, r.name, c.name, length)
		return
	}
	if c.length > 0 && c.length < length {
		f.Addf("column %s holds %d characters: ALTER TABLE %s ALTER COLUMN %s TYPE varchar(%d)", c.name, c.length, r.name, c.name, length)
	}
	if c.folded {
		f.Addf("column %s has a nondeterministic collation, so different keys look alike: ALTER TABLE %s ALTER COLUMN %s TYPE varchar(%d) COLLATE \"C\"", c.name, r.name, c.name, length)
	}
	if !c.notNull {
		f.Addf("column %s may be NULL, and NULLs are never equal: ALTER TABLE %s ALTER COLUMN %s SET NOT NULL", c.name, r.name, c.name)
	}
}

// judgeKey wants one unique key, on exactly the two columns, checked at once.
func (r relation) judgeKey(f *sqlstore.Faults) {
	found := false
	for _, ix := range r.unique {
		switch {
		case !slices.Equal(ix.columns, []string{"consumer_name", "message_key"}) || !ix.whole:
			f.Addf("has another unique key, %s on (%s), so a claim may be refused that is not there: drop it", ix.name, strings.Join(ix.columns, ", "))
		case !ix.valid:
			f.Addf("the unique index %s is not valid: REINDEX INDEX %s", ix.name, ix.name)
			found = true
		case !ix.immediate:
			f.Addf("the unique key %s is deferrable, so it is checked too late: make it again without DEFERRABLE", ix.name)
			found = true
		case !ix.byteEqual:
			f.Addf("the unique index %s has a nondeterministic collation, so different keys look alike: make it again with COLLATE \"C\"", ix.name)
			found = true
		default:
			found = true
		}
	}
	if !found {
		f.Addf("has no unique key on exactly (consumer_name, message_key), so it tells no duplicates: ALTER TABLE %s ADD PRIMARY KEY (consumer_name, message_key)", r.name)
	}
}

func (r relation) judgeRegistry(f *sqlstore.Faults, pkg string) {
	for _, name := range []string{"name", "service", "queue", "key_rule", "mode", "horizon", "former_names"} {
		if !slices.ContainsFunc(r.columns, func(c column) bool { return c.name == name }) {
			f.Addf("has no column %s: it is not the registry of %s.Schema, drop or rename it and call %s.Migrate", name, pkg, pkg)
		}
	}
	if !slices.ContainsFunc(r.unique, func(ix index) bool {
		return slices.Equal(ix.columns, []string{"name"}) && ix.whole && ix.immediate && ix.valid
	}) {
		f.Addf("has no unique key on name: ALTER TABLE %s ADD PRIMARY KEY (name)", r.name)
	}
	if !r.mayRead || !r.mayWrite {
		f.Addf("this user may not use it: GRANT SELECT, INSERT, UPDATE ON %s TO %s, as its owner", r.name, sqlstore.QuoteDouble(r.user))
	}
}

// judgeKeeping wants what every process of a consumer reads; the rest is for
// operators.
func (r relation) judgeKeeping(f *sqlstore.Faults) {
	if r.oid != 0 && !r.mayRead {
		f.Addf("this user may not read it, so it cannot see whether a consumer is held: GRANT SELECT ON %s TO %s, as its owner", r.name, sqlstore.QuoteDouble(r.user))
	}
}
