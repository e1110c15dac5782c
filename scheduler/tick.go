package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/events"
	"millrace/events/submit"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/queue"
	"millrace/task/schedule"
)

// Schedules is a scheduler's port to schedules and the jobs that they name. Decisions on ticks are
// appended to the log like any other fact.
type Schedules interface {
	// Schedules returns all definitions, and the errors of unreadable ones.
	Schedules(ctx context.Context) ([]schedule.Stored, error)
	// ScheduleAt returns a revision of a schedule, perhaps of a removed one; nil if there was none.
	ScheduleAt(ctx context.Context, name string, revision uint64) (*schedule.Stored, error)
	// ScheduleChanges and JobChanges return the changes after a sequence and before the call, in
	// order, and the sequence that they reach. If all is true, everything may have changed. Known
	// is a sequence that the log has reached, 0 if none is known: with it the question costs less
	// while nothing changes, but does not tell that the log was made anew.
	ScheduleChanges(ctx context.Context, after, known uint64) (changed []schedule.Change, all bool, reached uint64, err error)
	JobChanges(ctx context.Context, after, known uint64) (names []string, all bool, reached uint64, err error)
	// JobToRun returns a job and its revision. The error wraps [birth.ErrNoTask] if no runnable job
	// has this name.
	JobToRun(ctx context.Context, name string) (job.Job, uint64, error)
	// PauseSchedule pauses a schedule.
	PauseSchedule(ctx context.Context, name, actor, reason string) (changed bool, err error)
	// LastDecision returns the latest decision on a schedule's ticks, of sequence 0 if there is none.
	LastDecision(ctx context.Context, name string) (events.Record, error)
	// LastDecisions returns those of many schedules. They may be outdated.
	LastDecisions(ctx context.Context, names []string) (map[string]events.Record, error)
	// Decisions returns the decisions that the log stored from a time on.
	Decisions(ctx context.Context, name string, since time.Time) ([]events.Record, error)
}

// Ticks keeps the timers of schedules.
type Ticks interface {
	// Fires hands out the fires of timers, each to one scheduler until it is acknowledged.
	Fires(ctx context.Context) (events.Offers, error)
	// LastFire returns the latest fire of a schedule, of sequence 0 if there is none.
	LastFire(ctx context.Context, name string) (events.Record, error)
	// ArmSchedule sets the timer of a tick. Without replace, an existing timer stays.
	ArmSchedule(ctx context.Context, name string, revision uint64, t schedule.Tick, replace bool) error
	// ArmedSchedules returns the schedules that have a timer.
	ArmedSchedules(ctx context.Context) (map[string]bool, error)
	// TimedBy returns the revisions that set the timers of some schedules. They may be outdated.
	TimedBy(ctx context.Context, names []string) (map[string]uint64, error)
	// Time is the time of the log's clock.
	Time(ctx context.Context) (time.Time, error)
}

// decider decides on the ticks of one schedule and carries the decisions out. It holds the
// definition and the latest decision as the scheduler has read them.
type decider struct {
	s       *Scheduler
	stored  *schedule.Stored // not modified
	plan    *schedule.Plan
	at      time.Time                 // the time for which the definition was read
	last    events.Record             // the latest decision
	removed bool                      // the schedule is no more
	again   bool                      // the consequences of decisions may be undone, because their maker may have died
	ended   map[task.ID]schedule.Seen // the tasks of earlier ticks that are known to have ended
	born    *submit.Newborn           // the latest birth, to be placed
}

// basis is what decisions on owed ticks rest on: the time at which the ticks were computed, and the
// inputs that the facts name.
type basis struct {
	at time.Time
	by task.By
}

// ledger is the ledger after the latest decision.
func (d *decider) ledger() task.Ledger {
	return schedule.Remember(schedule.LedgerOf(d.last.Fact.Event), d.last.Fact.At, d.stored.Since)
}

// decider reads a schedule as it was at a time (a reading of [time.Now]) or later; nil if it is gone
// and left nothing to do. A paused one has ticks only from before the pause.
func (s *Scheduler) decider(ctx context.Context, name string, at time.Time) (*decider, error) {
	d := &decider{s: s, at: at}
	p, err := s.plans.get(ctx, name, at)
	if err != nil {
		return nil, err
	}
	if d.last, err = s.cfg.Schedules.LastDecision(ctx, name); err != nil {
		return nil, err
	}
	if p == nil {
		return d.gone(ctx, name)
	}
	d.stored, d.plan = &p.Stored, p.plan
	return d, nil
}

