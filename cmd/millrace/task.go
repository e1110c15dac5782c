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

func (a *app) taskCommand() *cobra.Command {
	c := noun(&cobra.Command{
		Use: "task", Aliases: []string{"tasks", "t"},
		Short: "Tasks: look at them, wait for them, cancel and retry them",
		Long: `Tasks: look at them, wait for them, cancel and retry them.

A task is named by its id, or by six or more characters at the beginning or the
end of it, if a millrace server answers and no other task has them.`,
		Example: `  millrace task ls --state active
  millrace task why ID
  millrace task logs -f ID
  millrace task retry $(millrace task ls --state error --since 1h --names)`,
	})
	c.AddCommand(a.taskList(), a.taskShow(), a.taskTree(), a.taskWhy(), a.taskDiff(), a.taskLogs(), a.taskEvents(), a.taskData(), a.taskArtifacts(),
		a.taskAttempts(), a.taskCancel(), a.taskRetry(), a.taskCopy(), a.taskEdit(), a.taskRelease(), a.taskSignal(), a.taskWait())
	return c
}

// withTask makes the RunE of a command about one task.
func (a *app) withTask(do func(ctx context.Context, c *client.Client, id task.ID) error) func(*cobra.Command, []string) error {
	return a.withTasks(func(ctx context.Context, c *client.Client, ids []task.ID) error { return do(ctx, c, ids[0]) })
}

// withTasks makes the RunE of a command about several tasks.
func (a *app) withTasks(do func(ctx context.Context, c *client.Client, ids []task.ID) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		for _, arg := range args {
			if err := plausibleID(arg); err != nil {
				return misuse(c, "%w", err)
			}
		}
		cl, err := a.connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		ids := make([]task.ID, len(args))
		for i, arg := range args {
			if ids[i], err = a.taskID(c.Context(), cl, arg); err != nil {
				return err
			}
		}
		return do(c.Context(), cl, ids)
	}
}

// plausibleID refuses what can be neither an id nor a part of one.
func plausibleID(s string) error {
	if len(s) == 26 {
		_, err := task.ParseID(s)
		return err
	}
	if _, ok := task.Part(s); !ok {
		return fmt.Errorf("%q is no task id: want the 26 characters, or at least %d from its beginning or end", s, task.MinPart)
	}
	return nil
}

// taskID finds the task that a whole or shortened id means.
func (a *app) taskID(ctx context.Context, c *client.Client, arg string) (task.ID, error) {
	asking, cancel := a.asking(ctx)
	defer cancel()
	id, err := c.Resolve(asking, arg)
	var several *client.Ambiguous
	switch {
	case errors.Is(err, jet.ErrNoService):
		return "", &fault{code: exitNoServer, err: errors.New("it takes a millrace server to find a task by a part of its id, and none answers"), hint: hint("give all 26 characters, or start `millrace server`")}
	case errors.As(err, &several):
		return "", &fault{code: exitUsage, err: err, hint: hint("give more characters")}
	}
	return id, err
}
