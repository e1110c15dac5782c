package verify_test

import (
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

// Decisions of windows are repeated by the revision of the calendar that the fact names.
func TestWindowsAreDecidedAgain(t *testing.T) {
	start := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	opens := start.Add(6 * time.Hour)
	const words = "outside of the window night, opens at 2026-03-02 18:00:00 +00:00"
	hours := []string{
		`{"name":"night","rules":[{"closed":"10:00-18:00"}]}`,
		`{"name":"night","rules":[{"closed":"10:00-11:00"}]}`,
	}
	work := task.Work{Spec: &job.Spec{Handler: "x", Window: "night"}, Route: "default.5"}
	birth := func(due time.Time, calendar uint64, detail string) task.Submitted {
		return task.Submitted{Work: work, Due: due, Window: &task.Shut{Calendar: calendar, From: start, Detail: detail}}
	}
	held := func(due time.Time) task.Postponed {
		return task.Postponed{Reason: value.Window, Detail: words, Due: due}
	}
	by := func(calendar uint64) *task.By {
		return &task.By{Rule: value.Window, At: start, Calendar: calendar}
	}
	for name, c := range map[string]struct {
		e     task.Event
		by    *task.By
		wrong string
	}{
		"a birth":                               {e: birth(opens, 1, words)},
		"a birth, and another opening":          {e: birth(opens.Add(time.Minute), 1, words), wrong: "waits for its window until"},
		"a birth, and the calendar says open":   {e: birth(opens, 2, words), wrong: "waits for its window until"},
		"a birth, and no such revision":         {e: birth(opens, 7, words), wrong: "revision 7 of calendar night, which is not there before it"},
		"a claim":                               {e: held(opens), by: by(1)},
		"a claim, and another opening":          {e: held(opens.Add(time.Minute)), by: by(1), wrong: "due"},
		"a claim, and the calendar says open":   {e: held(opens), by: by(2), wrong: "was open by revision 2"},
		"a claim, and there was no calendar":    {e: held(opens), by: by(0), wrong: "due"},
		"a claim, and no such revision":         {e: held(opens), by: by(7), wrong: "revision 7 of calendar night, which is not there before it"},
		"a claim that does not name the rule":   {e: held(opens), by: &task.By{At: start, Calendar: 1}, wrong: "names no rule"},
		"a claim that names the breaker's rule": {e: held(opens), by: &task.By{Rule: value.Breaker, At: start, Calendar: 1}, wrong: "names no rule"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log []events.Record
			add := func(kind events.Kind, f events.Fact) {
				f.At, f.Type, f.ID = start, events.TypeOf(f.Event), events.NewID(start)
				log = append(log, events.Record{Seq: uint64(len(log) + 1), Stored: start, Kind: kind, Fact: f})
			}
			for i, text := range hours {
				add(events.KindDefinition, events.Fact{Def: "calendar.night", Event: task.DefinitionApplied{Edition: task.Edition{Revision: uint64(i + 1), Text: []byte(text)}}})
			}
			id := task.ID(events.NewID(start))
			if _, born := c.e.(task.Submitted); born {
				add(events.KindHold, events.Fact{Task: id, Event: c.e})
			} else {
				add(events.KindOffer, events.Fact{Task: id, Event: task.Submitted{Work: work}})
				add(events.KindChain, events.Fact{Task: id, By: c.by, Event: c.e})
			}
			found := verify.Decided(log)
			switch {
			case c.wrong == "" && len(found) > 0:
				t.Errorf("found %+v", found)
			case c.wrong != "" && (len(found) != 1 || !strings.Contains(found[0].What, c.wrong)):
				t.Errorf("found %+v, want %q", found, c.wrong)
			}
		})
	}
}