// gone completes the decider of a removed schedule with the definition by which the latest decision
// was made: the task that it names is still made. It is nil if there was no decision.
func (d *decider) gone(ctx context.Context, name string) (*decider, error) {
	revision := schedule.RevisionOf(d.last.Fact.Event)
	if revision == 0 {
		return nil, nil
	}
	was, err := d.s.cfg.Schedules.ScheduleAt(ctx, name, revision)
	if was == nil || err != nil {
		return nil, err
	}
	d.removed, d.stored = true, was
	d.plan, err = was.Plan()
	return d, err
}

// idle tells whether the schedule is paused or removed: only the past is left to settle.
func (d *decider) idle() bool { return d.removed || d.stored.Paused != nil }

// lapse records that ticks from before a pause which have no decision are left out.
func (d *decider) lapse(ctx context.Context) error {
	for {
		lapsed := d.stored.Lapsed(d.plan, d.ledger().Last)
		if d.removed || len(lapsed) == 0 {
			return nil
		}
		on := basis{d.s.rec.Moment(), task.By{Rule: task.RulePause}}
		if _, err := d.skip(ctx, on, lapsed[:1]); err != nil {
			return err
		}
	}
}

// handle does what is urgent about a fire whose tick is due: it decides on that tick and on those
// that have passed since, and makes their tasks. It returns what may wait, to set the next timer or
// to pause the schedule; nil for nothing. Each step may be repeated, and any number of schedulers
// may do it at once: a decision on a tick is recorded by compare-and-set, a task's id follows from
// its tick, and an existing timer stays.
func (d *decider) handle(ctx context.Context, fire schedule.Fire, detail string, by task.By) (rest func(context.Context) error, err error) {
	next, err := d.decideOwed(ctx, fire, detail, by)
	switch {
	case err != nil:
		return nil, err
	case d.plan.Failing(d.ledger()):
		return d.pause, nil
	case next == nil:
		return nil, nil
	}
	return func(ctx context.Context) error {
		return d.s.cfg.Ticks.ArmSchedule(ctx, d.stored.Name, d.stored.Revision, *next, false)
	}, nil
}

// decideOwed decides on all ticks owed after a fire, and returns the tick for the next timer, nil for
// none. If another scheduler skips ticks meanwhile, it computes them again.
func (d *decider) decideOwed(ctx context.Context, fire schedule.Fire, detail string, by task.By) (*schedule.Tick, error) {
	for {
		on := basis{d.s.rec.Moment(), by}
		is := d.plan.Look(fire, detail, d.ledger().Last, on.at)
		lost, err := d.skip(ctx, on, is.Missed)
		if err != nil {
			return nil, err
		}
		if lost {
			continue
		}
		for _, o := range is.Owed {
			if err := d.decide(ctx, on, o); err != nil {
				return nil, err
			}
		}
		return is.Next, nil
	}
}

// pause pauses a schedule after too many failed tasks.
func (d *decider) pause(ctx context.Context) error {
	reason := fmt.Sprintf("%d of its tasks in a row have failed", d.ledger().Failures)
	d.s.log.Warn("schedule is paused: "+reason, "schedule", d.stored.Name)
	_, err := d.s.cfg.Schedules.PauseSchedule(ctx, d.stored.Name, d.s.rec.Actor, reason)
	return err
}

// arm sets the timer of the first tick after a time. Without replace, an existing timer stays.
func (d *decider) arm(ctx context.Context, after time.Time, replace bool) error {
	next, ok := d.plan.Next(after)
	if !ok {
		return nil
	}
	return d.s.cfg.Ticks.ArmSchedule(ctx, d.stored.Name, d.stored.Revision, next, replace)
}

// clockSlack is how far the clocks of servers may differ: the consequences of a tick are stored no
// earlier than this before it.
const clockSlack = time.Minute

// repeat repeats the consequences of the decisions since a tick, because their maker may have died
// in between.
func (d *decider) repeat(ctx context.Context, tick time.Time) error {
	if d.ledger().Last.Before(tick) {
		return nil // there are none, as far as known
	}
	return d.complete(ctx, tick)
}

// complete is [decider.repeat] where there is a decision on the tick.
func (d *decider) complete(ctx context.Context, tick time.Time) error {
	d.again = false
	if schedule.Decides(d.last.Fact.Event, tick) {
		return d.follow(ctx, d.last.Fact.Event) // they are complete before the next decision
	}
	records, err := d.s.cfg.Schedules.Decisions(ctx, d.stored.Name, tick.Add(-clockSlack))
	if err != nil {
		return err
	}
	for i := range records {
		if err := d.follow(ctx, records[i].Fact.Event); err != nil {
			return err
		}
	}
	return nil
}

