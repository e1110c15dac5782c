package task

import (
	"context"
	"fmt"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/output"
)

// Follow shows what a task and all its children print, until the task has ended, and ends with its
// exit code.
func (a *Commands) Follow(ctx context.Context, c *client.Client, id task.ID, asJSON bool) error {
	p := a.Progress()
	defer p.Stop()
	unwatch, err := c.WatchLive(id, func(l output.Live) {
		if text := l.Text(); text != "" {
			p.More(text)
		}
	})
	if err != nil {
		return err
	}
	defer unwatch()
	var names labels
	var marks attemptMarks
	lines := &lineWriter{out: a.Out, errs: a.Errs, outBrief: term.Terminal(a.Out), errsBrief: term.Terminal(a.Errs)}
	show := func(l outputLine) error {
		if asJSON {
			return a.WriteLine(l)
		}
		if l.Stream == output.Status {
			return nil // the progress line has said it
		}
		lines.before = names.of(l.Step)
		mark := marks.before(l.Task, l.Attempt)
		return p.Around(func() (bool, error) {
			if mark != "" {
				if err := lines.mark(mark); err != nil {
					return true, err
				}
			}
			return lines.write(l.Epoch, l.Line)
		})
	}
	ended, err := c.FollowWhole(ctx, id, func(members []client.Member) {
		root := &members[0].Task
		names.know(members[1:])
		if len(members) == 1 {
			p.Say(wording.Clocks(wording.Brief(root)), *root)
		} else {
			p.Say(wholeText(members), *root)
		}
	}, func(b client.StepLines) error {
		for _, l := range b.Lines.Lines {
			if err := show(outputLine{b.Task, b.Step, b.Attempt, b.Epoch, l}); err != nil {
				return err
			}
		}
		return nil
	})
	p.Stop()
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err() // either of the two may have noticed first, with another error
		}
		return a.stillRunning(ctx, c, err, []task.ID{id})
	}
	switch {
	case asJSON:
		err = a.WriteLine(ended)
	case ended.State != task.Finished:
		_, err = fmt.Fprintf(a.Errs, "millrace: task %s\n", wording.Ending(&ended))
	case term.Terminal(a.Errs):
		_, err = fmt.Fprintln(a.Errs, term.Paint(term.Dim(wording.Ending(&ended)), term.Colourful(a.Errs)))
	}
	if err != nil {
		return err
	}
	return term.ExitWith(term.ExitOfTask(ended))
}

// Until says how long a command that has made a task stays: while the task prints, until its end,
// or not at all.
type Until struct{ Follow, Wait, JSON bool }

// Made prints about a new task: its output until its end, its end, or else its receipt.
func (a *Commands) Made(ctx context.Context, c *client.Client, r client.Receipt, u Until) error {
	switch {
	case u.Follow:
		return a.Follow(ctx, c, r.ID, u.JSON)
	case u.Wait:
		return a.WaitAll(ctx, c, []task.ID{r.ID}, u.JSON)
	case u.JSON:
		return a.WriteJSON(r)
	}
	_, err := fmt.Fprintln(a.Out, r.ID)
	return err
}
