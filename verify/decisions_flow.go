package verify

import (
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/definition"
	"millrace/task/schedule"
)

// No task starts while the window of its queue is closed. A claim names neither the settings of the queue nor the revision of the
// calendar that its worker knew, and workers hear of both a little later. So a start counts as wrong if it is by none of
// those that held lately.

// heard is in what time a worker hears of a change: it looks once a minute if it has missed every word.
const heard = 2 * time.Minute

// window is that of a queue from a time on; "" is none.
type window struct {
	from     time.Time
	calendar string
}

// flows checks that the window of a task's queue was open at the start of an attempt.
func (s *story) flows(v *Verifier, k *task.Task, r *events.Record) {
	if len(v.windows) == 0 || !v.whole() {
		return
	}
	queue, at := k.RateQueue(), r.Fact.At
	windows, always := lately(v.windows[queue], at, func(w *window) time.Time { return w.from })
	if !always {
		return // it had none
	}
	var closed string
	for _, w := range windows {
		q := task.Queue{Name: queue, Window: w.calendar}
		all := v.calendars[definition.DefOf(definition.DefCalendar, w.calendar)]
		calendars, always := lately(all, at, func(d *definition.Definition) time.Time { return d.Changed })
		if !always {
			if len(all) == manyPasts {
				v.forgotten++
				return
			}
			calendars = append([]definition.Definition{{}}, calendars...) // there was none
		}
		for i := range calendars {
			shut, _ := schedule.Flow(&q, &calendars[i], at)
			if shut == nil {
				v.checked[Decisions]++
				return
			}
			closed = shut.Detail
		}
	}
	v.checked[Decisions]++
	s.found(v, Decisions, []uint64{r.Seq}, "the attempt started at %s, when queue %s was closed: %s", at.UTC().Format(time.RFC3339Nano), queue, closed)
}

// lately are those of the editions of something, in the order of their times, that held at some moment shortly before a time; always
// tells whether one of them held at each.
func lately[T any](all []T, at time.Time, from func(*T) time.Time) (held []T, always bool) {
	since := at.Add(-heard)
	for i := range all {
		if from(&all[i]).After(at) {
			break
		}
		if !from(&all[i]).After(since) {
			held, always = held[:0], true
		}
		held = append(held, all[i])
	}
	return held, always
}
