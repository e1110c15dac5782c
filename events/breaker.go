package events

import (
	"context"
	"fmt"
	"time"

	"millrace/task"
	"millrace/task/limit"
	"millrace/task/value"
)

// Circuit reads the state of a job's breaker. A breaker without facts is closed.
func (r *Recorder) Circuit(ctx context.Context, job string) (limit.Circuit, error) {
	c, _, err := r.readCircuit(ctx, job)
	return c, err
}

// readCircuit is [Recorder.Circuit], and the id of the last fact.
func (r *Recorder) readCircuit(ctx context.Context, job string) (limit.Circuit, string, error) {
	err := value.ValidName("job", job)
	var last Record
	var end uint64
	if err == nil {
		last, end, err = r.Log.Latest(ctx, Fact{Job: job})
	}
	if err != nil {
		return limit.Circuit{}, "", fmt.Errorf("read the breaker of job %s: %w", job, err)
	}
	c := limit.Circuit{State: limit.StateClosed}
	if last.Seq > 0 {
		c = last.Circuit(limit.Circuit{})
	}
	c.Head = end
	return c, last.Fact.ID, nil
}

// Verdict is the decision on a breaker: no change if Event is nil. By are its inputs; nil if a
// person decided.
type Verdict struct {
	Event limit.CircuitEvent
	By    *task.By
}

// DoBreaker lets judge decide on the breaker of a job, by its state in the log and the time, and
// records the decision. It returns the state on which judge decided last, and the state afterwards.
func (r *Recorder) DoBreaker(ctx context.Context, job string, judge func(is limit.Circuit, at time.Time) Verdict) (was, is limit.Circuit, err error) {
	is, err = r.Circuit(ctx, job)
	if err != nil {
		return is, is, err
	}
	d, err := r.onCircuit(ctx, job, is, false, func(c limit.Circuit, at time.Time) Verdict {
		was = c
		return judge(c, at)
	})
	return was, d.Is, err
}

// DoBreakerFrom is [Recorder.DoBreaker] for a breaker whose state is known. If the state is
// outdated, it records nothing and done is false.
func (r *Recorder) DoBreakerFrom(ctx context.Context, job string, was limit.Circuit, judge func(is limit.Circuit, at time.Time) Verdict) (is limit.Circuit, done bool, err error) {
	d, err := r.onCircuit(ctx, job, was, true, judge)
	return d.Is, d.Done(), err
}

func (r *Recorder) onCircuit(ctx context.Context, job string, was limit.Circuit, once bool, judge func(limit.Circuit, time.Time) Verdict) (Decided[limit.Circuit, *Fact], error) {
	chain := Chain[limit.Circuit, *Fact]{
		Read: func(ctx context.Context, wrote *Fact) (limit.Circuit, uint64, bool, error) {
			c, last, err := r.readCircuit(ctx, job)
			return c, c.Head, wrote != nil && last == wrote.ID, err
		},
		Write: r.Log.Append, Once: once,
	}
	d, err := chain.DecideFrom(ctx, was, was.Head, func(c limit.Circuit) (*Fact, bool, error) {
		at := r.Moment()
		v := judge(c, at)
		if v.Event == nil {
			return nil, false, nil
		}
		return &Fact{ID: r.NewID(at), At: at, Type: TypeOf(v.Event), Job: job, Actor: r.Actor, By: v.By, Event: v.Event}, true, nil
	})
	if d.Outcome == Recorded {
		d.Is = limit.EvolveCircuit(d.Is, d.End, d.Wrote.At, d.Wrote.Event.(limit.CircuitEvent))
	}
	return d, recording(d.Wrote, err)
}

// Circuit adds the record to the state of its breaker.
func (r *Record) Circuit(c limit.Circuit) limit.Circuit {
	e, _ := r.Fact.Event.(limit.CircuitEvent)
	c = limit.EvolveCircuit(c, r.Original(), r.Fact.At, e) // nothing new, if that is known
	c.Head = max(c.Head, r.Seq)
	return c
}
