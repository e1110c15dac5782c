package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/history/incident"
	"millrace/history/replay"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/task/output"
)

// Bounds of stepping through a file.
const (
	maxBreaks   = 8
	maxCommands = 50
	around      = 6
)

// stepping is a session in a file.
type stepping struct {
	session *replay.Session
	gaps    []replay.Gap
}

// Where is a position in a file: at a sequence, with these breakpoints and this focus, and the
// commands to run from there.
type Where struct {
	At uint64
	// Of is the focus, as "task ID"; "" for everything.
	Of     string
	Breaks []string
	Do     []string
}

// Seen is what the user sees there.
type Seen struct {
	*replay.Frame
	// Says is the result of the last command, in words; Wrong is what was wrong with it, or with
	// the position.
	Says, Wrong string
	Breaks      []*replay.Breakpoint
	Around      []replay.Line
	Causes      []replay.Line
	Marks       []replay.Mark
	Gaps        []replay.Gap
	// Between tells that the point is between two facts, so that its sequence does not identify it.
	Between bool
}

// moves are the commands that move the point; no others are allowed.
var moves = []string{"s", "S", "n", "N", "f", "F", "c", "C", "w", "w!", "/", "/!"}

// Step runs commands from a position in a file. Errors of the request are in the answer; the
// returned error is any other one.
func (f *File) Step(ctx context.Context, w Where, rules view.Rules, margin time.Duration) (*Seen, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin(rules, margin); err != nil {
		return nil, err
	}
	x, seen := f.steps.session, &Seen{Gaps: f.steps.gaps}
	try := func(line string) bool {
		if seen.Wrong != "" {
			return false
		}
		a, err := x.Do(ctx, line)
		if err != nil {
			seen.Wrong = err.Error()
			return false
		}
		seen.Says = a.Says
		return true
	}
	f.setBreaks(ctx, w.Breaks, seen)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	_, _ = x.Do(ctx, "o all") // that is always possible
	if w.Of != "" {
		try("o " + w.Of)
	}
	if _, err := x.Do(ctx, "g "+strconv.FormatUint(max(w.At, 1), 10)); err != nil {
		if _, err := x.Do(ctx, "g start"); err != nil {
			return nil, err
		}
	}
	seen.Says = ""
	for _, line := range w.Do[:min(len(w.Do), maxCommands)] {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !slices.Contains(moves, name) {
			seen.Wrong = fmt.Sprintf("%q goes nowhere", name)
			break
		}
		if !try(line) {
			break
		}
	}
	var err error
	if seen.Frame, err = x.Frame(ctx); err != nil {
		return nil, err
	}
	seen.Between = seen.Time.After(seen.Stored)
	seen.Breaks, seen.Around, seen.Marks = x.Breaks(), x.Around(around, false), x.Marks()
	if seen.Seq > 0 {
		if a, err := x.Do(ctx, "k"); err == nil {
			seen.Causes = a.Lines[min(1, len(a.Lines)):]
		}
	}
	return seen, nil
}

// begin makes the session. It is called with mu held.
func (f *File) begin(rules view.Rules, margin time.Duration) error {
	if f.steps != nil {
		return nil
	}
	span, partial, err := spanOf(f.File)
	if err != nil {
		return err
	}
	var marks []replay.Mark
	for _, n := range f.Notes {
		marks = append(marks, replay.Mark{Name: n.Name, Seq: n.Seq, Time: n.Time, Note: n.Text})
	}
	x, err := replay.New(span, replay.Config{Rules: rules, Margin: margin, Marks: marks, Partial: partial,
		Limited: wording.LimitDuty, Holders: wording.NamedHolders,
		Time: func(text string, near time.Time) (time.Time, error) { return view.ParseTime(text, near.UTC()) }})
	if err != nil {
		return err
	}
	f.steps = &stepping{session: x, gaps: span.Gaps()}
	return nil
}

// spanOf returns the file's span for stepping, and why promises cannot be checked against it.
func spanOf(f *incident.File) (span *replay.Span, partial string, err error) {
	span = replay.NewSpan(1)
	span.Imported(f.Import())
	switch m := &f.Manifest; {
	case m.Left > 0:
		partial = "the incident file holds only what lived in its span"
	case !m.Raw:
		partial = "what decisions name was redacted"
	}
	gaps := slices.DeleteFunc(slices.Clone(f.Missing), func(m incident.Missing) bool { return m.Section != incident.SectionFacts.String() })
	for r, err := range f.Facts() {
		for len(gaps) > 0 && r.Seq > gaps[0].After {
			span.Missing(gaps[0].Why)
			gaps = gaps[1:]
		}
		if err != nil {
			span.Missing(err.Error())
		} else if err := span.Add(&r, r.Seq >= f.Manifest.From.Seq); err != nil {
			return nil, "", err
		}
	}
	for i := range gaps {
		span.Missing(gaps[i].Why)
	}
	if span.Len() == 0 {
		return nil, "", errors.New("the file has no facts of its span")
	}
	return span, partial, nil
}

// setBreaks gives the session exactly these breakpoints: finding the places of one takes a pass
// over the span.
func (f *File) setBreaks(ctx context.Context, texts []string, seen *Seen) {
	var wanted []string
	for _, text := range texts {
		if text = strings.TrimSpace(text); text != "" {
			wanted = append(wanted, text)
		}
	}
	x := f.steps.session
	if slices.EqualFunc(x.Breaks(), wanted, func(b *replay.Breakpoint, text string) bool { return b.Text == text }) {
		return
	}
	_, _ = x.Do(ctx, "x all") // there may be none
	if len(wanted) > maxBreaks {
		seen.Wrong = fmt.Sprintf("there are %d breakpoints, and there may be %d", len(wanted), maxBreaks)
		return
	}
	for _, text := range wanted {
		if _, err := x.Do(ctx, "b "+text); err != nil {
			seen.Wrong = err.Error()
			return
		}
	}
}

// lines decodes a batch of a task's lines.
func lines(l *incident.Lines) (b output.Lines, err error) {
	if err = json.Unmarshal(l.Body, &b); err == nil {
		b.OneByOne()
	}
	return b, err
}
