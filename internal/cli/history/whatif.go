package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/events"
	"millrace/history/incident"
	"millrace/history/whatif"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/inspect"
	"millrace/task/value"
)

// Exit codes of whatif beside the common ones.
const (
	whatifMistake = 2 // decisions come out differently under their own settings
	whatifDamaged = 3
)

// whatifFlags are the flags of `millrace whatif`.
type whatifFlags struct {
	settings.Output
	sets        []string
	only        whatif.Only
	from, until string
	limit       int
	simulate    bool
	bound       inspect.Bound
}

// WhatIf is millrace whatif.
func (a *Commands) WhatIf() *cobra.Command {
	var f whatifFlags
	c := &cobra.Command{
		Use:   "whatif [FILE]",
		Short: "Make recorded decisions again under other settings, and list those that differ",
		Long: `Reads the log, an export or an incident file, and makes every recorded decision again, each from the
recorded state before it, under other settings. It prints which decisions would have been different, when, and what
certainly follows. From there on the fate of the task, and of what depends on it, is unknown. It changes nothing.

--set takes a setting of the installation (node_ttl, start_deadline, ack_wait, flap_limit, flap_release), a field of
a job as in its file (timeout, retry, breaker, concurrency, rate, budget, per_node, signal, window), or one of a
schedule (schedule.catchup=all). Without --set all must come out as it was: so a build shows that it decides as the
one did that has written the log.

With --simulate it goes on from the first difference, or from --from, in a world of its own: what people and nodes did
comes as it was recorded, the rules decide, and attempts run as long as recorded, or as others of their job. It says
which tasks would have fared otherwise, and by how much it misses the recorded times without a change.

Ends with 2 if a decision comes out differently under its own settings, with 3 if events of an incident file are
missing or damaged: the rest is judged. docs/history.md has more.`,
		Example: `  millrace whatif
  millrace whatif --from -1h --set retry.max=5 --job crawl
  millrace whatif --set node_ttl=10s --set start_deadline=1m
  millrace whatif --set concurrency.max=8 --job crawl --simulate
  millrace whatif examples/incidents/reconnected.mri --set timeout.pending=5s -o json`,
		Args: settings.Takes(0, 1, "file"),
	}
	fs := c.Flags()
	fs.StringArrayVar(&f.sets, "set", nil, "other `NAME=VALUE` (repeat it): node_ttl=10s, retry.max=5, schedule.catchup=all")
	fs.StringVar(&f.only.Job, "job", "", "change fields of jobs for this `job` only")
	fs.StringVar(&f.only.Schedule, "schedule", "", "change fields of schedules for this `schedule` only")
	fs.StringVar(&f.from, "from", "", "report decisions from a `moment` on: a sequence of the log, or a time: -10m, 12:00, 2026-03-01; the log before it is read as well")
	fs.StringVar(&f.until, "until", "", "end at a `moment`")
	fs.BoolVar(&f.simulate, "simulate", false, "simulate what would have become of the tasks, by a model of how long attempts run")
	fs.IntVar(&f.limit, "limit", 50, "print at most so `many` differences, and tasks that are unknown; 0 for all")
	f.bound.Flag(fs)
	f.Flags(c, "text", "json")
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case f.only != (whatif.Only{}) && len(f.sets) == 0:
			return term.Misuse(c, "--job and --schedule bound what --set changes: give --set, too")
		case f.limit < 0:
			return term.Misuse(c, "--limit is %d, want 0 or more", f.limit)
		}
		other, err := whatif.Parse(f.sets, f.only)
		if err != nil {
			return term.Misuse(c, "--set %w", err)
		}
		span, err := a.between(c, f.from, f.until)
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(c.Context())
		defer stop()
		go func() { _ = settings.Ease(ctx, 0, settings.AtOnce) }() // it ends with ctx
		q := whatif.Question{Config: whatif.Config{Other: other}, Only: f.only, Since: span[0], Simulate: f.simulate}
		is, err := a.whatif(ctx, strings.Join(args, ""), f.bound, q, span[1])
		if errors.Is(err, whatif.ErrIdle) {
			err = &term.Fault{Code: term.ExitNotFound, Err: err}
		}
		for _, d := range is.damaged {
			a.Note("damaged: %s", d)
		}
		if err != nil {
			return err
		}
		if f.JSON() {
			for _, d := range is.damaged {
				is.Notes = append(is.Notes, "damaged: "+d)
			}
			err = a.WriteJSON(is.Report)
		} else {
			a.printWhatIf(&f, is.Report)
		}
		switch {
		case err != nil:
			return err
		case len(is.Mistakes) > 0:
			return term.ExitWith(whatifMistake)
		case is.holes:
			return term.ExitWith(whatifDamaged)
		}
		return nil
	}
	return c
}

