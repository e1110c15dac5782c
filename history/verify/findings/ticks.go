package findings

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/schedule"
)

// I-6. A tick gets at most one decision, to have a task or none, and at most one task. A second
// decision may only revoke a task that was refused after the first (its key is taken, its queue is
// full). Every admission of a tick names the same task, and all births of a tick are of that task.
// A task requested by hand has no tick. That a birth follows each decision belongs to I-2: a
// skipped tick may still get its task by a backfill.

// Ticks are the log's facts of schedules and their ticks.
type Ticks struct {
	book *Collector
	log  TickLog

	ticks     map[tick]*ticked
	schedules map[string]*ticking
}

// TickLog is the other required knowledge of the log.
type TickLog struct {
	// Whole tells whether the records begin with the log.
	Whole bool
	// When returns which ticks a schedule would have had, for decisions repeated under other settings;
	// nil changes none.
	When func(schedule string, was job.Schedule) job.Schedule
	// EndAt returns the progress of a task at one of its messages, whether it was reopened since,
	// and the fault if it has no such message.
	EndAt func(id task.ID, seq uint64) (in task.Input, overtaken bool, wrong string)
}

// NewTicks returns a Ticks without schedules, which reports to a book.
func NewTicks(b *Collector, log TickLog) *Ticks {
	return &Ticks{book: b, log: log, ticks: map[tick]*ticked{}, schedules: map[string]*ticking{}}
}

// tick is one moment of a schedule.
type tick struct {
	schedule string
	at       int64 // nanoseconds since 1970
}

// ticked is what the log holds about a tick.
type ticked struct {
	made     task.ID   // "" if no fact has named a task
	seq      uint64    // the sequence of the fact that named it
	admitted uint64    // the sequence of the decision that gave it its task, 0 for none
	at       time.Time // when the log stored that
	born     bool      // that task is there
	skipped  uint64    // the sequence of the decision that skipped it, 0 for none
}

// Add checks a fact about ticks of schedules.
func (all *Ticks) Add(r *events.Record) {
	switch e := r.Fact.Event.(type) {
	case task.Submitted:
		if e.Schedule != "" && (e.Trigger != task.TriggerManual || r.Fact.Task == schedule.TaskID(e.Schedule, e.Tick)) {
			all.named(e.Schedule, e.Tick, r.Fact.Task, r.Seq).born = true
		}
	case task.ScheduleAdmitted:
		t := all.named(r.Fact.Schedule, e.Tick, e.Made, r.Seq)
		switch {
		case t.admitted > 0:
			all.twice(r, t.made, e.Tick, t.admitted, "was given a task twice")
		case t.skipped > 0:
			all.twice(r, t.made, e.Tick, t.skipped, "was left out, and was given a task then")
		}
		t.admitted, t.at = r.Seq, r.Stored
	case task.ScheduleSkipped:
		if e.Count > 1 {
			return // only the rules of the schedule tell them apart
		}
		t := all.tick(r.Fact.Schedule, e.Tick)
		switch refused := e.Reason == task.SkipUnique || e.Reason == task.SkipFull || e.Reason == task.SkipInvalid; {
		case e.Reason == task.SkipStranger:
			all.book.Find(OneTask, Finding{Task: t.made, Seqs: []uint64{r.Seq},
				What: fmt.Sprintf("the planned run %s of schedule %s has no task of its own: %s", e.Tick.UTC().Format(time.RFC3339Nano), r.Fact.Schedule, strings.Clone(e.Detail)),
				Look: fmt.Sprintf("`millrace events show %d`", r.Seq)})
		case t.admitted > 0 && (!refused || t.born):
			all.twice(r, t.made, e.Tick, t.admitted, "was given a task, and was left out then")
		}
		t.skipped = r.Seq
	}
}

// Open judges at a time the ticks that were to get a task and have none yet.
func (all *Ticks) Open(now time.Time) {
	if !all.log.Whole {
		return
	}
	for _, of := range slices.SortedFunc(maps.Keys(all.ticks), func(a, b tick) int { return cmp.Compare(all.ticks[a].admitted, all.ticks[b].admitted) }) {
		if t := all.ticks[of]; t.admitted > 0 && !t.born && t.skipped < t.admitted && now.Sub(t.at) > schedule.BornWithin {
			all.book.Find(OneEnd, Finding{Task: t.made, Seqs: []uint64{t.admitted},
				What: fmt.Sprintf("the planned run %s of schedule %s was given task %s, which was not made within %v", time.Unix(0, of.at).UTC().Format(time.RFC3339Nano), of.schedule, t.made, schedule.BornWithin),
				Look: fmt.Sprintf("`millrace events show %d` and `millrace schedule show %s`", t.admitted, of.schedule)})
		}
	}
}

// Admitted tells whether a tick was given a task.
func (all *Ticks) Admitted(schedule string, at time.Time) bool {
	known := all.ticks[tick{schedule, at.UnixNano()}]
	return known != nil && known.admitted > 0
}

func (all *Ticks) tick(schedule string, at time.Time) *ticked {
	key := tick{schedule, at.UnixNano()}
	t, known := all.ticks[key]
	if !known {
		all.book.Checked[OneTask]++
		t = &ticked{}
		key.schedule = strings.Clone(schedule) // the record's memory is reused
		all.ticks[key] = t
	}
	return t
}

// named checks that a tick's task is the one named before.
func (all *Ticks) named(schedule string, at time.Time, made task.ID, seq uint64) *ticked {
	t := all.tick(schedule, at)
	switch {
	case t.made == "":
		t.made, t.seq = task.ID(strings.Clone(string(made))), seq
	case t.made != made:
		id := task.ID(strings.Clone(string(made)))
		all.book.Find(OneTask, Finding{Task: id, Seqs: []uint64{t.seq, seq},
			What: fmt.Sprintf("the planned run %s of schedule %s made task %s, and before that task %s", at.UTC().Format(time.RFC3339Nano), schedule, id, t.made),
			Look: fmt.Sprintf("`millrace task events %s` and `millrace task events %s`", t.made, id)})
	}
	return t
}

func (all *Ticks) twice(r *events.Record, made task.ID, at time.Time, before uint64, what string) {
	all.book.Find(OneTask, Finding{Task: made, Seqs: []uint64{before, r.Seq},
		What: fmt.Sprintf("the planned run %s of schedule %s %s", at.UTC().Format(time.RFC3339Nano), r.Fact.Schedule, what),
		Look: fmt.Sprintf("`millrace events show %d` and `millrace events show %d`", before, r.Seq)})
}
