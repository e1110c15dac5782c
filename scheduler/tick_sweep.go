package scheduler

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/schedule"
	"millrace/task/value"
)

// Paces of [Scheduler.sweepSchedules].
const (
	// schedulesEvery is the interval of the search for schedules with waiting ticks, because other
	// schedulers may have died.
	schedulesEvery = time.Minute
	// unarmedFor is how long a schedule may lack a timer of its present revision: a fire is being
	// handled, or the author of a change is about to set the new timer.
	unarmedFor = 20 * time.Second
)

// scheduleSweep is the memory of the sweep of schedules. It is for one goroutine.
type scheduleSweep struct {
	unarmed map[string]time.Time // since when they lacked their timer
	timed   map[string]uint64    // the revisions whose timer was seen
	looked  time.Time            // when everything was last compared
}

// sweepSchedules checks once for schedules whose timer is missing or from an earlier revision, and
// from time to time for ticks whose task was not made. It is for one goroutine.
func (s *Scheduler) sweepSchedules(ctx context.Context) error {
	if !s.turns.First(LoopSchedules) {
		return nil
	}
	w := &s.scheduleSweep
	now := s.rec.Now()
	all, err := s.plans.list(ctx, time.Now())
	if err != nil {
		return err
	}
	live := slices.DeleteFunc(slices.Clone(all), func(p *planned) bool { return p.Paused != nil })
	armed, err := s.armed(ctx, live)
	if err != nil {
		return err
	}
	var errs []error
	unarmed := map[string]time.Time{}
	for _, p := range live {
		timed, there := armed[p.Name]
		if there && timed >= p.Revision {
			continue
		}
		if _, more := p.plan.Next(now.Add(-schedule.Grace)); !more {
			if _, ever := p.plan.Next(p.Since); !ever {
				continue // its end has passed
			}
		}
		since, known := w.unarmed[p.Name]
		if !known {
			since = now
		}
		if now.Sub(since) < unarmedFor {
			unarmed[p.Name] = since
			continue
		}
		errs = append(errs, s.rearm(ctx, p.Name, there))
	}
	w.unarmed = unarmed
	if now.Sub(w.looked) >= schedulesEvery {
		w.looked = now
		errs = append(errs, s.sweepTicks(ctx, all))
	}
	return errors.Join(errs...)
}

// armed returns the revision that set the timer of each schedule that has one. It asks only once
// for each revision's timer.
func (s *Scheduler) armed(ctx context.Context, all []*planned) (map[string]uint64, error) {
	w := &s.scheduleSweep
	there, err := s.cfg.Ticks.ArmedSchedules(ctx)
	if err != nil {
		return nil, err
	}
	armed, seen := make(map[string]uint64, len(there)), make(map[string]uint64, len(all))
	var ask []string
	for _, p := range all {
		switch {
		case w.timed[p.Name] >= p.Revision:
			seen[p.Name] = p.Revision
			if there[p.Name] {
				armed[p.Name] = p.Revision
			}
		case there[p.Name]:
			ask = append(ask, p.Name)
		}
	}
	timed, err := s.cfg.Ticks.TimedBy(ctx, ask)
	if err != nil {
		return nil, err
	}
	for name, revision := range timed {
		armed[name], seen[name] = revision, revision
	}
	w.timed = seen
	return armed, nil
}

// rearm sets the timer of a schedule that has none, or an outdated one, unless a fire of it is
// still to be handled.
func (s *Scheduler) rearm(ctx context.Context, name string, replace bool) error {
	d, err := s.decider(ctx, name, time.Now())
	if err != nil || d == nil || d.idle() {
		return err
	}
	fire, err := s.cfg.Ticks.LastFire(ctx, name)
	if err != nil {
		return err
	}
	if s.rec.Now().Sub(fire.Stored) < unarmedFor {
		return nil // it has fired since: with ticks this close, each sweep may find one being handled
	}
	after := value.Later(d.stored.Since, d.ledger().Last)
	if f, ok := fire.Fact.Event.(task.ScheduleFired); ok && f.Tick.After(after) {
		if _, is := d.plan.Is(f.Tick); is {
			return nil // the consumer of fires holds it and hands it out again
		}
	}
	if _, more := d.plan.Next(after); !more {
		return nil
	}
	s.repaired(RepairSchedule, "schedule has no timer of its present revision; the sweep sets it", "schedule", name)
	return d.arm(ctx, after, replace)
}

// sweepTicks checks the latest decision of each schedule that depends on its earlier tasks: whether
// ticks wait, and whether the latest decision's task was made.
func (s *Scheduler) sweepTicks(ctx context.Context, all []*planned) error {
	var errs []error
	for _, p := range all {
		if !p.plan.Watches() {
			continue
		}
		last, err := s.cfg.Schedules.LastDecision(ctx, p.Name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if len(schedule.LedgerOf(last.Fact.Event).Waiting) > 0 {
			s.ticks.waitsForOthers(p.Name, true)
		}
		errs = append(errs, s.sweepTick(ctx, p, &last))
	}
	return errors.Join(errs...)
}

// sweepTick makes the task of a tick that was decided some time ago and has none.
func (s *Scheduler) sweepTick(ctx context.Context, p *planned, last *events.Record) error {
	e, ok := last.Fact.Event.(task.ScheduleAdmitted)
	if age := s.rec.Now().Sub(last.Stored); !ok || age < unarmedFor || age > schedule.BornWithin+schedulesEvery {
		return nil
	}
	_, err := s.rec.Load(ctx, e.Made)
	if !errors.Is(err, task.ErrUnknown) {
		return err
	}
	s.repairs.add(RepairSchedule)
	d := &decider{s: s, stored: &p.Stored, plan: p.plan, at: time.Now(), last: *last}
	return d.follow(ctx, e)
}

// waitsForOthers records whether a schedule has ticks that wait for the tasks of earlier ones.
func (w *tickWatch) waitsForOthers(name string, waits bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.waiting, name); waits {
		w.waiting[name] = true
	}
}

// waitForOthers returns the schedules with such ticks, in order.
func (w *tickWatch) waitForOthers() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.waiting))
}

// ReleaseTicks checks once whether ticks that wait for the tasks of earlier ones can have theirs.
func (s *Scheduler) ReleaseTicks(ctx context.Context) error {
	var errs []error
	for _, name := range s.ticks.waitForOthers() {
		if !s.turns.First(name) {
			continue
		}
		errs = append(errs, s.releaseTicksOf(ctx, name))
	}
	return errors.Join(errs...)
}

func (s *Scheduler) releaseTicksOf(ctx context.Context, name string) error {
	d, err := s.decider(ctx, name, time.Now().Add(-readAheadAge))
	if err != nil {
		return err
	}
	if d == nil || d.idle() {
		s.ticks.waitsForOthers(name, false) // the sweep finds it once it has ticks again
		return nil
	}
	for {
		on := basis{s.rec.Moment(), task.By{Rule: task.RuleRelease}}
		ledger, ends, err := d.observe(ctx, on.at)
		if err != nil {
			return err
		}
		if len(ledger.Waiting) == 0 {
			s.ticks.waitsForOthers(name, false)
			return nil
		}
		decision := d.plan.Release(ledger, d.stored.Revision)
		if decision == nil {
			return nil
		}
		on.by.Ends = ends
		done, err := d.record(ctx, decision, on)
		if err == nil && done {
			err = d.follow(ctx, decision)
		}
		if err != nil {
			return err
		}
	}
}
