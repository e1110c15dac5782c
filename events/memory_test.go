package events_test

import (
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/events/logtest"
)

// In a bubble leases expire and timers fire without waiting, and a case fails if it leaves a
// goroutine behind.
func TestMemory(t *testing.T) {
	const ackWait = time.Second
	logtest.Run(t, func(*testing.T) events.Log { return events.NewMemory(time.Now, ackWait) }, logtest.Options{
		AckWait: ackWait,
		Around:  synctest.Test,
		Garbage: func(_ *testing.T, log events.Log, about events.Fact, raw []byte) {
			log.(*events.Memory).AppendRaw(about, raw)
		},
	})
}
