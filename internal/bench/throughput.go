package main

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// throughput runs all systems in turns, each round in another order, so that what else the machine does weighs on all.
func (b *bench) throughput(ctx context.Context) error {
	for _, kind := range b.queues {
		list := b.chosen()
		for round := range b.rounds {
			for _, i := range rand.Perm(len(list)) {
				s := list[i]
				j := b.job(s, b.share(s), uint64(round))
				j.Kind = kind
				r, err := b.measure(ctx, s, j)
				if err != nil {
					return err
				}
				b.progressf("%s, round %d of %d: %s %.0f msg/s", kind, round+1, b.rounds, s.name, r.Rate)
				b.add("throughput/"+kind+"/"+s.name, r)
			}
		}
		b.throughputTable(kind, list)
	}
	return nil
}

// share of -messages that a system gets.
func (b *bench) share(s system) int { return max(100, int(float64(b.messages)*s.share)) }

func (b *bench) add(name string, r sample) {
	for figure, value := range map[string]float64{
		"msg/s": r.Rate, "cpu": r.CPU, "server-cpu": r.ServerCPU, "allocs": r.Allocs, "bytes": r.Bytes, "undone": float64(r.Undone), "failed": float64(r.Failed),
	} {
		b.report.add(value, name, figure)
	}
}

func (b *bench) throughputTable(kind string, list []system) {
	r := &b.report
	var rows [][]string
	for _, s := range list {
		name := "throughput/" + kind + "/" + s.name
		rows = append(rows, []string{
			s.name, r.figure("%.0f", name, "msg/s"), r.spread("%.0f", name, "msg/s"),
			r.ratioText(name+"/msg/s", "throughput/"+kind+"/P0/msg/s"),
			r.figure("%.2f", name, "cpu"), r.figure("%.2f", name, "server-cpu"),
			r.figure("%.0f", name, "allocs"), r.figure("%.0f", name, "bytes"),
			fmt.Sprint(b.share(s)), s.what,
		})
	}
	r.table("Throughput, "+kind+" queue, "+fmt.Sprint(b.wide)+" rows",
		[]string{"", "msg/s", "min-max", "to P0", "cpu s/10k", "servers' cpu s/10k", "allocs/msg", "bytes/msg", "messages", ""}, rows,
		"cpu: of the consumer's process, broker client and driver included; servers: PostgreSQL and RabbitMQ and whatever else they do",
		"allocs, bytes: of the whole process between the first and the last message settled: broker client, decoding, handler, driver, and what wraps it")
}
