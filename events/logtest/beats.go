package logtest

import (
	"errors"
	"reflect"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/value"
)

// beatCases are about heartbeats, and about leases by heartbeat. They skip a log that does not
// implement [events.Heartbeats].
var beatCases = []testCase{
	{name: "a heartbeat replaces the one before", body: beats},
	{name: "a heartbeat runs out", body: beatRunsOut},
	{name: "whoever had an offer first still extends it", body: extendsAgain},
	{name: "a lease ends by the account", body: account},
}

// pulse reads a heartbeat, and checks its invariants.
func (s *suite) pulse(h events.Heartbeats, id node.ID) node.Pulse {
	s.Helper()
	p, err := h.Pulse(s.context(), id)
	if err != nil {
		s.Fatalf("Pulse: %v", err)
	}
	if d := time.Since(p.Now); d < -time.Second || d > patience {
		s.Errorf("it is %v, says the log, %v ago", p.Now, d)
	}
	return p
}

func beats(s *suite) {
	h, ok := s.log.(events.Heartbeats)
	if !ok {
		return
	}
	const ttl = 30 * time.Second
	if p := s.pulse(h, "n1"); p.Beat.Session != "" || !p.Stored.IsZero() || p.RanOut {
		s.Errorf("of a node that has never beaten there is %+v", p)
	}
	var last time.Time
	for _, b := range []node.Heartbeat{
		{Session: "s1", At: now(), Runs: []uint64{3, 70_000, 1 << 40}},
		{Session: "s1", At: now()},
		{Session: "s2", At: now(), Runs: []uint64{4}},
	} {
		if err := h.Beat(s.context(), "n1", b, ttl); err != nil {
			s.Fatalf("Beat: %v", err)
		}
		p := s.pulse(h, "n1")
		if !reflect.DeepEqual(p.Beat, b) || p.Stored.Before(last) || p.Stored.IsZero() || p.RanOut {
			s.Errorf("of %+v there is %+v", b, p)
		}
		last = p.Stored
	}
	if err := h.Forget(s.context(), "n1"); err != nil {
		s.Fatalf("Forget: %v", err)
	}
	if p := s.pulse(h, "n1"); p.Beat.Session != "" || p.Stored.Before(last) || p.RanOut {
		s.Errorf("of a heartbeat that was taken back there is %+v", p)
	}
	if p := s.pulse(h, "n2"); p.Beat.Session != "" {
		s.Errorf("another node has the heartbeat %+v", p)
	}
}

func beatRunsOut(s *suite) {
	h, ok := s.log.(events.Heartbeats)
	if !ok {
		return
	}
	const ttl = time.Second
	if err := h.Beat(s.context(), "n1", node.Heartbeat{Session: "s1"}, ttl); err != nil {
		s.Fatalf("Beat: %v", err)
	}
	stored := s.pulse(h, "n1").Stored
	for ended := time.Now().Add(patience); ; {
		p := s.pulse(h, "n1")
		if p.Beat.Session == "" {
			if !p.RanOut || p.Stored.Sub(stored) < ttl || p.Stored.Sub(stored) > ttl+s.late() {
				s.Errorf("stored at %v, of a heartbeat of %v there is %+v", stored, ttl, p)
			}
			break
		}
		if time.Now().After(ended) {
			s.Fatalf("a heartbeat of %v does not run out: %+v", ttl, p)
		}
		s.wait(50 * time.Millisecond)
	}
	// The process may have been suspended that long: it gets one error, and continues once it has
	// looked.
	for _, want := range []error{events.ErrConflict, nil, nil} {
		if err := h.Beat(s.context(), "n1", node.Heartbeat{Session: "s1"}, time.Minute); !errors.Is(err, want) {
			s.Fatalf("after it has run out, Beat: %v, want %v", err, want)
		}
	}
}

// A server may redeliver an offer while its first holder still runs it. The first holder's
// extensions apply to the later delivery, too: neither a rest nor silence of the second holder
// matters.
func extendsAgain(s *suite) {
	s.until(func(_, others events.Offers) bool {
		id := s.submit("default")
		first := s.next(others)
		again := s.next(others) // it was not extended in time
		s.delivered(again, id, 2)
		words := []time.Time{time.Now().Add(-s.o.AckWait / 2)} // so it is after the rest
		if err := again.Rest(s.o.AckWait / 2); err != nil {
			s.Fatalf("Rest: %v", err)
		}
		for i := range 9 { // three leases
			words = append(words, time.Now())
			if err := first.Extend(s.context()); err != nil {
				s.Fatalf("Extend: %v", err)
			}
			if !s.holds(others, s.o.AckWait/3, words[i]) {
				return false
			}
		}
		silent := time.Now()
		third := s.next(others)
		s.delivered(third, id, 3)
		if after := time.Since(silent); after > s.o.AckWait+s.late() {
			s.Errorf("after the last word it came again after %v, want about %v", after, s.o.AckWait)
		}
		s.ack(first) // which had it first
		s.nothing(others, 2*s.o.AckWait)
		return true
	})
}

// account checks that an attempt holds its lease by its claim and then by heartbeats that name it,
// regardless of deliveries. A lease after the last heartbeat, it has ended.
func account(s *suite) {
	h, ok := s.log.(events.Heartbeats)
	if !ok {
		return
	}
	lease := s.o.AckWait
	r, id := s.recorder(s.log, "n1"), s.submit("default")
	for _, c := range []node.Command{node.Register{Session: "s1", Profile: node.Profile{TTL: value.Duration(time.Minute)}}, node.Beat{Session: "s1"}} {
		if _, _, err := r.DoNode(s.context(), "n1", c); err != nil {
			s.Fatal(err)
		}
	}
	t, err := r.Load(s.context(), id)
	if err != nil {
		s.Fatal(err)
	}
	if t, _, err = r.Do(s.context(), t, task.Claim{Node: "n1", Session: "s1", Offer: t.Seq}); err != nil {
		s.Fatal(err)
	}
	accounts := &events.Accounts{Log: s.log, Beats: h, Lease: lease}
	ended := func() (bool, task.Account) {
		s.Helper()
		a, err := accounts.Of(s.context(), &t)
		if err != nil {
			s.Fatalf("Of: %v", err)
		}
		over, left := a.Ended(&t)
		if !over && (left <= 0 || left > lease) {
			s.Errorf("it holds for another %v, and a lease lasts %v", left, lease)
		}
		return over, a
	}
	beat := func(runs ...uint64) {
		s.Helper()
		if err := h.Beat(s.context(), "n1", node.Heartbeat{Session: "s1", Runs: runs}, time.Minute); err != nil {
			s.Fatalf("Beat: %v", err)
		}
	}
	until := func(what string) {
		s.Helper()
		for since := time.Now(); ; s.wait(lease / 20) {
			over, a := ended()
			if over {
				return
			}
			if time.Since(since) > lease+s.late() {
				s.Fatalf("%s: it holds after %v: %+v", what, time.Since(since), a)
			}
		}
	}
	beat() // which does not name it
	until("nothing but its claim")
	beat(t.Epoch)
	if over, a := ended(); over {
		s.Errorf("it is named, and has ended: %+v", a)
	}
	until("a heartbeat that named it")
	beat(t.Epoch)
	beat()
	if over, a := ended(); !over {
		s.Errorf("it is named no more, and holds: %+v", a)
	}
}
