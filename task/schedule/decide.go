package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/task"
	"millrace/task/job"
)

// Grace is how late a fire may be without its tick counting as missed. The server fires within a
// third of a second, and an election of its leader takes up to 6 s. A later fire means that the
// server was down.
const Grace = 10 * time.Second

// Ahead is how long before a tick is due its timer fires. The server fires up to a third of a
// second late, and reading many fires that are due at once takes a while. At the tick's time only
// the decision is left to do.
const Ahead = time.Second

// Bounds of one catch-up.
const (
	MaxCatchUp = 1000    // tasks; the newest ticks get them
	maxCounted = 200_000 // ticks; of more, only the newest count
)

// Fire is what the timer of a tick has brought.
type Fire struct {
	Tick, Due time.Time
	// Stored is when the log stored it, at best [Ahead] before Due.
	Stored time.Time
}

// Strange tells whether no timer can have fired that early: the fire was forged.
func (f Fire) Strange() bool { return f.Due.Sub(f.Stored) > Ahead+Grace }

// Owed is a tick that needs a decision now.
type Owed struct {
	Tick, Due time.Time
	Trigger   string
	Detail    string
}

// Missed are ticks that get no task because they have passed.
type Missed struct {
	From, Until time.Time
	Count       int
	Reason      string
	Detail      string
}

// Look is the consequence of a fire: ticks without a task, ticks to decide on, and the tick for the
// next timer, nil if there is none.
type Look struct {
	Missed []Missed
	Owed   []Owed
	Next   *Tick
}

// Look returns what is owed when a fire is handled at now. A fire that came in time is owed,
// however late it is handled. [job.Schedule.CatchUp] decides about other ticks that have passed
// meanwhile, and about the fire's own tick if the server fired late.
//
// Decided is the latest tick with an earlier decision. Look ignores it and the ticks before it,
// except for the fire's own.
func (p *Plan) Look(f Fire, detail string, decided, now time.Time) Look {
	var l Look
	after := f.Tick.Add(-time.Nanosecond)
	if f.Stored.Sub(f.Due) <= Grace {
		l.Owed = append(l.Owed, Owed{f.Tick, f.Due, task.TriggerSchedule, detail})
		after = f.Tick
	}
	if decided.After(after) {
		after = decided
	}
	passed, next := p.passed(after, now.Add(-Grace))
	l.Next = next
	window := cmp.Or(p.CatchUpWindow.Std(), job.DefaultCatchUpWindow)
	young := slices.IndexFunc(passed, func(t Tick) bool { return !t.At.Before(now.Add(-window)) })
	if young < 0 {
		young = len(passed)
	}
	policy := cmp.Or(p.CatchUp, job.CatchUpLast)
	first := len(passed) // of those that are caught up
	switch policy {
	case job.CatchUpLast:
		first = max(young, len(passed)-1)
	case job.CatchUpAll:
		first = max(young, len(passed)-MaxCatchUp)
	}
	if policy != job.CatchUpNone {
		l.miss(passed[:min(young, first)], task.SkipWindow, fmt.Sprintf("older than catchup_window (%v)", window))
		l.miss(passed[min(young, first):first], task.SkipMissed, "catchup is "+policy)
	} else {
		l.miss(passed, task.SkipMissed, "catchup is none")
	}
	for _, t := range passed[first:] {
		late := now.Sub(t.Due).Truncate(time.Second)
		l.Owed = append(l.Owed, Owed{t.At, t.Due, task.TriggerCatchUp, joinNotes(t.Note, fmt.Sprintf("%v late, catchup is %s", late, policy))})
	}
	return l
}

func (l *Look) miss(ticks []Tick, reason, detail string) {
	if len(ticks) > 0 {
		l.Missed = append(l.Missed, Missed{ticks[0].At, ticks[len(ticks)-1].At, len(ticks), reason, detail})
	}
}

// passed returns the ticks after after that were due at by, and the first that was not.
func (p *Plan) passed(after, by time.Time) (ticks []Tick, next *Tick) {
	for {
		t, ok := p.Next(after)
		if !ok {
			return ticks, nil
		}
		if t.Due.After(by) {
			return ticks, &t
		}
		if len(ticks) >= maxCounted { // the newest half is kept
			ticks = append(ticks[:0], ticks[maxCounted/2:]...)
		}
		ticks = append(ticks, t)
		after = t.At
	}
}

// Ended says how a task ended.
type Ended struct {
	ID     task.ID
	Failed bool
}

