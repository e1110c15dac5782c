package task

import (
	"errors"
	"strings"
	"testing"
	"time"

	"millrace/task/reason"
	"millrace/task/value"
)

var breaker = &Breaker{Failures: 3, Within: value.Duration(time.Minute), Cooldown: value.Duration(time.Minute), HalfOpen: 2}

// A breaker's life, event by event: what is judged of what has happened so far.
func TestBreakerJudges(t *testing.T) {
	type step struct {
		after  time.Duration
		failed int  // attempts that fail then
		done   int  // attempts that finish then
		old    bool // they began before the state did
		want   CircuitState
	}
	for name, steps := range map[string][]step{
		"few failures":                     {{0, 2, 5, false, CircuitClosed}},
		"enough":                           {{0, 2, 0, false, CircuitClosed}, {time.Second, 1, 0, false, CircuitOpen}},
		"enough, though others finish":     {{0, 3, 9, false, CircuitOpen}},
		"not within the time":              {{0, 2, 0, false, CircuitClosed}, {time.Minute, 1, 0, false, CircuitClosed}, {time.Second, 1, 0, false, CircuitClosed}},
		"the cooldown":                     {{0, 3, 0, false, CircuitOpen}, {59 * time.Second, 4, 4, false, CircuitOpen}, {time.Second, 0, 0, false, CircuitHalfOpen}},
		"trials finish":                    {{0, 3, 0, false, CircuitOpen}, {time.Minute, 0, 0, false, CircuitHalfOpen}, {0, 0, 1, false, CircuitHalfOpen}, {0, 0, 1, false, CircuitClosed}},
		"one trial fails":                  {{0, 3, 0, false, CircuitOpen}, {time.Minute, 0, 0, false, CircuitHalfOpen}, {0, 1, 1, false, CircuitOpen}},
		"what began before is no trial":    {{0, 3, 0, false, CircuitOpen}, {time.Minute, 0, 0, false, CircuitHalfOpen}, {0, 3, 3, true, CircuitHalfOpen}},
		"closed, old failures are history": {{0, 3, 0, false, CircuitOpen}, {time.Minute, 0, 0, false, CircuitHalfOpen}, {0, 0, 2, false, CircuitClosed}, {0, 2, 0, false, CircuitClosed}, {0, 1, 0, false, CircuitOpen}},
	} {
		c, now, seq := Circuit{}, noon, uint64(0)
		var o Outcomes
		for i, s := range steps {
			now = now.Add(s.after)
			for n := range s.failed + s.done {
				seq++
				epoch := seq
				if s.old {
					epoch = 1
				}
				o.Add(breaker, c, Outcome{At: now, Epoch: epoch, Failed: n < s.failed, What: "exit 1"})
			}
			if e := breaker.Judge(c, &o, now); e != nil {
				seq++
				c = EvolveCircuit(c, seq, now, e)
				o.Moved(c)
			}
			if is := c.State; is != s.want && !(is == "" && s.want == CircuitClosed) {
				t.Errorf("%s: after step %d it is %s (%s), want %s", name, i+1, c.State, c.Reason, s.want)
			}
			if breaker.Judge(c, &o, now) != nil {
				t.Errorf("%s: after step %d it is judged again at once", name, i+1)
			}
		}
	}
}

