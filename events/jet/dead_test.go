package jet

import (
	"testing"
	"time"

	"millrace/events/jet/streams"
	"millrace/internal/testkit"
)

// The server drops an offer that was delivered too often: it tells subscribers, does not deliver
// the offer again, and other offers do not wait for it.
func TestDeadOffer(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	heard := make(chan uint64, 10)
	stop := must(s.OnDead(func(seq uint64) { heard <- seq }))(t)
	defer stop()
	o := offersOf(t, s, "default")
	id := submit(t, s, "default")
	var dead uint64
	for i := range maxDeliver {
		offer := next(t, o)
		if dead = offer.Seq; offer.Deliveries != i+1 {
			t.Fatalf("delivery %d counts as %d", i+1, offer.Deliveries)
		}
		if idle, err := s.Idle(within(t), "default"); i == 0 && (idle || err != nil) {
			t.Errorf("while an offer is leased the queue is idle: %v, %v", idle, err)
		}
		// Not Return, which would take its time.
		if err := s.NC.Publish(offer.Lease.(*lease).reply, returnBody); err != nil {
			t.Fatal(err)
		}
	}
	other := submit(t, s, "default")
	if offer := next(t, o); offer.Fact.Task != other || offer.Ack() != nil {
		t.Errorf("behind the dead offer came %+v", offer)
	}
	select {
	case seq := <-heard:
		if seq != dead {
			t.Errorf("heard of %d, want %d", seq, dead)
		}
	case <-within(t).Done():
		t.Fatal("nobody was told of the dead offer")
	}
	if r, found, err := s.Message(within(t), dead); err != nil || !found || r.Fact.Task != id {
		t.Errorf("the dead offer is %+v, %v, %v", r, found, err)
	}
	if idle, err := s.Idle(within(t), "nobody"); idle || err != nil {
		t.Errorf("a queue without a consumer is idle: %v, %v", idle, err)
	}
	testkit.Eventually(t, "the queue is idle", func() bool { return must(s.Idle(within(t), "default"))(t) })
}
