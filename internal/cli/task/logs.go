package task

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"millrace/events/jet/rights"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/output"
)

// logFlags are the flags of `millrace task logs`.
type logFlags struct {
	settings.Output
	logFilter
	follow bool
	times  bool
	raw    bool
	tail   int
	in     view.View // the view shown
}

// Logs is millrace task logs.
func (a *Commands) Logs() *cobra.Command {
	f := logFlags{logFilter: newLogFilter()}
	var latest connect.Latest
	c := &cobra.Command{
		Use: "logs ID | --job NAME | --schedule NAME", Aliases: []string{"log", "output"},
		Short: "Print the output of a task and of all its steps",
		Long: `Prints the output of a task to stdout, in order; with -f also new output until the task has
ended. For a task with steps or other children it prints the output of all of them, each
line behind the name of its step. --job or --schedule choose its latest task, which needs a
millrace server unless --at is given. A line separates each attempt from the one before. -o json prints a line of
JSON for each line. On a terminal, lines that did not come from stdout have a colour, and of a line that
a progress bar has written again and again only the last text is shown (--raw: all of it). If lines are missing, or may be
missing, because a worker was lost before it had stored them, a note on stderr says so.
With --at it prints the output up to then, by the clock of the node, of the latest task of then.`,
		Example: `  millrace task logs -f ID
  millrace task logs --job backup
  millrace task logs ID --tail 20 --timestamps
  millrace task logs ID --level warn --since 1h
  millrace task logs ID --stream stderr --attempt 2 --grep '(?i)timeout'`,
		Args: settings.Takes(0, 1, "task id"), ValidArgsFunction: a.CompleteTasks,
		DisableFlagsInUseLine: true,
	}
	fs := c.Flags()
	latest.Flags(a.App, c)
	fs.BoolVarP(&f.follow, "follow", "f", false, "go on until the task has ended")
	fs.BoolVar(&f.times, "timestamps", false, "begin each line with its time")
	fs.BoolVar(&f.raw, "raw", false, "also on a terminal print all of a line, not only what is behind its last carriage return")
	f.logFilter.flags(fs)
	fs.IntVarP(&f.tail, "tail", "n", -1, "only the last `number` of lines")
	sight := a.AtFlag(c, connect.Then{})
	c.MarkFlagsMutuallyExclusive("at", "follow")
	f.Output.Flags(c, "text", "json")
	print := latest.Task(a.App, sight, func(ctx context.Context, cl *client.Client, s *connect.Sight, id task.ID) error {
		if err := f.parse(a.Now()); err != nil { // once more, by the log's time
			return term.Misuse(c, "%w", err)
		}
		return a.logs(ctx, cl, s, id, &f)
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		if f.tail < 0 && c.Flags().Changed("tail") {
			return term.Misuse(c, "--tail is %d, want 0 or more", f.tail)
		}
		if err := f.parse(a.Now()); err != nil {
			return term.Misuse(c, "%w", err)
		}
		return print(c, args)
	}
	return c
}

func (a *Commands) logs(ctx context.Context, c *client.Client, s *connect.Sight, id task.ID, f *logFlags) error {
	if f.in = s.View; s.Past != nil {
		f.until = s.Past.Stored
		a.NoteMoment(s)
	}
	asking, cancel := a.Asking(ctx)
	// Else an unknown task would look like a quiet one.
	members, err := client.MembersOf(asking, s.View, id)
	cancel()
	if err != nil {
		return s.Unknown(err)
	}
	p := a.logPrinter(f)
	p.names.know(members[1:])
	from, err := f.start(ctx, c, members)
	if err != nil {
		return connect.QuietEnd(ctx, err)
	}
	p.gaps.partly = from != client.OutputStart{}
	if f.tail >= 0 {
		var last tail
		read := *p
		read.show = func(l outputLine) error { last.add(l, f.tail); return nil }
		err := c.OutputOf(ctx, members, from, read.batch)
		p.seen = read.seen
		for _, l := range last.inOrder() {
			if err == nil {
				err = p.show(l)
			}
		}
		if err = errors.Join(err, p.flush()); err != nil || !f.follow {
			return a.endLogs(ctx, members, f, p, err)
		}
	}
	if f.follow {
		p.skip = f.tail >= 0
		_, err = c.FollowWhole(ctx, id, func(now []client.Member) { members = now; p.names.know(now[1:]) }, p.batch)
	} else {
		err = c.OutputOf(ctx, members, from, p.batch)
	}
	return a.endLogs(ctx, members, f, p, err)
}

// logPrinter prints the wanted lines of one task or several.
type logPrinter struct {
	a     *Commands
	f     *logFlags
	names *labels
	gaps  *lineGaps
	// shown is the last line shown or left out, by epoch; with skip, lines up to there are left
	// out.
	shown map[uint64]int
	skip  bool
	// seen tells whether the requested attempt has printed anything.
	seen  bool
	show  func(outputLine) error
	flush func() error
}

func (a *Commands) logPrinter(f *logFlags) *logPrinter {
	out := bufio.NewWriterSize(a.Out, 64<<10)
	brief := term.Terminal(a.Out) && !f.raw
	lines := &lineWriter{out: out, errs: out, outBrief: brief, errsBrief: brief}
	colours, marks := term.Colourful(a.Out), attemptMarks{}
	printer := a.Printing(out, a.Errs)
	p := &logPrinter{a: a, f: f, names: &labels{}, gaps: newLineGaps(), shown: map[uint64]int{}, flush: out.Flush}
	p.show = func(l outputLine) error {
		if f.JSON() {
			return printer.WriteLine(l)
		}
		lines.before = term.Paint(term.Dim(p.names.of(l.Step)), colours && l.Step != "")
		if mark := marks.before(l.Task, l.Attempt); mark != "" {
			if err := lines.mark(term.Paint(term.Dim(mark), colours)); err != nil {
				return err
			}
		}
		if f.times {
			lines.before = l.At.Local().Format("2006-01-02 15:04:05.000") + " " + lines.before
		}
		if lines.colour = ""; colours {
			lines.colour = streamColour(&l.Line)
		}
		_, err := lines.write(l.Epoch, l.Line)
		return err
	}
	return p
}

// batch shows the wanted lines of a batch.
func (p *logPrinter) batch(b client.StepLines) error {
	for _, l := range b.Lines.Lines {
		if p.f.later(&l) {
			continue
		}
		if n := p.gaps.before(b.Epoch, l.N); n > 0 && (p.f.attempt == 0 || p.f.attempt == b.Attempt) {
			p.a.Note("%s of %sattempt %d missing before line %d", wording.Plural(n, "line"), ofStep(b.Step), b.Attempt, l.N)
		}
		if p.skip && l.N <= p.shown[b.Epoch] {
			continue
		}
		p.shown[b.Epoch], p.seen = l.N, p.seen || b.Attempt == p.f.attempt
		if !p.f.wants(b.Attempt, &l) {
			continue
		}
		if err := p.show(outputLine{b.Task, b.Step, b.Attempt, b.Epoch, l}); err != nil {
			return err
		}
	}
	return p.flush() // a follower sees it at once
}

// ofStep begins a remark about a step.
func ofStep(step string) string {
	if step == "" {
		return ""
	}
	return "step " + step + ", "
}

// endLogs says where output may be missing at the end of attempts.
func (a *Commands) endLogs(ctx context.Context, members []client.Member, f *logFlags, p *logPrinter, err error) error {
	if err == nil && f.attempt > 0 && !p.seen {
		err = a.knownAttempt(ctx, members, f)
	}
	for i := range members {
		m := &members[i]
		if err == nil && (i == 0 && m.Task.Children == nil || m.Task.Losses > 0) {
			err = a.noteUnheard(ctx, m, f, p.gaps)
		}
	}
	return connect.QuietEnd(ctx, err)
}

// knownAttempt refuses the number of an attempt that none of the tasks has made.
func (a *Commands) knownAttempt(ctx context.Context, members []client.Member, f *logFlags) error {
	n := f.attempt
	root := &members[0].Task
	made := fmt.Sprintf("none of the %d tasks of %s has made so many", len(members), root.ID)
	if len(members) == 1 {
		asking, cancel := a.Asking(ctx)
		defer cancel()
		records, err := view.All(asking, f.in, view.Task(root.ID))
		if err != nil {
			return err
		}
		found := wording.Tries(records) // also of earlier lives
		if slices.ContainsFunc(found, func(t task.Try) bool { return t.Attempt == n }) {
			return nil
		}
		made = fmt.Sprintf("task %s has made %s", root.ID, wording.Plural(len(found), "attempt"))
	} else if slices.ContainsFunc(members, func(m client.Member) bool { return m.Task.Attempt >= n }) {
		return nil
	}
	return &term.Fault{Code: term.ExitNotFound, Err: fmt.Errorf("there is no attempt %d: %s", n, made), Hint: term.Hint("`millrace task attempts %s` lists them", root.ID)}
}

// noteUnheard says which attempts may lack output at their end.
func (a *Commands) noteUnheard(ctx context.Context, m *client.Member, f *logFlags, gaps *lineGaps) error {
	asking, cancel := a.Asking(ctx)
	defer cancel()
	records, err := view.All(asking, f.in, view.Task(m.Task.ID))
	if errors.As(err, new(*rights.Lacking)) {
		return nil // it may see the output, and not the facts
	}
	if err != nil {
		return err
	}
	found := slices.DeleteFunc(wording.Tries(records), func(t task.Try) bool {
		_, read := gaps.last[t.Epoch]
		return f.attempt != 0 && f.attempt != t.Attempt || gaps.partly && !read
	})
	for _, note := range wording.Unheard(found, func(epoch uint64) int { return gaps.last[epoch] }) {
		a.Note("%s%s", ofStep(m.Step), note)
	}
	return nil
}

// clockSlack is by how much a worker's clock may lag behind the server's at most, as in [request.Clock].
const clockSlack = 2 * time.Second

// start says where to begin, so that few unwanted lines are read.
func (f *logFlags) start(ctx context.Context, c *client.Client, members []client.Member) (client.OutputStart, error) {
	switch {
	case f.tail >= 0 && len(members) == 1:
		return c.OutputTail(ctx, members[0].Task.ID, f.tail, f.from, f.wants)
	case !f.from.IsZero():
		// Lines are stored after they were printed.
		return client.OutputStart{Time: f.from.Add(-clockSlack)}, nil
	}
	return client.OutputStart{}, nil
}

// lineGaps finds where lines of an epoch are missing.
type lineGaps struct {
	last map[uint64]int // the last number seen, by epoch
	// Reading began in the middle: what came before an epoch's first line is unknown.
	partly bool
}

func newLineGaps() *lineGaps { return &lineGaps{last: map[uint64]int{}} }

// before returns how many lines are missing before number n, and remembers n.
func (g *lineGaps) before(epoch uint64, n int) int {
	last, seen := g.last[epoch]
	g.last[epoch] = max(last, n)
	if g.partly && !seen {
		return 0
	}
	return max(n-last-1, 0)
}

// streamColour is the colour of a line on a terminal.
func streamColour(l *output.Line) term.Colour {
	switch {
	case l.Stream == output.Stdout:
		return ""
	case l.Stream == output.Log && grave(l.Level) == 2:
		return term.Yellow
	case l.Stream == output.Stderr, l.Stream == output.Log && grave(l.Level) > 2:
		return term.Red
	}
	return term.Faint
}

// tail keeps the last lines added.
type tail struct {
	lines []outputLine
	next  int // where the oldest one is, once all places are used
}

func (t *tail) add(l outputLine, most int) {
	switch {
	case most == 0:
	case len(t.lines) < most:
		t.lines = append(t.lines, l)
	default:
		t.lines[t.next] = l
		t.next = (t.next + 1) % most
	}
}

func (t *tail) inOrder() []outputLine {
	return append(append([]outputLine{}, t.lines[t.next:]...), t.lines[:t.next]...)
}
