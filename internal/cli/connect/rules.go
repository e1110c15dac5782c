package connect

import (
	"context"
	"fmt"
	"time"

	"millrace/internal/cli/settings"
	"millrace/service/client"
	"millrace/task/duties"
)

// Rules are the settings by which servers judge what must happen to tasks and nodes, and by when.
type Rules struct {
	settings.Values
	// Watched is since when all present schedulers watch for queues without nodes; zero if unknown.
	Watched time.Time
}

// Present returns the rules for duties of the present.
func (r *Rules) Present() duties.Settings {
	s := r.Task()
	s.Watched = r.Watched
	return s
}

// InForce returns the settings that are in force on a client's servers, as one of them says. If none
// answers in time, they are those of [App.Settings]. The lease is always that of the log.
func (a *App) InForce(ctx context.Context, c *client.Client) (Rules, error) {
	own, err := a.Settings()
	if err != nil {
		return Rules{}, err
	}
	r := Rules{Values: own}
	asking, cancel := a.Asking(ctx)
	defer cancel()
	if h, err := c.Health(asking); err == nil {
		if err := r.Take(h.Settings); err != nil {
			return Rules{}, fmt.Errorf("a server of another version has a setting that cannot be read: %w", err)
		}
		r.Watched = h.Watched
	}
	if c.Role() == "" {
		r.AckWait = c.Store().AckWait()
	}
	return r, nil
}
