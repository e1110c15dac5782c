package main

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"millrace/client"
	"millrace/task"
)

// follow shows what a task prints until it has ended, and ends with its exit code.
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
	lines := &lineWriter{out: a.out, errs: a.errs}
	var ended task.Task
	g, following := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		ended, err = c.Watch(following, id, func(t task.Task) { p.say(brief(&t), t) })
		return err
	})
	g.Go(func() error {
		return c.Output(following, id, true, func(b task.Lines) error {
			for _, l := range b.Lines {
				if asJSON {
					if err := a.writeLine(outputLine{b.Task, b.Attempt, b.Epoch, l}); err != nil {
						return err
					}
					continue
				}
				if l.Stream == task.Status {
					continue // the standing has said it
				}
				if err := p.around(func() (bool, error) { return lines.write(b.Epoch, l) }); err != nil {
					return err
				}
			}
			return nil
		})
	})
	err = g.Wait()
	p.stop()
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err() // the one of the two that noticed first may call it otherwise
		}
		return a.stillRunning(err, []task.ID{id})
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
