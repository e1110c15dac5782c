package job

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task/limit"
	"millrace/task/quota"
)

// Limits is millrace limit.
func (a *Commands) Limits() *cobra.Command {
	c := settings.Noun(&cobra.Command{
		Use: "limit", Aliases: []string{"limits"},
		Short: "Limits: the tasks that hold them, and those that wait",
		Long: `Limits of concurrency, budget and rate, as jobs and submissions name them. There are no counters
to repair: an admitted task takes a place, and frees it when it has ended or waits for
another attempt.`,
		Example: `  millrace limit ls
  millrace limit show key:crawl/acme -o json`,
	})
	c.AddCommand(a.limitList(), a.limitShow())
	return c
}

func (a *Commands) limitList() *cobra.Command {
	limit := 50
	return (&connect.Reading[client.LimitPage]{
		Use: "ls", Short: "List limits, those with the most waiting first; needs a millrace server",
		Then:  limited,
		Flags: func(c *cobra.Command) { settings.Count(c.Flags(), &limit, "limit", "n", "at most so many, up to 1000") },
		Check: func() error {
			if limit < 1 || limit > 1000 {
				return fmt.Errorf("--limit is %d, want 1 to 1000", limit)
			}
			return nil
		},
		Request: func(ctx context.Context, cl *client.Client, _ string, q connect.Question) (client.LimitPage, error) {
			return cl.Limits(ctx, client.LimitListRequest{Limit: limit, At: q.At, AtLeast: q.AtLeast})
		},
		Table: func(page client.LimitPage, s *connect.Sight) term.Table {
			t := term.List(page.Counters, wording.LimitColumns(s.Now())...)
			t.Foot = []string{wording.Plural(page.All, "limit")}
			return t
		},
	}).Command(a.App)
}

func (a *Commands) limitShow() *cobra.Command {
	return (&connect.Reading[quota.CounterState]{
		Use: "show NAME", Short: "Show one limit and the tasks that hold it; needs a millrace server",
		Of: "name of a limit", Complete: a.CompleteLimits, Then: limited,
		Request: func(ctx context.Context, cl *client.Client, name string, q connect.Question) (is quota.CounterState, err error) {
			page, err := cl.Limits(ctx, client.LimitListRequest{Name: name, Limit: 1, Holders: 1000, At: q.At, AtLeast: q.AtLeast})
			switch {
			case err != nil:
				return is, err
			case len(page.Counters) == 0:
				return is, &term.Fault{Code: term.ExitNotFound, Err: fmt.Errorf("no task stands under the limit %q", name), Hint: term.Hint("`millrace limit ls` lists the limits there are")}
			}
			return page.Counters[0], nil
		},
		Table: limitFields,
	}).Command(a.App)
}

// limited is a past moment's request about limits. Unrecorded decisions of a scheduler are lost.
var limited = connect.Then{Lacks: []string{"pauses that tasks asked for"}}

func limitFields(c quota.CounterState, s *connect.Sight) term.Table {
	t := term.Table{Title: "Limit " + c.Name}
	t.Field("bounds", limit.Words(c.Name))
	t.Field("in use", wording.InUse(&c))
	t.Field("waiting", strconv.Itoa(c.Waiting))
	rate, next := wording.NextText(&c, s.Now())
	t.Field("rate", rate)
	t.Field("next", next)
	for i, id := range c.Holders {
		name := ""
		if i == 0 {
			name = "held by"
		}
		t.Field(name, string(id))
	}
	return t
}
