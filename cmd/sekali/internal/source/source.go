package source

import (
	"errors"
	"net"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
)

// Kind of a database.
type Kind uint8

// The databases that have a store. The zero value is none.
const (
	Unknown Kind = iota
	Postgres
	MySQL
	SQLite
)

// String gives the name that a sentence begins with.
func (k Kind) String() string {
	switch k {
	case Unknown:
		return "database"
	case Postgres:
		return "PostgreSQL"
	case MySQL:
		return "MySQL"
	case SQLite:
		return "SQLite"
	}
	return "database"
}

// Source is one database that an operator named.
type Source struct {
	// From says where the DSN was given: a flag or a variable.
	From string
	// Kind of the database.
	Kind Kind
	// Address may be shown: host:port/database, or the file.
	Address string

	dsn string
}

// String says which database it is, and where it was given.
func (s Source) String() string { return s.Kind.String() + " at " + s.Address + " (" + s.From + ")" }

// Parse reads a DSN; from names the flag or the variable that held it. The error
// is a sentence without any part of the DSN.
func Parse(from, dsn string) (Source, error) {
	s := Source{From: from, dsn: strings.TrimSpace(dsn)}
	var err error
	switch s.Kind = kindOf(s.dsn); s.Kind {
	case Postgres:
		err = s.postgres()
	case MySQL:
		err = s.mysql()
	case SQLite:
		err = s.sqlite()
	default:
		err = errors.New("cannot tell which database this is: use postgres://user:password@host:5432/database, " +
			"user:password@tcp(host:3306)/database for MySQL, or the path of an SQLite file")
	}
	if err != nil {
		return Source{}, &DSNError{From: from, Err: err}
	}
	return s, nil
}

// DSNError is a DSN that cannot be read. It holds no part of it.
type DSNError struct {
	From string
	Err  error
}

// Error names the flag or the variable.
func (e *DSNError) Error() string { return e.From + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *DSNError) Unwrap() error { return e.Err }

var (
	keyValue = regexp.MustCompile(`(?i)^\s*(host|hostaddr|port|user|password|dbname|service|sslmode)\s*=`)
	mysqlDSN = regexp.MustCompile(`^[^/]*@?(tcp|tcp6|unix)\(.*\)/|@/`)
	named    = regexp.MustCompile(`^[A-Za-z0-9_.-]+=`)
)

// Name splits "name=DSN". A DSN without a name gives "".
func Name(text string) (name, dsn string) {
	text = strings.TrimSpace(text)
	if keyValue.MatchString(text) || !named.MatchString(text) {
		return "", text
	}
	name, dsn, _ = strings.Cut(text, "=")
	return name, dsn
}

func kindOf(dsn string) Kind {
	scheme, _, hasScheme := strings.Cut(dsn, "://")
	switch scheme = strings.ToLower(scheme); {
	case dsn == "":
		return Unknown
	case hasScheme && (scheme == "postgres" || scheme == "postgresql"):
		return Postgres
	case hasScheme && (scheme == "mysql" || scheme == "mariadb"):
		return MySQL
	case strings.HasPrefix(dsn, "file:") || strings.HasPrefix(dsn, "sqlite:"):
		return SQLite
	case keyValue.MatchString(dsn):
		return Postgres
	case mysqlDSN.MatchString(dsn):
		return MySQL
	case hasScheme || strings.ContainsAny(dsn, "@="):
		return Unknown
	}
	return SQLite
}

func (s *Source) postgres() error {
	c, err := pgx.ParseConfig(s.dsn)
	if err != nil {
		return errors.New("cannot be read as postgres://user:password@host:5432/database: " +
			"characters like / ? # @ : % in user or password must be percent-encoded")
	}
	s.Address = net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))) + "/" + c.Database
	if strings.HasPrefix(c.Host, "/") {
		s.Address = c.Host + " database " + c.Database
	}
	return nil
}

func (s *Source) mysql() error {
	bad := errors.New("cannot be read as user:password@tcp(host:3306)/database?param=value")
	dsn := s.dsn
	if _, rest, ok := strings.Cut(dsn, "://"); ok {
		dsn = rest
		if !mysqlDSN.MatchString(rest) {
			u, err := url.Parse(s.dsn)
			if err != nil || u.Host == "" {
				return bad
			}
			password, _ := u.User.Password()
			c := mysql.NewConfig()
			c.User, c.Passwd, c.Net, c.Addr, c.DBName = u.User.Username(), password, "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
			dsn = c.FormatDSN()
			if u.RawQuery != "" {
				dsn += joiner(dsn) + u.RawQuery
			}
		}
	}
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		return bad
	}
	s.dsn = dsn
	if c.DBName == "" {
		return errors.New("names no database: add it after the slash, as in user:password@tcp(host:3306)/database")
	}
	s.Address = c.Addr + "/" + c.DBName
	return nil
}

func joiner(dsn string) string {
	if strings.Contains(dsn, "?") {
		return "&"
	}
	return "?"
}

// sqlite takes a path, or a URL whose parameters are left alone when it has any.
func (s *Source) sqlite() error {
	path := strings.TrimPrefix(s.dsn, "sqlite:")
	path = strings.TrimPrefix(path, "file:")
	path, query, hasQuery := strings.Cut(path, "?")
	if strings.HasPrefix(path, "//") {
		path = "/" + strings.TrimLeft(path, "/")
	}
	if strings.HasPrefix(s.dsn, "file:") {
		if plain, err := url.PathUnescape(path); err == nil {
			path = plain
		}
	}
	switch {
	case path == "" || path == ":memory:" || strings.Contains(query, "mode=memory"):
		return errors.New("a database in memory belongs to one process: give the path of a file")
	case hasQuery && strings.HasPrefix(s.dsn, "file:"):
		s.Address = path
		return nil
	}
	s.Address, s.dsn = path, ""
	return nil
}

// exists tells whether the file of an SQLite database is there: opening it would
// make an empty one of a wrong path.
func (s Source) exists() error {
	if s.Kind != SQLite {
		return nil
	}
	info, err := os.Stat(s.Address)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errors.New("there is no such file: check the path")
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("this is a directory: give the path of the database file")
	}
	return nil
}