// Observe removes the ended tasks from the ledger, in the order given, and counts those that
// failed.
func Observe(l task.Ledger, ended []Ended) task.Ledger {
	l.Open, l.Waiting = slices.Clone(l.Open), slices.Clone(l.Waiting)
	for _, e := range ended {
		i := slices.Index(l.Open, e.ID)
		if i < 0 {
			continue
		}
		l.Open = slices.Delete(l.Open, i, i+1)
		if e.Failed {
			l.Failures++
		} else {
			l.Failures = 0
		}
	}
	return l
}

// Watches tells whether decisions of the schedule depend on its earlier tasks.
func (p *Plan) Watches() bool {
	return p.PauseAfter > 0 || cmp.Or(p.Overlap, job.OverlapAllow) != job.OverlapAllow
}

// Failing tells whether enough tasks in a row have failed to pause the schedule.
func (p *Plan) Failing(l task.Ledger) bool {
	return p.PauseAfter > 0 && l.Failures >= p.PauseAfter
}

// Decide decides on a tick, given the earlier ones: it returns one fact, or two if a waiting tick
// must make room. The ledger of the last fact is the schedule's from then on.
func (p *Plan) Decide(l task.Ledger, o Owed, revision uint64) []task.ScheduleEvent {
	l.Open, l.Waiting = slices.Clone(l.Open), slices.Clone(l.Waiting)
	if o.Tick.After(l.Last) && o.Trigger != task.TriggerManual {
		l.Last = o.Tick
	}
	busy := len(l.Open) > 0 || len(l.Waiting) > 0
	overlap := cmp.Or(p.Overlap, job.OverlapAllow)
	switch {
	case p.Failing(l):
		return []task.ScheduleEvent{skipped(revision, o, l, task.SkipFailing, fmt.Sprintf("%d tasks in a row have failed", l.Failures))}
	case overlap == job.OverlapAllow || !busy:
		return []task.ScheduleEvent{p.admit(l, o, revision)}
	case overlap == job.OverlapReplace:
		o.Detail = joinNotes(o.Detail, fmt.Sprintf("overlap is replace: earlier tasks that run are cancelled (%d)", len(l.Open)))
		return []task.ScheduleEvent{p.admit(l, o, revision)}
	case overlap == job.OverlapQueue && len(l.Waiting) < cmp.Or(p.Depth, job.DefaultDepth):
		return []task.ScheduleEvent{wait(l, o, revision)}
	case overlap == job.OverlapCancelOld:
		var events []task.ScheduleEvent
		for _, w := range l.Waiting {
			l.Waiting = l.Waiting[1:]
			events = append(events, skipped(revision, Owed{Tick: w.Tick}, l, task.SkipOverlap, "overlap is cancel_old: a later run takes its place"))
		}
		return append(events, wait(l, o, revision))
	}
	why := "overlap is " + overlap
	if len(l.Open) > 0 {
		why += ": task " + string(l.Open[0]) + " has not ended"
	}
	if len(l.Waiting) > 0 {
		why += fmt.Sprintf(", and %d planned runs wait", len(l.Waiting))
	}
	return []task.ScheduleEvent{skipped(revision, o, l, task.SkipOverlap, why)}
}

// ByHand is [Plan.Decide] for a run by hand that counts for the overlap: a tick of its own at a time,
// which is not one of the schedule's. If it cannot be admitted now, nothing is to be recorded, and why
// says what is in the way.
func (p *Plan) ByHand(l task.Ledger, at time.Time, revision uint64) (e *task.ScheduleAdmitted, why string) {
	for _, e := range p.Decide(l, Owed{Tick: at, Due: at, Trigger: task.TriggerManual}, revision) {
		switch e := e.(type) {
		case task.ScheduleAdmitted:
			return &e, ""
		case task.ScheduleSkipped:
			if e.Tick.Equal(at) {
				return nil, e.Detail
			}
		}
	}
	why = "overlap is " + p.Overlap
	if len(l.Open) > 0 {
		why += ": task " + string(l.Open[0]) + " has not ended"
	}
	return nil, why
}

// Reworded is the detail of a decision in today's words: in older logs planned runs are ticks.
func Reworded(detail string) string { return reworded.Replace(detail) }

var reworded = strings.NewReplacer("earlier ticks", "earlier planned runs", "a later tick takes", "a later run takes", " ticks wait", " planned runs wait")

