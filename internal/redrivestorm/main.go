package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	if spec := os.Getenv(childVariable); spec != "" {
		os.Exit(childMain(spec))
	}
	var c config
	flag.IntVar(&c.letters, "letters", 10_000, "number of letters")
	flag.IntVar(&c.kills, "kills", 20, "how often the redriving process is killed")
	flag.StringVar(&c.postgres, "postgres", os.Getenv("SEKALI_POSTGRES_URL"), "URL of the PostgreSQL server")
	flag.StringVar(&c.rabbit, "rabbit", os.Getenv("SEKALI_RABBITMQ_URL"), "URL of the broker")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	report, err := storm(ctx, c)
	fmt.Println(report)
	if err != nil {
		fmt.Fprintln(os.Stderr, "redrivestorm:", err)
		os.Exit(1)
	}
}
