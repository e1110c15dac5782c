package logtest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"millrace/events"
	"millrace/task"
	"millrace/task/placement"
)

var birthCases = []testCase{
	{name: "of births under one chosen id one is accepted", body: birthRace},
	{name: "a birth is not repeated after a lost answer", body: birthAgain},
	{name: "a forged offer opens no task that a signal holds", body: forgedApproval},
	{name: "all births of a task are read", body: allBirths},
}

// birthRace: submitters of different work under one id, on several routes, with and without a key.
func birthRace(s *suite) {
	const submitters, rounds = 6, 10
	for round := range rounds {
		id := s.task()
		var wg sync.WaitGroup
		start := make(chan struct{})
		type answer struct {
			route placement.Route
			seq   uint64
			err   error
		}
		answers := make(chan answer, submitters)
		for i := range submitters {
			w := work(fmt.Sprintf("q%d", i))
			if spec := *w.Spec; i%3 == 0 {
				spec.Unique.Key = fmt.Sprintf("/k-%d-%d", round, i%2)
				w.Spec = &spec
			}
			r := s.recorder(s.log, fmt.Sprintf("submitter-%d", i))
			ctx := s.context()
			wg.Go(func() {
				<-start
				seq, err := r.SubmitNamed(ctx, id, task.Submitted{Work: w})
				answers <- answer{w.Route, seq, err}
			})
		}
		close(start)
		wg.Wait()
		close(answers)
		var won answer
		told := map[placement.Route]bool{}
		for a := range answers {
			var there *events.Exists
			switch {
			case a.err == nil && won.seq > 0:
				s.Fatalf("round %d: %s and %s are both accepted", round, won.route, a.route)
			case a.err == nil:
				won = a
			case errors.As(a.err, &there):
				e, _ := there.Birth.Fact.Event.(task.Submitted)
				told[e.Route] = true
			case errors.As(a.err, new(*events.Taken)):
			default:
				s.Fatal(a.err)
			}
		}
		if delete(told, won.route); won.seq == 0 || len(told) > 0 {
			s.Fatalf("round %d: accepted is %q, and others are told of %v", round, won.route, told)
		}
		t := s.load(id)
		if t.Route != won.route || t.State != task.Pending || !t.Offered || t.Turn != won.seq {
			s.Fatalf("round %d: %s at %d is accepted, and the log says %s, %s, offered %v, turn %d", round, won.route, won.seq, t.Route, t.State, t.Offered, t.Turn)
		}
	}
}

func birthAgain(s *suite) {
	id := s.task()
	r := s.recorder(&forgetful{Log: s.log}, "")
	seq, err := r.SubmitNamed(s.context(), id, task.Submitted{Work: work("default")})
	if err != nil {
		s.Fatal(err)
	}
	records := s.history(id)
	if len(records) != 2 || records[0].Seq != seq || records[0].Kind != events.KindChain || records[1].Kind != events.KindOffer {
		s.Fatalf("born at %d: %+v, want one birth and one offer", seq, records)
	}
}

// forgetful loses the answer to each first write to a chain.
type forgetful struct {
	events.Log
	lost bool
}

func (f *forgetful) Append(ctx context.Context, fact *events.Fact, last uint64) (uint64, error) {
	seq, err := f.Log.Append(ctx, fact, last)
	if err == nil && !f.lost {
		f.lost = true
		return 0, events.ErrUnknown
	}
	return seq, err
}

func forgedApproval(s *suite) {
	id := s.task()
	r := s.recorder(s.log, "")
	held := task.Submitted{Work: work("default")}
	held.Holds = []string{task.HoldSignal}
	if _, err := r.Submit(s.context(), id, held); err != nil {
		s.Fatal(err)
	}
	if _, err := s.log.Place(s.context(), s.fact(id, held)); !errors.Is(err, events.ErrConflict) {
		s.Fatalf("placed again: %v, want ErrConflict", err)
	}
	forged := work("default")
	forged.Params = []byte(`{"command":"another"}`)
	birth := s.fact(id, task.Submitted{Work: forged})
	at := s.place(birth)
	offered := s.fact(id, task.Queued{Work: forged, Attempt: 1})
	s.place(offered)
	for _, e := range []task.Event{birth.Event.(task.Event), offered.Event.(task.Event)} {
		// A worker that has only the offer, as on the first delivery.
		seen := task.Evolve(task.Task{ID: id}, task.Recorded{Seq: at, At: birth.At, Event: e})
		if now, event, err := r.Do(s.context(), seen, task.Claim{Node: "n1", Session: "s1", Offer: at}); !errors.Is(err, task.ErrStale) {
			s.Fatalf("the claim of a forged %s: %+v, %v, %s", events.TypeOf(e), event, err, now.State)
		}
	}
	if t := s.load(id); t.State != task.Held || len(t.Params) > 0 {
		s.Fatalf("the task is %s with parameters %s, want held without any", t.State, t.Params)
	}
}

// allBirths: a birth behind another is read as well, wherever it lies, and the claim decides which
// counts.
func allBirths(s *suite) {
	id := s.task()
	first, second := s.place(s.fact(id, task.Submitted{Work: work("default")})), s.place(s.fact(id, task.Submitted{Work: work("elsewhere")}))
	third := s.place(s.fact(id, task.Submitted{Work: work("elsewhere")}))
	other := work("elsewhere")
	other.Params = []byte(`{"a":1}`)
	fourth := s.place(s.fact(id, task.Submitted{Work: other}))
	records := s.history(id)
	if len(records) != 4 {
		s.Fatalf("%d records, want all of %d", len(records), []uint64{first, second, third, fourth})
	}
	if b, _ := events.BirthOf(records); b.Seq != first {
		s.Fatalf("before a claim the birth at %d counts, want the first, at %d", b.Seq, first)
	}
	s.append(s.fact(id, task.AttemptStarted{Attempt: 1, Node: "n1", Session: "s", Offer: fourth}), 0)
	records = s.history(id)
	if b, _ := events.BirthOf(records); b.Seq != fourth {
		s.Fatalf("a claim under %d binds to the birth at %d", fourth, b.Seq)
	}
	if t := s.load(id); string(t.Params) != `{"a":1}` || t.State != task.Running || len(t.Rivals) != 0 || !t.Due.IsZero() {
		s.Fatalf("the fold says %+v", t)
	}
}

// load folds a task from the log.
func (s *suite) load(id task.ID) task.Task {
	s.Helper()
	t, err := s.recorder(s.log, "").Load(s.context(), id)
	if err != nil {
		s.Fatal(err)
	}
	return t
}
