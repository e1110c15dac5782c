package connect

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"millrace/events/jet"
	"millrace/internal/cli/term"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
)

// Latest names a task as the latest of a job or schedule, instead of by its id.
type Latest struct{ Job, Schedule string }

// Flags adds --job and --schedule.
func (l *Latest) Flags(a *App, c *cobra.Command) {
	c.Flags().StringVar(&l.Job, "job", "", "the latest task of this job")
	c.Flags().StringVar(&l.Schedule, "schedule", "", "the latest task of this schedule")
}

// Given tells whether one of the flags is set.
func (l *Latest) Given() bool { return l.Job != "" || l.Schedule != "" }

// Task makes the RunE of a command for one task, by its id or as the latest, in what sight opens.
func (l *Latest) Task(a *App, sight func(context.Context, *client.Client) (Sight, error), do func(ctx context.Context, c *client.Client, s *Sight, id task.ID) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		switch {
		case l.Given() && len(args) > 0:
			return term.Misuse(c, "a task id and --job or --schedule: choose one")
		case !l.Given() && len(args) == 0:
			return term.Misuse(c, "the task id is missing; or say --job NAME or --schedule NAME")
		case !l.Given():
			return a.WithTask(func(ctx context.Context, cl *client.Client, id task.ID) error {
				s, err := sight(ctx, cl)
				if err != nil {
					return err
				}
				return do(ctx, cl, &s, id)
			})(c, args)
		}
		return a.Online(func(ctx context.Context, cl *client.Client, _ []string) error {
			s, err := sight(ctx, cl)
			if err != nil {
				return err
			}
			id, err := a.latest(ctx, cl, &s, l)
			if err != nil {
				return err
			}
			return do(ctx, cl, &s, id)
		})(c, args)
	}
}

// latest finds the task that was submitted last.
func (a *App) latest(ctx context.Context, c *client.Client, s *Sight, l *Latest) (task.ID, error) {
	asking, cancel := a.Asking(ctx)
	defer cancel()
	look := Look(ctx, a, c, s, func(ctx context.Context, q Question) (client.ListPage, error) {
		r := client.ListRequest{Filter: view.Filter{Job: l.Job, Schedule: l.Schedule, Roots: true, Limit: 1}, At: q.At}
		if q.At == "" {
			last, err := c.Last(ctx)
			if err != nil {
				return client.ListPage{}, err
			}
			r.AtLeast = last
		}
		return c.List(ctx, r)
	})
	page, err := look(asking)
	if errors.Is(err, jet.ErrNoService) {
		return "", &term.Fault{Code: term.ExitNoServer, Err: errors.New("it takes a millrace server to find the latest task, and none answers"), Hint: term.Hint("give the task's id, or start `millrace server`")}
	}
	if err != nil {
		return "", err
	}
	if len(page.Tasks) == 0 {
		what := "job " + l.Job
		if l.Schedule != "" {
			what = "schedule " + l.Schedule
		}
		if s.Past != nil {
			what += fmt.Sprintf(" as of sequence %d", s.Past.Seq)
		}
		return "", &term.Fault{Code: term.ExitNotFound, Err: fmt.Errorf("there is no task of %s", what), Hint: term.Hint("`millrace job ls` and `millrace schedule ls` list what there is")}
	}
	return page.Tasks[0].ID, nil
}
