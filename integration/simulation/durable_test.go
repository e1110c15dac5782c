package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

// In durable histories most tasks are functions with steps. The worker runs one as package millrace does:
// from its beginning each time, behind the steps that the log remembers. What the steps did is in a ledger
// that is no part of the log.

// durable is the handler of such a function.
const durable = "durable"

// errSteps: a step that was remembered was done again, or is not what it was, or one counts that should not.
var errSteps = errors.New("steps: each is made once, by the attempt that runs, and each wait ends")

// op is a step to which a function comes.
type op struct {
	kind, name string
	wait       time.Duration // of a sleep, and how long a signal may take; 0 for ever
	children   int
}

// plan is the function of a task: the same each time.
func (h *history) plan(id task.ID) (plan []op) {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(id))
	rng := rand.New(rand.NewPCG(h.seed, sum.Sum64()))
	kinds := []string{task.StepDo, task.StepDo, task.StepSleep, task.StepAwait, task.StepCall, task.StepNow, task.StepID}
	for i := range 1 + rng.IntN(6) {
		o := op{kind: kinds[rng.IntN(len(kinds))], name: fmt.Sprint("s", i), wait: time.Duration(rng.IntN(8)) * time.Second, children: 1 + rng.IntN(2)}
		if o.kind == task.StepNow || o.kind == task.StepID {
			o.name = ""
		}
		plan = append(plan, o)
	}
	return plan
}

// durably makes most tasks functions with steps.
func (h *history) durably(s *birth.Submission) {
	if h.policies.IntN(5) > 0 {
		s.Spec.Handler, s.Spec.Run, s.Spec.OnRestart = durable, nil, ""
	}
}

// parks is why an attempt ends whose function waits.
type parks struct{ task.Suspend }

func (parks) Error() string { return "its function waits" }

// errStep is why a function fails.
var errStep = errors.New("a step failed")

// function runs a function with steps. It returns why the attempt ends, nil if the function has returned.
func (w *workerProcess) function(ctx context.Context, r *run, offer *events.Offer, extended *time.Time) error {
	var known, fresh []task.Step
	defer func() { r.drawn = fresh }()
	if d := r.task.Durable; d != nil && !w.h.variant.amnesic {
		known = d.Steps
	}
	remember := func(more ...task.Step) (err error) {
		if fresh = append(fresh, more...); len(fresh) == 0 {
			return nil
		}
		r.task, _, err = w.rec.Do(ctx, r.task, task.Remember{Epoch: r.task.Epoch, First: r.task.Durable.Done(), Steps: fresh})
		fresh = nil
		return err
	}
	park := func(p task.Park, with ...task.Step) error {
		return parks{task.Suspend{Epoch: r.task.Epoch, Park: p, First: r.task.Durable.Done(), Steps: append(fresh, with...)}}
	}
	r.gave = []string{}
	if over, stop := w.works(ctx, r, offer, extended); over { // until the judge has seen the claim
		return stop
	}
	for i, o := range w.h.plan(r.task.ID) {
		s := task.Step{Kind: o.kind, Name: o.name}
		if i < len(known) {
			w.h.recalls(r, i, &known[i])
			if s.Tries = known[i].Tries; !known[i].Open {
				if r.gave = append(r.gave, string(known[i].Result)); o.kind == task.StepDo && known[i].Error != "" {
					return errStep
				}
				continue
			}
		}
		if over, stop := w.works(ctx, r, offer, extended); over {
			return stop
		}
		s.At = w.now()
		switch until := w.now().Add(o.wait); o.kind {
		case task.StepNow, task.StepID:
			s.Result = []byte(fmt.Sprintf("%q", o.kind+w.h.newID(time.Time{})))
			fresh = append(fresh, s)
		case task.StepSleep:
			return park(task.Park{Step: o.name, Kind: o.kind, Until: until})
		case task.StepAwait:
			if o.wait == 0 {
				until = time.Time{}
			}
			return park(task.Park{Step: o.name, Kind: o.kind, Until: until})
		case task.StepCall:
			if err := remember(); err != nil {
				return err
			}
			p := task.Park{Step: o.name, Kind: o.kind}
			for n := range o.children {
				id, err := w.spawn(ctx, &r.task, fmt.Sprint(o.name, "-", n))
				if err != nil {
					return err
				}
				p.Of = append(p.Of, task.Need{Task: id, Name: fmt.Sprint(n), When: job.WhenEnd})
			}
			return park(p)
		default:
			if err := remember(); err != nil {
				return err
			}
			made := w.h.effect(r, i)
			if over, stop := w.works(ctx, r, offer, extended); over {
				return stop
			}
			switch w.h.policies.IntN(5) {
			case 0:
				s.Tries, s.Error, s.Open = s.Tries+1, "no", true
				return park(task.Park{Step: o.name, Kind: o.kind, Until: until}, s)
			case 1:
				s.Tries, s.Error = s.Tries+1, "no"
			default:
				s.Tries, s.Result = 0, []byte(made)
			}
			if err := remember(s); err != nil {
				return err
			}
			if s.Error != "" {
				return errStep
			}
		}
		r.gave = append(r.gave, string(s.Result))
	}
	return nil
}

