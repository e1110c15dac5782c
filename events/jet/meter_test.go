package jet

import (
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
	"millrace/task/queue"
)

// awaitOffer waits for an offer in the background.
func awaitOffer(t *testing.T, o events.Offers) <-chan *events.Offer {
	t.Helper()
	ctx, got := within(t), make(chan *events.Offer, 1)
	go func() {
		if offer, err := o.Next(ctx); err == nil {
			got <- offer
		}
	}()
	return got
}

// limited has a queue in which one task may run at a time, and one task in each of two lanes.
func limited(t *testing.T, ackWait time.Duration) *Store {
	t.Helper()
	s := newStore(t, streams.Layout{AckWait: ackWait})
	one := 1
	if _, _, err := recorder(s).DoQueue(within(t), "a", queue.Limit{Running: &one}); err != nil {
		t.Fatal(err)
	}
	submitTo(t, s, "a", 5, "")
	submitTo(t, s, "a", 8, "")
	return s
}

// An offer that was delivered beyond the limit and returned holds no place: when the running task
// has ended, the other one starts.
func TestReturnedOffersHoldNoPlace(t *testing.T) {
	t.Parallel()
	s := limited(t, time.Minute)
	first, second := offersOf(t, s, "a"), offersOf(t, s, "a")
	runs := <-awaitOffer(t, first)
	waits := awaitOffer(t, second)
	testkit.Eventually(t, "the second worker has been handed the other task in vain", func() bool {
		lanes, err := s.QueueState(within(t), "a")
		handed := uint64(0)
		for _, l := range lanes {
			handed += l.Handed
		}
		return err == nil && handed > 1
	})
	select {
	case <-waits:
		t.Fatal("two run at once")
	case <-time.After(50 * time.Millisecond): // it may not
	}
	if err := runs.Ack(); err != nil {
		t.Fatal(err)
	}
	other := <-waits
	if other == nil || other.Fact.Task == runs.Fact.Task {
		t.Fatalf("the other task does not start: %+v", other)
	}
	if err := other.Ack(); err != nil {
		t.Fatal(err)
	}
}

// An offer of a lost worker holds its place until its lease has expired; then a waiting worker
// finds it.
func TestLostOffersAreRetrieved(t *testing.T) {
	t.Parallel()
	s := limited(t, time.Second)
	lost := <-awaitOffer(t, offersOf(t, s, "a"))
	found := <-awaitOffer(t, offersOf(t, s, "a"))
	if found == nil || found.Fact.Task != lost.Fact.Task || found.Deliveries < 2 {
		t.Fatalf("got %+v, want what was lost", found)
	}
	if err := found.Ack(); err != nil {
		t.Fatal(err)
	}
}
