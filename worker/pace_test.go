package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
)

// Slow claims halve the bound, once for all that began before; quick ones raise it by one each.
func TestPace(t *testing.T) {
	t.Parallel()
	start := time.Now()
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	p := newPace(16, time.Second)
	claim := func(began, ended float64, want int) {
		t.Helper()
		if !p.begin(t.Context()) {
			t.Fatal("no claim may be made")
		}
		p.end(at(began), at(ended), false)
		if p.most != want {
			t.Errorf("after a claim of %vs that began at %vs there may be %d at once, want %d", ended-began, began, p.most, want)
		}
	}
	claim(0, 0.5, 16)
	claim(0, 1.5, 8)
	claim(1, 3, 8) // it began before the bound was halved
	claim(2, 3.5, 4)
	claim(4, 5, 2)
	claim(6, 8, 1)
	claim(9, 20, 1)
	claim(20, 20.1, 2)
	claim(20, 20.2, 3)

	p = newPace(1, time.Second)
	if !p.begin(t.Context()) {
		t.Fatal("the first may not be made")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p.begin(ctx) {
		t.Error("a second may be made beside it")
	}
	p.end(time.Time{}, start, false)
	if !p.begin(t.Context()) {
		t.Error("after it none may be made")
	}
}

// A slow heartbeat and a lost lease halve how many attempts there may be, once for all evidence of
// before; quick heartbeats raise it again.
func TestPaceOfAttempts(t *testing.T) {
	t.Parallel()
	start := time.Now()
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	p := newPace(16, time.Second)
	for range 16 {
		if !p.begin(t.Context()) {
			t.Fatal("no claim may be made")
		}
		p.end(at(1), at(1.1), true)
	}
	want := func(after string, hold, held int) {
		t.Helper()
		if p.hold != hold || p.held != held {
			t.Errorf("after %s there are %d attempts of %d, want %d of %d", after, p.held, p.hold, held, hold)
		}
	}
	p.beat(at(1), at(2))
	want("a slow heartbeat", 8, 16)
	p.release(at(1), at(3), true)
	want("a lease from before that was lost", 8, 15)
	for range 12 {
		p.release(at(1), at(3), false)
	}
	p.beat(at(3), at(3.9))
	want("a quick heartbeat", 10, 3)
	p.release(at(3), at(4), true)
	want("a lost lease", 1, 2)
	p.release(at(3), at(5), false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p.begin(ctx) {
		t.Error("a claim may be made beside the one attempt that there may be")
	}
	for range 40 {
		p.beat(at(6), at(6.1))
	}
	want("many quick heartbeats", 16, 1)
}

// Whenever a worker is asked to end while an offer comes, its claim does not count for ever: else the
// worker would wait for it when it ends, and a node whose gate shuts so would claim fewer at once.
func TestPaceOfAnOfferThatComesAtTheEnd(t *testing.T) {
	for looks := range 8 {
		synctest.Test(t, func(t *testing.T) {
			w := &Worker{gate: newGate(), pace: newPace(1, time.Second)}
			w.gate.set(true)
			pulling, end := context.WithCancel(t.Context())
			defer end()
			ends := &endsAtALook{Context: pulling, end: end, looks: looks}
			w.slot(ends, t.Context(), oneOffer{shut: end})
			soon, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if !w.pace.stop(soon) || w.pace.held > 0 {
				t.Errorf("told to end before look %d, %d claims and %d attempts are under way for ever", looks, w.pace.busy, w.pace.held)
			}
		})
	}
}

// endsAtALook is a context that ends when one has looked at it so often.
type endsAtALook struct {
	context.Context
	end   func()
	looks int
}

func (c *endsAtALook) Err() error {
	if c.looks--; c.looks < 0 {
		c.end()
	}
	return c.Context.Err()
}

// oneOffer hands out an offer that nobody may begin here, so that the gate shuts.
type oneOffer struct {
	events.Offers
	shut func()
}

func (o oneOffer) Next(context.Context) (*events.Offer, error) {
	return &events.Offer{Lease: returned{shut: o.shut}}, nil
}

// returned is the lease of an offer with whose return the worker is told to end.
type returned struct {
	events.Lease
	shut func()
}

func (r returned) Return() error {
	r.shut()
	return nil
}
