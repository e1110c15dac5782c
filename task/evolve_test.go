package task_test

import (
	"flag"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

func TestEvolve(t *testing.T) {
	exit := 1
	t.Run("birth", func(t *testing.T) {
		got := logtest.Given(logtest.Pending...)
		want := task.Task{ID: got.ID, State: task.Pending, Work: logtest.Work, Offered: true, Seq: 1, SubmittedAt: logtest.At(1), Since: logtest.At(1)}
		compare(t, got, want)
	})
	t.Run("held birth", func(t *testing.T) {
		got := logtest.Given(logtest.Scheduled...)
		want := task.Task{ID: got.ID, State: task.Scheduled, Work: logtest.Work, Seq: 1, SubmittedAt: logtest.At(1), Since: logtest.At(1), Due: logtest.Delayed.Due}
		compare(t, got, want)
	})
	t.Run("a second birth", func(t *testing.T) {
		other := logtest.Work
		other.Job = "another"
		got, want := logtest.Given(logtest.Birth, task.Submitted{Work: other, Due: logtest.Delayed.Due}), logtest.Given(logtest.Birth)
		want.Seq = 2
		compare(t, got, want)
	})
	t.Run("started", func(t *testing.T) {
		got := logtest.Given(logtest.Running...)
		want := logtest.Given(logtest.Pending...)
		want.State, want.Seq, want.Head, want.Since, want.StartedAt = task.Running, 2, 2, logtest.At(2), logtest.At(2)
		want.Attempt, want.Epoch, want.Offer, want.Node, want.Session = 1, 2, 1, "n1", "s1"
		compare(t, got, want)
	})
	t.Run("retry", func(t *testing.T) {
		f := logtest.Failed
		f.Exit, f.Usage = &exit, &task.Usage{MaxMemory: 5}
		got := logtest.Given(logtest.After(logtest.Running, f)...)
		want := logtest.Given(logtest.Running...)
		want.State, want.Reason, want.Message, want.Due = task.Retrying, value.Exit, "exit 1", f.Retry.Due
		want.Seq, want.Head, want.Turn, want.Since, want.Offered, want.Failures = 3, 3, 3, logtest.At(3), false, 1
		want.FailedOn, want.Ran = "n1", value.Duration(time.Second)
		want.Exit, want.Usage = f.Exit, f.Usage
		compare(t, got, want)
	})
	t.Run("reopened", func(t *testing.T) {
		got := logtest.Given(logtest.After(logtest.InError, task.Reopened{Reason: "again"})...)
		want := logtest.Given(logtest.Running...)
		want.State, want.Reason = task.Pending, "again"
		want.Seq, want.Head, want.Turn, want.Life, want.Since, want.Offered = 4, 4, 4, 4, logtest.At(4), false
		compare(t, got, want)
	})
	t.Run("known from an offer", func(t *testing.T) {
		// A worker sees no more than the offer and claims at the head that it names.
		offer := task.Queued{Work: logtest.Work, Attempt: 3, After: 8, Reason: value.Exit}
		got := task.Evolve(task.Task{ID: "t"}, task.Recorded{Seq: 12, At: logtest.Noon, Event: offer})
		want := task.Task{ID: "t", State: task.Pending, Work: logtest.Work, Attempt: 2, Head: 8, Turn: 8, Offered: true, Seq: 12, Since: logtest.Noon}
		compare(t, got, want)
	})
	t.Run("an offer of a turn to come is none", func(t *testing.T) {
		got := task.Evolve(task.Task{ID: "t"}, task.Recorded{Seq: 12, At: logtest.Noon, Event: task.Queued{Work: logtest.Work, After: 12}})
		compare(t, got, task.Task{ID: "t", Seq: 12})
	})
	t.Run("one more offer of the same turn", func(t *testing.T) {
		offer := task.Queued{Work: logtest.Work, Attempt: 2, After: 3}
		got, want := logtest.Given(logtest.After(logtest.Released, offer, offer)...), logtest.Given(logtest.After(logtest.Released, offer)...)
		want.Seq = 5 // and it has not begun another wait since
		compare(t, got, want)
	})
	t.Run("a timer's offer waits since it was due", func(t *testing.T) {
		got := logtest.Given(logtest.After(logtest.Scheduled, task.Queued{Work: logtest.Work, Attempt: 1, Due: logtest.Delayed.Due})...)
		if got.State != task.Pending || got.Since != logtest.Delayed.Due || !got.Offered {
			t.Errorf("it is %s since %v", got.State, got.Since)
		}
	})
	t.Run("taken over", func(t *testing.T) {
		got := logtest.Given(logtest.After(logtest.Running, task.AttemptStarted{Attempt: 2, Node: "n2", Offer: 1, TookOver: &task.TookOver{Epoch: 2}})...)
		if got.Losses != 1 || got.Epoch != 3 || got.Node != "n2" || got.Attempt != 2 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("how long the last attempt of a life ran", func(t *testing.T) {
		for name, c := range map[string]struct {
			events []task.Event
			want   time.Duration
		}{
			"it runs":                       {nil, 0},
			"it failed":                     {[]task.Event{logtest.Failed}, time.Second},
			"it failed and was cancelled":   {[]task.Event{logtest.Failed, task.CancelConfirmed{}}, time.Second},
			"it took long to be stopped":    {[]task.Event{task.CancelRequested{}, task.CancelConfirmed{Epoch: 2}}, 2 * time.Second},
			"it has another life":           {[]task.Event{task.CancelRequested{}, task.CancelConfirmed{Epoch: 2}, task.Reopened{}}, 0},
			"and was skipped in that":       {[]task.Event{task.CancelRequested{}, task.CancelConfirmed{Epoch: 2}, task.Reopened{}, task.CancelConfirmed{Code: value.Skipped}}, 0},
			"it was taken over, and failed": {[]task.Event{task.AttemptStarted{Attempt: 2, TookOver: &task.TookOver{Epoch: 2}}, task.GivenUp{}}, time.Second},
		} {
			if got := logtest.Given(logtest.After(logtest.Running, c.events...)...); got.Ran.Std() != c.want {
				t.Errorf("%s: %v, want %v", name, got.Ran, c.want)
			}
		}
	})
	t.Run("a cancel always has an end", func(t *testing.T) {
		got := logtest.Given(logtest.After(logtest.Running, task.CancelRequested{})...)
		if want := logtest.At(3).Add(3*time.Second + task.StopMargin); got.CancelBy != want {
			t.Errorf("it must be gone by %v, want %v", got.CancelBy, want)
		}
	})
}

func compare(t *testing.T, got, want task.Task) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// Each turn has its own bound on the wait, or none.
func TestBoundOfEachTurn(t *testing.T) {
	bound := func(s *job.Spec) task.Submitted {
		return task.Submitted{Work: task.Work{Spec: s, Route: "default.5", StartBy: logtest.Noon.Add(time.Minute)}}
	}
	release, expired := task.AttemptReleased{Epoch: 2}, task.GivenUp{Reason: value.Expired}
	soon := logtest.Failed
	soon.Retry = &task.RetryPlan{Attempt: 2, Due: logtest.Noon}
	for name, c := range map[string]struct {
		events []task.Event
		want   time.Time
	}{
		"birth":                  {[]task.Event{bound(logtest.Bounded)}, logtest.Noon.Add(time.Minute)},
		"while it runs":          {[]task.Event{bound(logtest.Bounded), logtest.Started}, logtest.Noon.Add(time.Minute)},
		"released":               {[]task.Event{bound(logtest.Bounded), logtest.Started, release}, logtest.At(3).Add(5 * time.Minute)},
		"retry":                  {[]task.Event{bound(logtest.Bounded), logtest.Started, logtest.Failed}, logtest.Failed.Retry.Due.Add(5 * time.Minute)},
		"retry that is due":      {[]task.Event{bound(logtest.Bounded), logtest.Started, soon}, logtest.At(3).Add(5 * time.Minute)},
		"reopened":               {[]task.Event{bound(logtest.Bounded), expired, task.Reopened{}}, logtest.At(3).Add(5 * time.Minute)},
		"explicit, then retry":   {[]task.Event{bound(logtest.Spec), logtest.Started, logtest.Failed}, time.Time{}},
		"explicit, then opened":  {[]task.Event{bound(logtest.Spec), expired, task.Reopened{}}, time.Time{}},
		"none, then reopened":    {logtest.After(logtest.Abnormal, task.Reopened{}), time.Time{}},
		"unknown spec, released": {[]task.Event{nil, task.AttemptStarted{Attempt: 1}, release}, time.Time{}},
	} {
		if got := logtest.Given(c.events...).StartBy; !got.Equal(c.want) {
			t.Errorf("%s: to be started by %v, want %v", name, got, c.want)
		}
	}
}

// Impossible events leave the state alone.
func TestEvolveIgnores(t *testing.T) {
	for name, c := range map[string]struct {
		given []task.Event
		when  task.Event
	}{
		"garbage":                             {logtest.Running, nil},
		"a start while it runs":               {logtest.Running, task.AttemptStarted{Attempt: 2, Node: "n2"}},
		"a takeover of another epoch":         {logtest.Running, task.AttemptStarted{Attempt: 2, TookOver: &task.TookOver{Epoch: 1}}},
		"a start after the end":               {logtest.Finished, task.AttemptStarted{Attempt: 2}},
		"a takeover after the end":            {logtest.Finished, task.AttemptStarted{Attempt: 2, TookOver: &task.TookOver{Epoch: 2}}},
		"the result of another epoch":         {logtest.Running, task.AttemptFinished{Epoch: 1}},
		"a failure of another epoch":          {logtest.Running, task.AttemptFailed{Epoch: 1}},
		"a release of another epoch":          {logtest.Running, task.AttemptReleased{Epoch: 1}},
		"a loss of another epoch":             {logtest.Running, task.AttemptLost{Epoch: 1}},
		"a result between attempts":           {logtest.Retrying, task.AttemptFinished{Epoch: 2}},
		"a result after the end":              {logtest.InError, task.AttemptFinished{Epoch: 2}},
		"a cancel of what waits":              {logtest.Pending, task.CancelRequested{}},
		"a cancel after the end":              {logtest.Finished, task.CancelRequested{}},
		"a confirmation of another epoch":     {logtest.Cancelling, task.CancelConfirmed{Epoch: 1}},
		"a confirmation after the end":        {logtest.Finished, task.CancelConfirmed{Epoch: 2}},
		"giving up after the end":             {logtest.Cancelled, task.GivenUp{Reason: value.Lost}},
		"reopening what runs":                 {logtest.Running, task.Reopened{}},
		"reopening what waits":                {logtest.Pending, task.Reopened{}},
		"an offer while it runs":              {logtest.Running, task.Queued{Work: logtest.Work}},
		"an offer of another turn":            {logtest.Retrying, task.Queued{Work: logtest.Work, After: 1}},
		"an offer after the end":              {logtest.Finished, task.Queued{Work: logtest.Work}},
		"a birth on the chain is not a birth": {logtest.Running, onChain{logtest.Birth}},
		"an offer on the chain is no offer":   {logtest.Retrying, onChain{task.Queued{Work: logtest.Work, After: 3}}},
	} {
		records := logtest.History(logtest.After(c.given, c.when)...)
		if o, ok := c.when.(onChain); ok {
			records[len(records)-1].Event = o.Event
		}
		got := task.Task{}
		var want task.Task
		for i, r := range records {
			if i == len(records)-1 {
				want = got
			}
			got = task.Evolve(got, r)
		}
		want.Seq, want.Head = got.Seq, got.Head
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got\n%+v\nwant\n%+v", name, got, want)
		}
		if last := records[len(records)-1]; last.Chain && got.Head != last.Seq {
			t.Errorf("%s: the head is %d, want %d", name, got.Head, last.Seq)
		}
	}
}

// onChain marks an event that history must place on the chain.
type onChain struct{ task.Event }

var seeds = flag.Uint64("seeds", 500, "how many random histories to try")

// Any events in any order: the fold never fails and keeps its promises.
func TestEvolveIsTotal(t *testing.T) {
	for seed := range *seeds {
		checkHistory(t, anyHistory(rand.New(rand.NewPCG(seed, 1)), 40))
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

func checkHistory(t *testing.T, records []task.Recorded) {
	t.Helper()
	var one task.Task
	var head uint64
	ended, everEnded := false, 0
	for _, r := range records {
		before := one
		one = task.Evolve(one, r)
		if r.Seq <= before.Seq {
			if !reflect.DeepEqual(one, before) {
				t.Errorf("%+v, applied again at %d, changed the task", r, before.Seq)
			}
			continue
		}
		if again := task.Evolve(one, r); !reflect.DeepEqual(again, one) {
			t.Errorf("%+v is not idempotent", r)
		}
		if r.Chain {
			head = r.Seq
		} else if q, ok := r.Event.(task.Queued); ok && before.State == task.Unknown && q.After < r.Seq {
			head = max(head, q.After) // the offer names this much of the chain
		}
		if one.Head != head || one.Seq != r.Seq {
			t.Errorf("head %d and sequence %d after %+v, want %d and %d", one.Head, one.Seq, r, head, r.Seq)
		}
		if _, reopened := r.Event.(task.Reopened); reopened && r.Chain {
			ended = false
		}
		if one.State != before.State && one.State.Terminal() {
			everEnded++
			if ended {
				t.Errorf("a life ended twice: %s and then %s", before.State, one.State)
			}
			ended = true
		}
		if before.State.Terminal() && !one.State.Terminal() {
			if _, ok := r.Event.(task.Reopened); !ok || !r.Chain {
				t.Errorf("%+v led from %s to %s", r, before.State, one.State)
			}
		}
		if before.State.Terminal() && one.State.Terminal() && before.State != one.State {
			t.Errorf("%+v led from %s to %s", r, before.State, one.State)
		}
		if one.Epoch < before.Epoch || one.Turn < before.Turn {
			t.Errorf("%+v led from epoch %d, turn %d back to %d, %d", r, before.Epoch, before.Turn, one.Epoch, one.Turn)
		}
		if one.State.Terminal() != !one.EndedAt.IsZero() {
			t.Errorf("the task is %s and ended at %v", one.State, one.EndedAt)
		}
		if one.State == task.Cancelling && one.CancelBy.IsZero() {
			t.Error("it is cancelling without an end")
		}
		if one.Live() && one.Waiting() || one.Live() && one.State.Terminal() {
			t.Errorf("%s is two things at once", one.State)
		}
		logtest.CheckDuty(t, one)
	}
}

func anyHistory(rng *rand.Rand, n int) []task.Recorded {
	records := make([]task.Recorded, n)
	seq := uint64(0)
	var one task.Task
	for i := range records {
		switch rng.IntN(10) {
		case 0: // a record comes again
		case 1:
			seq += 1 + rng.Uint64N(5)
		default:
			seq++
		}
		r := task.Recorded{Seq: max(seq, 1), At: logtest.At(seq), Event: anyEvent(rng, one)}
		r.Chain = !logtest.IsOffer(r.Event) != (rng.IntN(30) == 0)
		records[i] = r
		one = task.Evolve(one, r)
	}
	return records
}

// anyEvent mostly returns an event that fits, and sometimes an impossible one.
func anyEvent(rng *rand.Rand, t task.Task) task.Event {
	near := func(v uint64) uint64 {
		if rng.IntN(4) == 0 {
			return rng.Uint64N(50)
		}
		return v
	}
	when := func() time.Time {
		if rng.IntN(3) == 0 {
			return time.Time{}
		}
		return logtest.Noon.Add(time.Duration(rng.IntN(600)) * time.Second)
	}
	w := logtest.Work
	switch rng.IntN(3) {
	case 0:
		w.Spec = nil
	case 1:
		w.Spec, w.StartBy = logtest.Bounded, when()
	}
	epoch := near(t.Epoch)
	switch rng.IntN(13) {
	case 0:
		return task.Submitted{Work: w, Due: when()}
	case 1, 2:
		return task.Queued{Work: w, Attempt: rng.IntN(4), After: near(t.Turn), Due: when()}
	case 3, 4:
		s := task.AttemptStarted{Attempt: t.Attempt + 1, Node: "n1", Offer: rng.Uint64N(9)}
		if rng.IntN(2) == 0 {
			s.TookOver = &task.TookOver{Epoch: epoch}
		}
		return s
	case 5:
		return task.AttemptFinished{Epoch: epoch}
	case 6:
		f := task.AttemptFailed{Epoch: epoch, Class: value.Exit}
		if rng.IntN(2) == 0 {
			f.Retry = &task.RetryPlan{Attempt: t.Attempt + 1, Due: when()}
		}
		return f
	case 7:
		return task.AttemptReleased{Epoch: epoch}
	case 8:
		return task.AttemptLost{Epoch: epoch}
	case 9:
		return task.CancelRequested{Deadline: when()}
	case 10:
		return task.CancelConfirmed{Epoch: epoch}
	case 11:
		if rng.IntN(2) == 0 {
			return task.GivenUp{Reason: value.Poison}
		}
		return task.Reopened{}
	}
	if rng.IntN(2) == 0 {
		return task.AttemptLate{Epoch: epoch}
	}
	return nil
}

// Any commands are decided and recorded in any order. No task is ever left waiting without a duty,
// and each life accepts only one result.
func TestDecideAndEvolve(t *testing.T) {
	for seed := range *seeds {
		rng := rand.New(rand.NewPCG(seed, 2))
		records := logtest.History(logtest.Birth)
		if rng.IntN(2) == 0 {
			records = logtest.History(logtest.Delayed)
		}
		one := task.Evolve(task.Task{}, records[0])
		for range 40 {
			seq := one.Seq + 1
			r := task.Recorded{Seq: seq, At: logtest.At(seq)}
			if next, missing := task.NextOffer(&one); missing && rng.IntN(2) == 0 {
				r.Event = next
			} else {
				commands := allCommands(one)
				e, err := task.Decide(one, commands[rng.IntN(len(commands))], logtest.At(seq))
				if err != nil || e == nil {
					continue
				}
				r.Chain, r.Event = true, e
			}
			records = append(records, r)
			one = task.Evolve(one, r)
			if one.Losses > task.MaxLosses+1 {
				t.Errorf("the task lost %d nodes", one.Losses)
			}
		}
		checkHistory(t, records)
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}
