package main

import (
	"bufio"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/task"
)

// logFlags are what `millrace task logs` was told.
type logFlags struct {
	output
	logFilter
	follow bool
	times  bool
	tail   int
}

func (a *app) taskLogs() *cobra.Command {
	f := logFlags{logFilter: newLogFilter()}
	c := &cobra.Command{
		Use: "logs ID", Aliases: []string{"log", "output"},
		Short: "Print what a task has printed",
		Long: `Prints what a task has printed, all of it to stdout, in order; with -f also what it
will print until it has ended. -o json prints a line of JSON for each line. On a
terminal what did not come from stdout has a colour. Where lines are missing, because a worker was
lost before it had stored them, a note on stderr says so, also where that may be so at the end of an attempt.`,
		Example: `  millrace task logs -f ID
  millrace task logs ID --tail 20 --timestamps
  millrace task logs ID --level warn --since 1h
  millrace task logs ID --stream stderr --attempt 2 --grep '(?i)timeout'`,
		Args: takes(1, 1, "task id"), ValidArgsFunction: a.completeTasks,
	}
	fs := c.Flags()
	fs.BoolVarP(&f.follow, "follow", "f", false, "go on until the task has ended")
	fs.BoolVar(&f.times, "timestamps", false, "begin each line with its time")
	f.logFilter.flags(fs)
	fs.IntVarP(&f.tail, "tail", "n", -1, "only the last `number` of those that there are")
	f.output.flags(c, "text", "json")
	_ = c.RegisterFlagCompletionFunc("stream", cobra.FixedCompletions(f.stream.of, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("level", cobra.FixedCompletions(f.level.of, cobra.ShellCompDirectiveNoFileComp))
	print := a.withTask(func(ctx context.Context, cl *client.Client, id task.ID) error { return a.logs(ctx, cl, id, &f) })
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := f.parse(a.now()); err != nil {
			return misuse(c, "%w", err)
		}
		return print(c, args)
	}
	return c
}

func (a *app) logs(ctx context.Context, c *client.Client, id task.ID, f *logFlags) error {
	asking, cancel := a.asking(ctx)
	_, err := c.Task(asking, id) // else a task that is not there would look like a quiet one
	cancel()
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(a.out, 64<<10)
	lines := &lineWriter{out: out, errs: out}
	colours, gaps := colourful(a.out), newLineGaps()
	printer := *a
	printer.out = out
	show := func(l outputLine) error {
		switch {
		case f.json():
			return printer.writeLine(l)
		case f.times:
			lines.before = l.At.Local().Format("2006-01-02 15:04:05.000") + " "
		}
		if colours {
			lines.colour = streamColour(&l.Line)
		}
		_, err := lines.write(l.Epoch, l.Line)
		return err
	}
	from, err := f.start(ctx, c, id)
	if err != nil {
		return quietEnd(ctx, err)
	}
	gaps.partly = from != client.OutputStart{}
	read := func(follow bool, each func(outputLine) error) error {
		return c.OutputFrom(ctx, id, from, follow, func(b task.Lines) error {
			for _, l := range b.Lines {
				if n := gaps.before(b.Epoch, l.N); n > 0 && (f.attempt == 0 || f.attempt == b.Attempt) {
					a.note("%s of attempt %d missing before line %d", plural(n, "line"), b.Attempt, l.N)
				}
				if !f.wants(b.Attempt, &l) {
					continue
				}
				if err := each(outputLine{b.Task, b.Attempt, b.Epoch, l}); err != nil {
					return err
				}
			}
			return out.Flush() // who follows sees it at once
		})
	}
	notes := func(err error) error {
		if err == nil {
			err = a.noteUnheard(ctx, c, id, f, gaps)
		}
		return quietEnd(ctx, err)
	}
	shown := map[uint64]int{} // the last line shown or left out, of each epoch
	if f.tail >= 0 {
		var last tail
		err := read(false, func(l outputLine) error {
			shown[l.Epoch] = l.N
			last.add(l, f.tail)
			return nil
		})
		for _, l := range last.inOrder() {
			if err == nil {
				err = show(l)
			}
		}
		if flushed := out.Flush(); err == nil {
			err = flushed
		}
		if err != nil || !f.follow {
			return notes(err)
		}
	}
	return notes(read(f.follow, func(l outputLine) error {
		if l.N <= shown[l.Epoch] {
			return nil
		}
		return show(l)
	}))
}

// noteUnheard says of which attempts output may be missing at their end.
func (a *app) noteUnheard(ctx context.Context, c *client.Client, id task.ID, f *logFlags, gaps *lineGaps) error {
	asking, cancel := a.asking(ctx)
	defer cancel()
	records, err := c.History(asking, id)
	if err != nil {
		return err
	}
	found := slices.DeleteFunc(tries(records), func(t task.Try) bool {
		_, read := gaps.last[t.Epoch]
		return f.attempt != 0 && f.attempt != t.Attempt || gaps.partly && !read
	})
	for _, note := range unheard(found, func(epoch uint64) int { return gaps.last[epoch] }) {
		a.note("%s", note)
	}
	return nil
}

// clockSlack is by how much the clock of a worker may be behind the server's, at the most, as [logclock] has it.
const clockSlack = 2 * time.Second

// start says where to begin, so that little is read that is not wanted.
func (f *logFlags) start(ctx context.Context, c *client.Client, id task.ID) (client.OutputStart, error) {
	switch {
	case f.tail >= 0:
		return c.OutputTail(ctx, id, f.tail, f.from, f.wants)
	case !f.from.IsZero():
		return client.OutputStart{Time: f.from.Add(-clockSlack)}, nil // lines are stored after they were printed
	}
	return client.OutputStart{}, nil
}

// lineGaps tells where lines of an epoch are missing.
type lineGaps struct {
	last   map[uint64]int // the last number seen, by epoch
	partly bool           // reading began somewhere: what came before the first line of an epoch is not known
}

func newLineGaps() *lineGaps { return &lineGaps{last: map[uint64]int{}} }

// before returns how many lines are missing before the one with number n, which is
// then the last one seen.
func (g *lineGaps) before(epoch uint64, n int) int {
	last, seen := g.last[epoch]
	g.last[epoch] = max(last, n)
	if g.partly && !seen {
		return 0
	}
	return max(n-last-1, 0)
}

// streamColour is that of a line on a terminal.
func streamColour(l *task.Line) colour {
	switch {
	case l.Stream == task.Stdout:
		return ""
	case l.Stream == task.Log && grave(l.Level) == 2:
		return yellow
	case l.Stream == task.Stderr, l.Stream == task.Log && grave(l.Level) > 2:
		return red
	}
	return faint
}

// quietEnd makes a success of the end that a person asked for with Ctrl-C.
func quietEnd(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	return err
}

// tail keeps the last lines that were added.
type tail struct {
	lines []outputLine
	next  int // where the oldest one is, once all places are taken
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
