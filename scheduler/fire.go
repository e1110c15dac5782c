package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/desk"
	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/definition"
	"millrace/task/job"
	"millrace/task/queue"
	"millrace/task/schedule"
)

// Schedules is a scheduler's port to schedules and the jobs that they name. Decisions on ticks are
// appended to the log like any other fact.
type Schedules interface {
	// Schedules returns all definitions, and the errors of unreadable ones.
	Schedules(ctx context.Context) ([]schedule.Stored, error)
	// ScheduleChanges and JobChanges return the changes after a sequence and before the call, in
	// order, and the sequence that they reach. If all is true, everything may have changed.
	ScheduleChanges(ctx context.Context, after uint64) (changed []schedule.Change, all bool, reached uint64, err error)
	JobChanges(ctx context.Context, after uint64) (names []string, all bool, reached uint64, err error)
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

// ticker is one schedule while the scheduler works on its ticks.
type ticker struct {
	s      *Scheduler
	stored schedule.Stored
	plan   *schedule.Plan
	at     time.Time                 // the time for which the definition was read
	last   events.Record             // the latest decision
	again  bool                      // the consequences of decisions may be undone, because their maker may have died
	ended  map[task.ID]schedule.Seen // the tasks of earlier ticks that are known to have ended
	born   *desk.Newborn             // the latest birth, to be placed
}

// basis is what decisions on owed ticks rest on: the time at which the ticks were computed, and the
// inputs that the facts name.
type basis struct {
	at time.Time
	by task.By
}

// ledger is the ledger after the latest decision.
func (t *ticker) ledger() definition.Ledger {
	return schedule.Remember(schedule.LedgerOf(t.last.Fact.Event), t.last.Fact.At, t.stored.Since)
}

// ticker reads a schedule as it was at a time (a reading of [time.Now]) or later; nil if it does
// not fire any more.
func (s *Scheduler) ticker(ctx context.Context, name string, at time.Time) (*ticker, error) {
	p, err := s.plans.get(ctx, name, at)
	if err != nil || p == nil {
		return nil, err
	}
	t := &ticker{s: s, stored: p.Stored, plan: p.plan, at: at}
	t.last, err = s.cfg.Schedules.LastDecision(ctx, name)
	return t, err
}

// Fired handles one fire whose tick's time has come: it decides on its tick and on those that have
// passed since, makes their tasks, and sets the next timer. Each step may be repeated, and any
// number of schedulers may do it at once: a decision on a tick is recorded by compare-and-set, a
// task's id follows from its tick, and an existing timer stays.
func (s *Scheduler) Fired(ctx context.Context, r *events.Record, again bool) error {
	it := &fire{Offer: &events.Offer{Record: *r, Deliveries: 1}, popped: time.Now()}
	if again {
		it.Deliveries++
	}
	rest, err := s.firedAhead(ctx, it)
	if err != nil || rest == nil {
		return err
	}
	return rest(ctx)
}

// fired does the urgent part of [Scheduler.Fired] and returns the rest; nil if there is none.
func (t *ticker) fired(ctx context.Context, r *events.Record) (rest func(context.Context) error, err error) {
	f, ok := r.Fact.Event.(definition.ScheduleFired)
	fire := schedule.Fire{Tick: f.Tick, Due: f.Due, Stored: r.Stored}
	if !ok || fire.Strange() {
		return nil, nil // the read model lists unreadable messages
	}
	if t.again {
		if err := t.repeat(ctx, f.Tick); err != nil {
			return nil, err
		}
	}
	decided := t.ledger().Last
	if _, is := t.plan.Is(f.Tick); !is && f.Revision != t.stored.Revision {
		return nil, t.arm(ctx, later(t.stored.Since, decided), false) // of an earlier definition
	}
	next, err := t.owed(ctx, fire, f.Detail, causeOf(r, &f))
	if err != nil {
		return nil, err
	}
	if t.plan.Failing(t.ledger()) {
		return t.pause, nil
	}
	if next == nil {
		return nil, nil
	}
	return func(ctx context.Context) error {
		return t.s.cfg.Ticks.ArmSchedule(ctx, t.stored.Name, t.stored.Revision, *next, false)
	}, nil
}

// causeOf returns the inputs of a decision that follows from a fire: the fire, or the tick whose
// fire did not come.
func causeOf(r *events.Record, f *definition.ScheduleFired) task.By {
	if r.Seq == 0 {
		return task.By{Rule: task.RuleWatch, At: f.Tick}
	}
	return task.By{Offer: r.Seq}
}

// owed decides on all ticks owed after a fire, and returns the tick for the next timer, nil for
// none. If another scheduler skips ticks meanwhile, it computes them again.
func (t *ticker) owed(ctx context.Context, fire schedule.Fire, detail string, by task.By) (*schedule.Tick, error) {
	for {
		on := basis{t.s.rec.Moment(), by}
		is := t.plan.Look(fire, detail, t.ledger().Last, on.at)
		lost, err := t.skip(ctx, on, is.Missed)
		if err != nil {
			return nil, err
		}
		if lost {
			continue
		}
		for _, o := range is.Owed {
			if err := t.decide(ctx, on, o); err != nil {
				return nil, err
			}
		}
		return is.Next, nil
	}
}

// pause pauses a schedule after too many failed tasks.
func (t *ticker) pause(ctx context.Context) error {
	reason := fmt.Sprintf("%d of its tasks in a row have failed", t.ledger().Failures)
	t.s.log.Warn("schedule is paused: "+reason, "schedule", t.stored.Name)
	_, err := t.s.cfg.Schedules.PauseSchedule(ctx, t.stored.Name, t.s.rec.Actor, reason)
	return err
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// arm sets the timer of the first tick after a time. Without replace, an existing timer stays.
func (t *ticker) arm(ctx context.Context, after time.Time, replace bool) error {
	next, ok := t.plan.Next(after)
	if !ok {
		return nil
	}
	return t.s.cfg.Ticks.ArmSchedule(ctx, t.stored.Name, t.stored.Revision, next, replace)
}

// clockSlack is how far the clocks of servers may differ: the consequences of a tick are stored no
// earlier than this before it.
const clockSlack = time.Minute

// repeat repeats the consequences of the decisions since a tick, because their maker may have died
// in between.
func (t *ticker) repeat(ctx context.Context, tick time.Time) error {
	if t.ledger().Last.Before(tick) {
		return nil // there are none, as far as known
	}
	t.again = false
	if schedule.Decides(t.last.Fact.Event, tick) {
		return t.follow(ctx, t.last.Fact.Event) // they are complete before the next decision
	}
	records, err := t.s.cfg.Schedules.Decisions(ctx, t.stored.Name, tick.Add(-clockSlack))
	if err != nil {
		return err
	}
	for i := range records {
		if err := t.follow(ctx, records[i].Fact.Event); err != nil {
			return err
		}
	}
	return nil
}

// decided tells whether a tick has a decision.
func (t *ticker) decided(ctx context.Context, tick time.Time) (bool, error) {
	if schedule.Decides(t.last.Fact.Event, tick) {
		return true, nil
	}
	records, err := t.s.cfg.Schedules.Decisions(ctx, t.stored.Name, tick.Add(-clockSlack))
	for i := range records {
		if schedule.Decides(records[i].Fact.Event, tick) {
			return true, err
		}
	}
	return false, err
}

// skip records that ticks have passed. It is true if another decision came first: fewer or more
// ticks may be left to record.
func (t *ticker) skip(ctx context.Context, on basis, missed []schedule.Missed) (lost bool, err error) {
	for _, m := range missed {
		if done, err := t.record(ctx, m.Skip(t.ledger(), t.stored.Revision), on); !done || err != nil {
			return true, err
		}
	}
	return false, nil
}

// decide records the decision on a tick and carries it out.
func (t *ticker) decide(ctx context.Context, on basis, o schedule.Owed) error {
	for {
		if !o.Tick.After(t.ledger().Last) {
			there, err := t.decided(ctx, o.Tick)
			if err == nil && there && t.again {
				err = t.repeat(ctx, o.Tick) // undone if the latest decision became known too late
			}
			if there || err != nil {
				return err
			}
		}
		ledger, ends, err := t.observe(ctx, on.at)
		if err != nil {
			return err
		}
		decisions := t.plan.Decide(ledger, o, t.stored.Revision)
		if admitted, ok := decisions[0].(definition.ScheduleAdmitted); ok {
			if t.born, err = t.prepare(ctx, admitted); err == nil {
				err = t.s.desk.Refused(ctx, t.born)
			}
			if reason := refusal(err); reason != "" {
				t.s.log.Warn("a tick gets no task", "error", err, "schedule", t.stored.Name, "tick", o.Tick)
				decisions = []definition.ScheduleEvent{t.plan.Refuse(ledger, o, t.stored.Revision, reason, err.Error())}
			} else if err != nil {
				return err
			}
		}
		on.by.Ends = ends
		done, err := t.record(ctx, decisions[0], on)
		if err == nil && done {
			err = t.follow(ctx, decisions[0])
		}
		if err != nil || done && len(decisions) == 1 {
			return err
		}
	}
}

// observe returns the ledger without the tasks that have ended since, and for each task its last
// known message. An ended task is not read again.
func (t *ticker) observe(ctx context.Context, at time.Time) (definition.Ledger, []uint64, error) {
	ledger := t.ledger()
	if !t.plan.Watches() {
		return ledger, nil, nil
	}
	known, ends := make([]schedule.Seen, len(ledger.Open)), make([]uint64, len(ledger.Open))
	for i, id := range ledger.Open {
		seen, ended := t.ended[id]
		if !ended {
			now, err := t.s.rec.Load(ctx, id)
			if err != nil && !errors.Is(err, task.ErrUnknown) {
				return ledger, nil, err
			}
			if seen = (schedule.Seen{Seq: now.Seq, State: now.State}); err == nil && now.State.Terminal() {
				if t.ended == nil {
					t.ended = map[task.ID]schedule.Seen{}
				}
				t.ended[id] = seen
			}
		}
		known[i], ends[i] = seen, seen.Seq
	}
	return schedule.Heed(ledger, known, at.Sub(t.last.Fact.At)), ends, nil
}

// record is [ticker.decideTick] for a decision that is made already. It is false if another
// decision came first, which is then known.
func (t *ticker) record(ctx context.Context, e definition.ScheduleEvent, on basis) (bool, error) {
	return t.decideTick(ctx, on, true, func() (definition.ScheduleEvent, error) { return e, nil })
}

// decideTick appends the decision that decide makes from the latest one, nil for none, with the
// time of on. If another decision came first, it calls decide again, unless once is set. It tells
// whether it recorded a decision.
func (t *ticker) decideTick(ctx context.Context, on basis, once bool, decide func() (definition.ScheduleEvent, error)) (bool, error) {
	chain := events.Chain[events.Record, *events.Fact]{
		Read: func(ctx context.Context, wrote *events.Fact) (events.Record, uint64, bool, error) {
			last, err := t.s.cfg.Schedules.LastDecision(ctx, t.stored.Name)
			return last, last.Seq, last.Fact.ID == wrote.ID, err
		},
		Write: t.s.rec.Log.Append, Once: once,
	}
	d, err := chain.DecideFrom(ctx, t.last, t.last.Seq, func(last events.Record) (*events.Fact, bool, error) {
		t.last = last
		e, err := decide()
		if err != nil || e == nil {
			return nil, false, err
		}
		return &events.Fact{
			ID:       t.s.rec.NewID(on.at),
			At:       on.at,
			Type:     events.TypeOf(e),
			Schedule: t.stored.Name,
			Actor:    t.s.rec.Actor,
			By:       &on.by,
			Event:    e,
		}, true, nil
	})
	t.last = d.Is
	if d.Outcome == events.Recorded {
		t.last = events.Record{Seq: d.End, Stored: t.s.rec.Now(), Kind: events.KindTick, Fact: *d.Wrote}
		t.s.ticks.decided(&t.last)
	}
	return d.Done(), err
}

// follow carries out a decision. Doing it twice is harmless.
func (t *ticker) follow(ctx context.Context, decision any) error {
	e, ok := decision.(definition.ScheduleEvent)
	if !ok {
		return nil
	}
	switch e := e.(type) {
	case definition.ScheduleAdmitted:
		if err := t.bear(ctx, e); err != nil {
			return err
		}
	case definition.ScheduleQueued:
		t.s.ticks.waiting.add(t.stored.Name)
	}
	var errs []error
	for _, id := range t.plan.Cancels(e) {
		_, err := t.s.stop(ctx, t.s.rec, id, "overlap of schedule "+t.stored.Name+" is "+t.plan.Overlap)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// bear makes the task of a tick, unless it exists. If the birth is refused, the tick is skipped.
func (t *ticker) bear(ctx context.Context, e definition.ScheduleAdmitted) error {
	n, err := t.born, error(nil)
	if n == nil || n.ID != e.Made {
		n, err = t.prepare(ctx, e)
	}
	if err == nil {
		_, err = t.s.desk.Bear(ctx, n)
	}
	reason := refusal(err)
	if err == nil || reason != "" {
		t.s.ticks.bear(e.Made) // or it never will exist
	}
	switch {
	case reason == "":
		return err
	case reason == definition.SkipStranger:
		t.s.log.Error("another task has the id of a tick's task: the schedule did not make it, and the tick gets none", "error", err, "schedule", t.stored.Name, "task", string(e.Made), "tick", e.Tick)
	default:
		t.s.log.Warn("a tick that was to get a task gets none", "error", err, "schedule", t.stored.Name, "tick", e.Tick)
	}
	return t.leaveOut(ctx, e, reason, err.Error())
}

// leaveOut records that an admitted tick gets no task.
func (t *ticker) leaveOut(ctx context.Context, e definition.ScheduleAdmitted, reason, why string) error {
	on := basis{t.s.rec.Moment(), task.By{Rule: task.RuleBirth}}
	_, err := t.decideTick(ctx, on, false, func() (definition.ScheduleEvent, error) {
		if left, ok := t.last.Fact.Event.(definition.ScheduleSkipped); ok && left.Tick.Equal(e.Tick) {
			return nil, nil
		}
		return t.plan.Leave(t.ledger(), e.Tick, t.stored.Revision, reason, why), nil
	})
	return err
}

// refusal is the reason of a [definition.ScheduleSkipped] for an error of a birth; "" if the error
// is no refusal.
func refusal(err error) string {
	switch {
	case errors.Is(err, birth.ErrNoTask), errors.Is(err, desk.ErrInvalid):
		return definition.SkipInvalid
	case errors.As(err, new(*events.Taken)):
		return definition.SkipUnique
	case errors.Is(err, queue.ErrFull):
		return definition.SkipFull
	case errors.Is(err, desk.ErrOther):
		return definition.SkipStranger
	}
	return ""
}

// prepare returns the task of a tick, to be born.
func (t *ticker) prepare(ctx context.Context, e definition.ScheduleAdmitted) (*desk.Newborn, error) {
	submission := t.stored.Submission(e.Tick, e.Trigger)
	var of *job.Job
	var revision uint64
	if submission.Job != "" {
		j, err := t.s.jobs.get(ctx, submission.Job, t.at)
		if err != nil {
			return nil, err
		}
		of, revision = &j.Job, j.revision
	}
	n, err := t.s.desk.PrepareFrom(ctx, submission, of, revision)
	if err != nil {
		return nil, err
	}
	return &n, nil
}