// spawn makes a child of a function.
func (w *workerProcess) spawn(ctx context.Context, of *task.Task, key string) (task.ID, error) {
	id := birth.ChildID(of.ID, key)
	spec := &job.Spec{Handler: "work"}
	is, err := birth.Of(birth.Submission{ID: id, Parent: of.ID, Queue: queues[0], Spec: spec}, nil, 0, w.now())
	if err != nil {
		panic(err) // the simulation wrote it
	}
	if _, err = w.rec.Submit(ctx, id, is); err == nil {
		return id, nil
	}
	if _, there := errors.AsType[*events.Exists](err); !there {
		return id, err
	}
	t, err := w.rec.Load(ctx, id)
	if err == nil {
		err = w.rec.Settle(ctx, &t)
	}
	return id, err
}

// ledger is what the steps of functions did: the epoch in which each result was made, by task and step.
type ledger map[task.ID]map[string]effect

type effect struct {
	place int
	epoch uint64
}

// effect does what a step does. That is wrong if the log had its outcome before the attempt began.
func (h *history) effect(r *run, place int) (made string) {
	all, _ := stepsOf(h.stories[r.task.ID])
	if place < len(all) && !all[place].Open && (all[place].seq < r.task.Epoch || all[place].epoch == r.task.Epoch) {
		h.blame(r.task.ID, broken(errSteps, "epoch %d does step %d again, which %d recorded", r.task.Epoch, place+1, all[place].seq))
	}
	if h.ledger[r.task.ID] == nil {
		h.ledger[r.task.ID] = map[string]effect{}
	}
	made = fmt.Sprintf("%d", len(h.ledger[r.task.ID]))
	h.ledger[r.task.ID][made] = effect{place, r.task.Epoch}
	return made
}

// recalls holds what an attempt is given of a step against what the log says of it, and the ledger.
func (h *history) recalls(r *run, place int, is *task.Step) {
	all, _ := stepsOf(h.stories[r.task.ID])
	if place >= len(all) || all[place].seq > r.task.Epoch || all[place].Error != is.Error || string(all[place].Result) != string(is.Result) {
		h.blame(r.task.ID, broken(errSteps, "epoch %d is told of step %d: %+v, and the log has %+v", r.task.Epoch, place+1, is, all))
		return
	}
	if is.Kind != task.StepDo || is.Error != "" {
		return
	}
	if did, ok := h.ledger[r.task.ID][string(is.Result)]; !ok || did.place != place || did.epoch != all[place].epoch {
		h.blame(r.task.ID, broken(errSteps, "step %d gave %s in epoch %d, and the ledger says %+v", place+1, is.Result, all[place].epoch, did))
	}
}

// made is a step as the log has it.
type made struct {
	task.Step
	seq, epoch uint64
}

