package source

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
)

// Secrets are texts that must not be printed. Sentences are made without them;
// this is for what libraries say.
type Secrets struct{ texts []string }

// shortest secret that is looked for: a shorter one would be found in every
// other word.
const shortest = 4

// Add a DSN or URL and the passwords in it.
func (s *Secrets) Add(dsn string) {
	if kindOf(dsn) == SQLite {
		return // a path
	}
	s.add(dsn)
	if c, err := pgx.ParseConfig(dsn); err == nil && kindOf(dsn) == Postgres {
		s.add(c.Password)
	}
	if c, err := mysql.ParseDSN(dsn); err == nil {
		s.add(c.Passwd)
	}
	if u, err := url.Parse(dsn); err == nil {
		password, _ := u.User.Password()
		s.add(password, url.QueryEscape(password), url.PathEscape(password))
	}
	// Where nothing can be parsed, nobody knows which part is the password: all
	// between the first colon and the last @ is taken for it.
	if m := guessed.FindStringSubmatch(dsn); m != nil {
		s.add(m[1])
	}
}

var guessed = regexp.MustCompile(`^(?:[a-z0-9+]+://)?[^:@/]*:(.*)@`)

// Guess adds what looks like a DSN or URL with credentials in an argument that may
// be anything: one at the wrong place is repeated by whoever does not know it.
func (s *Secrets) Guess(arg string) {
	for _, text := range []string{arg, afterEqual(arg)} {
		if credentials.MatchString(text) {
			s.Add(text)
		}
	}
}

var credentials = regexp.MustCompile(`^[^=/]*://.*@|^[^/]*:.*@(tcp|tcp6|unix)?\(|(?i)\bpassword\s*=`)

func afterEqual(text string) string {
	_, after, _ := strings.Cut(text, "=")
	return after
}

func (s *Secrets) add(texts ...string) {
	for _, text := range texts {
		if len(text) >= shortest && !slices.Contains(s.texts, text) {
			s.texts = append(s.texts, text)
		}
	}
	// The longest first, or a part would be all that is replaced of it.
	slices.SortStableFunc(s.texts, func(a, b string) int { return len(b) - len(a) })
}

// Hide replaces all secrets in a text.
func (s *Secrets) Hide(text string) string {
	for _, secret := range s.texts {
		text = strings.ReplaceAll(text, secret, "xxxxx")
	}
	return text
}
