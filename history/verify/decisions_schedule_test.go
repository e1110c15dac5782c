package verify_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/schedule"
	"millrace/task/value"
)

// Every kind of fault in a decision on a tick is found.
func TestDecisionsOnTicks(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tick := func(n int) time.Time { return start.Add(time.Duration(n) * time.Minute) }
	made := func(n int) task.ID { return schedule.TaskID("s", tick(n)) }
	admitted := func(n int, open ...task.ID) task.ScheduleAdmitted {
		return task.ScheduleAdmitted{Revision: 1, Tick: tick(n), Due: tick(n), Trigger: task.TriggerSchedule, Made: made(n), Ledger: task.Ledger{Last: tick(n), Open: open}}
	}
	skipped := func(n int, reason, detail string, open ...task.ID) task.ScheduleSkipped {
		return task.ScheduleSkipped{Revision: 1, Tick: tick(n), Reason: reason, Detail: detail, Ledger: task.Ledger{Last: tick(n), Open: open}}
	}
	byHand := func(open ...task.ID) task.ScheduleAdmitted {
		at := tick(1).Add(time.Second)
		id := schedule.TaskID("s", at)
		return task.ScheduleAdmitted{Revision: 1, Tick: at, Due: at, Trigger: task.TriggerManual, Made: id, Ledger: task.Ledger{Last: tick(0), Open: append(open, id)}}
	}
	overlaps := "overlap is skip: task " + string(made(0)) + " has not ended"
	by := func(ends ...uint64) task.By { return task.By{Offer: 5, Ends: ends} }
	// The task of the first tick is born at 4. The fire of the second one lies at 5.
	for name, c := range map[string]struct {
		e     task.ScheduleEvent
		by    task.By
		ended bool // the task of the first tick is cancelled at 6, before the decision
		late  time.Duration
		wrong string
	}{
		"skipped, as it should be":           {e: skipped(1, task.SkipOverlap, overlaps, made(0)), by: by(4)},
		"admitted, as it should be":          {e: admitted(1, made(1)), by: by(6), ended: true},
		"not known that it had ended":        {e: skipped(1, task.SkipOverlap, overlaps, made(0)), by: by(4), ended: true},
		"no task can be made":                {e: skipped(1, task.SkipFull, "the queue is full"), by: by(6), ended: true},
		"missed, as it should be":            {e: skipped(1, task.SkipMissed, "catchup is none", made(0)), by: task.By{Offer: 5}, late: time.Minute},
		"admitted though another one runs":   {e: admitted(1, made(0), made(1)), by: by(4), wrong: "type is"},
		"skipped though it was allowed":      {e: skipped(1, task.SkipOverlap, overlaps, made(0)), by: by(6), ended: true, wrong: "type is"},
		"queued though overlap is skip":      {e: task.ScheduleQueued{Revision: 1, Tick: tick(1), Trigger: task.TriggerSchedule, Ledger: task.Ledger{Last: tick(1), Open: []task.ID{made(0)}}}, by: by(4), wrong: "type is"},
		"a tick that is none":                {e: task.ScheduleAdmitted{Revision: 1, Tick: tick(1).Add(time.Second), Ledger: task.Ledger{Last: tick(1)}}, by: by(6), ended: true, wrong: "not owed"},
		"a tick that is not due":             {e: admitted(2, made(2)), by: by(6), ended: true, wrong: "not owed"},
		"full though it was to be left out":  {e: skipped(1, task.SkipFull, "the queue is full", made(0)), by: by(4), wrong: "reason is"},
		"missed though it came in time":      {e: skipped(1, task.SkipMissed, "catchup is none", made(0)), by: task.By{Offer: 5}, wrong: "reason is"},
		"admitted though it was missed":      {e: admitted(1, made(1)), by: by(6), ended: true, late: time.Minute, wrong: "not owed"},
		"a fire of another schedule":         {e: admitted(1, made(1)), by: task.By{Offer: 3, Ends: []uint64{6}}, ended: true, wrong: "no fire"},
		"an end that is none":                {e: admitted(1, made(1)), by: by(5), wrong: "no message"},
		"released though nothing waited":     {e: admitted(1, made(1)), by: task.By{Rule: task.RuleRelease, Ends: []uint64{6}}, ended: true, wrong: "nothing follows"},
		"refused though it was to be none":   {e: skipped(1, task.SkipFull, "the queue is full", made(0)), by: task.By{Rule: task.RuleBirth}, wrong: "was to get no task"},
		"a revision of which nothing comes":  {e: task.ScheduleAdmitted{Revision: 2, Tick: tick(1)}, by: by(4), wrong: "nothing fires"},
		"by hand, as it should be":           {e: byHand(), by: task.By{Rule: task.RuleHand, Ends: []uint64{6}}, ended: true},
		"by hand though another one runs":    {e: byHand(made(0)), by: task.By{Rule: task.RuleHand, Ends: []uint64{4}}, wrong: "has not ended"},
		"by hand, and it takes a tick away":  {e: admitted(1, made(1)), by: task.By{Rule: task.RuleHand, Ends: []uint64{6}}, ended: true, wrong: "is"},
		"no fire came, and it is no tick":    {e: admitted(1, made(1)), by: task.By{Rule: task.RuleWatch, At: start.Add(time.Second), Ends: []uint64{6}}, ended: true, wrong: "no planned run"},
		"no fire came, and it is decided on": {e: admitted(1, made(1)), by: task.By{Rule: task.RuleWatch, At: tick(1), Ends: []uint64{6}}, ended: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := json.Marshal(schedule.Definition{Name: "s", Make: birth.Submission{Spec: &job.Spec{Handler: "x"}},
				When: job.Schedule{Every: value.Duration(time.Minute), Start: "2026-03-01T12:00:00Z", Overlap: job.OverlapSkip, CatchUp: job.CatchUpNone}})
			if err != nil {
				t.Fatal(err)
			}
			var log []events.Record
			add := func(kind events.Kind, at time.Time, f events.Fact) {
				f.At, f.Type, f.ID = at, events.TypeOf(f.Event), events.NewID(at)
				if kind == events.KindFire || kind == events.KindTick {
					f.Schedule = "s"
				}
				log = append(log, events.Record{Seq: uint64(len(log) + 1), Stored: at, Kind: kind, Fact: f})
			}
			fire := func(n int, at time.Time) {
				add(events.KindFire, at, events.Fact{Event: task.ScheduleFired{Revision: 1, Tick: tick(n), Due: tick(n)}})
			}
			add(events.KindDefinition, start.Add(-time.Hour), events.Fact{Def: "schedule.s", Event: task.DefinitionApplied{Edition: task.Edition{Revision: 1, Text: text}}})
			fire(0, tick(0))
			add(events.KindTick, tick(0), events.Fact{By: &task.By{Offer: 2}, Event: admitted(0, made(0))})
			add(events.KindOffer, tick(0), events.Fact{Task: made(0), Event: task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "x"}, Route: "default.5"}}})
			at := tick(1).Add(c.late)
			fire(1, at)
			if c.ended {
				add(events.KindChain, tick(1), events.Fact{Task: made(0), Event: task.CancelConfirmed{}})
			}
			add(events.KindTick, at, events.Fact{By: &c.by, Event: c.e})
			found := verify.Decided(log)
			switch {
			case c.wrong == "" && len(found) > 0:
				t.Errorf("found %+v", found)
			case c.wrong != "" && (len(found) != 1 || !strings.Contains(found[0].What, c.wrong)):
				t.Errorf("found %+v, want one with %q", found, c.wrong)
			}
		})
	}
}
