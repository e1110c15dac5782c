package jet

import (
	"sync/atomic"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/streams"
	"millrace/events/logtest"
	"millrace/internal/testkit"
)

func conforms(t *testing.T, ackWait time.Duration, open func(t *testing.T) events.Log, only ...string) {
	logtest.Run(t, open, logtest.Options{
		AckWait: ackWait,
		Around: func(t *testing.T, body func(*testing.T)) {
			t.Parallel()
			body(t)
		},
		Garbage: func(t *testing.T, log events.Log, about events.Fact, body []byte) {
			raw(t, log.(*Store), names.ChainSubject(&about), nil, body)
		},
		Only: only,
	})
}

func TestOneServer(t *testing.T) {
	t.Parallel()
	conforms(t, testAckWait, func(t *testing.T) events.Log { return newStore(t, streams.Layout{}) })
}

// others are the cases that run without -long where [TestOneServer] has run all: one of each kind,
// and those in which several writers race.
func others() []string {
	return testkit.Size([]string{
		"append at 0 and at the head", "append elsewhere conflicts", "of racing writers one wins", "large facts",
		"of two who define at once one wins", "follow what is to come", "of racing writers to several chains one wins on each",
		"a claim and a birth exclude each other", "an offer is leased", "many workers get each offer once",
		"a node proves that offers reach it", "last", "of racing claims one starts", "a task's life",
		"a timer fires when it is due", "arming again replaces", "of births under one chosen id one is accepted", "a heartbeat runs out",
	}, nil)
}

func TestOneServerThatSyncsAlways(t *testing.T) {
	t.Parallel()
	conforms(t, testAckWait, func(t *testing.T) events.Log { return newStore(t, streams.Layout{SyncAlways: true}) }, others()...)
}

func TestThreeReplicas(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	var account atomic.Int64
	const ackWait = 3 * time.Second // for three servers may stall longer than one on a busy machine
	conforms(t, ackWait, func(t *testing.T) events.Log {
		return c.open(t, int(account.Add(1)), streams.Layout{Replicas: 3, AckWait: ackWait})
	}, others()...)
}
