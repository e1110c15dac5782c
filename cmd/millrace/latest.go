package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/jet"
	"millrace/task"
)

// latestFlags name a task by what it is of, in place of its id.
type latestFlags struct{ job, schedule string }

func (l *latestFlags) flags(a *app, c *cobra.Command) {
	c.Flags().StringVar(&l.job, "job", "", "the latest task of this job")
	c.Flags().StringVar(&l.schedule, "schedule", "", "the latest task of this schedule")
}

// given tells whether one of the flags is set.
func (l *latestFlags) given() bool { return l.job != "" || l.schedule != "" }

// withTask makes the RunE of a command about one task, by its id or by what it is the latest of.
func (l *latestFlags) withTask(a *app, do func(ctx context.Context, c *client.Client, id task.ID) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		switch {
		case l.given() && len(args) > 0:
			return misuse(c, "a task id and --job or --schedule: choose one")
		case !l.given() && len(args) == 0:
			return misuse(c, "the task id is missing; or say --job NAME or --schedule NAME")
		case !l.given():
			return a.withTask(do)(c, args)
		}
		return a.online(func(ctx context.Context, cl *client.Client, _ []string) error {
			id, err := a.latest(ctx, cl, l)
			if err != nil {
				return err
			}
			return do(ctx, cl, id)
		})(c, args)
	}
}

// latest finds the task that was submitted last.
func (a *app) latest(ctx context.Context, c *client.Client, l *latestFlags) (task.ID, error) {
	asking, cancel := a.asking(ctx)
	defer cancel()
	last, err := c.Last(asking)
	if err != nil {
		return "", err
	}
	page, err := c.List(asking, client.ListRequest{Job: l.job, Schedule: l.schedule, Roots: true, Limit: 1, AtLeast: last})
	if errors.Is(err, jet.ErrNoService) {
		return "", &fault{code: exitNoServer, err: errors.New("it takes a millrace server to find the latest task, and none answers"), hint: hint("give the task's id, or start `millrace server`")}
	}
	if err != nil {
		return "", err
	}
	if len(page.Tasks) == 0 {
		what := "job " + l.job
		if l.schedule != "" {
			what = "schedule " + l.schedule
		}
		return "", &fault{code: exitNotFound, err: fmt.Errorf("there is no task of %s", what), hint: hint("`millrace job ls` and `millrace schedule ls` list what there is")}
	}
	return page.Tasks[0].ID, nil
}