// decided tells whether a tick has a decision.
func (d *decider) decided(ctx context.Context, tick time.Time) (bool, error) {
	if schedule.Decides(d.last.Fact.Event, tick) {
		return true, nil
	}
	records, err := d.s.cfg.Schedules.Decisions(ctx, d.stored.Name, tick.Add(-clockSlack))
	for i := range records {
		if schedule.Decides(records[i].Fact.Event, tick) {
			return true, err
		}
	}
	return false, err
}

// skip records that ticks have passed. It is true if another decision came first: fewer or more
// ticks may be left to record.
func (d *decider) skip(ctx context.Context, on basis, missed []schedule.Missed) (lost bool, err error) {
	for _, m := range missed {
		if done, err := d.record(ctx, m.Skip(d.ledger(), d.stored.Revision), on); !done || err != nil {
			return true, err
		}
	}
	return false, nil
}

// decide records the decision on a tick and carries it out.
func (d *decider) decide(ctx context.Context, on basis, o schedule.Owed) error {
	for {
		if !o.Tick.After(d.ledger().Last) {
			there, err := d.decided(ctx, o.Tick)
			if err == nil && there && d.again {
				err = d.repeat(ctx, o.Tick) // undone if the latest decision became known too late
			}
			if there || err != nil {
				return err
			}
		}
		ledger, ends, err := d.observe(ctx, on.at)
		if err != nil {
			return err
		}
		decisions := d.plan.Decide(ledger, o, d.stored.Revision)
		if admitted, ok := decisions[0].(task.ScheduleAdmitted); ok {
			if d.born, err = d.prepare(ctx, admitted); err == nil {
				err = d.s.desk.Refused(ctx, d.born)
			}
			if reason := refusal(err); reason != "" {
				d.s.log.Warn("a planned run gets no task", "error", err, "schedule", d.stored.Name, "tick", o.Tick)
				decisions = []task.ScheduleEvent{d.plan.Refuse(ledger, o, d.stored.Revision, reason, err.Error())}
			} else if err != nil {
				return err
			}
		}
		on.by.Ends = ends
		done, err := d.record(ctx, decisions[0], on)
		if err == nil && done {
			err = d.follow(ctx, decisions[0])
		}
		if err != nil || done && len(decisions) == 1 {
			return err
		}
	}
}

// observe returns the ledger without the tasks that have ended since, and for each task its last
// known message. An ended task is not read again.
func (d *decider) observe(ctx context.Context, at time.Time) (task.Ledger, []uint64, error) {
	ledger := d.ledger()
	if !d.plan.Watches() {
		return ledger, nil, nil
	}
	known, ends := make([]schedule.Seen, len(ledger.Open)), make([]uint64, len(ledger.Open))
	for i, id := range ledger.Open {
		seen, ended := d.ended[id]
		if !ended {
			now, err := d.s.rec.Load(ctx, id)
			if err != nil && !errors.Is(err, task.ErrUnknown) {
				return ledger, nil, err
			}
			if seen = (schedule.Seen{Seq: now.Seq, State: now.State}); err == nil && now.State.Terminal() {
				if d.ended == nil {
					d.ended = map[task.ID]schedule.Seen{}
				}
				d.ended[id] = seen
			}
		}
		known[i], ends[i] = seen, seen.Seq
	}
	return schedule.Heed(ledger, known, at.Sub(d.last.Fact.At)), ends, nil
}

// record is [decider.recordFrom] for a decision that is made already. It is false if another
// decision came first, which is then known.
func (d *decider) record(ctx context.Context, e task.ScheduleEvent, on basis) (bool, error) {
	return d.recordFrom(ctx, on, true, func() (task.ScheduleEvent, error) { return e, nil })
}

