package metrics

import (
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
)

func TestTicksAreCounted(t *testing.T) {
	f := NewFold(0, nil, nil, NewQueues())
	due := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var steps []events.Step
	for i, e := range []task.ScheduleEvent{
		task.ScheduleAdmitted{Trigger: task.TriggerSchedule, Due: due},
		task.ScheduleAdmitted{Trigger: task.TriggerCatchUp, Due: due.Add(-time.Hour)},
		task.ScheduleSkipped{Reason: task.SkipMissed, Count: 12},
		task.ScheduleSkipped{Reason: task.SkipOverlap},
		task.ScheduleSkipped{Reason: "of a version to come"},
	} {
		steps = append(steps, events.Step{Record: &events.Record{Seq: uint64(i + 1), Kind: events.KindTick,
			Fact: events.Fact{Schedule: "nightly", At: due.Add(200 * time.Millisecond), Type: events.TypeOf(e), Event: e}}})
	}
	f.Observe(steps)
	got := map[string]float64{}
	f.Collect(func(family *Family, v float64, h *Histogram, labels ...string) {
		switch family {
		case ScheduleTicks, ScheduleMissed:
			got[family.Name+" "+labels[0]] = v
		}
	})
	for name, want := range map[string]float64{
		"millrace_schedule_ticks_total schedule": 1, "millrace_schedule_ticks_total catchup": 1,
		"millrace_schedule_missed_total missed": 12, "millrace_schedule_missed_total overlap": 1, "millrace_schedule_missed_total " + Other: 1,
		"millrace_schedule_missed_total window": 0,
	} {
		if n, there := got[name]; !there || n != want {
			t.Errorf("%s is %v, want %v", name, n, want)
		}
	}
}
