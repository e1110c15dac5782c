package simulation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

// graph makes the task a graph: a chain of steps, and perhaps a handler. No two of them are reopened
// or cancelled at once, because an actor makes one call at a time.
func (h *history) graph(s *birth.Submission) {
	if h.variant.values {
		h.valued(s)
		return
	}
	step := func(name string, needs ...job.StepNeed) job.Step {
		step := job.Step{Name: name, Needs: needs, Spec: job.Spec{Handler: "work", Retry: job.Retry{Max: h.policies.IntN(2)}}}
		if h.chance(h.weather.fatal) {
			step.Handler = fatal
		}
		return step
	}
	s.Spec = &job.Spec{Steps: []job.Step{step("a"), step("b", job.StepNeed{Step: "a"}), step("c", job.StepNeed{Step: "b", When: job.WhenEnd})}}
	if h.policies.IntN(2) == 0 {
		s.Spec.On = &job.Handlers{Exit: &job.Step{Spec: job.Spec{Handler: "work"}}}
	}
}

// fewFamilies is how many tasks there are in a history of families.
const fewFamilies = 2

// meddle retries or cancels a task, twice as often the former.
func (c *client) meddle(id task.ID) {
	if c.h.variant.values && c.h.policies.IntN(3) == 0 {
		c.signal(id)
		return
	}
	if c.h.rng.IntN(3) == 0 {
		c.cancel(id)
		return
	}
	c.retry(id)
}

// retryInLine retries a task the way package client does: with one fact.
func (c *client) retryInLine(id task.ID) {
	c.insist(func() error {
		ctx := context.Background()
		t, err := c.rec.Load(ctx, id)
		if err != nil {
			return err
		}
		line := []birth.Member{{Task: t}}
		if t.Parent != "" {
			parent, err := c.rec.Load(ctx, t.Parent)
			if err != nil {
				return err
			}
			line[0].Name = birth.NameOf(&parent, id)
			line = append(line, birth.Member{Task: parent})
		}
		top, again := birth.Retry(line)
		if t, _, err = c.rec.Do(ctx, line[top].Task, task.Reopen{Reason: "another whim", Again: again}); err != nil && !errors.Is(err, task.ErrRunning) {
			return err
		}
		return c.rec.Settle(ctx, &t)
	})
}

// selfish schedulers reopen parents, and no steps.
type selfish struct{ *port }

func (l selfish) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	if _, reopens := f.Event.(task.Reopened); reopens && f.Actor == "scheduler" && l.actor.h.fold.tasks[f.Task].Parent != "" {
		return remiss{l.port, string(f.Type)}.Append(ctx, f, last)
	}
	return l.port.Append(ctx, f, last)
}

// heedless schedulers do not read which steps a retry asks for.
type heedless struct{ *port }

func (l heedless) Task(ctx context.Context, id task.ID) ([]events.Record, error) {
	records, err := l.port.Task(ctx, id)
	for i := range records {
		if e, reopens := records[i].Fact.Event.(task.Reopened); reopens {
			e.Again = ""
			records[i].Fact.Event = e
		}
	}
	return records, err
}

// errRetry: a parent has come to an end before a child was reopened that a retry asked for.
var errRetry = errors.New("retry: what it asks for is reopened before the parent ends")

// errTwice: a retry has reopened a child that had come alive since.
var errTwice = errors.New("retry: a child has one more life by it, and no more")

// once checks that of a child.
func (h *history) once(id task.ID) error {
	parent := h.stories[h.fold.tasks[id].Parent]
	var end uint64
	return h.stories[id].told(func(r *events.Record) error {
		switch e := r.Fact.Event.(type) {
		case task.Reopened:
			if !strings.HasPrefix(e.Reason, birth.ParentLives) {
				return nil
			}
			var asked uint64
			_ = parent.told(func(of *events.Record) error {
				if _, reopened := of.Fact.Event.(task.Reopened); reopened && of.Seq < r.Seq {
					asked = of.Seq
				}
				return nil
			})
			if end > asked {
				return fmt.Errorf("%w: it ended at %d, after the retry at %d", errTwice, end, asked)
			}
		default:
			if ends(e) {
				end = r.Seq
			}
		}
		return nil
	})
}

// retried checks that: each child that a reopening of its parent means, by its end at that time, has
// another life before the parent's next end, unless the parent was cancelled.
func (h *history) retried(id task.ID) error {
	p := h.fold.tasks[id]
	var asked string
	var life uint64
	cancelled := false
	return h.stories[id].told(func(r *events.Record) error {
		switch e := r.Fact.Event.(type) {
		case task.Reopened:
			asked, life, cancelled = e.Again, r.Seq, false
		case task.CancelRequested:
			cancelled = true
		case task.Concluded:
			if asked == "" || cancelled {
				return nil
			}
			for name, child := range birth.ChildIDs(&p) {
				if means, again := h.stories[child].between(asked, name, life, r.Seq); means && !again {
					return fmt.Errorf("%w: step %s is not, between %d and %d", errRetry, name, life, r.Seq)
				}
			}
		}
		return nil
	})
}

// between tells whether a retry at from means this child, by its end then, and whether it came alive
// again before to.
func (s story) between(asked, name string, from, to uint64) (means, again bool) {
	var end any
	_ = s.told(func(r *events.Record) error {
		_, reopened := r.Fact.Event.(task.Reopened)
		switch {
		case r.Seq > to:
		case reopened && r.Seq > from:
			again = true
		case reopened:
			end = nil
		case ends(r.Fact.Event) && r.Seq < from:
			end = r.Fact.Event
		}
		return nil
	})
	_, finished := end.(task.AttemptFinished)
	skip, _ := end.(task.CancelConfirmed)
	if asked == task.AllAgain {
		return end != nil && !finished && skip.Code == "", again
	}
	return end != nil && asked == name, again
}

// longFamilies are histories in which families end before the faults do.
var longFamilies = variant{families: true, length: 8 * length}

// Parents and their steps are retried, one after the other and at once, cancelled meanwhile, and
// their schedulers are killed between any two writes: each retry reaches the steps that it means, and
// all tasks end. Verify finds nothing.
func TestSimulationOfFamilies(t *testing.T) {
	var retries, owed atomic.Int64
	each(max(*historiesFlag/20, 1), func(seed uint64) bool {
		h := play(t, *firstFlag+seed, longFamilies)
		h.report(t)
		for _, f := range h.whole(t).Findings {
			t.Errorf("seed %d of families: %v: task %s, %v: %s", seed, f.Rule, f.Task, f.Seqs, f.What)
		}
		for i := range h.records {
			r := &h.records[i]
			if e, ok := r.Fact.Event.(task.Reopened); ok && r.Err == nil && r.Fact.Actor != stranger {
				if e.Again != "" {
					retries.Add(1)
				} else if r.Fact.Actor == "scheduler" {
					owed.Add(1)
				}
			}
		}
		return !t.Failed()
	})
	t.Logf("%d retries of parents, %d tasks that schedulers reopened", retries.Load(), owed.Load())
	if *seedFlag < 0 && (retries.Load() == 0 || owed.Load() == 0) {
		t.Error("no history has a parent that was retried, or no scheduler reopened anything")
	}
}