// stepsOf reads what steps of a function are done. It shares nothing with [task.Evolve].
func stepsOf(s story) (all []made, err error) {
	var epoch uint64
	var waits *task.Park
	var by uint64 // which fact waits
	postponed := false
	does := func(r *events.Record, of uint64, first int, steps []task.Step) error {
		if of != epoch || epoch == 0 {
			return broken(errSteps, "epoch %d records steps, and the open one is %d", of, epoch)
		}
		for i := range steps {
			if n := len(all); n > 0 && all[n-1].Open {
				all = all[:n-1]
			}
			if i == 0 && first != len(all) {
				return broken(errSteps, "step %d follows, and %d are done", first+1, len(all))
			}
			all = append(all, made{steps[i], r.Seq, epoch})
		}
		return nil
	}
	wakes := func(r *events.Record, result []byte, failed string) {
		if waits != nil && waits.Kind != task.StepDo {
			all = append(all, made{task.Step{Kind: waits.Kind, Name: waits.Step, Result: result, Error: failed}, r.Seq, 0})
		}
		waits = nil
	}
	fails := func() bool {
		n := len(all)
		if n == 0 || all[n-1].Error == "" {
			return false
		}
		all = all[:n-1]
		return true
	}
	ends := func(r *events.Record, of uint64, drawn []task.Step) (err error) {
		if len(drawn) > 0 {
			err = does(r, of, len(all), drawn)
		}
		epoch = 0
		return err
	}
	early := func(r *events.Record) bool { return r.Stored.Add(clockError).Before(waits.Until) }
	err = s.told(func(r *events.Record) error {
		switch e := r.Fact.Event.(type) {
		case task.AttemptStarted:
			epoch = r.Seq
			switch {
			case waits == nil:
			case waits.Kind == task.StepAwait, waits.Kind == task.StepCall:
				return broken(errSteps, "an attempt begins, and the function waits for %s since %d", waits.Step, by)
			case early(r) && !postponed:
				return broken(errSteps, "it slept until %v", waits.Until)
			}
			wakes(r, nil, "")
		case task.AttemptStepped:
			return does(r, e.Epoch, e.First, e.Steps)
		case task.AttemptParked:
			err := does(r, e.Epoch, e.First, e.Steps)
			waits, by, postponed, epoch = &e.Park, r.Seq, false, 0
			return err
		case task.Postponed:
			postponed = true
		case task.Unheld:
			switch {
			case waits == nil:
			case e.Hold == task.HoldNeeds && waits.Kind == task.StepCall:
				wakes(r, e.Inputs, "")
			case e.Hold == task.HoldSignal && waits.Kind == task.StepAwait:
				if len(e.Inputs) == 0 {
					if waits.Until.IsZero() || early(r) {
						return broken(errSteps, "it goes on without its signal, for which it waits until %v", waits.Until)
					}
					wakes(r, nil, e.Reason)
					return nil
				}
				var said map[string]json.RawMessage
				if err := json.Unmarshal(e.Inputs, &said); err != nil || said[waits.Step] == nil {
					return broken(errSteps, "it waits for signal %s, and is told %s", waits.Step, e.Inputs)
				}
				wakes(r, said[waits.Step], "")
			}
		case task.AttemptFailed:
			if fails() {
				e.Drawn = nil
			}
			return ends(r, e.Epoch, e.Drawn)
		case task.AttemptFinished:
			return ends(r, e.Epoch, e.Drawn)
		case task.AttemptReleased:
			return ends(r, e.Epoch, e.Drawn)
		case task.AttemptLost, task.CancelConfirmed, task.GivenUp:
			epoch = 0
		case task.Reopened:
			waits = nil
			fails()
		}
		return nil
	})
	return all, err
}

// stepsOnce is the promise of steps.
func stepsOnce(s story) error {
	_, err := stepsOf(s)
	return err
}

// durablyEnded checks that a function that finished came to all its steps, and was told of each what the
// log has.
func (h *history) durablyEnded(id task.ID) error {
	t := h.fold.tasks[id]
	if t.State != task.Finished || t.Spec.Handler != durable {
		return nil
	}
	all, _ := stepsOf(h.stories[id])
	var said []string
	if err := json.Unmarshal(t.Result, &said); err != nil {
		return broken(errSteps, "it returned %s", t.Result)
	}
	plan := h.plan(id)
	has := []string{}
	for _, m := range all {
		has = append(has, string(m.Result))
	}
	if len(all) != len(plan) || !slices.Equal(said, has) {
		return broken(errSteps, "it was told %q, and the log has %q of %d steps", said, has, len(plan))
	}
	return nil
}

