package projections

import (
	"maps"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/quota"
	"millrace/task/value"
)

// The usage of budgets survives a restart, for any size of batches, until it no longer matters.
func TestBudgetRows(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const id, other, old = task.ID("01JNAT00000000000000000001"), task.ID("01JNAT00000000000000000002"), task.ID("01JNAT00000000000000000003")
	const own, common = "budget:day:j", "budget:week.Asia.Tokyo:/k"
	var records []events.Record
	add := func(kind events.Kind, at time.Time, f events.Fact) uint64 {
		seq := uint64(len(records) + 1)
		f.At, f.Type, f.ID = at, events.TypeOf(f.Event), events.NewID(at)
		records = append(records, events.Record{Seq: seq, Stored: at, Kind: kind, Fact: f})
		return seq
	}
	started := func(at time.Time, id task.ID, attempt int, over *task.TookOver) uint64 {
		return add(events.KindChain, at, events.Fact{Task: id, Event: task.AttemptStarted{Attempt: attempt, Node: "n", Session: "s", Offer: 1, TookOver: over}})
	}
	spec := &job.Spec{Handler: "h", Budget: limit.Budgets{{Starts: 2}, {Run: value.Duration(time.Hour), Per: limit.PerWeek, Timezone: "Asia/Tokyo", Key: "/k"}}}
	before := *spec
	before.Budget = limit.Budgets{{Starts: 1, Key: "old"}}
	add(events.KindHold, noon.Add(-72*time.Hour), events.Fact{Task: old, Event: task.Submitted{Work: task.Work{Job: "j", Spec: &before, Route: "default.5", Holds: []string{task.HoldLimit}}}})
	started(noon.Add(-72*time.Hour), old, 1, nil)
	for _, id := range []task.ID{id, other} {
		add(events.KindHold, noon, events.Fact{Task: id, Event: task.Submitted{Work: task.Work{Job: "j", Spec: spec, Route: "default.5", Holds: []string{task.HoldLimit}}}})
	}
	epoch := started(noon, id, 1, nil)
	epoch = started(noon.Add(time.Minute), id, 2, &task.TookOver{Epoch: epoch, Reason: "r"})
	add(events.KindChain, noon.Add(3*time.Minute), events.Fact{Task: id, Event: task.AttemptFinished{Attempt: 2, Epoch: epoch}})
	started(noon, other, 1, nil)

	week, _ := limit.PeriodOf(common)
	since, _ := week.Bounds(noon)
	want := limit.Tallies{
		own:    {Since: noon.Truncate(24 * time.Hour), Starts: 3, Ran: 3 * time.Minute, Last: 2 * time.Minute},
		common: {Since: since, Starts: 3, Ran: 3 * time.Minute, Last: 2 * time.Minute},
	}
	for _, size := range []int{1, 2, len(records)} {
		for _, observed := range []bool{false, true} {
			s := open(t, "")
			f, err := newFold(t.Context(), s, 10)
			if err != nil {
				t.Fatal(err)
			}
			if observed {
				f.observers = []Observer{blind{}}
			}
			for rest := records; len(rest) > 0; rest = rest[min(size, len(rest)):] {
				if err := f.apply(t.Context(), rest[:min(size, len(rest))]); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.w.close(); err != nil {
				t.Fatal(err)
			}
			used, _, err := s.EachLimited(t.Context(), func(quota.Stand, quota.Counters, *task.Grant) {})
			same := func(a, b limit.Tally) bool {
				return a.Since.Equal(b.Since) && a.Starts == b.Starts && a.Ran == b.Ran && a.Last == b.Last
			}
			if err != nil || !maps.EqualFunc(used.Budgets, want, same) {
				t.Errorf("in batches of %d: %+v is used up, %v; want %+v", size, used.Budgets, err, want)
			}
		}
	}
}

// blind is an observer that does nothing.
type blind struct{}

func (blind) Observe([]events.Step) {}
