package verify

import (
	"fmt"
	"slices"
	"time"

	"millrace/events"
	"millrace/history/verify/findings"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/queue"
	"millrace/task/schedule"
)

// Decisions of windows on births and claims are repeated from the revision of the calendar that the
// fact names.

// calendar remembers a change of a calendar.
func (v *Verifier) calendar(key task.Def, at time.Time, e task.DefinitionEvent) {
	if key.Kind() != task.DefCalendar || !v.book.Asked(Decisions) {
		return
	}
	is := task.EvolveDefinition(task.Definition{}, 0, at, "", e)
	is.Text, is.Digest = slices.Clone(is.Text), "" // the record's memory is reused
	all := v.calendars[key]
	all.Add(is)
	v.calendars[key] = all
}

// revision returns a calendar as a decision knew it; false if that cannot be told, or is wrong.
func (s *story) revision(v *Verifier, name string, number uint64, r *events.Record) (task.Definition, bool) {
	if number == 0 {
		return task.Definition{}, true // there was no calendar
	}
	return edition(s, v, r, v.calendars[task.Named(task.DefCalendar, name)], number, func(d *task.Definition) uint64 { return d.Revision },
		fmt.Sprintf("revision %d of calendar %s, which is not there before it", number, name))
}

// shutOut is what was read by the decision that a window was closed to a claim.
func (s *story) shutOut(v *Verifier, k *task.Task, by *task.By, r *events.Record) (read duties.Read, free string, ok bool) {
	is, ok := s.revision(v, k.Spec.Window, by.Calendar, r)
	read.Calendar = func(string) (task.Definition, error) { return is, nil }
	return read, fmt.Sprintf("the window %s was open by revision %d of its calendar", k.Spec.Window, by.Calendar), ok
}

// bornOutside repeats the decision that a birth waits for its window.
func (s *story) bornOutside(v *Verifier, e *task.Submitted, r *events.Record) {
	if e.Window == nil || e.Spec == nil || !v.book.Asked(Decisions) || !v.whole() {
		return
	}
	calendar, known := s.revision(v, e.Spec.Window, e.Window.Calendar, r)
	if !known {
		return
	}
	wait, _ := schedule.Window(e.Spec.Window, &calendar, e.Window.From)
	v.book.Checked[Decisions]++
	if wait == nil || !wait.Until.Equal(e.Due) || wait.Detail != e.Window.Detail {
		is := "at once"
		if wait != nil {
			is = fmt.Sprintf("until %s (%s)", wait.Until.UTC().Format(time.RFC3339Nano), wait.Detail)
		}
		s.found(v, Decisions, []uint64{r.Seq}, "%s waits for its window until %s (%s), and by what it names it may start %s", r.Fact.Type, e.Due.UTC().Format(time.RFC3339Nano), e.Window.Detail, is)
	}
}

// No task starts while the valve of its queue is shut. A claim names neither the settings of the
// queue nor the revisions of the calendars that its worker knew, and workers learn of both a little
// later. So a start is wrong only if none of the recent settings and revisions allows it.

// heard is how soon a worker learns of a change: it polls once a minute if it has missed all
// notices.
const heard = 2 * time.Minute

// valve is the valve of a queue from a time on.
type valve struct {
	from time.Time
	is   queue.Valve
}

// flows checks that the valve of a task's queue was open at the start of an attempt.
func (s *story) flows(v *Verifier, k *task.Task, r *events.Record) {
	if len(v.valves) == 0 || !v.whole() {
		return
	}
	name, at := k.RateQueue(), r.Fact.At
	valves, always := findings.Lately(v.valves[name], heard, at, func(w *valve) time.Time { return w.from })
	if !always {
		return // it had none
	}
	var shut *schedule.Wait
	for i := range valves {
		var known bool
		if shut, known = v.flowed(valves[i].is, at, map[string]task.Definition{}); !known {
			v.book.Forgotten++
			return
		}
		if shut == nil {
			break
		}
	}
	if v.book.Checked[Decisions]++; shut != nil {
		s.found(v, Decisions, []uint64{r.Seq}, "the attempt started at %s, when queue %s was closed: %s", at.UTC().Format(time.RFC3339Nano), name, shut.Detail)
	}
}

// flowed tells whether a valve was open at a time by any of the recent revisions of its calendars:
// nil if it was. chosen has the revisions of those that are chosen already. known is false if some
// revisions are forgotten.
func (v *Verifier) flowed(is queue.Valve, at time.Time, chosen map[string]task.Definition) (shut *schedule.Wait, known bool) {
	for _, name := range is.Calendars() {
		if _, there := chosen[name]; there {
			continue
		}
		all := v.calendars[task.Named(task.DefCalendar, name)]
		calendars, always := findings.Lately(all, heard, at, func(d *task.Definition) time.Time { return d.Changed })
		if !always {
			if all.Full() {
				return nil, false
			}
			calendars = append([]task.Definition{{}}, calendars...) // there was no calendar
		}
		for _, c := range calendars {
			chosen[name] = c
			if shut, known = v.flowed(is, at, chosen); shut == nil {
				return shut, known
			}
		}
		delete(chosen, name)
		return shut, known
	}
	shut, _, err := schedule.Flow(is, at, func(name string) (task.Definition, error) { return chosen[name], nil })
	return shut, err == nil
}