// Refuse is the fact that no task can be made for a tick, with a reason and words.
func (p *Plan) Refuse(l task.Ledger, o Owed, revision uint64, reason, why string) task.ScheduleSkipped {
	if o.Tick.After(l.Last) {
		l.Last = o.Tick
	}
	return skipped(revision, o, l, reason, why)
}

// Release returns the fact that a waiting tick gets its task now; nil if none does.
func (p *Plan) Release(l task.Ledger, revision uint64) task.ScheduleEvent {
	if len(l.Waiting) == 0 || len(l.Open) > 0 {
		return nil
	}
	w := l.Waiting[0]
	o := Owed{Tick: w.Tick, Trigger: w.Trigger, Detail: "it waited for the tasks of earlier planned runs"}
	if p.Failing(l) {
		l.Waiting = slices.Clone(l.Waiting[1:])
		return skipped(revision, o, l, task.SkipFailing, fmt.Sprintf("%d tasks in a row have failed", l.Failures))
	}
	l.Waiting = slices.Clone(l.Waiting[1:])
	return p.admit(l, o, revision)
}

// Skip is the fact that ticks have passed.
func (m Missed) Skip(l task.Ledger, revision uint64) task.ScheduleEvent {
	if m.Until.After(l.Last) {
		l.Last = m.Until
	}
	e := task.ScheduleSkipped{Revision: revision, Tick: m.From, Reason: m.Reason, Detail: m.Detail, Ledger: l}
	if m.Count > 1 {
		e.Until, e.Count = m.Until, m.Count
	}
	return e
}

// Cancels returns the tasks that a decision cancels.
func (p *Plan) Cancels(e task.ScheduleEvent) []task.ID {
	switch e := e.(type) {
	case task.ScheduleAdmitted:
		if p.Overlap == job.OverlapReplace {
			return slices.DeleteFunc(slices.Clone(e.Ledger.Open), func(id task.ID) bool { return id == e.Made })
		}
	case task.ScheduleQueued:
		if p.Overlap == job.OverlapCancelOld {
			return e.Ledger.Open
		}
	}
	return nil
}

func (p *Plan) admit(l task.Ledger, o Owed, revision uint64) task.ScheduleAdmitted {
	id := TaskID(p.name, o.Tick)
	if !slices.Contains(l.Open, id) {
		l.Open = append(l.Open, id)
	}
	if extra := len(l.Open) - task.MaxOpen; extra > 0 {
		l.Open = l.Open[extra:]
	}
	return task.ScheduleAdmitted{
		Revision: revision,
		Tick:     o.Tick,
		Due:      o.Due,
		Trigger:  o.Trigger,
		Made:     id,
		Detail:   o.Detail,
		Ledger:   l,
	}
}

func wait(l task.Ledger, o Owed, revision uint64) task.ScheduleQueued {
	l.Waiting = append(slices.Clone(l.Waiting), task.WaitingTick{Tick: o.Tick, Trigger: o.Trigger})
	return task.ScheduleQueued{Revision: revision, Tick: o.Tick, Trigger: o.Trigger, Detail: o.Detail, Ledger: l}
}

func skipped(revision uint64, o Owed, l task.Ledger, reason, detail string) task.ScheduleSkipped {
	return task.ScheduleSkipped{Revision: revision, Tick: o.Tick, Reason: reason, Detail: joinNotes(o.Detail, detail), Ledger: l}
}

// LedgerOf is the ledger that a decision leaves to the schedule.
func LedgerOf(e any) task.Ledger {
	switch e := e.(type) {
	case task.ScheduleAdmitted:
		return e.Ledger
	case task.ScheduleSkipped:
		return e.Ledger
	case task.ScheduleQueued:
		return e.Ledger
	}
	return task.Ledger{}
}

// RevisionOf is the revision of the definition by which a decision was made.
func RevisionOf(e any) uint64 {
	switch e := e.(type) {
	case task.ScheduleAdmitted:
		return e.Revision
	case task.ScheduleSkipped:
		return e.Revision
	case task.ScheduleQueued:
		return e.Revision
	}
	return 0
}

// Decides tells whether a decision is about a tick.
func Decides(e any, tick time.Time) bool {
	switch e := e.(type) {
	case task.ScheduleAdmitted:
		return e.Tick.Equal(tick)
	case task.ScheduleQueued:
		return e.Tick.Equal(tick)
	case task.ScheduleSkipped:
		return e.Tick.Equal(tick) || !e.Until.IsZero() && tick.After(e.Tick) && !tick.After(e.Until)
	}
	return false
}
