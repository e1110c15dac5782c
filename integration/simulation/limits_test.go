package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/scheduler"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/queue"
	"millrace/task/quota"
)

var errI4 = errors.New("I-4: a limit is never exceeded by accepted epochs")

// limit makes up limits of a task.
func (h *history) limit(s *birth.Submission) {
	c := limit.Concurrency{Max: 1 + h.rng.IntN(2), Key: []string{"/a", "/b"}[h.rng.IntN(2)]}
	if h.rng.IntN(3) == 0 {
		c.OnLimit = limit.OnLimits[h.rng.IntN(len(limit.OnLimits))]
	}
	s.Spec.Concurrency = limit.Concurrencies{c}
	if h.rng.IntN(2) == 0 { // the admission is on two chains, then
		s.Spec.Concurrency = append(s.Spec.Concurrency, limit.Concurrency{Max: 1 + h.rng.IntN(2), Key: []string{"/c", ""}[h.rng.IntN(2)]})
	}
	if h.variant.crowded {
		s.Spec.Concurrency = limit.Concurrencies{{Max: 2, Key: c.Key}, {Max: 1, Key: "/c"}}
		if h.apart() && h.policies.IntN(2) == 0 {
			s.Spec.Concurrency[1].OnLimit = limit.CancelOld
			s.Spec.Retry.Max, s.Spec.Retry.Min = 3, 0 // what must make place may be back in its line by then
		}
	}
	if h.rng.IntN(4) == 0 {
		s.Spec.Rate = limit.Rates{{Limit: 2, Burst: 1 + h.rng.IntN(2), Key: c.Key}}
	}
}

