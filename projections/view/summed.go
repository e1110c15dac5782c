package view

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/quota"
)

// Summed are the sums of a read model beyond [Model], from which lists of queues, jobs, schedules
// and limits are made.
type Summed interface {
	// Oldest returns, for each queue with pending tasks, since when its longest waiting task has
	// been pending.
	Oldest(ctx context.Context) (map[string]time.Time, error)
	// LastOfJobs returns the latest task without a parent of each job, and the sequence that this
	// reflects.
	LastOfJobs(ctx context.Context) (last map[string]task.Task, at uint64, err error)
	// Schedules returns the results of each schedule's ticks; skipped ones are counted from since.
	Schedules(ctx context.Context, since time.Time) (ticks map[string]*Ticks, at uint64, err error)
	// EachLimited calls each for every task under limits that has not ended, with its latest
	// admission if no offer is known to have followed, else nil. It returns the usage of rates and
	// budgets.
	EachLimited(ctx context.Context, each quota.Each) (used quota.Used, at uint64, err error)
}

// Whole is a place in the log about which every question can be answered. The error of a list or
// count wraps [ErrUnindexed] if the answer would take reading the whole log.
type Whole interface {
	View
	Summed
	// States returns the states of the tasks that exist.
	States(ctx context.Context, ids []task.ID) (map[task.ID]task.State, error)
	// Steps compares the states of the tasks that a filter chooses with those at an earlier place of
	// the same log, and names the first most of those that changed. It ignores the order and the limit
	// of the filter. The error wraps [ErrUnindexed] if that place is not of the same read model.
	Steps(ctx context.Context, earlier Whole, f Filter, most int) (Steps, error)
}

// Steps are changes of tasks' states.
type Steps struct {
	// Of counts the changed tasks by the states before and after; [task.Unknown] is that before the
	// birth.
	Of map[[2]task.State]int
	// First are the first of them by id, as they are afterwards, and Was has their states before.
	First []task.Task
	Was   []task.State
}

// ErrUnindexed: the answer needs a fold of the whole log.
var ErrUnindexed = wrong{errors.New("of the past that is not indexed, such as parameters of many tasks: a command with --at folds the whole log for it")}

// LimiterOf returns a limiter with all limits of a model, by these sums.
func LimiterOf(ctx context.Context, m Model, sums Summed) (*quota.Limiter, uint64, error) {
	said, err := m.List(ctx, Query{Kind: Queues})
	if err != nil {
		return nil, 0, err
	}
	return quota.LoadLimiter(said.Queues, func(each quota.Each) (quota.Used, uint64, error) {
		return sums.EachLimited(ctx, each)
	})
}

// Standing is [View.Standing] of a place in the log, by all its limits.
func Standing(ctx context.Context, w Whole, id task.ID, holders int) (*quota.Standing, error) {
	p, err := w.Point(ctx)
	if err != nil {
		return nil, err
	}
	known, _, err := LimiterOf(ctx, w, w)
	if err != nil {
		return nil, err
	}
	s, ok := known.Standing(id, p.At, holders)
	if !ok {
		return nil, nil
	}
	return &s, nil
}

// Ticks are the results of a schedule's ticks.
type Ticks struct {
	// Last is the task of the latest tick; its ID is "" if there is none.
	Last task.Task
	// Decided is the latest tick with a decision; zero for none.
	Decided time.Time
	// Skipped counts the ticks without a task, by reason.
	Skipped map[string]int
}

// TickDecision is a decision on the ticks of a schedule up to one: how many got no task, and why.
type TickDecision struct {
	Schedule string
	Until    time.Time
	Skipped  int
	Reason   string
}

// Ticked is the part of a [Summed] that knows of single ticks.
type Ticked interface {
	// Skips returns the decisions since a time by which ticks got no task, in the order of schedules and ticks.
	Skips(ctx context.Context, since time.Time) ([]TickDecision, error)
	// Planned returns what is known of these tasks; those that do not exist are missing.
	Planned(ctx context.Context, ids []task.ID) (map[task.ID]Planned, error)
}

// Planned is what a planned run is judged by: its state, and what never changes of its task.
type Planned struct {
	task.Origin
	State task.State
	// Made is when it was submitted.
	Made time.Time
}

// PlannedOf returns that part of a task.
func PlannedOf(t *task.Task) Planned { return Planned{t.Origin, t.State, t.SubmittedAt} }

// ByTick puts decisions in the order of schedules and ticks.
func ByTick(all []TickDecision) []TickDecision {
	slices.SortFunc(all, func(a, b TickDecision) int {
		return cmp.Or(cmp.Compare(a.Schedule, b.Schedule), a.Until.Compare(b.Until))
	})
	return all
}

