package verify

import (
	"slices"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/definition"
	"millrace/task/schedule"
)

// What the window of a task said to its birth, and to a claim, is decided again from the revision of the calendar that
// the fact names.

// calendar remembers a change of a calendar.
func (v *Verifier) calendar(key definition.Def, at time.Time, e definition.DefinitionEvent) {
	if key.Kind() != definition.DefCalendar || !v.asked[Decisions] {
		return
	}
	is := definition.EvolveDefinition(definition.Definition{}, 0, at, "", e)
	is.Text, is.Digest = slices.Clone(is.Text), "" // the record's memory is not ours to keep
	past := v.calendars[key]
	if len(past) == manyPasts {
		past = slices.Delete(past, 0, 1)
	}
	v.calendars[key] = append(past, is)
}

// wait is what a window says by a revision of its calendar; false if that is not known any more.
func (s *story) wait(v *Verifier, name string, revision uint64, at time.Time, r *events.Record) (*schedule.Wait, bool) {
	past := v.calendars[definition.DefOf(definition.DefCalendar, name)]
	i := slices.IndexFunc(past, func(d definition.Definition) bool { return d.Revision == revision })
	switch {
	case revision == 0:
		wait, _ := schedule.Window(name, &definition.Definition{}, at)
		return wait, true
	case i >= 0:
		wait, _ := schedule.Window(name, &past[i], at)
		return wait, true
	case len(past) == manyPasts && revision < past[0].Revision:
		v.forgotten++
		return nil, false
	}
	v.checked[Decisions]++
	s.found(v, Decisions, []uint64{r.Seq}, "%s was decided by revision %d of calendar %s, which is not there before it", r.Fact.Type, revision, name)
	return nil, false
}

// shutOut decides again that a window was closed to a claim.
func (s *story) shutOut(v *Verifier, k *task.Task, r *events.Record) {
	by := by(r)
	if !v.whole() {
		return
	}
	if k.Spec == nil || k.Spec.Window == "" {
		s.unruled(v, r)
		return
	}
	wait, known := s.wait(v, k.Spec.Window, by.Calendar, by.At, r)
	switch {
	case !known:
	case wait == nil:
		v.checked[Decisions]++
		s.found(v, Decisions, []uint64{r.Seq}, "%s, and the window %s was open by revision %d of its calendar", r.Fact.Type, k.Spec.Window, by.Calendar)
	default:
		s.remade(v, k, task.Judged{Command: wait.Postpone(k.Turn), By: by}, r)
	}
}

// bornOutside decides again that a birth waits for its window.
func (s *story) bornOutside(v *Verifier, e *task.Submitted, r *events.Record) {
	if e.Window == nil || e.Spec == nil || !v.asked[Decisions] || !v.whole() {
		return
	}
	wait, known := s.wait(v, e.Spec.Window, e.Window.Calendar, e.Window.From, r)
	if !known {
		return
	}
	v.checked[Decisions]++
	if wait == nil || !wait.Until.Equal(e.Due) || wait.Detail != e.Window.Detail {
		s.found(v, Decisions, []uint64{r.Seq}, "%s waits for its window until %s, and by what it names it is to be: %+v", r.Fact.Type, e.Due.UTC().Format(time.RFC3339Nano), wait)
	}
}
