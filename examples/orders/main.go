// Orders is a shop on RabbitMQ and PostgreSQL in several processes, which are
// killed while they work. A producer publishes orders, a third of them twice;
// two services, stock and mail, handle each order, with several processes each.
// Consumers die of SIGKILL at random moments and are started again, the
// producer dies once and resends, servers restart if that is asked for. Then the
// books are checked: each item's stock is its start minus its orders, there is
// one mail an order and one claim for each consumer and order, and no dead
// letter is left.
//
//	scripts/services up && eval "$(scripts/services env)"
//	go run ./examples/orders -messages 5000 -kill 10
//
// With -poison the stock service begins with a bug, so that some orders become
// dead letters. At the end they are collected, the service is mended, and they are
// redriven (letters.go).
//
// With -group the services have group commit: orders that wait share a transaction,
// and a kill takes all of them.
//
// With -adopt the services begin with a hand-written table of handled events and
// are switched to the inbox one process after the other, while orders flow,
// processes are killed and orders of every phase are sent again (byhand.go,
// adopting.go, adopt.go).
//
// It ends with 1 when an order was lost or took effect twice, or when fewer
// processes were killed than asked for. What a service consists of is in
// consumer.go; all the rest is the shop around it and its misfortunes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if !child() {
		os.Exit(parent())
	}
}

// parent returns the exit code.
func parent() int {
	var o options
	flag.IntVar(&o.messages, "messages", 1000, "how many orders to sell")
	flag.IntVar(&o.kills, "kill", 5, "how many times to kill a consumer while it works")
	flag.IntVar(&o.poison, "poison", 0, "how many orders fail for good, until the service is mended and their letters are redriven")
	flag.IntVar(&o.group, "group", 0, "how many orders of a process may share a transaction; 0 is none")
	flag.BoolVar(&o.restartBroker, "restart-broker", false, "restart RabbitMQ once, through scripts/services")
	flag.BoolVar(&o.restartDB, "restart-db", false, "restart PostgreSQL once, through scripts/services")
	flag.BoolVar(&o.adopt, "adopt", false, "begin with a hand-written table of handled events, and switch to the inbox under load")
	flag.StringVar(&o.driver, "driver", "pq", "pq or pgx, both through database/sql")
	flag.IntVar(&o.processes, "processes", 2, "how many processes each service has")
	flag.DurationVar(&o.timeout, "timeout", 3*time.Minute, "when to give up")
	flag.BoolVar(&o.verbose, "v", false, "show what the services log")
	asJSON := flag.Bool("json", false, "print one JSON object instead of the table")
	flag.Parse()
	if err := o.check(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "orders:", err)
		return 2
	}
	o.bar = newProgress(o.messages*len(handlers), *asJSON)

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := sell(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "orders:", err)
		return 1
	}
	if err := r.print(os.Stdout, *asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "orders: print the report:", err)
		return 1
	}
	if !r.holds() {
		return 1
	}
	return 0
}

// options of a run.
type options struct {
	messages, kills, processes int
	poison, group              int
	restartBroker, restartDB   bool
	adopt                      bool
	driver                     string
	timeout                    time.Duration
	verbose                    bool
	bar                        *progress
}

// driverNames of database/sql.
var driverNames = map[string]string{"pq": "postgres", "pgx": "pgx"}

// ordersAKill is the least work in which a process can be found at work.
const ordersAKill = 20

// ordersAPoison is the least that keeps a consumer going: one whose messages all
// die holds.
const ordersAPoison = 5

// ordersAStep is the least that flows during a step of the adoption.
const ordersAStep = 10

func (o options) check(args []string) error {
	var errs []error
	if len(args) > 0 {
		errs = append(errs, fmt.Errorf("unknown argument %q", args[0]))
	}
	if driverNames[o.driver] == "" {
		errs = append(errs, fmt.Errorf("-driver is %q: must be pq or pgx", o.driver))
	}
	if o.messages < 1 || o.processes < 1 || o.kills < 0 || o.timeout <= 0 {
		errs = append(errs, errors.New("-messages, -processes and -timeout must be positive, -kill must not be negative"))
	}
	if o.messages < o.kills*ordersAKill {
		errs = append(errs, fmt.Errorf("-messages is %d: %d kills need %d, or the work is over before", o.messages, o.kills, o.kills*ordersAKill))
	}
	if o.poison < 0 || o.messages < o.poison*ordersAPoison {
		errs = append(errs, fmt.Errorf("-poison is %d: must not be negative, nor over one in %d of -messages", o.poison, ordersAPoison))
	}
	if o.group < 0 {
		errs = append(errs, fmt.Errorf("-group is %d: must not be negative", o.group))
	}
	if o.adopt && o.group > 0 {
		errs = append(errs, errors.New("-adopt goes without -group: switch first, group afterwards"))
	}
	if o.adopt && o.poison > 0 {
		errs = append(errs, errors.New("-adopt goes without -poison: the hand-written services know no letters"))
	}
	if o.adopt && (o.restartBroker || o.restartDB) {
		errs = append(errs, errors.New("-adopt goes without restarts: the hand-written services do not survive them"))
	}
	if o.adopt && o.messages < o.adoptSteps()*ordersAStep {
		errs = append(errs, fmt.Errorf("-messages is %d: an adoption in %d steps needs %d", o.messages, o.adoptSteps(), o.adoptSteps()*ordersAStep))
	}
	return errors.Join(errs...)
}
