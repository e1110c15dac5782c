package history

import (
	"errors"
	"os"
	"slices"
	"time"

	"millrace/events"
	"millrace/history/incident"
	"millrace/history/replay"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
)

// partialFile says why promises cannot be checked against an incident file.
const partialFile = "the incident file holds only what lived in its span"

// incidentSource reads the facts of an incident file, whose settings count before one's own. Missing
// facts become gaps.
func incidentSource(in *text, k kept, own settings.Values, between [2]view.Moment) (source, error) {
	f, err := in.read()
	if err != nil {
		return source{}, err
	}
	m := &f.Manifest
	if err := judged(&own, m); err != nil {
		return source{}, err
	}
	from := source{rules: connect.Rules{Values: own}, incident: f, marks: marksOf(f.Notes)}
	switch {
	case m.Left > 0:
		from.partial = partialFile
	case !m.Raw:
		from.partial = "what decisions name was redacted"
	}
	from.begin()
	if k.restore(from.span, func(r *events.Record) bool { return behind(between[1], r) }, func(r *events.Record) bool { return from.begun(r, between[0]) }) {
		return from, nil
	}
	from.begin()
	gaps := slices.Clone(f.Missing)
	for r, err := range f.Facts() {
		for len(gaps) > 0 && (gaps[0].Section != incident.SectionFacts.String() || r.Seq > gaps[0].After) {
			from.gap(&gaps[0])
			gaps = gaps[1:]
		}
		switch {
		case err != nil:
			from.span.Missing(err.Error())
		case behind(between[1], &r):
			return from, nil
		default:
			if err := from.span.Add(&r, from.begun(&r, between[0])); err != nil {
				return from, err
			}
		}
	}
	for i := range gaps {
		from.gap(&gaps[i])
	}
	if len(from.beside) == 0 {
		k.keep(from.span)
	}
	return from, nil
}

// begin begins the span of an incident file.
func (s *source) begin() {
	s.span = replay.NewSpan(1)
	s.span.Imported(s.incident.Import())
}

// begun tells whether a record belongs to the span of the file, and of the question.
func (s *source) begun(r *events.Record, begin view.Moment) bool {
	return r.Seq >= s.incident.Manifest.From.Seq && begin.Begun(r)
}

// gap records that a part is missing; only facts leave a gap to step over.
func (s *source) gap(m *incident.Missing) {
	if m.Section == incident.SectionFacts.String() {
		s.span.Missing(m.Why)
		return
	}
	s.beside = append(s.beside, *m)
}

func marksOf(notes []incident.Note) (marks []replay.Mark) {
	for _, n := range notes {
		marks = append(marks, replay.Mark{Name: n.Name, Seq: n.Seq, Time: n.Time, Note: n.Text})
	}
	return marks
}

// keepNotes adds a session's marks to the file.
func (a *Commands) keepNotes(name string, from source, marks []replay.Mark) error {
	had := marksOf(from.incident.Notes)
	var notes []incident.Note
	for _, m := range marks {
		if !slices.ContainsFunc(had, func(h replay.Mark) bool {
			return h.Name == m.Name && h.Seq == m.Seq && h.Time.Equal(m.Time) && h.Note == m.Note
		}) {
			notes = append(notes, incident.Note{Name: m.Name, Seq: m.Seq, Time: m.Time, Text: m.Note, By: os.Getenv("USER"), Made: a.Now().UTC()})
		}
	}
	switch {
	case len(notes) == 0:
		return nil
	case name == "-":
		a.Note("%s: stdin keeps no notes", wording.Plural(len(notes), "mark"))
		return nil
	}
	if err := appendNotes(name, from.incident, notes); errors.Is(err, incident.ErrDamaged) {
		a.Note("%s: %v", wording.Plural(len(notes), "mark"), err)
		return nil
	} else if err != nil {
		return err
	}
	a.Note("%s kept in %s", wording.Plural(len(notes), "mark"), name)
	return nil
}

func appendNotes(name string, f *incident.File, notes []incident.Note) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	return errors.Join(incident.Append(file, f, notes), file.Close())
}

// judged sets the settings by which what an incident file holds was judged.
func judged(s *settings.Values, m *incident.Manifest) error {
	if d, err := time.ParseDuration(m.AckWait); err == nil && d > 0 { // else the file does not say
		s.AckWait = d
	}
	return s.Take(m.Settings)
}
