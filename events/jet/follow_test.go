package jet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet/embed"
	"millrace/events/jet/names"
	"millrace/events/jet/natstest"
	"millrace/events/jet/request"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
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
	s := newStore(t, streams.Layout{})
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

// dropping is a way to the server on which the message with a sequence is lost, the first time that
// a consumer brings it: on a slow machine that need not be the first consumer.
func dropping(lose uint64) (way nats.Option, dropped *atomic.Bool) {
	dropped = new(atomic.Bool)
	return nats.SetCustomDialer(&natstest.Sieve{Lose: func(subject, reply string, _ []byte) bool {
		var r events.Record
		_, ok := request.From(&r, &nats.Msg{Subject: subject, Reply: reply})
		return ok && r.Seq == lose && dropped.CompareAndSwap(false, true)
	}}), dropped
}

func TestFeedFindsAGap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		lose uint64
	}{{"the first", 1}, {"one in the middle", 5}, {"the last, and nothing follows", 10}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			way, dropped := dropping(c.lose)
			s := openStore(t, connect(t, startServer(t, embed.Config{}).URL(), way), streams.Layout{})
			f := follow(t, s, 1)
			testkit.Eventually(t, "the feed waits at the server", func() bool {
				c, err := s.JS.Consumer(within(t), names.LogStream, f.consumer)
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
	s := newStore(t, streams.Layout{})
	const n = feedWindow + 500
	facts := make([]*events.Fact, n)
	for i := range facts {
		facts[i] = newFact(newTask(), submittedNoop)
	}
	for some := range slices.Chunk(facts, 500) { // all at once take a starved server longer than an answer may take
		s.PlaceAll(within(t), some, false, func(i int, _ uint64, err error) {
			if err != nil {
				t.Errorf("fact %d of %d: %v", i, len(some), err)
			}
		})
	}
	read(t, follow(t, s, 1), 1, n)
	read(t, follow(t, s, n-10), n-10, n)
}

// A feed reads large messages in parts that fit into memory, all of them, and does not wait between
// two parts.
func TestFeedOfLargeMessages(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	const n, size = 200, 4 << 10
	for range n {
		must(s.Append(within(t), newFact(newTask(), note(strings.Repeat("x", size))), 0))(t)
	}
	before := s.NC.NumSubscriptions()
	f := &feed{store: s, next: 1, arrived: make(chan struct{}, 1), most: 16 * size}
	if err := f.open(within(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	for next := uint64(1); next <= n; {
		batch := must(f.Next(within(t)))(t)
		bytes := 0
		for i := range batch {
			if batch[i].Seq != next {
				t.Fatalf("record %d comes after %d", batch[i].Seq, next-1)
			}
			bytes += len(batch[i].Raw)
			next++
		}
		if bytes > 2*f.most {
			t.Fatalf("%d bytes come at once, where %d are asked for", bytes, f.most)
		}
	}
	if listens := s.NC.NumSubscriptions() - before; listens > 4 { // where requests are answered, and where earlier ones may be
		t.Error("requests that were over were taken for lost, each time")
	}
}

// A feed whose reader stops while more is on its way returns what it has, and does not look for the
// rest again and again.
func TestFeedEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	f := follow(t, s, 1)
	f.pull.Close() // messages on their way do not come
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended := make(chan int)
	go func() {
		got := 0
		for seq := uint64(1); got < 5; {
			f.take(&nats.Msg{Subject: names.ChainPrefix + string(newTask()), Reply: fmt.Sprintf("$JS.ACK.%s.c.1.%d.%d.1.7", names.LogStream, seq, seq)})
			if records, err := f.Next(ctx); err == nil { // else it has looked at its context first
				got += len(records)
				seq += uint64(len(records))
			} else {
				f.mu.Lock()
				f.buffer = nil
				f.mu.Unlock()
			}
		}
		ended <- got
	}()
	select {
	case <-ended:
	// Else it takes five times as long as detecting that the consumer is gone.
	case <-time.After(5 * time.Second):
		t.Fatal("it looks until something else ends it")
	}
}