// recordFrom appends the decision that decide makes from the latest one, nil for none, with the
// time of on. If another decision came first, it calls decide again, unless once is set. It tells
// whether it recorded a decision.
func (d *decider) recordFrom(ctx context.Context, on basis, once bool, decide func() (task.ScheduleEvent, error)) (bool, error) {
	chain := events.Chain[events.Record, *events.Fact]{
		Read: func(ctx context.Context, wrote *events.Fact) (events.Record, uint64, bool, error) {
			last, err := d.s.cfg.Schedules.LastDecision(ctx, d.stored.Name)
			return last, last.Seq, last.Fact.ID == wrote.ID, err
		},
		Write: d.s.rec.Log.Append, Once: once,
	}
	done, err := chain.DecideFrom(ctx, d.last, d.last.Seq, func(last events.Record) (*events.Fact, bool, error) {
		d.last = last
		e, err := decide()
		if err != nil || e == nil {
			return nil, false, err
		}
		return &events.Fact{
			ID:       d.s.rec.NewID(on.at),
			At:       on.at,
			Type:     events.TypeOf(e),
			Schedule: d.stored.Name,
			Actor:    d.s.rec.Actor,
			By:       &on.by,
			Event:    e,
		}, true, nil
	})
	d.last = done.Is
	if done.Outcome == events.Recorded {
		d.s.hear(done.End)
		d.last = events.Record{Seq: done.End, Stored: d.s.rec.Now(), Kind: events.KindTick, Fact: *done.Wrote}
		d.s.ticks.decided(&d.last)
	}
	return done.Done(), err
}

// follow carries out a decision. Doing it twice is harmless.
func (d *decider) follow(ctx context.Context, decision any) error {
	e, ok := decision.(task.ScheduleEvent)
	if !ok {
		return nil
	}
	switch e := e.(type) {
	case task.ScheduleAdmitted:
		if err := d.bear(ctx, e); err != nil {
			return err
		}
	case task.ScheduleQueued:
		d.s.ticks.waitsForOthers(d.stored.Name, true)
	}
	var errs []error
	for _, id := range d.plan.Cancels(e) {
		_, err := d.s.stop(ctx, d.s.rec, id, "overlap of schedule "+d.stored.Name+" is "+d.plan.Overlap)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// bear makes the task of a tick, unless it exists. If the birth is refused, the tick is skipped.
func (d *decider) bear(ctx context.Context, e task.ScheduleAdmitted) error {
	n, err := d.born, error(nil)
	if n == nil || n.ID != e.Made {
		n, err = d.prepare(ctx, e)
	}
	if err == nil {
		_, err = d.s.desk.Bear(ctx, n)
	}
	reason := refusal(err)
	if err == nil || reason != "" {
		d.s.ticks.born(e.Made) // or it never will be
	}
	switch {
	case reason == "":
		return err
	case reason == task.SkipStranger:
		d.s.log.Error("another task has the id of a planned run's task: the schedule did not make it, and the run gets none", "error", err, "schedule", d.stored.Name, "task", string(e.Made), "tick", e.Tick)
	default:
		d.s.log.Warn("a planned run that was to get a task gets none", "error", err, "schedule", d.stored.Name, "tick", e.Tick)
	}
	return d.leaveOut(ctx, e, reason, err.Error())
}

// leaveOut records that an admitted tick gets no task.
func (d *decider) leaveOut(ctx context.Context, e task.ScheduleAdmitted, reason, why string) error {
	on := basis{d.s.rec.Moment(), task.By{Rule: task.RuleBirth}}
	_, err := d.recordFrom(ctx, on, false, func() (task.ScheduleEvent, error) {
		if left, ok := d.last.Fact.Event.(task.ScheduleSkipped); ok && left.Tick.Equal(e.Tick) {
			return nil, nil
		}
		return d.plan.Leave(d.ledger(), e.Tick, d.stored.Revision, reason, why), nil
	})
	return err
}

// refusal is the reason of a [task.ScheduleSkipped] for an error of a birth; "" if the error
// is no refusal.
func refusal(err error) string {
	switch {
	case errors.Is(err, birth.ErrNoTask), errors.Is(err, submit.ErrInvalid):
		return task.SkipInvalid
	case errors.As(err, new(*events.Taken)):
		return task.SkipUnique
	case errors.Is(err, queue.ErrFull):
		return task.SkipFull
	case errors.Is(err, submit.ErrOther):
		return task.SkipStranger
	}
	return ""
}

// prepare returns the task of a tick, to be born.
func (d *decider) prepare(ctx context.Context, e task.ScheduleAdmitted) (*submit.Newborn, error) {
	submission := d.stored.Submission(e.Tick, e.Trigger)
	submission.ID = e.Made
	var of *job.Job
	var revision uint64
	if submission.Job != "" {
		j, err := d.s.jobs.get(ctx, submission.Job, d.at)
		if err != nil {
			return nil, err
		}
		of, revision = &j.Job, j.revision
	}
	n, err := d.s.desk.PrepareFrom(ctx, submission, of, revision)
	if err != nil {
		return nil, err
	}
	return &n, nil
}
