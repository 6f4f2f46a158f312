package sqlstore

import (
	"reflect"
	"strings"
	"testing"
)

var (
	likePostgres = Grammar{
		Refused: append([]string{"ABORT", "PREPARE TRANSACTION"}, TransactionRefused...), Allowed: TransactionAllowed,
		Unjudged: []string{"CALL", "DO"}, DollarQuotes: true, NestedComments: true, ReturnEndsComment: true,
	}
	likeMySQL = Grammar{
		Refused:  append([]string{"SET AUTOCOMMIT", "SET @@AUTOCOMMIT", "LOCK TABLES", "CREATE", "DROP", "TRUNCATE"}, TransactionRefused...),
		Allowed:  append([]string{"CREATE TEMPORARY TABLE"}, TransactionAllowed...),
		Unjudged: []string{"CALL"}, HashComments: true, VersionComments: true, Backslash: true, Backticks: true,
	}
	likeSQLite = Grammar{Refused: TransactionRefused, Allowed: TransactionAllowed, Backticks: true, Brackets: true}
)

// A statement is judged by how it begins, wherever it hides in the text.
func TestJudge(t *testing.T) {
	all := []*Grammar{&likePostgres, &likeMySQL, &likeSQLite}
	pg, my, lite := []*Grammar{&likePostgres}, []*Grammar{&likeMySQL}, []*Grammar{&likeSQLite}
	for _, c := range []struct {
		on    []*Grammar
		query string
		want  verdict
	}{
		{all, "", verdict{}},
		{all, ";;", verdict{}},
		{all, "SELECT 1", verdict{}},
		{all, "COMMIT", verdict{refused: "COMMIT"}},
		{all, " \t\r\n\v\fcommit ;", verdict{refused: "COMMIT"}},
		{all, "Commit/**/Work", verdict{refused: "COMMIT"}},
		{all, "-- a\n-- b\n COMMIT", verdict{refused: "COMMIT"}},
		{all, "/* ; */ ROLLBACK", verdict{refused: "ROLLBACK"}},
		{all, "((COMMIT))", verdict{refused: "COMMIT"}},
		{all, "BEGIN", verdict{refused: "BEGIN"}},
		{all, "start  transaction", verdict{refused: "START TRANSACTION"}},
		{all, "START", verdict{}},
		{all, "COMMITTED", verdict{}},
		{all, "END", verdict{refused: "END"}},
		{all, "ENDPOINT", verdict{}},
		{all, "SELECT 'COMMIT'; SELECT 1", verdict{}},
		{all, "SELECT ';COMMIT'", verdict{}},
		{all, "SELECT ';COMMIT'; SELECT 1", verdict{}},
		{all, "SELECT 'it''s; COMMIT'; COMMIT", verdict{refused: "COMMIT"}},
		{all, "SELECT 1; COMMIT", verdict{refused: "COMMIT"}},
		{all, "SELECT 1 /* ; COMMIT */; SELECT 2 -- ; COMMIT", verdict{}},
		{all, `SELECT ";COMMIT"; SELECT 1`, verdict{}},
		{all, "SELECT 'open; COMMIT", verdict{unjudged: true}},
		{all, "SELECT 1; /* open", verdict{unjudged: true}},
		{all, "ROLLBACK TO a", verdict{undoes: true}},
		{all, "rollback transaction to savepoint a", verdict{undoes: true}},
		{all, "ROLLBACK WORK", verdict{refused: "ROLLBACK"}},
		{all, "SAVEPOINT a; SELECT 1; ROLLBACK TO SAVEPOINT a", verdict{undoes: true}},
		{all, "SAVEPOINT sekali", verdict{refused: "SAVEPOINT SEKALI"}},
		{all, `SAVEPOINT "Sekali"`, verdict{refused: "SAVEPOINT SEKALI"}},
		{all, "RELEASE sekali", verdict{refused: "RELEASE SEKALI"}},
		{all, "RELEASE SAVEPOINT sekali", verdict{refused: "RELEASE SEKALI"}},
		{all, "ROLLBACK TO sekali", verdict{refused: "ROLLBACK SEKALI", undoes: true}},
		{all, "SAVEPOINT sekali2", verdict{refused: "SAVEPOINT SEKALI"}},

		{pg, "ABORT", verdict{refused: "ABORT"}},
		{pg, "PREPARE TRANSACTION 'x'", verdict{refused: "PREPARE TRANSACTION"}},
		{pg, "PREPARE x AS SELECT 1", verdict{}},
		{pg, "LOCK TABLE t", verdict{}},
		{pg, "CREATE TABLE t (n int)", verdict{}},
		{pg, "DO $$ BEGIN COMMIT; END $$", verdict{unjudged: true}},
		{pg, "CALL p()", verdict{unjudged: true}},
		{pg, "SELECT $a$ ; COMMIT; $a$; SELECT 1", verdict{}},
		{pg, "SELECT $a$ $b$ ; COMMIT; $a$; COMMIT", verdict{refused: "COMMIT"}},
		{pg, "SELECT $1; COMMIT; SELECT $2", verdict{refused: "COMMIT"}},
		{pg, "SELECT a$b$ ; COMMIT; SELECT a$b$", verdict{refused: "COMMIT"}},
		{pg, "/* /* */ ; */ COMMIT", verdict{refused: "COMMIT"}},
		{pg, `SELECT E'\'; COMMIT'; SELECT 1`, verdict{}},
		{pg, `SELECT e'\\'; COMMIT`, verdict{refused: "COMMIT"}},
		{pg, `SELECT '\'; COMMIT --'`, verdict{refused: "COMMIT", unjudged: true}},
		{pg, `SELECT '\'; SELECT ''''`, verdict{unjudged: true}},
		{pg, `SELECT '\d'; SELECT 1`, verdict{}},
		{pg, "--COMMIT", verdict{}},
		{pg, "-- x\rCOMMIT", verdict{refused: "COMMIT"}},
		{pg, "SELECT 1; -- x\rCOMMIT", verdict{refused: "COMMIT"}},
		{pg, "SELECT 1; -- x\r\nSELECT 2", verdict{}},

		{my, "CREATE TABLE t (n int)", verdict{refused: "CREATE"}},
		{my, "CREATE TEMPORARY TABLE t (n int)", verdict{}},
		{my, "SET autocommit = 1", verdict{refused: "SET AUTOCOMMIT"}},
		{my, "SET @@autocommit=1", verdict{refused: "SET @@AUTOCOMMIT"}},
		{my, "SET @x = 1", verdict{}},
		{my, "# a\nCOMMIT", verdict{refused: "COMMIT"}},
		{my, "SELECT 1--1; COMMIT", verdict{refused: "COMMIT"}},
		{my, "/*!COMMIT*/", verdict{refused: "COMMIT", unjudged: true}},
		{my, "/*!50000 COMMIT */", verdict{refused: "COMMIT", unjudged: true}},
		{my, "/*M!100100 COMMIT */", verdict{refused: "COMMIT", unjudged: true}},
		{my, "SELECT '\\'; COMMIT'; SELECT 1", verdict{unjudged: true}},
		{my, "SELECT `;COMMIT`; SELECT 1", verdict{}},
		{my, "SELECT 1; -- x\rCOMMIT", verdict{}}, // the server reads on to the line feed
		{my, "/* /* */ COMMIT", verdict{refused: "COMMIT"}},

		{lite, "SELECT [;COMMIT]; SELECT 1", verdict{}},
		{lite, "SAVEPOINT 'sekali'", verdict{refused: "SAVEPOINT SEKALI"}},
		{lite, "SAVEPOINT [sekali]", verdict{refused: "SAVEPOINT SEKALI"}},
		{lite, "SELECT 1; -- x\rCOMMIT", verdict{}}, // so does SQLite
		{lite, "BEGIN IMMEDIATE", verdict{refused: "BEGIN"}},
	} {
		for _, g := range c.on {
			got := g.judge(c.query)
			got.marks = nil // see TestPoints
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%q: %+v, want %+v", c.query, got, c.want)
			}
		}
	}
}

// Whatever the text, a COMMIT after it and a semicolon is refused, or the text is
// not judged.
func FuzzJudge(f *testing.F) {
	for _, s := range []string{"SELECT 1", "'", `E'\'`, "$a$", "/*", "--", "`", "[", "/*!", "$1 $", "a$b$", `"`, "#", "\x00", "é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, g := range []*Grammar{&likePostgres, &likeMySQL, &likeSQLite} {
			v := g.judge(s + "\n;COMMIT")
			if v.refused == "" && !v.unjudged {
				t.Errorf("%q with a COMMIT behind it was let through", s)
			}
			if v := g.judge(s + "\r;COMMIT"); g.ReturnEndsComment && v.refused == "" && !v.unjudged {
				t.Errorf("%q with a COMMIT behind it and a carriage return was let through", s)
			}
			if v := g.judge(s); v.err() != nil && !strings.Contains(v.err().Error(), "refused") {
				t.Errorf("%q: %v", s, v.err())
			}
		}
	})
}
