package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/schedule"
)

// Backfill chooses past planned runs of a schedule, from one time to another.
type Backfill struct {
	// Name is the schedule's.
	Name string `json:"name"`
	// From and To are the first and the last time, as people type times, in the schedule's zone
	// unless they name one. To defaults to now.
	From string `json:"from"`
	To   string `json:"to,omitempty"`
}

// MaxBackfill bounds the ticks of one backfill.
const MaxBackfill = 100_000

// BackfillTicks returns the ticks of a backfill, at most most. An error about the request wraps
// [ErrInvalid].
func BackfillTicks(of *schedule.Stored, b *Backfill, now time.Time, most int) ([]schedule.Tick, error) {
	plan, err := of.Plan()
	if err != nil {
		return nil, err
	}
	now = now.In(plan.Zone())
	first, err := view.ParseTime(b.From, now)
	if err != nil {
		return nil, Wrongf("from: %w", err)
	}
	last := now
	if b.To != "" {
		if last, err = view.ParseTime(b.To, now); err != nil {
			return nil, Wrongf("to: %w", err)
		}
	}
	if last.Before(first) || now.Before(first) {
		return nil, Wrongf("to is before from")
	}
	ticks, more, err := of.Passed(first, last, now, most)
	if err == nil && more {
		err = Wrongf("there are more than %d planned runs; choose a shorter time", most)
	}
	return ticks, err
}

// BackfilledTick is the task of a planned run.
type BackfilledTick struct {
	// Tick is the logical time, and Task the task of it.
	Tick time.Time `json:"tick"`
	Task task.ID   `json:"task"`
	// Made tells whether it was made just now.
	Made bool `json:"made"`
}

// Backfilled is the progress of a backfill.
type Backfilled struct {
	// Ticks is how many there are, from First to Last, and Missing how many of them have no task.
	Ticks   int       `json:"ticks"`
	First   time.Time `json:"first,omitzero"`
	Last    time.Time `json:"last,omitzero"`
	Missing int       `json:"missing"`
	// Open is how many tasks have not ended; States counts all of them by state.
	Open   int            `json:"open"`
	States map[string]int `json:"states,omitzero"`
	// Made is how many tasks were made just now, and Tasks are these; for a dry run, the first that
	// would be.
	Made  int              `json:"made"`
	Tasks []BackfilledTick `json:"tasks"`
	// DryRun tells that nothing was made, and Interrupted that time ran out.
	DryRun      bool `json:"dry_run,omitempty"`
	Interrupted bool `json:"interrupted,omitempty"`
	// Broken says why the planned run after the last of Tasks got no task.
	Broken string `json:"broken,omitempty"`
}

// Filled returns the progress of ticks from the states of their tasks.
func Filled(name string, ticks []schedule.Tick, ends map[task.ID]task.End) Backfilled {
	b := Backfilled{Ticks: len(ticks), States: map[string]int{}, Tasks: []BackfilledTick{}}
	if len(ticks) > 0 {
		b.First, b.Last = ticks[0].At, ticks[len(ticks)-1].At
	}
	for i := range ticks {
		end, ok := ends[schedule.TaskID(name, ticks[i].At)]
		if !ok {
			b.Missing++
			continue
		}
		b.States[end.State.String()]++
		if !end.State.Terminal() {
			b.Open++
		}
	}
	return b
}

// Lacking returns the ticks that get a task now, the oldest first, at most most: ticks without a
// task, while fewer than parallel tasks are unfinished; 0 means no bound.
func Lacking(name string, ticks []schedule.Tick, ends map[task.ID]task.End, parallel, most int) []schedule.Tick {
	if parallel > 0 {
		is := Filled(name, ticks, ends)
		most = min(most, max(0, parallel-is.Open))
	}
	var all []schedule.Tick
	for i := range ticks {
		if len(all) >= most {
			break
		}
		if _, ok := ends[schedule.TaskID(name, ticks[i].At)]; !ok {
			all = append(all, ticks[i])
		}
	}
	return all
}

// RunTicks makes the tasks of ticks, in their order, until ctx ends, and passes each to each.
// Calling it again with the same ticks continues: a tick that has a task gets no second one.
func (c *Client) RunTicks(ctx context.Context, name string, ticks []schedule.Tick, each func(BackfilledTick, uint64)) (interrupted bool, err error) {
	for i := range ticks {
		receipt, made, err := c.RunTick(ctx, name, ticks[i].At)
		switch {
		case ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err())):
			return true, nil
		case err != nil:
			return false, fmt.Errorf("planned run %s: %w", ticks[i].At.Format(time.RFC3339), err)
		}
		each(BackfilledTick{ticks[i].At, receipt.ID, made}, receipt.Seq)
	}
	return false, nil
}

// ScheduleView is a schedule with its past and next planned runs.
type ScheduleView struct {
	schedule.Stored
	// Next are the planned runs to come, and Ticks what became of the latest ones.
	Next  []schedule.Tick `json:"next"`
	Ticks []TickReport    `json:"ticks"`
	// Holes counts the planned runs that passed without a task for an unknown reason.
	Holes int `json:"holes"`
}

// nextShown is how many next ticks a view has.
const nextShown = 3

