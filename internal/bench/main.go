package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// hot is how many rows the stock table has where messages meet all the time.
const hot = 100

// bench is one run of the program.
type bench struct {
	sections   []string
	systems    []string // all when empty
	queues     []string
	rounds     int
	messages   int
	wide       int           // rows of the stock table where messages rarely meet
	processes  []int         // that share a queue in the instances section
	many       int           // messages of the memory section
	trip       time.Duration // to the database in the far section
	claims     int           // claims in the largest table of the keys section
	jsonFile   string
	cpuProfile string

	world  *world
	report report
}

// section is a part of the run with a table of its own.
type section struct {
	name string
	run  func(b *bench, ctx context.Context) error
}

var sections = []section{
	{"throughput", (*bench).throughput},
	{"latency", (*bench).latency},
	{"instances", (*bench).instances},
	{"failures", (*bench).failures},
	{"keys", (*bench).keys},
	{"memory", (*bench).memory},
	{"far", (*bench).far},
}

func main() {
	if spec := os.Getenv(workerVariable); spec != "" {
		os.Exit(workerMain(spec))
	}
	os.Exit(start())
}

func start() int {
	b := &bench{processes: []int{1, 2, 4}}
	var only, names, queues string
	flag.StringVar(&only, "sections", "throughput,latency,instances,failures", "sections to run, with commas, or all: "+strings.Join(sectionNames(), " "))
	flag.StringVar(&names, "systems", "", "systems to run where a section lets choose, with commas; all when empty")
	flag.StringVar(&queues, "queue", "classic", "kinds of queue for the throughput, with commas: classic, quorum")
	flag.IntVar(&b.rounds, "rounds", 5, "rounds of each section; figures are medians")
	flag.IntVar(&b.messages, "messages", 20_000, "messages of one measurement; slow systems get a share of them")
	flag.IntVar(&b.many, "many", 1_000_000, "messages of the memory section")
	flag.IntVar(&b.claims, "claims", 10_000_000, "claims in the largest tables of the keys section, which need half a GB of disk a million")
	flag.DurationVar(&b.trip, "trip", 500*time.Microsecond, "round trip to the database in the far section")
	flag.IntVar(&b.wide, "rows", 100_000, "rows that the messages write, at random; where they are hot it is "+strconv.Itoa(hot))
	flag.StringVar(&b.jsonFile, "json", "", "write all figures, with those of each round, to this file")
	flag.StringVar(&b.cpuProfile, "cpuprofile", "", "write the processor profile of the first measurement to this file: go run . -systems S4 -rounds 1 -cpuprofile cpu.out")
	flag.Parse()
	b.sections, b.systems, b.queues = split(only), split(names), split(queues)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := b.run(ctx, os.Getenv("SEKALI_POSTGRES_URL"), os.Getenv("SEKALI_RABBITMQ_URL")); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

func sectionNames() (names []string) {
	for _, s := range sections {
		names = append(names, s.name)
	}
	return names
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// run returns an error when something could not be measured or the books are wrong; a bar that is not reached is none.
func (b *bench) run(ctx context.Context, postgres, rabbit string) (err error) {
	if err := b.check(); err != nil {
		return err
	}
	if b.world, err = newWorld(ctx, postgres, rabbit); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.world.close()) }()
	if err := b.describe(ctx); err != nil {
		return err
	}
	for _, s := range sections {
		if !slices.Contains(b.sections, s.name) {
			continue
		}
		if err := s.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	b.judge()
	if b.jsonFile != "" {
		return b.report.write(b.jsonFile)
	}
	return nil
}

func (b *bench) check() error {
	if slices.Equal(b.sections, []string{"all"}) {
		b.sections = sectionNames()
	}
	for _, name := range b.sections {
		if !slices.Contains(sectionNames(), name) {
			return fmt.Errorf("unknown section %q: there are %s", name, strings.Join(sectionNames(), " "))
		}
	}
	for _, name := range b.systems {
		if _, err := find(name); err != nil {
			return err
		}
	}
	for _, kind := range b.queues {
		if kind != "classic" && kind != "quorum" {
			return fmt.Errorf("unknown kind of queue %q: there are classic and quorum", kind)
		}
	}
	if b.rounds < 1 || b.messages < 100 || b.wide < 1 {
		return errors.New("-rounds and -rows must be at least 1, -messages at least 100")
	}
	return nil
}

// chosen returns the systems to run, in the order of the tables.
func (b *bench) chosen(from ...string) (list []system) {
	for _, s := range systems {
		if (len(from) == 0 || slices.Contains(from, s.name)) && (len(b.systems) == 0 || slices.Contains(b.systems, s.name)) {
			list = append(list, s)
		}
	}
	return list
}
