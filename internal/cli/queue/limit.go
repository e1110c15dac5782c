package queue

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/cli/connect"
	"millrace/internal/cli/exit"
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
	var o settings.Output
	limit := 0
	c := &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Short: "List limits, those with the most waiting first; needs a millrace server",
		Args:  settings.Takes(0, 0, ""),
	}
	limit = 50
	settings.Count(c.Flags(), &limit, "limit", "n", "at most so many, up to 1000")
	sight := a.AtFlag(c, limited)
	o.Flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if limit < 1 || limit > 1000 {
			return exit.Misuse(c, "--limit is %d, want 1 to 1000", limit)
		}
		return a.limits(c.Context(), sight, client.LimitListRequest{Limit: limit}, func(page *client.LimitPage, s *connect.Sight) error {
			if o.JSON() {
				return a.WriteJSON(struct {
					*client.LimitPage
					At *connect.ShownPoint `json:"at,omitempty"`
				}{page, s.Past})
			}
			t := limitTable(page, s.Now())
			s.Mark(&t, a.Now())
			return a.Print(t)
		})
	}
	return c
}

func (a *Commands) limitShow() *cobra.Command {
	var o settings.Output
	c := &cobra.Command{
		Use: "show NAME", Aliases: []string{"view", "info"},
		Short: "Show one limit and the tasks that hold it; needs a millrace server",
		Args:  settings.Takes(1, 1, "name of a limit"), ValidArgsFunction: a.CompleteLimits,
	}
	sight := a.AtFlag(c, limited)
	o.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return a.limits(c.Context(), sight, client.LimitListRequest{Name: args[0], Limit: 1, Holders: 1000}, func(page *client.LimitPage, s *connect.Sight) error {
			if len(page.Counters) == 0 {
				return &exit.Fault{Code: exit.NotFound, Err: fmt.Errorf("no task stands under the limit %q", args[0]), Hint: exit.Hint("`millrace limit ls` lists the limits there are")}
			}
			if o.JSON() {
				return a.WriteJSON(struct {
					quota.CounterState
					At *connect.ShownPoint `json:"at,omitempty"`
				}{page.Counters[0], s.Past})
			}
			t := limitFields(&page.Counters[0], s.Now())
			s.Mark(&t, a.Now())
			return a.Print(t)
		})
	}
	return c
}

// limited is a past moment's request about limits. Unrecorded decisions of a scheduler are lost.
var limited = connect.Then{Lacks: []string{"pauses that tasks asked for"}}

func (a *Commands) limits(ctx context.Context, sight func(context.Context, *client.Client) (connect.Sight, error), r client.LimitListRequest,
	show func(*client.LimitPage, *connect.Sight) error) error {
	cl, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	s, err := sight(ctx, cl)
	if err != nil {
		return err
	}
	look := connect.Look(ctx, a.App, cl, &s, func(ctx context.Context, q connect.Question) (client.LimitPage, error) {
		r.At, r.AtLeast = q.At, q.AtLeast
		return cl.Limits(ctx, r)
	})
	asking, cancel := a.Asking(ctx)
	defer cancel()
	page, err := look(asking)
	if err != nil {
		return err
	}
	return show(&page, &s)
}

func limitTable(page *client.LimitPage, now time.Time) term.Table {
	t := term.Table{Header: []string{"LIMIT", "IN USE", "WAITING", "RATE", "NEXT", "BOUNDS"}, Spare: []string{"RATE", "NEXT"}}
	for i := range page.Counters {
		c := &page.Counters[i]
		rate, next := wording.NextText(c, now)
		t.Add(term.Plain(c.Name), term.Plain(inUse(c)), term.Plain(strconv.Itoa(c.Waiting)), term.Plain(rate), term.Plain(next), term.Plain(limit.Words(c.Name)))
	}
	t.Foot = []string{wording.Plural(page.All, "limit")}
	return t
}

func limitFields(c *quota.CounterState, now time.Time) term.Table {
	t := term.Table{Title: "Limit " + c.Name}
	t.Field("bounds", limit.Words(c.Name))
	t.Field("in use", inUse(c))
	t.Field("waiting", strconv.Itoa(c.Waiting))
	rate, next := wording.NextText(c, now)
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

// inUse is how much of a limit is used; nothing for a rate.
func inUse(c *quota.CounterState) string {
	if c.Budget != nil {
		return c.Budget.Words()
	}
	if c.Max == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", c.InUse, c.Max)
}
