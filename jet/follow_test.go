package jet

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"millrace/events"
)

// read takes the records of a feed up to a sequence and checks that none is
// missing and none comes twice.
func read(t *testing.T, f events.Feed, from, to uint64) {
	t.Helper()
	for from <= to {
		batch, err := f.Next(within(t))
		if err != nil {
			t.Fatalf("Next at %d of %d: %v", from, to, err)
		}
		for i := range batch {
			if batch[i].Seq != from {
				t.Fatalf("got record %d, want %d", batch[i].Seq, from)
			}
			from++
		}
	}
}

func write(t *testing.T, s *Store, n int) (last uint64) {
	t.Helper()
	for i := range n {
		last = must(s.Append(within(t), newFact(newTask(), note(fmt.Sprint(i))), 0))(t)
	}
	return last
}

func TestFeedGoesOnWithoutItsConsumer(t *testing.T) {
	t.Parallel()
	s := newStore(t, Layout{})
	f := follow(t, s, 1)
	for round := range 2 {
		from := uint64(round*20 + 1)
		read(t, f, from, write(t, s, 10))
		if err := s.log.DeleteConsumer(within(t), f.consumer); err != nil {
			t.Fatal(err)
		}
		read(t, f, from+10, write(t, s, 10))
	}
}

// drop makes a feed lose the message with a consumer sequence, once.
func drop(t *testing.T, f *feed, lose uint64) (dropped *atomic.Bool) {
	t.Helper()
	in := f.pull.inbox
	if err := in.sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	dropped = new(atomic.Bool)
	in.sub = must(f.store.nc.Subscribe(in.subject, func(m *nats.Msg) {
		if d, ok := parseDelivery(m.Reply); ok && d.consumerSeq == lose {
			dropped.Store(true)
			return
		}
		in.receive(m)
	}))(t)
	return dropped
}

func TestFeedFindsAGap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		lose uint64
	}{{"the first", 1}, {"one in the middle", 5}, {"the last, and nothing follows", 10}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t, Layout{})
			f := follow(t, s, 1)
			dropped := drop(t, f, c.lose)
			eventually(t, "the feed waits at the server", func() bool {
				c, err := s.js.Consumer(within(t), LogStream, f.consumer)
				return err == nil && c.CachedInfo().NumWaiting > 0
			})
			read(t, f, 1, write(t, s, 10))
			if !dropped.Load() {
				t.Error("no message was lost, so nothing was tested")
			}
		})
	}
}

func TestFeedOfALargeLog(t *testing.T) {
	t.Parallel()
	s := newStore(t, Layout{})
	const n = feedWindow + 500
	facts := make([]*events.Fact, n)
	for i := range facts {
		facts[i] = newFact(newTask(), submittedNoop)
	}
	s.PlaceAll(within(t), facts, func(i int, _ uint64, err error) {
		if err != nil {
			t.Errorf("fact %d: %v", i, err)
		}
	})
	read(t, follow(t, s, 1), 1, n)
	read(t, follow(t, s, n-10), n-10, n)
}
