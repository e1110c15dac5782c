package task

import (
	"flag"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"millrace/task/job"
	"millrace/task/reason"
	"millrace/task/value"
)

func TestEvolve(t *testing.T) {
	exit := 1
	t.Run("birth", func(t *testing.T) {
		got := given(pending...)
		want := Task{ID: got.ID, State: Pending, Work: work, Offered: true, Seq: 1, SubmittedAt: at(1), Since: at(1)}
		compare(t, got, want)
	})
	t.Run("held birth", func(t *testing.T) {
		got := given(scheduled...)
		want := Task{ID: got.ID, State: Scheduled, Work: work, Seq: 1, SubmittedAt: at(1), Since: at(1), Due: hold.Due}
		compare(t, got, want)
	})
	t.Run("a second birth", func(t *testing.T) {
		other := work
		other.Job = "another"
		got, want := given(birth, Submitted{Work: other, Due: hold.Due}), given(birth)
		want.Seq = 2
		compare(t, got, want)
	})
	t.Run("started", func(t *testing.T) {
		got := given(running...)
		want := given(pending...)
		want.State, want.Seq, want.Head, want.Since, want.StartedAt = Running, 2, 2, at(2), at(2)
		want.Attempt, want.Epoch, want.Offer, want.Node, want.Session = 1, 2, 1, "n1", "s1"
		compare(t, got, want)
	})
	t.Run("retry", func(t *testing.T) {
		f := failed
		f.Exit, f.Usage = &exit, &Usage{MaxMemory: 5}
		got := given(after(running, f)...)
		want := given(running...)
		want.State, want.Reason, want.Message, want.Due = Retrying, reason.Exit, "exit 1", f.Retry.Due
		want.Seq, want.Head, want.Turn, want.Since, want.Offered, want.Failures = 3, 3, 3, at(3), false, 1
		want.FailedOn, want.Ran = "n1", value.Duration(time.Second)
		want.Exit, want.Usage = f.Exit, f.Usage
		compare(t, got, want)
	})
	t.Run("reopened", func(t *testing.T) {
		got := given(after(inError, Reopened{Reason: "again"})...)
		want := given(running...)
		want.State, want.Reason = Pending, "again"
		want.Seq, want.Head, want.Turn, want.Since, want.Offered = 4, 4, 4, at(4), false
		compare(t, got, want)
	})
	t.Run("known from an offer", func(t *testing.T) {
		// A worker sees only the offer and claims at the head that it names.
		offer := Queued{Work: work, Attempt: 3, After: 8, Reason: reason.Exit}
		got := Evolve(Task{ID: "t"}, Recorded{Seq: 12, At: noon, Event: offer})
		want := Task{ID: "t", State: Pending, Work: work, Attempt: 2, Head: 8, Turn: 8, Offered: true, Seq: 12, Since: noon}
		compare(t, got, want)
	})
	t.Run("an offer of a turn to come is none", func(t *testing.T) {
		got := Evolve(Task{ID: "t"}, Recorded{Seq: 12, At: noon, Event: Queued{Work: work, After: 12}})
		compare(t, got, Task{ID: "t", Seq: 12})
	})
	t.Run("one more offer of the same turn", func(t *testing.T) {
		offer := Queued{Work: work, Attempt: 2, After: 3}
		got, want := given(after(released, offer, offer)...), given(after(released, offer)...)
		want.Seq = 5 // and it has not begun another wait since
		compare(t, got, want)
	})
	t.Run("a timer's offer waits since it was due", func(t *testing.T) {
		got := given(after(scheduled, Queued{Work: work, Attempt: 1, Due: hold.Due})...)
		if got.State != Pending || got.Since != hold.Due || !got.Offered {
			t.Errorf("it is %s since %v", got.State, got.Since)
		}
	})
	t.Run("taken over", func(t *testing.T) {
		got := given(after(running, AttemptStarted{Attempt: 2, Node: "n2", Offer: 1, TookOver: &TookOver{Epoch: 2}})...)
		if got.Losses != 1 || got.Epoch != 3 || got.Node != "n2" || got.Attempt != 2 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("how long the last attempt of a life ran", func(t *testing.T) {
		for name, c := range map[string]struct {
			events []Event
			want   time.Duration
		}{
			"it runs":                       {nil, 0},
			"it failed":                     {[]Event{failed}, time.Second},
			"it failed and was cancelled":   {[]Event{failed, CancelConfirmed{}}, time.Second},
			"it took long to be stopped":    {[]Event{CancelRequested{}, CancelConfirmed{Epoch: 2}}, 2 * time.Second},
			"it has another life":           {[]Event{CancelRequested{}, CancelConfirmed{Epoch: 2}, Reopened{}}, 0},
			"and was skipped in that":       {[]Event{CancelRequested{}, CancelConfirmed{Epoch: 2}, Reopened{}, CancelConfirmed{Code: reason.Skipped}}, 0},
			"it was taken over, and failed": {[]Event{AttemptStarted{Attempt: 2, TookOver: &TookOver{Epoch: 2}}, GivenUp{}}, time.Second},
		} {
			if got := given(after(running, c.events...)...); got.Ran.Std() != c.want {
				t.Errorf("%s: %v, want %v", name, got.Ran, c.want)
			}
		}
	})
	t.Run("a cancel always has an end", func(t *testing.T) {
		got := given(after(running, CancelRequested{})...)
		if want := at(3).Add(3*time.Second + StopMargin); got.CancelBy != want {
			t.Errorf("it must be gone by %v, want %v", got.CancelBy, want)
		}
	})
}

func compare(t *testing.T, got, want Task) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// Each turn has its own bound on the wait, or none.
func TestBoundOfEachTurn(t *testing.T) {
	bound := func(s *job.Spec) Submitted {
		return Submitted{Work: Work{Spec: s, Route: "default.5", StartBy: noon.Add(time.Minute)}}
	}
	release, expired := AttemptReleased{Epoch: 2}, GivenUp{Reason: reason.Expired}
	soon := failed
	soon.Retry = &RetryPlan{Attempt: 2, Due: noon}
	for name, c := range map[string]struct {
		events []Event
		want   time.Time
	}{
		"birth":                  {[]Event{bound(bounded)}, noon.Add(time.Minute)},
		"while it runs":          {[]Event{bound(bounded), started}, noon.Add(time.Minute)},
		"released":               {[]Event{bound(bounded), started, release}, at(3).Add(5 * time.Minute)},
		"retry":                  {[]Event{bound(bounded), started, failed}, failed.Retry.Due.Add(5 * time.Minute)},
		"retry that is due":      {[]Event{bound(bounded), started, soon}, at(3).Add(5 * time.Minute)},
		"reopened":               {[]Event{bound(bounded), expired, Reopened{}}, at(3).Add(5 * time.Minute)},
		"explicit, then retry":   {[]Event{bound(spec), started, failed}, time.Time{}},
		"explicit, then opened":  {[]Event{bound(spec), expired, Reopened{}}, time.Time{}},
		"none, then reopened":    {after(abnormal, Reopened{}), time.Time{}},
		"unknown spec, released": {[]Event{nil, AttemptStarted{Attempt: 1}, release}, time.Time{}},
	} {
		if got := given(c.events...).StartBy; !got.Equal(c.want) {
			t.Errorf("%s: to be started by %v, want %v", name, got, c.want)
		}
	}
}

// Impossible events leave the state alone.
func TestEvolveIgnores(t *testing.T) {
	for name, c := range map[string]struct {
		given []Event
		when  Event
	}{
		"garbage":                             {running, nil},
		"a start while it runs":               {running, AttemptStarted{Attempt: 2, Node: "n2"}},
		"a takeover of another epoch":         {running, AttemptStarted{Attempt: 2, TookOver: &TookOver{Epoch: 1}}},
		"a start after the end":               {finished, AttemptStarted{Attempt: 2}},
		"a takeover after the end":            {finished, AttemptStarted{Attempt: 2, TookOver: &TookOver{Epoch: 2}}},
		"the result of another epoch":         {running, AttemptFinished{Epoch: 1}},
		"a failure of another epoch":          {running, AttemptFailed{Epoch: 1}},
		"a release of another epoch":          {running, AttemptReleased{Epoch: 1}},
		"a loss of another epoch":             {running, AttemptLost{Epoch: 1}},
		"a result between attempts":           {retrying, AttemptFinished{Epoch: 2}},
		"a result after the end":              {inError, AttemptFinished{Epoch: 2}},
		"a cancel of what waits":              {pending, CancelRequested{}},
		"a cancel after the end":              {finished, CancelRequested{}},
		"a confirmation of another epoch":     {cancelling, CancelConfirmed{Epoch: 1}},
		"a confirmation after the end":        {finished, CancelConfirmed{Epoch: 2}},
		"giving up after the end":             {cancelled, GivenUp{Reason: reason.Lost}},
		"reopening what runs":                 {running, Reopened{}},
		"reopening what waits":                {pending, Reopened{}},
		"an offer while it runs":              {running, Queued{Work: work}},
		"an offer of another turn":            {retrying, Queued{Work: work, After: 1}},
		"an offer after the end":              {finished, Queued{Work: work}},
		"a birth on the chain is not a birth": {running, onChain{birth}},
		"an offer on the chain is no offer":   {retrying, onChain{Queued{Work: work, After: 3}}},
	} {
		records := history(after(c.given, c.when)...)
		if o, ok := c.when.(onChain); ok {
			records[len(records)-1].Event = o.Event
		}
		got := Task{}
		var want Task
		for i, r := range records {
			if i == len(records)-1 {
				want = got
			}
			got = Evolve(got, r)
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
type onChain struct{ Event }

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

func checkHistory(t *testing.T, records []Recorded) {
	t.Helper()
	var task Task
	var head uint64
	ended, everEnded := false, 0
	for _, r := range records {
		before := task
		task = Evolve(task, r)
		if r.Seq <= before.Seq {
			if !reflect.DeepEqual(task, before) {
				t.Errorf("%+v, applied again at %d, changed the task", r, before.Seq)
			}
			continue
		}
		if again := Evolve(task, r); !reflect.DeepEqual(again, task) {
			t.Errorf("%+v is not idempotent", r)
		}
		if r.Chain {
			head = r.Seq
		} else if q, ok := r.Event.(Queued); ok && before.State == Unknown && q.After < r.Seq {
			head = max(head, q.After) // the offer names this much of the chain
		}
		if task.Head != head || task.Seq != r.Seq {
			t.Errorf("head %d and sequence %d after %+v, want %d and %d", task.Head, task.Seq, r, head, r.Seq)
		}
		if _, reopened := r.Event.(Reopened); reopened && r.Chain {
			ended = false
		}
		if task.State != before.State && task.State.Terminal() {
			everEnded++
			if ended {
				t.Errorf("a life ended twice: %s and then %s", before.State, task.State)
			}
			ended = true
		}
		if before.State.Terminal() && !task.State.Terminal() {
			if _, ok := r.Event.(Reopened); !ok || !r.Chain {
				t.Errorf("%+v led from %s to %s", r, before.State, task.State)
			}
		}
		if before.State.Terminal() && task.State.Terminal() && before.State != task.State {
			t.Errorf("%+v led from %s to %s", r, before.State, task.State)
		}
		if task.Epoch < before.Epoch || task.Turn < before.Turn {
			t.Errorf("%+v led from epoch %d, turn %d back to %d, %d", r, before.Epoch, before.Turn, task.Epoch, task.Turn)
		}
		if task.State.Terminal() != !task.EndedAt.IsZero() {
			t.Errorf("the task is %s and ended at %v", task.State, task.EndedAt)
		}
		if task.State == Cancelling && task.CancelBy.IsZero() {
			t.Error("it is cancelling without an end")
		}
		if task.Live() && task.Waiting() || task.Live() && task.State.Terminal() {
			t.Errorf("%s is two things at once", task.State)
		}
		checkDuty(t, task)
	}
}

func anyHistory(rng *rand.Rand, n int) []Recorded {
	records := make([]Recorded, n)
	seq := uint64(0)
	var task Task
	for i := range records {
		switch rng.IntN(10) {
		case 0: // a record comes again
		case 1:
			seq += 1 + rng.Uint64N(5)
		default:
			seq++
		}
		r := Recorded{Seq: max(seq, 1), At: at(seq), Event: anyEvent(rng, task)}
		r.Chain = !isOffer(r.Event) != (rng.IntN(30) == 0)
		records[i] = r
		task = Evolve(task, r)
	}
	return records
}

// anyEvent mostly returns an event that fits, and sometimes an impossible one.
func anyEvent(rng *rand.Rand, t Task) Event {
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
		return noon.Add(time.Duration(rng.IntN(600)) * time.Second)
	}
	w := work
	switch rng.IntN(3) {
	case 0:
		w.Spec = nil
	case 1:
		w.Spec, w.StartBy = bounded, when()
	}
	epoch := near(t.Epoch)
	switch rng.IntN(13) {
	case 0:
		return Submitted{Work: w, Due: when()}
	case 1, 2:
		return Queued{Work: w, Attempt: rng.IntN(4), After: near(t.Turn), Due: when()}
	case 3, 4:
		s := AttemptStarted{Attempt: t.Attempt + 1, Node: "n1", Offer: rng.Uint64N(9)}
		if rng.IntN(2) == 0 {
			s.TookOver = &TookOver{Epoch: epoch}
		}
		return s
	case 5:
		return AttemptFinished{Epoch: epoch}
	case 6:
		f := AttemptFailed{Epoch: epoch, Class: reason.Exit}
		if rng.IntN(2) == 0 {
			f.Retry = &RetryPlan{Attempt: t.Attempt + 1, Due: when()}
		}
		return f
	case 7:
		return AttemptReleased{Epoch: epoch}
	case 8:
		return AttemptLost{Epoch: epoch}
	case 9:
		return CancelRequested{Deadline: when()}
	case 10:
		return CancelConfirmed{Epoch: epoch}
	case 11:
		if rng.IntN(2) == 0 {
			return GivenUp{Reason: reason.Poison}
		}
		return Reopened{}
	}
	if rng.IntN(2) == 0 {
		return AttemptLate{Epoch: epoch}
	}
	return nil
}

// Any commands are decided and recorded in any order. No task is ever left waiting without a duty,
// and each life accepts only one result.
func TestDecideAndEvolve(t *testing.T) {
	for seed := range *seeds {
		rng := rand.New(rand.NewPCG(seed, 2))
		records := history(birth)
		if rng.IntN(2) == 0 {
			records = history(hold)
		}
		task := Evolve(Task{}, records[0])
		for range 40 {
			seq := task.Seq + 1
			r := Recorded{Seq: seq, At: at(seq)}
			if next, missing := NextOffer(&task); missing && rng.IntN(2) == 0 {
				r.Event = next
			} else {
				commands := allCommands(task)
				e, err := Decide(task, commands[rng.IntN(len(commands))], at(seq))
				if err != nil || e == nil {
					continue
				}
				r.Chain, r.Event = true, e
			}
			records = append(records, r)
			task = Evolve(task, r)
			if task.Losses > MaxLosses+1 {
				t.Errorf("the task lost %d nodes", task.Losses)
			}
		}
		checkHistory(t, records)
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}
