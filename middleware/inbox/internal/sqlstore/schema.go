package sqlstore

import (
	"embed"
	"io/fs"
	"regexp"

	"github.com/sekali-mq/sekali/internal/migrate"
)

// names of tables in the files of a store.
var names = regexp.MustCompile(`\b(` + DefaultTable + `|sekali_[a-z_]+)\b`)

// Migrations are a store's files, in its folder schema, for the names of t; quote
// is that of ParseTable.
func (t Table) Migrations(d migrate.Dialect, schema embed.FS, quote func(string) string) migrate.Set {
	files, err := fs.Sub(schema, "schema")
	if err != nil {
		panic(err) // the folder is embedded
	}
	// Each claims table has its own history.
	s := migrate.Set{Dialect: d, Files: files, Schema: t.Schema, History: t.Name}
	if t.Name == DefaultTable && t.Schema == "" {
		return s
	}
	s.Rename = func(text string) string {
		return names.ReplaceAllStringFunc(text, func(name string) string {
			switch {
			case name == DefaultTable:
				return t.Claims
			case t.Schema == "":
				return quote(name)
			}
			return quote(t.Schema) + "." + quote(name)
		})
	}
	return s
}
