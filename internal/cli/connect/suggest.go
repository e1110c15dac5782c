package connect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/events/jet/definitions"
	"millrace/internal/cli/exit"
	"millrace/internal/cli/settings"
	"millrace/service/client"
	"millrace/task/value"
)

// suggestTime bounds looking up the existing names.
const suggestTime = 2 * time.Second

// Suggest adds to the error about an unknown name which name may be meant. It returns any other
// error as it is.
func (a *App) Suggest(ctx context.Context, err error) error {
	absent, ok := errors.AsType[*definitions.Absent](err)
	if !ok || a.reached == nil || ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, suggestTime)
	defer cancel()
	c, unreached := a.reached.Connect(ctx)
	if unreached != nil {
		return err
	}
	defer c.Close()
	return OrMeant(err, absent.Name, namesOf(ctx, c, absent.Kind))
}

// OrMeant adds to an error about an unknown name the most similar of names.
func OrMeant(err error, name string, names []string) error {
	meant := value.Word(name, names)
	if meant == "" || meant == name { // it may exist now, and not then
		return err
	}
	f := *exit.Of(err)
	f.Err = fmt.Errorf("%w%s", err, settings.DidYouMean(meant))
	return &f
}

// namesOf returns the existing names of a kind, as far as they can be read.
func namesOf(ctx context.Context, c *client.Client, kind error) (names []string) {
	switch {
	case errors.Is(kind, definitions.ErrNoJob):
		jobs, _ := c.Jobs(ctx)
		for i := range jobs {
			names = append(names, jobs[i].Name)
		}
	case errors.Is(kind, definitions.ErrNoSchedule):
		schedules, _ := c.Schedules(ctx)
		for i := range schedules {
			names = append(names, schedules[i].Name)
		}
	case errors.Is(kind, definitions.ErrNoCalendar):
		calendars, _ := c.Calendars(ctx)
		for i := range calendars {
			names = append(names, calendars[i].Name)
		}
	case errors.Is(kind, definitions.ErrNoToken):
		tokens, _ := c.Tokens(ctx)
		for i := range tokens {
			names = append(names, tokens[i].Name)
		}
	case errors.Is(kind, definitions.ErrNoBundle):
		names = bundleNames(ctx, c)
	}
	return names
}

// bundleNames returns the names of bundles, as far as they can be read.
func bundleNames(ctx context.Context, c *client.Client) (names []string) {
	all, _ := c.Bundles(ctx, "")
	for i := range all {
		names = append(names, all[i].Name)
	}
	return names
}
