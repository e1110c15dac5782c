package duties_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/value"
)

func TestBreakerAdmits(t *testing.T) {
	policy := &limit.Breaker{Failures: 3, Within: value.Duration(time.Minute), Cooldown: value.Duration(time.Minute), HalfOpen: 2}
	k := task.Task{ID: "t", State: task.Pending, Turn: 7, Work: task.Work{Job: "j"}}
	bound := k
	bound.StartBy = logtest.Noon.Add(10 * time.Second)
	open := limit.Circuit{State: limit.StateOpen, Until: logtest.Noon.Add(30 * time.Second), Reason: "3 attempts failed"}
	half := limit.Circuit{State: limit.StateHalfOpen, Until: logtest.Noon.Add(time.Minute), Left: 1}
	full := half
	full.Left = 0
	fails := *policy
	fails.OnOpen = limit.OnOpenFail
	late := func(c limit.Circuit) limit.Circuit { c.Until = logtest.Noon; return c }
	for name, c := range map[string]struct {
		b       *limit.Breaker
		circuit limit.Circuit
		task    task.Task
		chance  float64
		event   limit.CircuitEvent
		trial   bool
		until   time.Time // the end of the wait; zero for none
	}{
		"nothing known":            {policy, limit.Circuit{}, k, 0, nil, false, time.Time{}},
		"closed":                   {policy, limit.Circuit{State: limit.StateClosed}, k, 0, nil, false, time.Time{}},
		"open":                     {policy, open, k, 0, nil, false, logtest.Noon.Add(30 * time.Second)},
		"open, spread":             {policy, open, k, 0.5, nil, false, logtest.Noon.Add(33 * time.Second)},
		"open, bounded":            {policy, open, bound, 0, nil, false, logtest.Noon.Add(10 * time.Second)},
		"cooled down":              {policy, late(open), k, 0, limit.HalfOpened{Reason: "the cooldown is over", Until: logtest.Noon.Add(time.Minute), Left: 2}, false, time.Time{}},
		"half open":                {policy, half, k, 0, limit.Tried{Reason: "trial: task t", Until: half.Until, Left: 0}, true, time.Time{}},
		"half open, trials run":    {policy, full, k, 0, nil, false, logtest.Noon.Add(15 * time.Second)},
		"half open, trials vanish": {policy, late(full), k, 0, limit.HalfOpened{Reason: "nothing was heard of the trials", Until: logtest.Noon.Add(time.Minute), Left: 2}, false, time.Time{}},
	} {
		c.task.Spec = &job.Spec{Breaker: c.b}
		a, _ := duties.Admits(&c.task, c.circuit, logtest.Noon, c.chance)
		r, err := duties.Ask(&c.task, task.By{Rule: value.Breaker, At: logtest.Noon, Drawn: c.chance}, duties.Read{Circuit: c.circuit})
		p, held := r.Command.(task.Postpone)
		if err != nil || (a.Hold == nil) != (r.Command == nil) {
			t.Errorf("%s: %+v, and what follows is %+v (%v)", name, a, r, err)
		}
		if a.Event != c.event || a.Trial != c.trial || !p.Due.Equal(c.until) || held == c.until.IsZero() {
			t.Errorf("%s: %+v", name, a)
		}
		if held && (p.After != 7 || p.Reason != value.Breaker || !strings.Contains(p.Detail, "the breaker of job j is")) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	k.Spec = &job.Spec{Breaker: &fails}
	r, err := duties.Ask(&k, task.By{Rule: value.Breaker, At: logtest.Noon}, duties.Read{Circuit: open})
	if g, ok := r.Command.(task.GiveUp); !ok || g.Reason != value.Breaker || err != nil {
		t.Error("with on_open fail it is not ended")
	}
}

func TestPostpone(t *testing.T) {
	due := logtest.Noon.Add(time.Hour)
	hold := task.Postpone{Reason: value.Breaker, Detail: "open", Due: due}
	for _, c := range []struct {
		name  string
		given []task.Event
		after uint64
		err   error
	}{
		{"what waits", logtest.Pending, 0, nil},
		{"under another turn", logtest.Pending, 9, task.ErrStale},
		{"what runs", logtest.Running, 0, task.ErrStale},
		{"what has ended", logtest.Finished, 0, task.ErrEnded},
	} {
		hold.After = c.after
		e, err := task.Decide(logtest.Given(c.given...), hold, logtest.Noon)
		if !errors.Is(err, c.err) || err == nil && e != (task.Postponed{Reason: value.Breaker, Detail: "open", Due: due}) {
			t.Errorf("%s: %v, %v", c.name, e, err)
		}
	}
	bounded := logtest.Birth
	bounded.StartBy = logtest.Noon.Add(time.Minute)
	got := logtest.Given(bounded, task.Postponed{Reason: value.Breaker, Detail: "open", Due: due})
	if got.State != task.Scheduled || got.Reason != value.Breaker || got.Message != "open" || !got.Due.Equal(due) || got.Offered || got.Turn != 2 || !got.StartBy.Equal(bounded.StartBy) {
		t.Errorf("postponed: %+v", got)
	}
	if next, ok := task.NextOffer(&got); !ok || next.After != 2 || !next.Due.Equal(due) {
		t.Errorf("its next offer is %+v, %t", next, ok)
	}
	back := task.Evolve(got, task.Recorded{Seq: 3, At: due, Event: task.Queued{Work: got.Work, Attempt: 1, After: 2, Due: due}})
	if back.State != task.Pending || back.Reason != "" || back.Message != "" {
		t.Errorf("offered again: %s, %q, %q", back.State, back.Reason, back.Message)
	}
}

func TestBreakerValidate(t *testing.T) {
	for name, c := range map[string]struct {
		b    limit.Breaker
		want string
	}{
		"good":      {limit.Breaker{Failures: 3}, ""},
		"failures":  {limit.Breaker{}, "breaker.failures is 0"},
		"half open": {limit.Breaker{Failures: 1, HalfOpen: -1}, "breaker.half_open is -1"},
		"on open":   {limit.Breaker{Failures: 1, OnOpen: "x"}, `breaker.on_open is "x", want hold or fail`},
		"within":    {limit.Breaker{Failures: 1, Within: -1}, "breaker.within is -1ns"},
		"cooldown":  {limit.Breaker{Failures: 1, Cooldown: -1}, "breaker.cooldown is -1ns"},
	} {
		logtest.CheckError(t, name, (&job.Spec{Handler: "h", Breaker: &c.b}).Validate(), c.want)
	}
	_, err := birth.Of(birth.Submission{Spec: &job.Spec{Handler: "h", Breaker: &limit.Breaker{Failures: 3}}}, nil, 0, logtest.Noon)
	logtest.CheckError(t, "without a job", err, "breaker: it counts the failures of a job's tasks")
}
