package connect

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"millrace/events/jet"
	"millrace/internal/cli/term"
	"millrace/service/client"
	"millrace/task"
)

// WithTask makes the RunE of a command for one task.
func (a *App) WithTask(do func(ctx context.Context, c *client.Client, id task.ID) error) func(*cobra.Command, []string) error {
	return a.WithTasks(func(ctx context.Context, c *client.Client, ids []task.ID) error { return do(ctx, c, ids[0]) })
}

// WithTasks makes the RunE of a command for several tasks.
func (a *App) WithTasks(do func(ctx context.Context, c *client.Client, ids []task.ID) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		for _, arg := range args {
			if err := PlausibleID(arg); err != nil {
				return term.Misuse(c, "%w", err)
			}
		}
		cl, err := a.Connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		ids := make([]task.ID, len(args))
		for i, arg := range args {
			if ids[i], err = a.TaskID(c.Context(), cl, arg); err != nil {
				return err
			}
		}
		return do(c.Context(), cl, ids)
	}
}

// PlausibleID refuses texts that can be neither an id nor a part of one.
func PlausibleID(s string) error {
	if len(s) == 26 {
		_, err := task.ParseID(s)
		return err
	}
	if _, ok := task.Part(s); !ok {
		return fmt.Errorf("%q is no task id: want the 26 characters, or at least %d from its beginning or end", s, task.MinPart)
	}
	return nil
}

// LaterID stands for the task of a partial id before there is a server to ask.
func LaterID(text string) (task.ID, error) {
	if err := PlausibleID(text); err != nil {
		return "", err
	}
	return task.ID(strings.Repeat("0", 26-len(text)) + strings.ToUpper(text)), nil
}

// TaskID finds the task of a whole or partial id.
func (a *App) TaskID(ctx context.Context, c *client.Client, arg string) (task.ID, error) {
	asking, cancel := a.Asking(ctx)
	defer cancel()
	id, err := c.Resolve(asking, arg)
	var several *client.Ambiguous
	switch {
	case errors.Is(err, jet.ErrNoService):
		return "", &term.Fault{Code: term.ExitNoServer, Err: errors.New("it takes a millrace server to find a task by a part of its id, and none answers"), Hint: term.Hint("give all 26 characters, or start `millrace server`")}
	case errors.As(err, &several):
		return "", &term.Fault{Code: term.ExitUsage, Err: err, Hint: term.Hint("give more characters")}
	}
	return id, err
}