// ScheduleOf returns a schedule with its ticks since a time, the latest ones, at most most, in a
// view of a place in the log: decisions after its sequence, if that is set, do not count. The error
// wraps [definitions.ErrNoSchedule] if there is none.
func (c *Client) ScheduleOf(ctx context.Context, in view.View, at view.Point, name string, since time.Time, most int) (ScheduleView, error) {
	v := ScheduleView{Next: []schedule.Tick{}, Ticks: []TickReport{}}
	if c.role != "" {
		return c.scheduleAsked(ctx, at, name, since, most)
	}
	is, err := in.Get(ctx, view.Definition(task.Named(task.DefSchedule, name)))
	if err != nil {
		return v, err
	}
	if v.Stored, err = definitions.ScheduleIn(name, *is.Definition); err != nil {
		return v, err
	}
	ticks, err := TicksOf(ctx, c.store.Decisions, in, at, &v.Stored, since, time.Time{}, most)
	if err != nil {
		return v, err
	}
	v.Ticks = append(v.Ticks, ticks...)
	for _, t := range v.Ticks {
		if t.Outcome == TickHole {
			v.Holes++
		}
	}
	plan, err := v.Plan()
	if err != nil {
		return v, err
	}
	for after := at.At; len(v.Next) < nextShown; {
		tick, ok := plan.Next(after)
		if !ok {
			break
		}
		v.Next, after = append(v.Next, tick), tick.At
	}
	return v, nil
}

// Busy: the overlap of a schedule leaves no room for a run by hand that counts for it.
type Busy struct{ Schedule, Why string }

// Error implements error.
func (b *Busy) Error() string {
	return fmt.Sprintf("schedule %s: no task was made: %s", b.Schedule, b.Why)
}

// RunScheduleCounted asks a server for what [Client.RunCounted] does. The error wraps
// [jet.ErrNoService] if none answers.
func (c *Client) RunScheduleCounted(ctx context.Context, name string) (r Receipt, err error) {
	err = c.ask(ctx, rights.ScheduleRun, map[string]any{"name": name, "respect_overlap": true}, &r)
	return r, err
}

// RunCounted makes a task of a schedule now, as [Client.RunSchedule] does, but as a tick of its own that
// counts for the schedule's overlap, both ways: if the overlap leaves no room for it while tasks of
// earlier ticks run, the error is a [*Busy], and later ticks find that it runs. Only a server may do
// that.
func (c *Client) RunCounted(ctx context.Context, name string) (Receipt, error) {
	stored, err := c.store.Schedule(ctx, name)
	if err != nil {
		return Receipt{}, err
	}
	plan, err := stored.Plan()
	if err != nil {
		return Receipt{}, err
	}
	at, by := c.rec.Moment(), task.By{Rule: task.RuleHand}
	var made *task.ScheduleAdmitted
	chain := events.Chain[events.Record, *events.Fact]{
		Read: func(ctx context.Context, wrote *events.Fact) (events.Record, uint64, bool, error) {
			last, err := c.store.LastDecision(ctx, name)
			return last, last.Seq, wrote != nil && last.Fact.ID == wrote.ID, err
		},
		Write: c.rec.Log.Append,
	}
	_, err = chain.Decide(ctx, func(last events.Record) (*events.Fact, bool, error) {
		ledger := schedule.Remember(schedule.LedgerOf(last.Fact.Event), last.Fact.At, stored.Since)
		if plan.Watches() {
			if ledger, by.Ends, err = c.heed(ctx, ledger, at.Sub(last.Fact.At)); err != nil {
				return nil, false, err
			}
		}
		var why string
		if made, why = plan.ByHand(ledger, at, stored.Revision); made == nil {
			return nil, false, &Busy{name, why}
		}
		return &events.Fact{ID: c.rec.NewID(at), At: at, Type: events.TypeOf(*made), Schedule: name, Actor: c.rec.Actor, By: &by, Event: *made}, true, nil
	})
	if err != nil {
		return Receipt{}, err
	}
	for _, id := range plan.Cancels(*made) {
		if _, err := c.Cancel(ctx, id, "overlap of schedule "+name+" is "+plan.Overlap); err != nil && !errors.Is(err, task.ErrEnded) && !errors.Is(err, task.ErrUnknown) {
			return Receipt{}, err
		}
	}
	s := stored.Submission(at, task.TriggerManual)
	s.ID = made.Made
	r, err := c.desk.Submit(ctx, s) // if this is not reached, a scheduler makes the task
	return r, submitting(err)
}

// heed returns the ledger without the tasks that have ended, and for each task its last message.
func (c *Client) heed(ctx context.Context, l task.Ledger, after time.Duration) (task.Ledger, []uint64, error) {
	seen, ends := make([]schedule.Seen, len(l.Open)), make([]uint64, len(l.Open))
	for i, id := range l.Open {
		now, err := c.rec.Load(ctx, id)
		if err != nil && !errors.Is(err, task.ErrUnknown) {
			return l, nil, err
		}
		seen[i], ends[i] = schedule.Seen{Seq: now.Seq, State: now.State}, now.Seq
	}
	return schedule.Heed(l, seen, after), ends, nil
}

// Running returns the unfinished tasks of a schedule, the latest first, at most a few. The error wraps
// [jet.ErrNoService] if no server answers.
func (c *Client) Running(ctx context.Context, name string) ([]task.Task, error) {
	var open []task.State
	for s := task.Scheduled; s < task.Finished; s++ {
		open = append(open, s)
	}
	page, err := c.List(ctx, ListRequest{Filter: view.Filter{Schedule: name, States: open, Limit: 3}})
	return page.Tasks, err
}