// answer is what whatif says of a log or a file.
type answer struct {
	*whatif.Report
	// damaged are the missing parts of an incident file, and holes tells that facts are among them.
	damaged []string
	holes   bool
}

// whatif judges the log, or a file.
func (a *Commands) whatif(ctx context.Context, file string, bound inspect.Bound, q whatif.Question, until view.Moment) (is answer, err error) {
	if file == "" {
		is.Report, err = a.whatifLog(ctx, q, until)
		return is, err
	}
	s, err := a.Settings()
	if err != nil {
		return is, err
	}
	q.Settings, q.Margin = s.Task(), s.Margin()
	t, err := a.open(file, bound)
	if err != nil {
		return is, err
	}
	defer t.shut()
	if !t.incident {
		is.Report, err = whatifExport(t, q, until)
		return is, err
	}
	f, err := t.read()
	if err != nil {
		return is, err
	}
	if err := judged(&s, &f.Manifest); err != nil {
		return is, err
	}
	q.Settings, q.Margin = s.Task(), s.Margin()
	q.Import = f.Import()
	q.Partial = f.Manifest.Left > 0 || !f.Manifest.Raw || len(f.Missing) > 0
	for _, m := range f.Missing {
		is.damaged = append(is.damaged, wording.Missing(m))
		is.holes = is.holes || m.Section == incident.SectionFacts.String()
	}
	j := whatif.NewReader(q)
	for r, err := range f.Facts() {
		if err == nil && behind(until, &r) {
			break
		}
		if err == nil {
			err = j.Add(&r)
		}
		if err != nil && !q.Partial {
			return is, err
		}
	}
	is.Report, err = j.Report()
	return is, err
}

func behind(until view.Moment, r *events.Record) bool {
	return until != (view.Moment{}) && until.Before(r)
}

func (a *Commands) whatifLog(ctx context.Context, q whatif.Question, until view.Moment) (*whatif.Report, error) {
	var j *whatif.Reader
	err := a.live(ctx, until, func(rules connect.Rules, lacks events.Import) func(*events.Record) error {
		q.Settings, q.Margin, q.Import = rules.Task(), rules.Margin(), lacks
		q.Partial = a.Inside.Partial()
		j = whatif.NewReader(q)
		return j.Add
	})
	if err != nil {
		return nil, err
	}
	return j.Report()
}

func whatifExport(in *text, q whatif.Question, until view.Moment) (*whatif.Report, error) {
	r, err := events.NewExportReader(in)
	if err != nil {
		return nil, err
	}
	partial := &term.Fault{Code: term.ExitRefused, Err: errors.New("the export does not begin with the log: what its decisions were made by is not there")}
	if r.Header().From > 1 {
		return nil, partial
	}
	q.Import = r.Header().Import
	j := whatif.NewReader(q)
	for {
		record, err := r.Next()
		switch {
		case errors.Is(err, io.EOF) && j.Last() == 0:
			return nil, &term.Fault{Code: term.ExitUsage, Err: fmt.Errorf("there are no messages in %s", in.name)}
		case errors.Is(err, io.EOF) || err == nil && behind(until, &record):
			return j.Report()
		case err != nil && j.Last() == 0 && isNone(r):
			return nil, in.neither()
		case err != nil:
			return nil, err
		case j.Last() == 0 && r.Header().Export == 0 && record.Seq > 1: // no header says where it begins
			return nil, partial
		}
		if err := j.Add(&record); err != nil {
			return nil, err
		}
	}
}

