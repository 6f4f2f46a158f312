package picture

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sekali-mq/sekali"

// imports says what each package may import besides the standard library: packages of this module by their folder, others by
// their path. "/..." at the end stands for the package and all below it. Packages that are not built yet may stand here already.
var imports = map[string][]string{
	"middleware/inbox":           {},
	"middleware/inbox/inboxtest": {"middleware/inbox"},
	// What stores share: classes of errors, sessions, SQL.
	"middleware/inbox/internal/postgres": {"middleware/inbox", "middleware/inbox/internal/sqlstore", "internal/migrate"},
	"middleware/inbox/internal/sqlstore": {"middleware/inbox", "internal/migrate"},
	// A driver only where its error type must be read.
	"middleware/inbox/pginbox":     {"middleware/inbox", "middleware/inbox/internal/...", "internal/migrate"},
	"middleware/inbox/pgxinbox":    {"middleware/inbox", "middleware/inbox/internal/...", "internal/migrate", "github.com/jackc/pgx/v5/..."},
	"middleware/inbox/mysqlinbox":  {"middleware/inbox", "middleware/inbox/internal/...", "internal/migrate", "github.com/go-sql-driver/mysql"},
	"middleware/inbox/sqliteinbox": {"middleware/inbox", "middleware/inbox/internal/...", "internal/migrate", "modernc.org/sqlite/..."},

	"middleware": {
		"middleware/inbox", "internal/letter", "internal/settle", "internal/backoff",
		"github.com/ThreeDotsLabs/watermill/message",
	},
	"middleware/idempotencytest": {"middleware", "middleware/inbox", "github.com/ThreeDotsLabs/watermill/message"},
	"middleware/effects":         {"middleware/inbox", "github.com/ThreeDotsLabs/watermill/message"},
	"middleware/outbox": {
		"middleware/inbox", "github.com/ThreeDotsLabs/watermill/...", "github.com/ThreeDotsLabs/watermill-sql/v4/...",
	},

	"router/rabbit": {
		"middleware/inbox", "internal/letter", "internal/settle", "internal/backoff",
		"github.com/ThreeDotsLabs/watermill", "github.com/ThreeDotsLabs/watermill/message", "github.com/rabbitmq/amqp091-go",
	},
	"router": {
		"middleware/...", "router/rabbit", "dlq", "internal/letter", "internal/settle", "internal/backoff",
		"github.com/ThreeDotsLabs/watermill/...",
	},

	// Letters know no transport.
	"dlq": {
		"middleware", "middleware/inbox", "internal/letter", "internal/settle", "internal/backoff", "internal/migrate",
		"github.com/ThreeDotsLabs/watermill/message",
	},
	"dlq/console": {"dlq", "middleware/inbox"},

	"internal/migrate": {},
	"internal/backoff": {"github.com/cenkalti/backoff/v5"},
	"internal/letter":  {"middleware/inbox"},
	"internal/settle":  {"middleware/inbox", "internal/letter", "internal/backoff"},
	// Tools of the project itself.
	"internal/picture":    {},
	"internal/purgebench": {"middleware/inbox", "middleware/inbox/pgxinbox", "github.com/jackc/pgx/v5/..."},
	"internal/runtests":   {},
	"internal/soak":       {"router/rabbit", "internal/testservices", "github.com/ThreeDotsLabs/watermill/message", "github.com/rabbitmq/amqp091-go"},
	"internal/redrivestorm": {
		"dlq", "router", "router/rabbit", "middleware/inbox", "middleware/inbox/pginbox", "internal/letter",
		"github.com/ThreeDotsLabs/watermill", "github.com/ThreeDotsLabs/watermill/message", "github.com/lib/pq", "github.com/rabbitmq/amqp091-go",
	},
	"internal/testservices": {"github.com/go-sql-driver/mysql", "github.com/jackc/pgx/v5"},
}

// free are the folders whose packages may import everything: nobody imports them.
var free = []string{"cmd/", "examples/"}

// What Watermill's message package brings along.
var watermill = []string{
	"github.com/ThreeDotsLabs/watermill", "github.com/google/uuid", "github.com/lithammer/shortuuid/v3", "github.com/oklog/ulid",
	"github.com/pkg/errors",
}