// judgeLimits counts the epochs that the log has accepted under each limit.
func (h *history) judgeLimits() {
	using, most := map[string]int{}, map[string]int{}
	for _, t := range h.fold.tasks {
		if !t.Live() {
			continue
		}
		counters, err := t.Counters()
		h.fail(err)
		for _, c := range counters {
			if c.Max > 0 {
				using[c.Name]++
				most[c.Name] = max(most[c.Name], c.Max)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(using)) {
		if using[name] > most[name] {
			h.fail(fmt.Errorf("%w: %d are under way under %s, which allows %d", errI4, using[name], name, most[name]))
		}
	}
}

// judgeRates counts what was admitted under the rates of queues.
func (h *history) judgeRates(r *events.Record) {
	e, ok := r.Fact.Event.(task.Granted)
	if !ok || r.Kind != events.KindLimit || h.variant.older { // by a rate that is lost meanwhile
		return
	}
	for _, g := range e.Grants {
		for _, name := range g.Limits {
			if _, ok := limit.QueueOf(name); !ok || limit.ScopeOf(name) != r.Fact.Scope {
				continue // the fact of another scope counts
			}
			said, _ := h.records[g.Rated-1].Fact.Event.(queue.Limited)
			u := h.rated[name]
			if u == nil {
				u = &ratedUse{since: r.Fact.At}
				h.rated[name] = u
			}
			if u.n++; said.Rate.Limit == 0 || u.n > max(said.Rate.Burst, 1)+int(r.Fact.At.Sub(u.since)/said.Rate.Every()) {
				h.fail(fmt.Errorf("%s admits %+v and has admitted %d in %v", name, said.Rate, u.n, r.Fact.At.Sub(u.since)))
			}
		}
	}
}

// ratedUse is how much was admitted under a rate, since when.
type ratedUse struct {
	since time.Time
	n     int
}

// startAdmitter starts the part of a scheduler that admits what limits hold. It hears of changes
// between two decisions, or from an actor of its own, also within them ([history.apart]).
func (h *history) startAdmitter(name string, mortal bool) {
	pause := time.Second
	if h.variant.crowded {
		pause /= 10
	}
	v := &limitView{view: h.view(nil)}
	v.again = v.begin
	v.begin()
	var reads *actor
	decides := h.start(name, mortal, func(a *actor) {
		if a.slow = reads != nil; !a.slow {
			v.actor = a
		}
		v.s = scheduler.New(h.log(a), v.view, beats{a}, scheduler.Config{
			Settings: h.bounds(), Limits: v, Timed: v.view, Timers: &port{h.mem, a}, Refusing: 1, Flap: node.FlapPolicy{Limit: -1}, Told: v.pauses,
		})
		for reads == nil || !reads.over {
			a.turn("waits", h.in(pause))
			if reads == nil && v.catchUp() != nil {
				continue
			}
			_, _ = v.s.Admit(context.Background()) // the next look tries again
		}
	})
	if h.apart() {
		reads = h.start(name+"-reads", mortal, func(a *actor) {
			for v.actor = a; !decides.over; a.turn("waits", h.in(time.Second/2)) {
				if v.s != nil {
					_ = v.catchUp()
				}
			}
		})
	}
}

// apart tells whether the schedulers of a history are slow to record what they have decided, and hear
// of more meanwhile: their read models are actors of their own, which stop between two records of a
// batch, too.
func (h *history) apart() bool { return h.seed%4 == 3 }

// pauses lets others go first, now and then, when a record of a batch has been told.
func (v *limitView) pauses() {
	if h := v.h; h.apart() && !h.calm && h.rng.IntN(4) == 0 {
		v.actor.turn("has told of a record", time.Time{})
	}
}

// limitView is a read model that tells its scheduler of the records that it has folded.
type limitView struct {
	*view
	s      *scheduler.Scheduler
	grants map[task.ID]task.Grant
	queues map[string]queue.Queue
	used   quota.Used
	from   uint64 // the records up to here were told
	told   fold   // of the records that the scheduler was told
}

// begin forgets all that it knows beside the fold.
func (v *limitView) begin() {
	v.from, v.grants, v.queues, v.told = 0, map[task.ID]task.Grant{}, map[string]queue.Queue{}, newFold()
	v.used = quota.Used{Rates: map[string]time.Time{}, Budgets: limit.Tallies{}}
}

func (v *limitView) catchUp() error {
	if err := v.ask("follow the log"); err != nil {
		return err
	}
	from := v.from
	v.from = v.Seq()
	var steps []events.Step
	for i := from; i < v.from; i++ {
		r := &v.h.records[i]
		step := events.Step{Record: r}
		if e, ok := r.Fact.Event.(task.Granted); ok && r.Kind == events.KindLimit {
			for _, g := range e.Grants {
				v.grants[g.Task] = g
			}
			maps.Copy(v.used.Rates, e.Rates)
		}
		if e, ok := r.Fact.Event.(queue.Event); ok {
			q := v.queues[r.Fact.Queue]
			q.Name = r.Fact.Queue
			v.queues[q.Name] = queue.Evolve(q, r.Seq, r.Fact.At, r.Fact.Actor, e)
		}
		if id := r.Fact.Task; id != "" {
			t, was := v.Task(id), v.told.tasks[id]
			v.told.add(r)
			is := v.told.tasks[id]
			step.Task, step.Was, step.Is = t, events.GlanceAt(&was), events.GlanceAt(&is)
			if t != nil && t.Budgeted() { // the log may have forgotten it since
				counters, _ := t.Counters()
				v.used.Budgets.Spend(counters, task.ShiftOf(was.Course(), is.Course(), r.Task()))
			}
		}
		steps = append(steps, step)
	}
	v.s.Observe(steps)
	return nil
}

func (v *limitView) EachLimited(_ context.Context, each quota.Each) (quota.Used, uint64, error) {
	for t := range v.All() {
		if !t.State.Terminal() {
			var admitted *task.Grant
			if g, ok := v.grants[t.ID]; ok {
				admitted = &g
			}
			each(quota.StandOf(t), t.Counters, admitted)
		}
	}
	return quota.Used{Rates: maps.Clone(v.used.Rates), Budgets: maps.Clone(v.used.Budgets)}, v.Seq(), nil
}

func (v *limitView) SaidOfQueues(context.Context) ([]queue.Queue, error) {
	return slices.Collect(maps.Values(v.queues)), nil
}

func (v *limitView) Known(_ context.Context, ids []task.ID) ([]task.Task, error) {
	var found []task.Task
	for _, id := range ids {
		if t := v.Task(id); t != nil {
			found = append(found, *t)
		}
	}
	return found, nil
}

func (p *port) Latest(ctx context.Context, about events.Fact) (last events.Record, end uint64, err error) {
	err = p.actor.call(&call{kind: read, op: "read the last fact about " + about.About(), do: func() (err error) {
		last, end, err = p.Memory.Latest(ctx, about)
		return err
	}})
	return last, end, err
}

// longCrowds are histories in which crowds have more to decide before the faults are over.
var longCrowds = variant{crowded: true, length: 4 * length}

// Where several schedulers that lag far behind admit tasks under two limits each, and die, no limit
// is exceeded, and each admission follows from what they say they knew.
func TestSimulationOfCrowds(t *testing.T) {
	var both, decisions, unjudged atomic.Int64
	each(max(*historiesFlag/5, 1), func(seed uint64) bool {
		h := play(t, *firstFlag+seed, longCrowds)
		h.report(t)
		r := h.whole(t)
		for _, rule := range r.Rules {
			if rule.Rule == verify.Decisions {
				decisions.Add(int64(rule.Checked))
				unjudged.Add(int64(rule.Unjudged))
			}
		}
		for _, f := range r.Findings {
			t.Errorf("seed %d of crowds: %v: task %s, %v: %s", seed, f.Rule, f.Task, f.Seqs, f.What)
		}
		scopes := map[limit.Scope]bool{}
		for i := range h.records {
			if r := &h.records[i]; r.Kind == events.KindLimit {
				scopes[r.Fact.Scope] = true
			}
		}
		if len(scopes) > 1 {
			both.Add(1)
		}
		return !t.Failed()
	})
	if *seedFlag < 0 && both.Load() == 0 {
		t.Error("no history has admissions of several scopes")
	}
	t.Logf("%d decisions, and %d that were not judged", decisions.Load(), unjudged.Load())
}