// DecidedOn returns the decision on ticks in a record; false if there is none.
func DecidedOn(r *events.Record) (d TickDecision, ok bool) {
	if r.Kind != events.KindTick {
		return d, false
	}
	switch e := r.Fact.Event.(type) {
	case task.ScheduleAdmitted:
		// A run by hand decides on no tick of the schedule.
		return TickDecision{Schedule: r.Fact.Schedule, Until: e.Tick}, e.Trigger != task.TriggerManual
	case task.ScheduleQueued:
		return TickDecision{Schedule: r.Fact.Schedule, Until: e.Tick}, true
	case task.ScheduleSkipped:
		d = TickDecision{r.Fact.Schedule, e.Tick, max(e.Count, 1), e.Reason}
		if e.Until.After(d.Until) {
			d.Until = e.Until
		}
		return d, true
	}
	return d, false
}

// Latest orders the tasks of a job, by submission, or of a schedule, by tick. A reader that sums up
// a log records it for each task without a parent, whenever the task is born or replaced: see
// [task.Task.Apply]. A name keeps the last recorded one, so that the size of batches does not
// matter.
type Latest struct {
	// At is when, in microseconds since 1970.
	At int64
	// Number is the task's rank by first appearance in the log.
	Number uint32
}

// After tells whether it comes after another one. In the same microsecond, the task that appeared
// later in the log does.
func (l Latest) After(other Latest) bool {
	return l.At > other.At || l.At == other.At && l.Number > other.Number
}

// latestTask is the latest task of a job or schedule.
type latestTask struct {
	Latest
	id task.ID
}

// note keeps the last recorded task of a name.
func note(of map[string]latestTask, name string, l latestTask) {
	if have, ok := of[name]; name != "" && (!ok || l.After(have.Latest)) {
		of[name] = l
	}
}

// sums are the sums of a [Memory] for [Summed].
type sums struct {
	ofJobs, ofSchedules map[string]latestTask
	decided             map[string]time.Time
	skips               map[string]map[time.Time]skip // by schedule and tick
	grants              map[task.ID]task.Grant        // those without a later offer
	used                quota.Used
	tallies             map[string]task.JobTallied // by job
}

// skip is a record of ticks without a task.
type skip struct {
	reason string
	n      int
}

func newSums() sums {
	return sums{
		ofJobs: map[string]latestTask{}, ofSchedules: map[string]latestTask{}, decided: map[string]time.Time{},
		skips: map[string]map[time.Time]skip{}, grants: map[task.ID]task.Grant{},
		used:    quota.Used{Rates: map[string]time.Time{}, Budgets: limit.Tallies{}},
		tallies: map[string]task.JobTallied{},
	}
}

// Tallied is the part of a [Summed] that knows of the tasks that the log has forgotten.
type Tallied interface {
	// Tallies returns the sums of the forgotten tasks of each job.
	Tallies(ctx context.Context) (map[string]task.JobTallied, error)
}

// Tallies implements [Tallied].
func (m *Memory) Tallies(context.Context) (map[string]task.JobTallied, error) {
	return maps.Clone(m.sums.tallies), nil
}

// sumTask adds a record's effect on a task, which was in state was before it, and on its attempts.
func (m *Memory) sumTask(r *events.Record, t *numberedTask, was task.State, took limit.Shift) {
	if !t.Admissible() {
		delete(m.sums.grants, t.ID)
	}
	if t.Budgeted() && !took.None() {
		counters, _ := t.Counters() // a task without valid counters cannot have been admitted
		m.sums.used.Budgets.Spend(counters, took)
	}
	if t.State.Failed() && !was.Failed() {
		t.failed = r.Seq
	}
	m.latest(t)
}

// latest notes a task without a parent as the latest of its job and schedule, if it is.
func (m *Memory) latest(t *numberedTask) {
	if t.State == task.Unknown || t.Parent != "" {
		return
	}
	note(m.sums.ofJobs, t.Job, latestTask{Latest{t.SubmittedAt.UnixMicro(), t.number}, t.ID})
	note(m.sums.ofSchedules, t.Schedule, latestTask{Latest{t.Tick.UnixMicro(), t.number}, t.ID})
}

