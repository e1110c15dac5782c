package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"millrace/task"
)

// Which attempts may go on, by how long the log has been silent.
func TestMayGoOn(t *testing.T) {
	s := safety{ackWait: 30 * time.Second, nodeTTL: 15 * time.Second}
	for _, c := range []struct {
		name        string
		lease, beat time.Duration
		stop        bool // whether `stop` stops it
	}{
		{"all is confirmed", 0, 0, false},
		{"a renewal is due", 10 * time.Second, 5 * time.Second, false},
		{"just before the bounds", 20*time.Second - 1, 10*time.Second - 1, false},
		{"the lease is at stake", 20 * time.Second, 0, true},
		{"the heartbeat is at stake", 0, 10 * time.Second, true},
		{"both ran out", time.Hour, time.Hour, true},
	} {
		if got := s.mayGoOn(false, c.lease, c.beat); got == c.stop {
			t.Errorf("%s: one that stops may go on: %v", c.name, got)
		}
		if !s.mayGoOn(true, c.lease, c.beat) {
			t.Errorf("%s: one that continues is stopped", c.name)
		}
	}
}

// A task that a node gives back is left to other nodes, longer each time, up to the lease. After
// enough time in between, the count begins anew.
func TestAside(t *testing.T) {
	s := safety{ackWait: 6 * time.Second, beat: 2 * time.Second}
	var a aside
	now := time.Now()
	for i, want := range []time.Duration{2 * time.Second, 4 * time.Second, 6 * time.Second, 6 * time.Second} {
		a.put("t", now, s)
		if got := a.rest("t", now); got != want {
			t.Errorf("the offer rests for %v after it was given back %d times, want %v", got, i+1, want)
		}
		if got := a.rest("t", now.Add(want)); got > 0 {
			t.Errorf("after that it rests for %v", got)
		}
		now = now.Add(want + time.Second)
	}
	if got := a.rest("other", now); got > 0 {
		t.Errorf("another one rests for %v", got)
	}
	a.put("other", now.Add(s.ackWait), s)
	if len(a.tasks) != 1 {
		t.Errorf("it remembers %v", a.tasks)
	}
	for times := 1; times < 100; times++ {
		if got := s.rest(times); got <= 0 || got > s.ackWait {
			t.Errorf("after %d times it rests for %v", times, got)
		}
	}
}

// A process that is suspended while its heartbeat is stored learns of that when its node may
// already count as gone. What should have stopped before then is stopped, however fresh the
// heartbeat is.
func TestAnswerAfterTheBound(t *testing.T) {
	for _, c := range []struct {
		name     string
		answered time.Duration // after the heartbeat before
		stop     bool
	}{
		{"in time", 3900 * time.Millisecond, false},
		{"too late", 4 * time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &Worker{safety: safety{ackWait: 6 * time.Second, nodeTTL: 6 * time.Second, beat: 2 * time.Second}, stored: make(chan struct{}, 1)}
				before := time.Now()
				w.beaten.Store(&before)
				a := &Attempt{worker: w, Task: task.Task{ID: "t"}}
				a.started.Store(true)
				a.context, a.stop = context.WithCancelCause(t.Context())
				a.lease.begin(nil, before.Add(1500*time.Millisecond)) // its claim alone would let it go on
				w.leases.running = map[task.ID]*Attempt{"t": a}
				asked := before.Add(2 * time.Second)
				time.Sleep(c.answered)
				w.lives(asked)
				if stopped := errors.Is(context.Cause(a.context), ErrLeaseLost); stopped != c.stop {
					t.Errorf("stopped: %v, want %v", stopped, c.stop)
				}
				if *w.beaten.Load() != asked {
					t.Errorf("the last heartbeat was sent at %v", w.beaten.Load())
				}
				a.stop(nil)
			})
		})
	}
}

// Renewals go with heartbeats where they can, and about three of them into an ack wait.
func TestRenewal(t *testing.T) {
	for _, s := range []safety{
		{ackWait: 6 * time.Second, nodeTTL: 6 * time.Second, beat: 2 * time.Second},     // dev
		{ackWait: 30 * time.Second, nodeTTL: 15 * time.Second, beat: 5 * time.Second},   // prod
		{ackWait: 3 * time.Second, nodeTTL: 15 * time.Second, beat: time.Second},        // beats are slow
		{ackWait: 60 * time.Second, nodeTTL: 3 * time.Second, beat: time.Second},        // and fast
		{ackWait: time.Second, nodeTTL: time.Second, beat: 333333333 * time.Nanosecond}, // as short as can be
	} {
		for phase := time.Duration(0); phase < s.beat; phase += s.beat / 7 { // since the last heartbeat, at the claim
			var last, longest time.Duration
			renewed := 0
			look := func(at time.Duration, beaten bool) {
				if s.renewal(at-last, beaten) {
					longest, last = max(longest, at-last), at
					renewed++
				}
			}
			const step = time.Millisecond
			for at := step; at <= 10*s.ackWait; at += step {
				if (at+phase)%s.beat < step {
					look(at, true)
				} else if at%s.watchEvery() < step {
					look(at, false)
				}
			}
			if longest > s.ackWait/2+s.watchEvery() || renewed < 20 || renewed > 40 {
				t.Errorf("%+v, %v after a heartbeat: %d renewals in ten ack waits, at most %v apart", s, phase, renewed, longest)
			}
		}
	}
}

// An attempt that starts at once after its claim is confirmed in time by the next heartbeat, also if
// that takes as long as a claim that is not slow. One that waited for a heartbeat has the next one in
// time if that takes as long.
func TestStart(t *testing.T) {
	const fresh = 0
	for _, s := range []safety{{6 * time.Second, 6 * time.Second, 2 * time.Second}, {30 * time.Second, 15 * time.Second, 5 * time.Second}, {3 * time.Second, 15 * time.Second, time.Second}} {
		if latest := s.beat + s.slowClaim(); !s.mayStart(s.slowClaim()-1, fresh, false) || s.atStake(latest, 0) {
			t.Errorf("%+v: an attempt is confirmed %v after its claim at the latest", s, latest)
		}
		if s.mayStart(s.slowClaim(), fresh, false) {
			t.Errorf("%+v: something starts after a slow claim", s)
		}
		if !s.mayStart(s.ackWait/3-1, fresh, true) || s.atStake(s.beat+s.ackWait/3-1, 0) {
			t.Errorf("%+v: an attempt that a heartbeat has confirmed does not start, or must stop before the next", s)
		}
		if s.mayStart(s.ackWait/3, fresh, true) || s.mayStart(0, s.nodeTTL*2/3, true) {
			t.Errorf("%+v: something starts on the strength of an old heartbeat", s)
		}
		if !s.mayWait(s.ackWait*2/3, s.nodeTTL*2/3, s.ackWait-1) || s.mayWait(s.ackWait*11/12, fresh, fresh) ||
			s.mayWait(fresh, s.nodeTTL*11/12, fresh) || s.mayWait(fresh, fresh, s.ackWait) {
			t.Errorf("%+v: what has not started yet waits too long, or must stop like what has", s)
		}
	}
}
