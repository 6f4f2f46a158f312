package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"
)

// far has the systems work with a database that is a network away.
func (b *bench) far(ctx context.Context) error {
	list := b.chosen("P0", "P2", "P3", "S1", "S2", "S3", "S4", "S5")
	for round := range b.rounds {
		for _, i := range rand.Perm(len(list)) {
			s := list[i]
			j := b.job(s, b.share(s)/2, uint64(round))
			j.Trip = b.trip
			r, err := b.measure(ctx, s, j)
			if err != nil {
				return err
			}
			b.progressf("far, round %d of %d: %s %.0f msg/s", round+1, b.rounds, s.name, r.Rate)
			b.add("far/"+s.name, r)
		}
	}
	var rows [][]string
	for _, s := range list {
		name := "far/" + s.name
		rows = append(rows, []string{s.name, b.report.figure("%.0f", name, "msg/s"), b.report.spread("%.0f", name, "msg/s"), b.report.ratioText(name+"/msg/s", "far/S2/msg/s"), s.what})
	}
	b.report.table(fmt.Sprintf("A database that is %s away", b.trip), []string{"", "msg/s", "min-max", "to S2", ""}, rows,
		"every answer of the database is read so much after what was sent last, at the earliest")
	return nil
}

// dialer makes connections with a way as long as a network's.
type dialer struct {
	net.Dialer

	trip time.Duration
}

// DialContext is that of net.Dialer.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.Dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &farConn{Conn: conn, trip: d.trip}, nil
}

// DialTimeout is for lib/pq.
func (d *dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

// farConn hands on what it read no earlier than trip after the last write.
type farConn struct {
	net.Conn

	trip time.Duration
	sent atomic.Int64 // ns since epoch
}

// epoch of farConn's times.
var epoch = time.Now()

// Write is that of the connection.
func (c *farConn) Write(p []byte) (int, error) {
	c.sent.Store(int64(time.Since(epoch)))
	return c.Conn.Write(p)
}

// Read is that of the connection, later.
func (c *farConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	<-time.After(time.Duration(c.sent.Load()) + c.trip - time.Since(epoch))
	return n, err
}
