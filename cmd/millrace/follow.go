package main

import (
	"context"
	"fmt"

	"millrace/client"
	"millrace/task"
)

// follow shows what a task prints, and all that it is expanded into, until it has ended, and ends with its exit code.
func (a *app) follow(ctx context.Context, c *client.Client, id task.ID, asJSON bool) error {
	p := a.progress()
	defer p.stop()
	unwatch, err := c.WatchLive(id, func(l task.Live) {
		if text := l.Text(); text != "" {
			p.more(text)
		}
	})
	if err != nil {
		return err
	}
	defer unwatch()
	var names labels
	var marks attemptMarks
	lines := &lineWriter{out: a.out, errs: a.errs}
	show := func(l outputLine) error {
		if asJSON {
			return a.writeLine(l)
		}
		if l.Stream == task.Status {
			return nil // the standing has said it
		}
		lines.before = names.of(l.Step)
		mark := marks.before(l.Task, l.Attempt)
		return p.around(func() (bool, error) {
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
			p.say(brief(root), *root)
		} else {
			p.say(wholeText(members), *root)
		}
	}, func(b client.StepLines) error {
		for _, l := range b.Lines.Lines {
			if err := show(outputLine{b.Task, b.Step, b.Attempt, b.Epoch, l}); err != nil {
				return err
			}
		}
		return nil
	})
	p.stop()
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err() // the one of the two that noticed first may call it otherwise
		}
		return a.stillRunning(ctx, c, err, []task.ID{id})
	}
	switch {
	case asJSON:
		err = a.writeLine(ended)
	case ended.State != task.Finished:
		_, err = fmt.Fprintf(a.errs, "millrace: task %s\n", ending(&ended))
	case terminal(a.errs):
		_, err = fmt.Fprintln(a.errs, paint(dim(ending(&ended)), colourful(a.errs)))
	}
	if err != nil {
		return err
	}
	return exit(taskExit(ended))
}
