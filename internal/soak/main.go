package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() { os.Exit(start()) }

func start() int {
	length := flag.Duration("for", 3*time.Minute, "how long to run; disturbances that take longer are still finished")
	flag.Parse()
	if *length < time.Second || *length > time.Hour {
		fmt.Fprintln(os.Stderr, "soak: -for must be between 1s and 1h")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := soak(ctx, *length)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 1
	}
	if err := r.print(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "soak: print the report:", err)
		return 1
	}
	if len(r.faults()) > 0 {
		return 1
	}
	return 0
}

// soak starts a broker, runs everything on it and takes it away again.
func soak(ctx context.Context, length time.Duration) (*report, error) {
	b, err := startBroker(ctx)
	if err != nil {
		return nil, err
	}
	defer b.down(context.WithoutCancel(ctx))
	return run(ctx, b, length)
}
