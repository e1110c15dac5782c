package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/task"
)

// logFlags are what `millrace task logs` was told.
type logFlags struct {
	output
	follow  bool
	times   bool
	attempt int
	stream  choice
	since   string
	tail    int
}

func (a *app) taskLogs() *cobra.Command {
	f := logFlags{stream: choice{of: []string{task.Stdout, task.Stderr, task.Log, task.Status, task.System}}}
	c := &cobra.Command{
		Use: "logs ID", Aliases: []string{"log", "output"},
		Short: "Print what a task has printed",
		Long: `Prints what a task has printed, all of it to stdout, in order; with -f also what it
will print until it has ended. -o json prints a line of JSON for each line.`,
		Args: takes(1, 1, "task id"), ValidArgsFunction: a.completeTasks,
	}
	fs := c.Flags()
	fs.BoolVarP(&f.follow, "follow", "f", false, "go on until the task has ended")
	fs.BoolVar(&f.times, "timestamps", false, "begin each line with its time")
	fs.IntVar(&f.attempt, "attempt", 0, "only of the attempt with this `number`")
	fs.Var(&f.stream, "stream", "only this stream: stdout, stderr, log (entries with a level), status (the program's progress) or system (Millrace's own)")
	fs.StringVar(&f.since, "since", "", "only lines since a `time`: 5m ago, 12:00")
	fs.IntVarP(&f.tail, "tail", "n", -1, "only the last `number` of those that there are")
	f.flags(c, "text", "json")
	_ = c.RegisterFlagCompletionFunc("stream", cobra.FixedCompletions(f.stream.of, cobra.ShellCompDirectiveNoFileComp))
	print := a.withTask(func(ctx context.Context, cl *client.Client, id task.ID) error { return a.logs(ctx, cl, id, &f) })
	c.RunE = func(c *cobra.Command, args []string) error {
		if _, err := parsePast(f.since, a.now()); err != nil && f.since != "" {
			return misuse(c, "--since: %w", err)
		}
		return print(c, args)
	}
	return c
}

// wanted returns the test that the flags make of a line.
func (f *logFlags) wanted(now time.Time) func(attempt int, l *task.Line) bool {
	since := time.Time{}
	if f.since != "" {
		since, _ = parsePast(f.since, now) // was checked
	}
	return func(attempt int, l *task.Line) bool {
		return (f.attempt == 0 || f.attempt == attempt) && (f.stream.value == "" || f.stream.value == l.Stream) && !l.At.Before(since)
	}
}

func (a *app) logs(ctx context.Context, c *client.Client, id task.ID, f *logFlags) error {
	asking, cancel := a.asking(ctx)
	_, err := c.Task(asking, id) // else a task that is not there would look like a quiet one
	cancel()
	if err != nil {
		return err
	}
	wanted, lines := f.wanted(a.now()), &lineWriter{out: a.out, errs: a.out}
	show := func(l outputLine) error {
		switch {
		case f.json():
			return a.writeLine(l)
		case f.times:
			l.Text = l.At.Local().Format("2006-01-02 15:04:05.000") + " " + l.Text
		}
		_, err := lines.write(l.Epoch, l.Line)
		return err
	}
	read := func(follow bool, each func(outputLine) error) error {
		return c.Output(ctx, id, follow, func(b task.Lines) error {
			for _, l := range b.Lines {
				if !wanted(b.Attempt, &l) {
					continue
				}
				if err := each(outputLine{b.Task, b.Attempt, b.Epoch, l}); err != nil {
					return err
				}
			}
			return nil
		})
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
		if err != nil || !f.follow {
			return quietEnd(ctx, err)
		}
	}
	return quietEnd(ctx, read(f.follow, func(l outputLine) error {
		if l.N <= shown[l.Epoch] {
			return nil
		}
		return show(l)
	}))
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
