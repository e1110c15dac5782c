package jet

import (
	"sync/atomic"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/logtest"
	"millrace/jet/streams"
	"millrace/jet/wire"
	"millrace/task"
)

func conforms(t *testing.T, ackWait time.Duration, open func(t *testing.T) events.Log) {
	logtest.Run(t, open, logtest.Options{
		AckWait: ackWait,
		Around: func(t *testing.T, body func(*testing.T)) {
			t.Parallel()
			body(t)
		},
		Garbage: func(t *testing.T, log events.Log, id task.ID, body []byte) {
			raw(t, log.(*Store), wire.ChainPrefix+string(id), nil, body)
		},
	})
}

func TestOneServer(t *testing.T) {
	t.Parallel()
	conforms(t, testAckWait, func(t *testing.T) events.Log { return newStore(t, streams.Layout{}) })
}

func TestOneServerThatSyncsAlways(t *testing.T) {
	t.Parallel()
	conforms(t, testAckWait, func(t *testing.T) events.Log { return newStore(t, streams.Layout{SyncAlways: true}) })
}

func TestThreeReplicas(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	var account atomic.Int64
	const ackWait = 3 * time.Second // for three servers may stall longer than one on a busy machine
	conforms(t, ackWait, func(t *testing.T) events.Log {
		return c.open(t, int(account.Add(1)), streams.Layout{Replicas: 3, AckWait: ackWait})
	})
}
