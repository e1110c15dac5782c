package metrics

import (
	"millrace/events"
	"millrace/task"
)

// schedules counts the decisions on ticks. [Fold] guards it.
type schedules struct {
	admitted map[string]uint64 // by trigger
	skipped  map[string]uint64 // by reason
	lag      *Histogram
}

var (
	triggers    = []string{task.TriggerSchedule, task.TriggerCatchUp}
	skipReasons = []string{task.SkipOverlap, task.SkipMissed, task.SkipWindow,
		task.SkipFailing, task.SkipInvalid, task.SkipUnique, task.SkipFull,
		task.SkipStranger, task.SkipPaused}
)

func newSchedules() schedules {
	return schedules{admitted: zeros(triggers), skipped: zeros(skipReasons), lag: newHistogram(waitBounds)}
}

// decision counts a decision on a tick.
func (s *schedules) decision(r *events.Record) {
	switch e := r.Fact.Event.(type) {
	case task.ScheduleAdmitted:
		s.admitted[oneOf(triggers, e.Trigger)]++
		if e.Trigger == task.TriggerSchedule && !e.Due.IsZero() { // a tick that waited has no due time
			s.lag.observe(r.Fact.At.Sub(e.Due))
		}
	case task.ScheduleSkipped:
		s.skipped[oneOf(skipReasons, e.Reason)] += uint64(max(e.Count, 1))
	}
}

func (s *schedules) collect(emit Emit) {
	for trigger, n := range s.admitted {
		emit(ScheduleTicks, float64(n), nil, trigger)
	}
	for reason, n := range s.skipped {
		emit(ScheduleMissed, float64(n), nil, reason)
	}
	emit(ScheduleLag, 0, s.lag)
}
