package main

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

const (
	// workers is how many messages a system without groups handles at once.
	workers = 32
	// group is the size of groups, and twice that what router.New hands out then.
	group = 64
	// prefetch is what router.New makes of 2*group: every system may have so many unsettled deliveries, ours included.
	prefetch = 160
	// groupConnections of the pool are enough for groups, see docs/groups.md.
	groupConnections = 5

	headerKey  = "event_id"
	headerSent = "sent_at" // ns of Unix time; only where latency is measured
)

// job is one measurement as a system sees it. The exported fields go to the process of an instance.
type job struct {
	System   string `json:"system"`
	Broker   string `json:"broker"`
	Database string `json:"database"`
	Queue    string `json:"queue"`
	Kind     string `json:"kind"`  // of the queue: classic or quorum
	Table    string `json:"table"` // of Sekali's claims

	Trip time.Duration `json:"trip"` // to the database and back, 0 for as it is

	messages int // 0: until told to end
	rows     int
	seed     uint64
	claimed  int64 // rows that Table holds already
	timely   bool  // keys in the order of time
	// failEvery message fails for good, before or after its write.
	failEvery  int
	failBefore bool
	letters    int            // that are right
	runs       []atomic.Int32 // of each message's handler; nil: not counted

	meter *meter
}

// ran notes a run of a handler.
func (j *job) ran(e event) {
	if j.runs != nil {
		j.runs[e.Seq].Add(1)
	}
}

// settled: the effect of a message is committed, and its ack is next. sent is its header.
func (j *job) settled(sent string) {
	if sent != "" {
		if at, err := strconv.ParseInt(sent, 10, 64); err == nil {
			j.meter.latency(time.Duration(time.Now().UnixNano() - at))
		}
	}
	j.meter.settle()
}

// watch is the outermost middleware of systems on Watermill's router, which acks when it returns.
func (j *job) watch(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		produced, err := h(msg)
		select {
		case <-msg.Nacked():
			j.meter.nacked.Add(1)
			return produced, err
		default:
		}
		if err != nil {
			j.meter.nacked.Add(1)
			j.meter.fail(err)
			return produced, err
		}
		j.settled(msg.Metadata[headerSent])
		return produced, nil
	}
}
