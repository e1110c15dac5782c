package events_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/events/logtest"
	"millrace/task/node"
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

// A log that begins with records of another one goes on behind them, whatever is missing of these.
func TestImported(t *testing.T) {
	ctx := context.Background()
	fact := func(session string) events.Fact {
		return events.Fact{ID: session, At: time.Unix(1, 0), Type: events.NodeOnline, Node: "n", Event: node.WentOnline{Session: session}}
	}
	m := events.NewMemory(func() time.Time { return time.Unix(9, 0) }, time.Minute)
	m.Import([]events.Record{{Seq: 3, Kind: events.KindNode, Fact: fact("a")}, {Seq: 7, Kind: events.KindNode, Fact: fact("b")}})
	f := fact("c")
	if _, err := m.Append(ctx, &f, 3); !errors.Is(err, events.ErrConflict) {
		t.Errorf("behind a fact that is not the last: %v", err)
	}
	if seq, err := m.Append(ctx, &f, 7); seq != 8 || err != nil {
		t.Errorf("the next fact is %d, %v", seq, err)
	}
	var read []uint64
	feed, err := m.Follow(ctx, 4)
	if err != nil {
		t.Fatal(err)
	}
	records, err := feed.Next(ctx)
	all, wrong := m.Node(ctx, "n", 3)
	for _, r := range append(all, records...) {
		read = append(read, r.Seq)
	}
	latest, end, bad := m.Latest(ctx, events.Fact{Node: "n"})
	if err := errors.Join(err, wrong, bad); err != nil || !slices.Equal(read, []uint64{3, 7, 8, 7, 8}) || latest.Seq != 8 || end != 8 {
		t.Errorf("read %v, the last is %d, up to %d: %v", read, latest.Seq, end, err)
	}
}
