package inspect

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"millrace/events"
	"millrace/events/jet/outputs"
	"millrace/history/incident"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/task"
)

// ErrBefore: the log begins after the span.
var ErrBefore = errors.New("the log begins later")

// Log is the log that the file is made from.
type Log interface {
	// History returns all facts of a task in order. The error wraps [task.ErrUnknown] if there is
	// no such task.
	History(ctx context.Context, id task.ID) ([]events.Record, error)
	// PointAt returns the place of a moment; false if the log begins later.
	PointAt(ctx context.Context, m view.Moment) (view.Point, bool, error)
	// Until passes all records of the log up to a sequence to each, in order.
	Until(ctx context.Context, seq uint64, each func(*events.Record) error) error
	// Printed passes the stored messages with the lines of some tasks, at most
	// [outputs.MaxTogether], to each.
	Printed(ctx context.Context, ids []task.ID, each func(seq uint64, stored time.Time, subject string, body []byte) error) error
	// StepResult returns the result of a step that the log keeps apart; the error says if it is gone.
	StepResult(ctx context.Context, id task.ID, digest string, size int) ([]byte, error)
}

// Wish says what the file must hold.
type Wish struct {
	// Task is the task whose life the span covers; "" for a span around Moment, whose zero value is
	// the end of the log.
	Task   task.ID
	Moment view.Moment
	// Window is how far the span extends before and after that, at least 0.
	Window time.Duration
	// Logs adds what the tasks have printed; Raw hides nothing.
	Logs, Raw bool
	// Results is how many bytes of results that the log keeps apart a raw file may have, at most
	// [incident.MaxResults].
	Results int
	// AckWait is how long a lease lasts; Settings are those of
	// [settings.Values.Judging].
	AckWait  time.Duration
	Settings map[string]string
	// Import says what the log itself lacks.
	events.Import
	// Now is the time.
	Now time.Time
}

// Write writes the file, and returns its final manifest. It reads the log twice: first to find out
// what belongs in the file. The error wraps [ErrBefore], [view.ErrNotYet] or [task.ErrUnknown]
// before anything is written; after any other error the output is not a valid file.
func Write(ctx context.Context, log Log, w Wish, out io.Writer) (incident.Manifest, error) {
	m := incident.Manifest{Millrace: wording.ThisBuild().Version, Made: w.Now.UTC(), Outputs: w.Logs, Raw: w.Raw, AckWait: w.AckWait.String(), Settings: w.Settings}
	if m.Import = w.Import; !w.Raw {
		m.Hidden = 0 // all of it hides values
	}
	last, _, err := log.PointAt(ctx, view.Moment{})
	if err == nil {
		err = w.Moment.Reached(last.Seq, w.Now)
	}
	if err != nil {
		return m, err
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
	var redactor *incident.Redactor
	if !w.Raw {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		redactor = incident.NewRedactor(key)
	}
	err = log.Until(ctx, to.Seq, func(r *events.Record) error {
		if m.From.Seq == 0 && r.Seq > before.Seq {
			m.From = incident.Point{Seq: r.Seq, Stored: r.Stored}
		}
		choice.See(r)
		if redactor != nil {
			redactor.See(r)
		}
		return nil
	})
	if err != nil {
		return m, err
	}
	if m.From.Seq == 0 {
		m.From = m.To
	}
	if redactor != nil {
		m.Rules = redactor.Rules()
	}
	return write(ctx, log, &w, choice, redactor, m, out)
}

// span returns the requested times between which facts are wanted.
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
	// It may lie before the log, and the span reach into it.
	case w.Moment.Seq == 0 && !w.Moment.At.IsZero():
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

// write writes the choice, and returns the final manifest.
func write(ctx context.Context, log Log, w *Wish, choice *incident.Choice, redactor *incident.Redactor, m incident.Manifest, out io.Writer) (incident.Manifest, error) {
	m.Tasks, m.AllOf = choice.Tasks()
	to, err := incident.NewWriter(out, m)
	if err != nil {
		return m, err
	}
	facts := 0
	results := apart{log: log, most: w.Results, seen: map[string]bool{}}
	err = log.Until(ctx, m.To.Seq, func(r *events.Record) error {
		if !choice.Keeps(r) {
			return nil
		}
		if r.IsFact() {
			facts++
		}
		if redactor == nil {
			results.see(r)
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
	if err == nil {
		err = results.write(ctx, to)
	}
	if err != nil {
		return m, err
	}
	err = to.Close(func(end *incident.Manifest) {
		end.Left, end.ResultsLeft = choice.Seen()-facts, results.left
		m = *end
	})
	return m, err
}

// writeOutput writes what the chosen tasks have printed.
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

// apart are results of steps that the log keeps apart.
type apart struct {
	log   Log
	most  int // bytes
	left  int
	seen  map[string]bool
	tasks []task.ID
	steps []task.Step
}

func (a *apart) see(r *events.Record) {
	for _, s := range task.StepsApart(r.Fact.Event) {
		if !a.seen[s.Digest] {
			a.seen[s.Digest] = true
			a.tasks, a.steps = append(a.tasks, r.Fact.Task), append(a.steps, s)
		}
	}
}

// write writes those that are stored, as long as there is room.
func (a *apart) write(ctx context.Context, to *incident.Writer) error {
	for i, s := range a.steps {
		if s.Size > a.most {
			a.left++
			continue
		}
		body, err := a.log.StepResult(ctx, a.tasks[i], s.Digest, s.Size)
		if err != nil {
			if a.left++; ctx.Err() != nil {
				return err
			}
			continue
		}
		a.most -= s.Size
		if err := to.Result(incident.Result{Task: string(a.tasks[i]), Digest: s.Digest, Body: body}); err != nil {
			return err
		}
	}
	return nil
}

// FileName is the default name of the file.
func FileName(m *incident.Manifest) string { return fmt.Sprintf("incident-%d.mri", m.To.Seq) }
