package source

import (
	"strings"
	"testing"
)

func TestADSNTellsItsDatabase(t *testing.T) {
	for _, c := range []struct {
		dsn     string
		kind    Kind
		address string
	}{
		{"postgres://u:pass-word@db/shop", Postgres, "db:5432/shop"},
		{"postgresql://u:pass-word@db:6543/shop?sslmode=disable", Postgres, "db:6543/shop"},
		{"host=db user=u password=pass-word dbname=shop", Postgres, "db:5432/shop"},
		{"u:pass-word@tcp(db:3306)/shop?parseTime=true", MySQL, "db:3306/shop"},
		{"u:pass-word@tcp(db)/shop", MySQL, "db:3306/shop"},
		{"u:pass-word@/shop", MySQL, "127.0.0.1:3306/shop"},
		{"mysql://u:pass%2Fword@db:3307/shop?parseTime=true", MySQL, "db:3307/shop"},
		{"mariadb://u:pass-word@tcp(db:3306)/shop", MySQL, "db:3306/shop"},
		{"/var/lib/shop.db", SQLite, "/var/lib/shop.db"},
		{"shop.db", SQLite, "shop.db"},
		{"sqlite:/var/lib/shop.db", SQLite, "/var/lib/shop.db"},
		{"file:/var/lib/shop.db", SQLite, "/var/lib/shop.db"},
		{"file:/var/lib/a%20b.db?_pragma=busy_timeout(1)", SQLite, "/var/lib/a b.db"},
		{"file:///var/lib/shop.db", SQLite, "/var/lib/shop.db"},
		{"sqlite:///var/lib/shop.db", SQLite, "/var/lib/shop.db"},
	} {
		s, err := Parse("--inbox x", c.dsn)
		if err != nil {
			t.Errorf("%s: %v", c.dsn, err)
			continue
		}
		if s.Kind != c.kind || s.Address != c.address {
			t.Errorf("%s is %v at %q, want %v at %q", c.dsn, s.Kind, s.Address, c.kind, c.address)
		}
	}
}

func TestADSNThatCannotBeReadIsNotShown(t *testing.T) {
	for _, dsn := range []string{
		"", "http://u:pass-word@h/x", "postgres://u:pass/word@h:x/y", "postgres://u:pass-word@h:port/y", "mysql://u:pass-word@%zz/x",
		"u:pass-word@tcp(h:1)/", "u:pass-word@udp", "redis://pass-word", ":memory:", "file::memory:", "file:x.db?mode=memory",
	} {
		_, err := Parse("--inbox x", dsn)
		if err == nil {
			t.Errorf("%q was taken", dsn)
			continue
		}
		if strings.Contains(err.Error(), "pass") && strings.Contains(err.Error(), "word@") && !strings.Contains(err.Error(), "user:password@") {
			t.Errorf("%q: the error shows it: %v", dsn, err)
		}
		if strings.Contains(err.Error(), "pass-word") || strings.Contains(err.Error(), "pass/word") || !strings.HasPrefix(err.Error(), "--inbox x: ") {
			t.Errorf("%q: %v", dsn, err)
		}
	}
}

func TestAnInboxMayHaveAName(t *testing.T) {
	for text, want := range map[string][2]string{
		"stock=postgres://u@h/d":      {"stock", "postgres://u@h/d"},
		"postgres://u@h/d?sslmode=no": {"", "postgres://u@h/d?sslmode=no"},
		"host=h dbname=d":             {"", "host=h dbname=d"},
		"stock=host=h dbname=d":       {"stock", "host=h dbname=d"},
		"/x.db":                       {"", "/x.db"},
		"my-shop.2=/x.db":             {"my-shop.2", "/x.db"},
		"u:p=w@tcp(h)/d":              {"", "u:p=w@tcp(h)/d"},
	} {
		if name, dsn := Name(text); name != want[0] || dsn != want[1] {
			t.Errorf("%s is %q and %q", text, name, dsn)
		}
	}
}

func TestPasswordsAreHiddenInEveryForm(t *testing.T) {
	var s Secrets
	for _, dsn := range []string{
		"postgres://u:p%40ss%2Fone@h/d", "u:pass(two)@tcp(h:1)/d", "amqp://u:pass#three@h/", "host=h password='pass four'", "broken://u:pass@five@h",
	} {
		s.Add(dsn)
	}
	text := "p@ss/one p%40ss%2Fone pass(two) pass#three pass four pass@five end"
	got := s.Hide(text)
	if strings.Contains(got, "ss") || !strings.HasSuffix(got, "end") {
		t.Errorf("hidden is %q", got)
	}
}
