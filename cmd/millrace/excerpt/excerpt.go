// Package excerpt writes an incident file of a log, for the command line and for pages. It knows nothing of who asks, and of where the file goes.
package excerpt

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"millrace/cmd/millrace/settings"
	"millrace/cmd/millrace/told"
	"millrace/events"
	"millrace/incident"
	"millrace/jet/outputs"
	"millrace/task"
	"millrace/view"
)

// ErrBefore means that the log begins behind the span.
var ErrBefore = errors.New("the log begins later")

// Log is where the file is read from.
type Log interface {
	// History are all facts of a task in order. The error wraps [task.ErrUnknown] if there is no such task.
	History(ctx context.Context, id task.ID) ([]events.Record, error)
	// PointAt is the place that a moment chooses; false if the log begins later.
	PointAt(ctx context.Context, m view.Moment) (view.Point, bool, error)
	// Until hands on all records of the log up to a sequence, in order.
	Until(ctx context.Context, seq uint64, each func(*events.Record) error) error
	// Printed hands on the messages in which the lines of some tasks lie, at most [outputs.MaxTogether], as they are stored.
	Printed(ctx context.Context, ids []task.ID, each func(seq uint64, stored time.Time, subject string, body []byte) error) error
}

// Wish is what the file is to have.
type Wish struct {
	// Task is around whose life the span lies; "" for that around Moment, of which the zero one is the end of the log.
	Task   task.ID
	Moment view.Moment
	// Window is how long before and after that it reaches, at least 0.
	Window time.Duration
	// Logs adds what the tasks have printed, and Raw hides nothing.
	Logs, Raw bool
	// AckWait is how long a lease lasts, and Settings are those by which duties are judged; see [SettingsOf].
	AckWait  time.Duration
	Settings map[string]string
	// Now is the time.
	Now time.Time
}

// judges are the settings by which duties are judged.
var judges = map[string]bool{"start_deadline": true, "node_ttl": true, "beat": true, "sweep": true, "grace": true}

// SettingsOf are the settings by which duties are judged, as a file has them.
func SettingsOf(s *settings.Values) map[string]string {
	is := map[string]string{}
	for _, d := range settings.All {
		if judges[d.Name] {
			is[d.Name] = d.Text(s)
		}
	}
	return is
}

// Write writes the file, and returns what its end says of it. It reads the log twice: once to find out what belongs into the file. The error
// wraps [ErrBefore] or [task.ErrUnknown] before anything is written; after another one what is written is no file.
func Write(ctx context.Context, log Log, w Wish, out io.Writer) (incident.Manifest, error) {
	m := incident.Manifest{Millrace: told.ThisBuild().Version, Made: w.Now.UTC(), Outputs: w.Logs, Raw: w.Raw, AckWait: w.AckWait.String(), Settings: w.Settings}
	if !w.Raw {
		m.Rules = incident.Rules
	}
	begin, end, err := w.span(ctx, log, &m)
	if err != nil {
		return m, err
	}
	before, _, err := log.PointAt(ctx, view.Moment{At: begin})
	if err != nil {
		return m, err
	}
	to, found, err := log.PointAt(ctx, view.Moment{At: end})
	if err == nil && !found {
		err = ErrBefore
	}
	if err != nil {
		return m, err
	}
	m.To = incident.Point{Seq: to.Seq, Stored: to.At}
	choice := incident.NewChoice(before.Seq+1, to.Seq)
	err = log.Until(ctx, to.Seq, func(r *events.Record) error {
		if m.From.Seq == 0 && r.Seq > before.Seq {
			m.From = incident.Point{Seq: r.Seq, Stored: r.Stored}
		}
		choice.See(r)
		return nil
	})
	if err != nil {
		return m, err
	}
	if m.From.Seq == 0 {
		m.From = m.To
	}
	return write(ctx, log, &w, choice, m, out)
}

// span is what is asked for: the times between which facts are wanted.
func (w *Wish) span(ctx context.Context, log Log, m *incident.Manifest) (from, to time.Time, err error) {
	switch {
	case w.Task != "":
		facts, err := log.History(ctx, w.Task)
		if err != nil {
			return from, to, err
		}
		m.Around = "task " + string(w.Task)
		from, to = facts[0].Stored, facts[len(facts)-1].Stored
		if k := events.FoldTask(w.Task, facts); !k.State.Terminal() {
			to = w.Now
		}
	case w.Moment.Seq == 0 && !w.Moment.At.IsZero(): // it may lie before the log, and the span reach into it
		m.Around = w.Moment.At.UTC().Format(time.RFC3339)
		from, to = w.Moment.At, w.Moment.At
	default:
		p, found, err := log.PointAt(ctx, w.Moment)
		if err == nil && !found {
			err = ErrBefore
		}
		if err != nil {
			return from, to, err
		}
		m.Around = fmt.Sprintf("#%d", p.Seq)
		from, to = p.At, p.At
	}
	return from.Add(-w.Window), to.Add(w.Window), nil
}

// write writes what was chosen, and returns the manifest as it stands at the end.
func write(ctx context.Context, log Log, w *Wish, choice *incident.Choice, m incident.Manifest, out io.Writer) (incident.Manifest, error) {
	m.Tasks, m.AllOf = choice.Tasks()
	to, err := incident.NewWriter(out, m)
	if err != nil {
		return m, err
	}
	var redactor *incident.Redactor
	if !w.Raw {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		redactor = incident.NewRedactor(key)
	}
	facts := 0
	err = log.Until(ctx, m.To.Seq, func(r *events.Record) error {
		if !choice.Keeps(r) {
			return nil
		}
		if r.IsFact() {
			facts++
		}
		if redactor == nil {
			return to.Fact(r)
		}
		is, err := redactor.Fact(r)
		if err != nil {
			return fmt.Errorf("redact #%d: %w", r.Seq, err)
		}
		return to.Fact(&is)
	})
	if err == nil && w.Logs {
		err = writeOutput(ctx, log, choice, redactor, to)
	}
	if err != nil {
		return m, err
	}
	err = to.Close(func(end *incident.Manifest) {
		end.Left = choice.Seen() - facts
		m = *end
	})
	return m, err
}

// writeOutput writes what the tasks that are there have printed.
func writeOutput(ctx context.Context, log Log, choice *incident.Choice, redactor *incident.Redactor, w *incident.Writer) error {
	hide := func(*incident.Lines) {}
	if redactor != nil {
		hide = redactor.Output()
	}
	for ids := range slices.Chunk(choice.Living(), outputs.MaxTogether) {
		err := log.Printed(ctx, ids, func(seq uint64, stored time.Time, subject string, body []byte) error {
			l := incident.Lines{Seq: seq, Stored: stored, Subject: subject, Body: body}
			hide(&l)
			return w.Output(&l)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// FileName is what the file is called, if nobody says otherwise.
func FileName(m *incident.Manifest) string { return fmt.Sprintf("incident-%d.mri", m.To.Seq) }