func TestBreakerAdmits(t *testing.T) {
	k := Task{ID: "t", State: Pending, Turn: 7, Work: Work{Job: "j"}}
	bound := k
	bound.StartBy = noon.Add(10 * time.Second)
	open := Circuit{State: CircuitOpen, Until: noon.Add(30 * time.Second), Reason: "3 attempts failed"}
	half := Circuit{State: CircuitHalfOpen, Until: noon.Add(time.Minute), Left: 1}
	full := half
	full.Left = 0
	fails := *breaker
	fails.OnOpen = OnOpenFail
	late := func(c Circuit) Circuit { c.Until = noon; return c }
	for name, c := range map[string]struct {
		b       *Breaker
		circuit Circuit
		task    Task
		chance  float64
		event   BreakerEvent
		trial   bool
		until   time.Time // of the wait; zero for none
	}{
		"nothing known":            {breaker, Circuit{}, k, 0, nil, false, time.Time{}},
		"closed":                   {breaker, Circuit{State: CircuitClosed}, k, 0, nil, false, time.Time{}},
		"open":                     {breaker, open, k, 0, nil, false, noon.Add(30 * time.Second)},
		"open, spread":             {breaker, open, k, 0.5, nil, false, noon.Add(33 * time.Second)},
		"open, bounded":            {breaker, open, bound, 0, nil, false, noon.Add(10 * time.Second)},
		"cooled down":              {breaker, late(open), k, 0, BreakerHalfOpened{Reason: "the cooldown is over", Until: noon.Add(time.Minute), Left: 2}, false, time.Time{}},
		"half open":                {breaker, half, k, 0, BreakerTried{Reason: "trial: task t", Until: half.Until, Left: 0}, true, time.Time{}},
		"half open, trials run":    {breaker, full, k, 0, nil, false, noon.Add(15 * time.Second)},
		"half open, trials vanish": {breaker, late(full), k, 0, BreakerHalfOpened{Reason: "nothing was heard of the trials", Until: noon.Add(time.Minute), Left: 2}, false, time.Time{}},
	} {
		a := c.b.Admit(c.circuit, c.task, noon, c.chance)
		p, held := a.Hold.(Postpone)
		if a.Event != c.event || a.Trial != c.trial || !p.Due.Equal(c.until) || held == c.until.IsZero() {
			t.Errorf("%s: %+v", name, a)
		}
		if held && (p.After != 7 || p.Reason != reason.Breaker || !strings.Contains(p.Detail, "the breaker of job j is")) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if g, ok := fails.Admit(open, k, noon, 0).Hold.(GiveUp); !ok || g.Reason != reason.Breaker {
		t.Error("with on_open fail it is not ended")
	}
}

func TestPostpone(t *testing.T) {
	due := noon.Add(time.Hour)
	hold := Postpone{Reason: reason.Breaker, Detail: "open", Due: due}
	for _, c := range []struct {
		name  string
		given []Event
		after uint64
		err   error
	}{
		{"what waits", pending, 0, nil},
		{"under another turn", pending, 9, ErrStale},
		{"what runs", running, 0, ErrStale},
		{"what has ended", finished, 0, ErrEnded},
	} {
		hold.After = c.after
		e, err := Decide(given(c.given...), hold, noon)
		if !errors.Is(err, c.err) || err == nil && e != (Postponed{reason.Breaker, "open", due}) {
			t.Errorf("%s: %v, %v", c.name, e, err)
		}
	}
	bounded := birth
	bounded.StartBy = noon.Add(time.Minute)
	got := given(bounded, Postponed{reason.Breaker, "open", due})
	if got.State != Scheduled || got.Reason != reason.Breaker || got.Message != "open" || !got.Due.Equal(due) || got.Offered || got.Turn != 2 || !got.StartBy.Equal(bounded.StartBy) {
		t.Errorf("postponed: %+v", got)
	}
	if next, ok := NextOffer(&got); !ok || next.After != 2 || !next.Due.Equal(due) {
		t.Errorf("its next offer is %+v, %t", next, ok)
	}
	back := Evolve(got, Recorded{Seq: 3, At: due, Event: Queued{Work: got.Work, Attempt: 1, After: 2, Due: due}})
	if back.State != Pending || back.Reason != "" || back.Message != "" {
		t.Errorf("offered again: %s, %q, %q", back.State, back.Reason, back.Message)
	}
}

func TestBreakerValidate(t *testing.T) {
	for name, c := range map[string]struct {
		b    Breaker
		want string
	}{
		"good":      {*breaker, ""},
		"failures":  {Breaker{}, "breaker.failures is 0"},
		"half open": {Breaker{Failures: 1, HalfOpen: -1}, "breaker.half_open is -1"},
		"on open":   {Breaker{Failures: 1, OnOpen: "x"}, `breaker.on_open is "x", want hold or fail`},
		"within":    {Breaker{Failures: 1, Within: -1}, "breaker.within is -1ns"},
		"cooldown":  {Breaker{Failures: 1, Cooldown: -1}, "breaker.cooldown is -1ns"},
	} {
		checkError(t, name, (&Spec{Handler: "h", Breaker: &c.b}).Validate(), c.want)
	}
	_, err := Birth(Submission{Spec: &Spec{Handler: "h", Breaker: breaker}}, nil, 0, noon)
	checkError(t, "without a job", err, "breaker: it counts the failures of a job's tasks")
}
