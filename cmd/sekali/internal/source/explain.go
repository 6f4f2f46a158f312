package source

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// ExplainedError is an error with the sentence for an operator.
type ExplainedError struct {
	text string
	err  error
}

// Error gives the sentence.
func (e *ExplainedError) Error() string { return e.text }

// Unwrap gives the cause.
func (e *ExplainedError) Unwrap() error { return e.err }

// Explain makes the sentence for an error of this database. An error that is
// explained already is left as it is.
func (s Source) Explain(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*ExplainedError](err); ok {
		return err
	}
	return &ExplainedError{text: s.String() + ": " + s.why(err), err: err}
}

// IsFault tells whether the database or the way to it is at fault, and not what
// was asked of it.
func (s Source) IsFault(err error) bool { return s.server(err) != "" || network(err) != "" }

// Sentence gives what is shown of any error.
func Sentence(err error) string {
	return plain(err)
}

func (s Source) why(err error) string {
	if text := s.server(err); text != "" {
		return text
	}
	if text := network(err); text != "" {
		return text
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return "no PostgreSQL answers there as it should: check host and port, and sslmode in the URL"
	}
	return plain(err)
}

// server says what the database itself answered.
func (s Source) server(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return postgresWhy(e)
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return mysqlWhy(e)
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return sqliteWhy(e)
	}
	return ""
}

const (
	login     = "login refused: check user and password, and whether the server lets that user in from this host"
	migrate   = `run "sekali inbox migrate" and, for the letters, "sekali dlq migrate"`
	startsNow = "the server is starting or stopping: try again in a moment"
	full      = "the server has no connection free: try again, or raise its limit"
	noAnswer  = "no answer in time: check host, port and firewalls, or give it longer with --timeout"
	hungUp    = "the server closed the connection: check that this is the right port, and the server's log"
	readOnly  = "the server takes no writes: use the address of the primary"
)

func postgresWhy(e *pgconn.PgError) string {
	switch e.Code {
	case "28P01", "28000":
		return login
	case "3D000":
		return "there is no such database: check the name at the end of the URL"
	case "42501":
		return e.Message + ": give this user the right, as the owner: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO the user"
	case "42P01", "42703":
		return e.Message + ": " + migrate
	case "53300":
		return full
	case "57P03", "57P01", "57P02":
		return startsNow
	case "25006":
		return readOnly
	}
	return e.Message + " (SQLSTATE " + e.Code + ")"
}

func mysqlWhy(e *mysql.MySQLError) string {
	switch e.Number {
	case 1045, 1698:
		return login
	case 1044:
		return "this user may not use the database: GRANT ALL ON the database TO the user, or check the name after the slash"
	case 1049:
		return "there is no such database: check the name after the slash"
	case 1142, 1143, 1227:
		return e.Message + ": give this user the right, as an administrator: GRANT SELECT, INSERT, UPDATE, DELETE ON the database TO the user"
	case 1146, 1054:
		return e.Message + ": " + migrate
	case 1040, 1203:
		return full
	case 1053:
		return startsNow
	case 1290, 1836:
		return readOnly
	}
	return e.Message
}

func sqliteWhy(e *sqlite.Error) string {
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_NOTADB:
		return "the file is no SQLite database: check the path"
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return "another process has the file locked for long: try again, or look which one it is (fuser)"
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return "this user may not write to the file: run the command as the user of the service"
	case sqlite3.SQLITE_CANTOPEN:
		return "the file cannot be opened: check the path, and that this user may read and write it and its directory"
	}
	if strings.Contains(e.Error(), "no such table") || strings.Contains(e.Error(), "no such column") {
		return strings.TrimSuffix(e.Error(), " (1)") + ": " + migrate
	}
	return e.Error()
}

// network says what became of a connection.
func network(err error) string {
	if e, ok := errors.AsType[*net.DNSError](err); ok && !e.IsTimeout {
		return "the host " + e.Name + " is not known: check the name in the URL"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the server's certificate is not trusted: check it, and the authorities of this machine"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "the server's certificate is not trusted: check it, and the authorities of this machine"
	}
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there (connection refused): check that the server is up, and host and port"
	case errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || ok && timeout.Timeout():
		return noAnswer
	case errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH):
		return "the host cannot be reached: check the address, and the network between"
	case errors.Is(err, syscall.ENOENT) && ok:
		return "there is no such socket: check that the server is up, and its directory"
	case errors.Is(err, fs.ErrPermission):
		return "no permission: run the command as a user who may use it"
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn):
		return hungUp
	case errors.Is(err, context.Canceled):
		return "interrupted"
	}
	return ""
}

var (
	// What a library says to a programmer, and what that is at the command line.
	callMigrate = regexp.MustCompile(`(?:call|before) (\w+)\.Migrate(, or run the statements of \w+\.Schema(?:\([^)]*\))? with your migration tool)?`)
	runSchema   = regexp.MustCompile(`run the statements of (\w+)\.Schema again`)
	ofSchema    = regexp.MustCompile(`(made by|add the column, see) \w+\.Schema`)
	registryOf  = regexp.MustCompile(`of \w+\.Schema`)
	opening     = regexp.MustCompile(`^(?:open|migrate) (?:\w*inbox|dlq): `)
)

// migrateCommand makes the tables of a package.
func migrateCommand(pkg string) string {
	if pkg == "dlq" {
		return "sekali dlq migrate"
	}
	return "sekali inbox migrate"
}

// plain takes the words of Go out of a library's sentence.
func plain(err error) string {
	text := err.Error()
	if strings.HasPrefix(text, "open dlq: ") {
		text = strings.ReplaceAll(text, "set AllowLossOnCrash", "give --allow-loss-on-crash")
	}
	if e, ok := errors.AsType[*inbox.Error](err); ok && e.Class == inbox.ClassConfig {
		text = opening.ReplaceAllString(text, "")
	}
	text = callMigrate.ReplaceAllStringFunc(text, func(found string) string {
		m := callMigrate.FindStringSubmatch(found)
		command := migrateCommand(m[1])
		if m[2] != "" {
			return fmt.Sprintf(`run "%s", or the statements of "%s --print" with your migration tool`, command, command)
		}
		return fmt.Sprintf(`run "%s"`, command)
	})
	text = runSchema.ReplaceAllStringFunc(text, func(found string) string {
		return fmt.Sprintf(`run "%s"`, migrateCommand(runSchema.FindStringSubmatch(found)[1]))
	})
	text = ofSchema.ReplaceAllString(text, `$1 "sekali inbox migrate --print"`)
	text = registryOf.ReplaceAllString(text, `of this version`)
	return strings.ReplaceAll(text, "set Table to another name", "choose another name with --table")
}