// linked lists the modules that a program links when it imports a public package.
var linked = map[string][]string{
	"middleware/inbox":           {},
	"middleware/inbox/inboxtest": {},
	"middleware/inbox/pginbox":   {},
	"middleware/inbox/sqliteinbox": {
		"github.com/dustin/go-humanize", "github.com/google/uuid", "github.com/remyoudompheng/bigfft", "golang.org/x/sys",
		"modernc.org/libc", "modernc.org/mathutil", "modernc.org/memory", "modernc.org/sqlite",
	},
	"middleware/inbox/pgxinbox": {
		"github.com/jackc/pgpassfile", "github.com/jackc/pgservicefile", "github.com/jackc/pgx/v5", "github.com/jackc/puddle/v2",
		"golang.org/x/sync", "golang.org/x/text",
	},
	"middleware/inbox/mysqlinbox": {"filippo.io/edwards25519", "github.com/go-sql-driver/mysql"},
	"middleware":                  and(watermill, "github.com/cenkalti/backoff/v5"),
	"router/rabbit":               and(watermill, "github.com/cenkalti/backoff/v5", "github.com/rabbitmq/amqp091-go"),
	"dlq":                         and(watermill, "github.com/cenkalti/backoff/v5"),
	"router":                      and(watermill, "github.com/cenkalti/backoff/v5", "github.com/rabbitmq/amqp091-go"),
}

// light are the packages whose users link no SQL driver and no AMQP client, whatever the list above comes to say.
var light = []string{
	"middleware", "middleware/inbox", "middleware/inbox/inboxtest", "middleware/inbox/pginbox", "middleware/effects",
	"middleware/idempotencytest", "dlq",
}

var drivers = []string{
	"github.com/jackc/pgx/v5", "github.com/lib/pq", "github.com/go-sql-driver/mysql", "modernc.org/sqlite",
	"github.com/mattn/go-sqlite3", "github.com/rabbitmq/amqp091-go", "github.com/ThreeDotsLabs/watermill-amqp/v3",
	"github.com/ThreeDotsLabs/watermill-sql/v4",
}

func and(list []string, more ...string) []string { return append(slices.Clone(list), more...) }

// listed is what go list says of a package.
type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
	DepOnly    bool
	Standard   bool
	Module     *struct{ Path string }
}

// list returns this module's packages and all that they depend on, by path, as a user gets them: without the workspace.
func list(t *testing.T) map[string]listed {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Imports,Deps,DepOnly,Standard,Module", "./...")
	command.Dir = "../.."
	// What is linked differs from system to system, by a module or two.
	command.Env = append(os.Environ(), "GOWORK=off", "GOOS=linux", "GOARCH=amd64")
	var errs strings.Builder
	command.Stderr = &errs
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, errs.String())
	}
	all := map[string]listed{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
	}
}

// folder turns the path of a package of this module into its folder, and leaves others as they are.
func folder(importPath string) string { return strings.TrimPrefix(importPath, module+"/") }

// ours returns the folders of this module's packages, in order.
func ours(all map[string]listed) []string {
	var folders []string
	for importPath, p := range all {
		if !p.DepOnly {
			folders = append(folders, folder(importPath))
		}
	}
	slices.Sort(folders)
	return folders
}

func permitted(rules []string, name string) bool {
	return slices.ContainsFunc(rules, func(rule string) bool {
		tree, all := strings.CutSuffix(rule, "/...")
		return name == tree || all && strings.HasPrefix(name, tree+"/")
	})
}

func isFree(name string) bool {
	return slices.ContainsFunc(free, func(prefix string) bool { return strings.HasPrefix(name+"/", prefix) })
}

func isPublic(name string) bool {
	return !isFree(name) && !slices.Contains(strings.Split(name, "/"), "internal")
}

func TestImportsKeepTheRules(t *testing.T) {
	all := list(t)
	for _, name := range ours(all) {
		if isFree(name) {
			continue
		}
		rules, ok := imports[name]
		if !ok {
			t.Errorf("%s has no rule: say in imports what it may import", name)
			continue
		}
		for _, imported := range all[path.Join(module, name)].Imports {
			if !all[imported].Standard && !permitted(rules, folder(imported)) {
				t.Errorf("%s imports %s: it may import only the standard library and %v", name, folder(imported), rules)
			}
		}
	}
}

func TestPublicPackagesLinkTheListedModules(t *testing.T) {
	all := list(t)
	for _, name := range ours(all) {
		if !isPublic(name) {
			continue
		}
		want, ok := linked[name]
		if !ok {
			t.Errorf("%s is not in the list of linked modules: add what its users link: %q", name, modules(all, name))
			continue
		}
		got := modules(all, name)
		for _, m := range got {
			if !slices.Contains(want, m) {
				t.Errorf("%s links %s, which the list does not name: every user of the package pays for it", name, m)
			}
			if slices.Contains(light, name) && slices.Contains(drivers, m) {
				t.Errorf("%s links %s: its users must link no driver and no client", name, m)
			}
		}
		for _, m := range want {
			if !slices.Contains(got, m) {
				t.Errorf("%s no longer links %s: take it off the list", name, m)
			}
		}
	}
}

// modules returns the paths of the other modules that the package depends on.
func modules(all map[string]listed, name string) []string {
	var paths []string
	for _, dep := range all[path.Join(module, name)].Deps {
		if m := all[dep].Module; m != nil && m.Path != module && !slices.Contains(paths, m.Path) {
			paths = append(paths, m.Path)
		}
	}
	slices.Sort(paths)
	return paths
}