// sum adds a record that is not about a task.
func (m *Memory) sum(r *events.Record) {
	switch {
	case r.Kind == events.KindLimit:
		if e, ok := r.Fact.Event.(task.Granted); ok {
			for _, g := range e.Grants {
				m.sums.grants[g.Task] = g
			}
			maps.Copy(m.sums.used.Rates, e.Rates)
		}
	case r.Kind == events.KindTick:
		d, ok := DecidedOn(r)
		if !ok {
			return
		}
		if !d.Until.Before(m.sums.decided[d.Schedule]) {
			m.sums.decided[d.Schedule] = d.Until.UTC()
		}
		if d.Skipped > 0 {
			if m.sums.skips[d.Schedule] == nil {
				m.sums.skips[d.Schedule] = map[time.Time]skip{}
			}
			m.sums.skips[d.Schedule][d.Until.UTC()] = skip{d.Reason, d.Skipped}
		}
	}
}

// Oldest implements [Summed].
func (m *Memory) Oldest(context.Context) (map[string]time.Time, error) {
	oldest := map[string]time.Time{}
	for _, t := range m.tasks {
		if t.State != task.Pending {
			continue
		}
		if before, ok := oldest[t.QueueName()]; !ok || t.Since.Before(before) {
			oldest[t.QueueName()] = t.Since
		}
	}
	return oldest, nil
}

// LastOfJobs implements [Summed].
func (m *Memory) LastOfJobs(context.Context) (map[string]task.Task, uint64, error) {
	last := map[string]task.Task{}
	for job, l := range m.sums.ofJobs {
		last[job] = m.tasks[l.id].Task
	}
	return last, m.at.Seq, nil
}

// Schedules implements [Summed].
func (m *Memory) Schedules(ctx context.Context, since time.Time) (map[string]*Ticks, uint64, error) {
	all := map[string]*Ticks{}
	of := func(name string) *Ticks {
		if all[name] == nil {
			all[name] = &Ticks{Skipped: map[string]int{}}
		}
		return all[name]
	}
	for name, l := range m.sums.ofSchedules {
		of(name).Last = m.tasks[l.id].Task
	}
	for name, tick := range m.sums.decided {
		of(name).Decided = tick
	}
	skips, err := m.Skips(ctx, since)
	for _, s := range skips {
		of(s.Schedule).Skipped[s.Reason] += s.Skipped
	}
	return all, m.at.Seq, err
}

// LastFailed returns at most most tasks that have failed, those that failed last first.
func (m *Memory) LastFailed(_ context.Context, most int) (last []task.Task, err error) {
	var failed []*numberedTask
	for _, t := range m.tasks {
		if t.State.Failed() {
			failed = append(failed, t)
		}
	}
	slices.SortFunc(failed, func(a, b *numberedTask) int { return cmp.Compare(b.failed, a.failed) })
	for _, t := range failed[:min(len(failed), most)] {
		last = append(last, t.Task)
	}
	return last, nil
}

// Traces knows of no messages where they are, but that nothing comes behind its end.
func (m *Memory) Traces(_ context.Context, c Trace, beyond uint64, _ int) ([]uint64, error) {
	if c.OldestFirst && beyond >= m.at.Seq {
		return nil, nil
	}
	return nil, ErrUnindexed
}

// Skips implements [Ticked].
func (m *Memory) Skips(_ context.Context, since time.Time) (all []TickDecision, err error) {
	for name, skips := range m.sums.skips {
		for until, s := range skips {
			if !until.Before(since) {
				all = append(all, TickDecision{name, until, s.n, s.reason})
			}
		}
	}
	return ByTick(all), nil
}

// Planned implements [Ticked].
func (m *Memory) Planned(_ context.Context, ids []task.ID) (map[task.ID]Planned, error) {
	all := make(map[task.ID]Planned, len(ids))
	for _, id := range ids {
		if t := m.tasks[id]; t != nil && t.State != task.Unknown {
			all[id] = PlannedOf(&t.Task)
		}
	}
	return all, nil
}

// States implements [Whole].
func (m *Memory) States(_ context.Context, ids []task.ID) (map[task.ID]task.State, error) {
	states := make(map[task.ID]task.State, len(ids))
	for _, id := range ids {
		if t := m.tasks[id]; t != nil && t.State != task.Unknown {
			states[id] = t.State
		}
	}
	return states, nil
}

// EachLimited implements [Summed].
func (m *Memory) EachLimited(_ context.Context, each quota.Each) (quota.Used, uint64, error) {
	for _, id := range m.from("", true) { // if bounds of one name differ, the latest task's is shown
		t := m.tasks[id]
		if t.State == task.Unknown || t.State.Terminal() || t.Rated == 0 && !t.Limited() {
			continue
		}
		var admitted *task.Grant
		if g, ok := m.sums.grants[id]; ok {
			admitted = &g
		}
		each(quota.StandOf(&t.Task), t.Counters, admitted)
	}
	return m.sums.used, m.at.Seq, nil
}