// startCaller begins one who gives all functions the signals for which they wait.
func (h *history) startCaller() {
	h.start("caller-0", false, func(a *actor) {
		c := &client{actor: a, rec: h.recorder(a, "caller")}
		for {
			a.turn("waits", h.in(3*time.Second))
			a.setClock(false)
			for _, id := range slices.Sorted(maps.Keys(h.fold.tasks)) {
				if t := h.fold.tasks[id]; t.AwaitsSignal() {
					c.signal(id)
				}
			}
		}
	})
}

// Functions with steps, killed and fenced anywhere: no step that is remembered is done again, none of a
// fenced attempt counts, and each wait ends.
func TestSimulationOfDurableFunctions(t *testing.T) {
	var stepped, parked, again, late atomic.Int64
	each(max(*historiesFlag/4, 1), func(seed uint64) bool {
		seed += *firstFlag
		if *seedFlag >= 0 {
			seed = uint64(*seedFlag)
		}
		h := play(t, seed, variant{durable: true, forgets: seed%3 == 2, crowded: seed%6 == 1})
		h.verify(t)
		h.report(t)
		if !h.variant.forgets { // rows say what the facts say, also while functions wait
			for _, part := range []int{4, 3, 2} {
				for _, f := range verified(t, h, verify.Config{Rules: whenever}, h.records[:len(h.records)/part]).Findings {
					t.Errorf("seed %d, its beginning: %v: task %s, %v: %s\n%s", seed, f.Rule, f.Task, f.Seqs, f.What, telling(h.stories[f.Task]))
				}
			}
		}
		for i := range h.records {
			switch e := h.records[i].Fact.Event.(type) {
			case task.AttemptStepped:
				stepped.Add(1)
			case task.AttemptParked:
				parked.Add(1)
			case task.AttemptLate:
				late.Add(1)
			case task.AttemptStarted:
				if s := h.stories[h.records[i].Fact.Task]; e.Attempt > 1 && len(s) > 0 {
					again.Add(1)
				}
			}
		}
		return !t.Failed()
	})
	t.Logf("%d facts of steps, %d waits, %d attempts that go on, %d words of fenced ones", stepped.Load(), parked.Load(), again.Load(), late.Load())
	if !t.Failed() && *seedFlag < 0 && (stepped.Load() == 0 || parked.Load() == 0) {
		t.Error("no function has a step, or none waits")
	}
}

// The simulation finds what is wrong with steps.
func TestSimulationFindsWrongSteps(t *testing.T) {
	for _, m := range []struct {
		name    string
		lacks   variant
		promise error
		known   uint64
	}{
		{"what a function remembers is not carried", variant{forgets: true, log: func(p *port) events.Log {
			return mangling{p, noSteps}
		}}, errForgets, 0},
		{"a step of a fenced attempt is recorded", variant{log: func(p *port) events.Log { return recording{p} }}, errSteps, 240},
		{"a function is not told what it has done", variant{amnesic: true}, errSteps, 2},
		{"nobody sees that what a function waits for is over", variant{log: func(p *port) events.Log { return remiss{p, string(events.TaskUnheld)} }}, errI2, 0},
	} {
		t.Run(m.name, func(t *testing.T) {
			m.lacks.durable = true
			if !searched(m.known, func(seed uint64) bool {
				h := play(t, seed, m.lacks)
				if errors.Is(h.failure, m.promise) {
					t.Logf("found by seed %d: %.300v", seed, h.failure)
				}
				return errors.Is(h.failure, m.promise)
			}) {
				t.Errorf("%d seeds did not find that %v", enough, m.promise)
			}
		})
	}
}

// recording records steps whatever the chain's last sequence.
type recording struct{ *port }

func (l recording) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	if f.Type == events.AttemptStepped {
		return unchecked(l).Append(ctx, f, last)
	}
	return l.port.Append(ctx, f, last)
}