// printWhatIf prints a report for people.
func (a *Commands) printWhatIf(f *whatifFlags, r *whatif.Report) {
	d, t := r.Decisions, r.Tasks
	fmt.Fprintf(a.Out, "#%d to #%d: %s made again: %d the same", r.First, r.Last, wording.Plural(d.All-d.Unjudged, "decision"), d.Same)
	for _, n := range []struct {
		n    int
		what string
	}{{len(r.Mistakes), "not as recorded"}, {d.Differ, "would differ"}, {d.Sooner, "could have come sooner"}, {d.Unknown, "unknown by then"}} {
		if n.n > 0 {
			fmt.Fprintf(a.Out, ", %d %s", n.n, n.what)
		}
	}
	if d.Unjudged > 0 {
		fmt.Fprintf(a.Out, "; %d could not be", d.Unjudged)
	}
	fmt.Fprintln(a.Out)
	for i := range f.first(len(r.Mistakes)) {
		m := &r.Mistakes[i]
		fmt.Fprintf(a.Out, "mistake: %s\n  %s\n", term.Printable(m.What), m.Look)
	}
	for i := range f.first(len(r.Changes)) {
		c := &r.Changes[i]
		what := string(c.Type)
		if c.Kind == whatif.Never {
			what = "no event"
		}
		fmt.Fprintf(a.Out, "#%d %s %s %s: %s\n", c.Seq, stamp(c.At), term.Printable(c.About), what, term.Printable(c.What))
		for _, next := range c.Follows {
			fmt.Fprintf(a.Out, "  %s\n", term.Printable(next))
		}
	}
	a.more(f, len(r.Changes), "difference")
	if len(r.Changes) > 0 {
		fmt.Fprintf(a.Out, "%s: %d with a difference, %d unknown by what they depend on, %d may have waited otherwise, %d untouched\n",
			wording.Plural(t.All, "task"), t.Differ, t.Unknown, t.Later, t.Same)
	}
	led := slices.DeleteFunc(slices.Clone(r.Unknown), func(u whatif.Unknown) bool {
		// It was printed.
		return slices.ContainsFunc(r.Changes, func(c whatif.Change) bool { return c.Task == u.Task && c.Seq == u.From })
	})
	for _, u := range led[:f.first(len(led))] {
		fmt.Fprintf(a.Out, "unknown from #%d: task %s, by %s\n", u.From, u.Task, term.Printable(u.Why))
	}
	a.more(f, len(led), "unknown task")
	for _, n := range r.Notes {
		fmt.Fprintf(a.Out, "not known: %s\n", n)
	}
	if r.Simulated != nil {
		a.printSimulated(f, r.Simulated)
	}
}

// printSimulated prints how the tasks would have ended.
func (a *Commands) printSimulated(f *whatifFlags, s *whatif.Simulated) {
	span := func(d value.Duration) string { return wording.Span(d.Std()) }
	fmt.Fprintf(a.Out, "\nplayed from #%d, %s: %s\n", s.From, stamp(s.At), wording.Plural(s.Sum.Tasks, "task"))
	fmt.Fprintf(a.Out, "how long attempts run: as recorded for %s, by the median of their job for %d, by that of all for %d; a start takes %s\n",
		wording.Plural(s.Attempts[whatif.Recorded], "task"), s.Attempts[whatif.Median], s.Attempts[whatif.Guessed], span(s.Handover))
	m := s.Misses
	fmt.Fprintf(a.Out, "without a change it misses the recorded start of %s by %s in the median, %s for 9 of 10, %s at most; %d of %d end in the same state\n",
		wording.Plural(m.Starts, "task"), span(m.Median), span(m.P90), span(m.Max), m.SameEnd, m.Ends)
	if len(s.Tasks) > 0 {
		fmt.Fprintf(a.Out, "%s otherwise by more than that: %d later, %d sooner, %d would have finished that did not, %d not that did, %d taken over more often, %d retried more often\n",
			wording.Plural(len(s.Tasks), "task"), s.Sum.Later, s.Sum.Sooner, s.Sum.Finished, s.Sum.Unended, s.Sum.TakenOver, s.Sum.Retried)
	}
	for i := range f.first(len(s.Tasks)) {
		t := &s.Tasks[i]
		fmt.Fprintf(a.Out, "%s %s: %s; it would have %s (%s)\n", t.Task, term.Printable(term.Cut(t.What, 60)), lot(&t.Was), lot(&t.Is), t.Sure)
	}
	a.more(f, len(s.Tasks), "task")
	for i := range s.Queues {
		q := &s.Queues[i]
		fmt.Fprintf(a.Out, "queue %s: at most %d waited, it would have been %d; empty %s, it would have been %s\n", q.Queue, q.Was.Most, q.Is.Most, emptied(q.Was), emptied(q.Is))
	}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

func emptied(d whatif.Depth) string {
	if d.Emptied.IsZero() {
		return "never"
	}
	return "at " + stamp(d.Emptied)
}

// lot describes what became of a task.
func lot(l *whatif.Lot) string {
	text := "not started"
	if !l.Started.IsZero() {
		text = "started " + stamp(l.Started)
	}
	if text += ", " + l.State; l.Reason != "" {
		text += "/" + l.Reason
	}
	if !l.Ended.IsZero() {
		text += " " + stamp(l.Ended)
	}
	return text + ", " + wording.Plural(l.Attempts, "attempt")
}

// first returns how many of n are printed.
func (f *whatifFlags) first(n int) int {
	if f.limit > 0 {
		return min(n, f.limit)
	}
	return n
}

func (a *Commands) more(f *whatifFlags, n int, what string) {
	if left := n - f.first(n); left > 0 {
		fmt.Fprintf(a.Out, "… and %s more: --limit 0 prints all\n", wording.Plural(left, what))
	}
}
