package verify

import (
	"fmt"
	"slices"
	"strings"

	"millrace/events"
	"millrace/history/verify/findings"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/limit"
)

// Decisions on breakers are repeated from the facts about the breakers, and the ends of attempts of
// their jobs' tasks up to the sequence seen. A scheduler that has seen only the last trials may
// close a breaker after fewer of them than the log has, as long as they are enough.

// manyOutcomes is how many ends of attempts are remembered for a job with a breaker.
const manyOutcomes = 256

// guarded is a job with a breaker.
type guarded struct {
	circuit  limit.Circuit
	circuits findings.Latest[limit.Circuit] // the states after each of the latest facts
	facts    []breakerStep                  // the latest, in order
}

// breakerStep is the end of an attempt, or a change of the breaker, at a sequence.
type breakerStep struct {
	seq     uint64
	outcome limit.Outcome
	moved   bool
	circuit limit.Circuit // the state before an end, or after a change
}

func (v *Verifier) guardedJob(job string) *guarded {
	g := v.guards[job]
	if g == nil {
		g = &guarded{circuit: limit.Circuit{State: limit.StateClosed}}
		v.guards[strings.Clone(job)] = g
	}
	return g
}

func (g *guarded) remember(s breakerStep) {
	if len(g.facts) == manyOutcomes {
		g.facts = slices.Delete(g.facts, 0, 1)
	}
	g.facts = append(g.facts, s)
}

// outcomes returns the ends known to a scheduler that had seen the log up to a sequence.
func (g *guarded) outcomes(policy *limit.Breaker, seen uint64) *limit.Outcomes {
	o := &limit.Outcomes{}
	for i := range g.facts {
		switch s := &g.facts[i]; {
		case s.seq > seen:
			return o
		case s.moved:
			o.Moved(s.circuit)
		default:
			o.Add(policy, s.circuit, s.outcome)
		}
	}
	return o
}

// tripped takes the end of an attempt of a task with a breaker.
func (s *story) tripped(v *Verifier, k *task.Task, r *events.Record) {
	if s.job == 0 {
		return
	}
	e, _ := r.Fact.Event.(task.Event)
	o, ended := duties.OutcomeOf(e, r.Fact.At, k.Epoch)
	if !ended || !k.Live() {
		return
	}
	g := v.guardedJob(v.tasks.words.Text(s.job))
	o.What = strings.Clone(o.What)
	g.remember(breakerStep{seq: r.Seq, outcome: o, circuit: g.circuit})
	if k.Spec != nil && o.Failed {
		v.wouldTrip(g, v.tasks.words.Text(s.job), k.Spec.Breaker, r)
	}
}

// breakerFact repeats a change of a breaker and records it.
func (v *Verifier) breakerFact(r *events.Record) {
	e, _ := r.Fact.Event.(limit.CircuitEvent)
	g := v.guardedJob(r.Fact.Job)
	if e != nil && v.book.Asked(Decisions) && v.whole() {
		v.breakerAgain(g, e, r)
	}
	g.circuit = r.Circuit(g.circuit)
	g.circuit.Reason = strings.Clone(g.circuit.Reason)
	g.circuits.Add(g.circuit)
	if _, trial := e.(limit.Tried); !trial {
		g.remember(breakerStep{seq: r.Seq, moved: true, circuit: g.circuit})
	}
}

func (v *Verifier) breakerAgain(g *guarded, e limit.CircuitEvent, r *events.Record) {
	by := findings.By(r)
	if r.Fact.By == nil && r.Fact.Actor != "" && r.Fact.Actor != scheduler {
		return // a person's word
	}
	v.book.Checked[Decisions]++
	wrong := func(what string) {
		v.book.Find(Decisions, Finding{
			Seqs: []uint64{g.circuit.Head, r.Seq},
			What: string(r.Fact.Type) + " of job " + strings.Clone(r.Fact.Job) + ", decided again from what it names, is another one: " + what,
			Look: findings.Show(r.Seq),
		})
	}
	if by.Policy == nil || by.Seen >= r.Seq {
		wrong("it does not name what it was decided by")
		return
	}
	trial := limit.Asks{}
	if tried, ok := e.(limit.Tried); ok {
		trial.Task = strings.TrimPrefix(tried.Reason, limit.TrialOf)
	}
	by.Policy = v.policy(r.Fact.Job, by.Policy)
	outcomes := g.outcomes(by.Policy, by.Seen)
	is := r.Fact
	is.Event = by.Policy.Admit(g.circuit, trial, r.Fact.At, 0).Event
	if _, closed := e.(limit.Closed); closed && outcomes.Enough(by.Policy, e.(limit.Closed)) && g.circuit.State == limit.StateHalfOpen {
		return
	}
	if judged := by.Policy.Judge(g.circuit, outcomes, r.Fact.At); judged != nil && events.TypeOf(judged) == r.Fact.Type {
		is.Event = judged
	}
	if is.Event == limit.CircuitEvent(nil) || is.Event == nil {
		wrong("nothing follows")
		return
	}
	is.Type = events.TypeOf(is.Event)
	if what := v.book.Differ(&r.Fact, &is); what != "" {
		wrong(what)
	}
}

// heldBack is what was read by the decision that a breaker did not let a task start.
func (s *story) heldBack(v *Verifier, k *task.Task, by *task.By, r *events.Record) (read duties.Read, free string, ok bool) {
	if s.job == 0 {
		s.unruled(v, r)
		return read, "", false
	}
	k.Job, ok = v.tasks.words.Text(s.job), true
	if read.Circuit.State = limit.StateClosed; by.Circuit > 0 {
		read.Circuit, ok = edition(s, v, r, v.guardedJob(k.Job).circuits, by.Circuit, func(c *limit.Circuit) uint64 { return c.Head },
			fmt.Sprintf("the event of the breaker of job %s at %d, and there is none", k.Job, by.Circuit))
	}
	return read, fmt.Sprintf("the breaker of job %s, which was %s, holds nothing back", k.Job, read.Circuit.State), ok
}
