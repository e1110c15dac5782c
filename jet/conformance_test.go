package jet

import (
	"sync/atomic"
	"testing"

	"millrace/events"
	"millrace/events/logtest"
	"millrace/task"
)

func conforms(t *testing.T, open func(t *testing.T) events.Log) {
	logtest.Run(t, open, logtest.Options{
		AckWait: testAckWait,
		Around: func(t *testing.T, body func(*testing.T)) {
			t.Parallel()
			body(t)
		},
		Garbage: func(t *testing.T, log events.Log, id task.ID, body []byte) {
			raw(t, log.(*Store), chainPrefix+string(id), nil, body)
		},
	})
}

func TestOneServer(t *testing.T) {
	t.Parallel()
	conforms(t, func(t *testing.T) events.Log { return newStore(t, Layout{}) })
}

func TestOneServerThatSyncsAlways(t *testing.T) {
	t.Parallel()
	conforms(t, func(t *testing.T) events.Log { return newStore(t, Layout{SyncAlways: true}) })
}

func TestThreeReplicas(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	var account atomic.Int64
	conforms(t, func(t *testing.T) events.Log { return c.open(t, int(account.Add(1))) })
}
