// Sekali is the operator's command: it looks at claims and dead letters, puts
// letters back without fear of doing anything twice, holds consumers, and keeps
// the inbox's tables. It needs nothing but the URLs of the databases and of the
// broker; services keep running while it works.
//
//	export SEKALI_INBOX='stock=postgres://user:password@db/shop'
//	export SEKALI_AMQP_URL='amqp://user:password@rabbit/'
//	sekali dlq kinds
//	sekali dlq redrive --queue orders.stock --dry-run
//
// Exit codes: 0 done, 1 failed, 2 wrong use, 3 done as far as it goes, and
// something is left that needs an operator.
//
// What a URL holds is never printed, neither in help nor in errors.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly end, a second one ends it at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}

// run is main with its surroundings as arguments; it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	return newApp(stdin, stdout, stderr, environ).run(ctx, args)
}
