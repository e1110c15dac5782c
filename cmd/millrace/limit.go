package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/cmd/millrace/exit"
	"millrace/cmd/millrace/term"
	"millrace/cmd/millrace/told"
	"millrace/cmd/millrace/typed"
	"millrace/task"
)

// limitFlags are the limits that `millrace run` was told.
type limitFlags struct {
	concurrency []string
	perNode     []string
	budget      []string
	rate        []string
	burst       int
	key         string
	onLimit     string
	unique      string
}

func (f *limitFlags) flags(c *cobra.Command) {
	fs := c.Flags()
	fs.StringArrayVar(&f.concurrency, "concurrency", nil, "at most so many under way at once, of the job or with the same key: `number[:KEY]` (repeat it)")
	fs.StringArrayVar(&f.perNode, "per-node", nil, "at most so many running on one node, of the job or with the same key: `number[:KEY]` (repeat it)")
	fs.StringArrayVar(&f.budget, "budget", nil, "at most so many starts, or so much run time, in a day, week or month, of the job or with the same key, `amount/period[@ZONE][:KEY]`: 1000/day, 8h/week@Europe/Berlin (repeat it)")
	fs.StringArrayVar(&f.rate, "rate", nil, "at most so many starts in a time, of the job or with the same key, `number/time[:KEY]`: 10/1m (repeat it)")
	fs.IntVar(&f.burst, "burst", 0, "so many of --rate at once (default 1)")
	fs.StringVar(&f.key, "key", "", "split each --concurrency, --per-node, --budget and --rate without a key of its own by this `key`: acme, {params.customer}, {labels.site}, {queue}, /for-all-jobs")
	fs.StringVar(&f.onLimit, "on-limit", "", "if --concurrency has no place: "+strings.Join(task.OnLimits, ", ")+" (default wait)")
	fs.StringVar(&f.unique, "unique", "", "refuse it while another task with this `key` has not ended")
}

// set puts the flags that were given into a submission.
func (f *limitFlags) set(c *cobra.Command, s *task.Submission) error {
	given := c.Flags().Changed
	switch {
	case given("on-limit") && !given("concurrency"):
		return fmt.Errorf("--on-limit says what happens if --concurrency has no place; give that, too")
	case given("burst") && !given("rate"):
		return fmt.Errorf("--burst belongs to --rate; give that, too")
	case given("key") && !given("concurrency") && !given("per-node") && !given("budget") && !given("rate"):
		return fmt.Errorf("--key splits --concurrency, --per-node, --budget or --rate; give one of them, too")
	}
	for _, text := range f.concurrency {
		most, key, err := f.most("concurrency", text)
		if err != nil {
			return err
		}
		s.Concurrency = append(s.Concurrency, task.Concurrency{Max: most, Key: key, OnLimit: f.onLimit})
	}
	for _, text := range f.perNode {
		most, key, err := f.most("per-node", text)
		if err != nil {
			return err
		}
		s.PerNode = append(s.PerNode, task.PerNode{Max: most, Key: key})
	}
	for _, text := range f.budget {
		amount, key := f.keyed(text)
		b, err := parseBudget(amount)
		if err != nil {
			return fmt.Errorf("--budget is %q, want a number of starts or a run time and a period, perhaps with a zone and a key: 1000/day or 8h/week@Europe/Berlin:{labels.site}: %w", text, err)
		}
		b.Key = key
		s.Budget = append(s.Budget, b)
	}
	for _, text := range f.rate {
		rate, key := f.keyed(text)
		r, err := parseRate(rate)
		if err != nil {
			return fmt.Errorf("--rate is %q, want a number and a time, perhaps with a key: 10/1m or 10/1m:{labels.site}: %w", text, err)
		}
		r.Burst, r.Key = f.burst, key
		s.Rate = append(s.Rate, r)
	}
	if given("unique") {
		s.Unique = &task.Unique{Key: f.unique}
	}
	return nil
}

// most reads a number of tasks and its key.
func (f *limitFlags) most(flag, text string) (n int, key string, err error) {
	number, key := f.keyed(text)
	if n, err = strconv.Atoi(number); err != nil || n < 1 {
		return n, key, fmt.Errorf("--%s is %q, want a number, perhaps with a key: 5 or 1:{params.customer}", flag, text)
	}
	return n, key, nil
}

// parseBudget reads a number of starts or a run time, and the period for that after a /.
func parseBudget(text string) (b task.Budget, err error) {
	amount, per, timed := strings.Cut(text, "/")
	if !timed {
		return b, fmt.Errorf("the period is missing: %s/day is so much in a day", amount)
	}
	b.Per, b.Timezone, _ = strings.Cut(per, "@")
	if b.Starts, err = strconv.Atoi(amount); err == nil {
		return b, nil
	}
	return b, b.Run.UnmarshalText([]byte(amount))
}

// parseRate reads a number of starts, and the time for that after a /.
func parseRate(text string) (r task.Rate, err error) {
	count, per, timed := strings.Cut(text, "/")
	if r.Limit, err = strconv.Atoi(count); err != nil || r.Limit < 1 {
		return r, fmt.Errorf("%q is no number of at least 1", count)
	}
	if !timed {
		return r, fmt.Errorf("the time is missing: %s/1s is so many in a second, %s/1m in a minute", count, count)
	}
	return r, r.Per.UnmarshalText([]byte(per))
}

// keyed parts a limit from its key.
func (f *limitFlags) keyed(text string) (limit, key string) {
	limit, key, own := strings.Cut(text, ":")
	if !own {
		key = f.key
	}
	return limit, key
}

func (a *app) limitCommand() *cobra.Command {
	c := typed.Noun(&cobra.Command{
		Use: "limit", Aliases: []string{"limits"},
		Short: "Limits: who holds them, and who waits for them",
		Long: `Limits of concurrency, budget and rate, as jobs and submissions name them. There is no counter
to be set right: a place is taken by a task that was admitted and is free when that
task has ended or waits for another attempt.`,
		Example: `  millrace limit ls
  millrace limit show key:crawl/acme -o json`,
	})
	c.AddCommand(a.limitList(), a.limitShow())
	return c
}

func (a *app) limitList() *cobra.Command {
	var o typed.Output
	limit := 0
	c := &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Short: "List limits, those with the most waiting first; needs a millrace server",
		Args:  typed.Takes(0, 0, ""),
	}
	c.Flags().IntVarP(&limit, "limit", "n", 50, "at most so many, up to 1000")
	o.Flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if limit < 1 || limit > 1000 {
			return exit.Misuse(c, "--limit is %d, want 1 to 1000", limit)
		}
		return a.limits(c.Context(), client.LimitListRequest{Limit: limit}, func(page *client.LimitPage) error {
			if o.JSON() {
				return a.WriteJSON(page)
			}
			return a.Print(limitTable(page, a.Now()))
		})
	}
	return c
}

func (a *app) limitShow() *cobra.Command {
	var o typed.Output
	c := &cobra.Command{
		Use: "show NAME", Aliases: []string{"view", "info"},
		Short: "Show one limit and the tasks that hold it; needs a millrace server",
		Args:  typed.Takes(1, 1, "name of a limit"), ValidArgsFunction: a.CompleteLimits,
	}
	o.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return a.limits(c.Context(), client.LimitListRequest{Name: args[0], Holders: 1000}, func(page *client.LimitPage) error {
			if len(page.Counters) == 0 {
				return &exit.Fault{Code: exit.NotFound, Err: fmt.Errorf("no task stands under the limit %q", args[0]), Hint: exit.Hint("`millrace limit ls` lists the limits there are")}
			}
			if o.JSON() {
				return a.WriteJSON(page.Counters[0])
			}
			return a.Print(limitFields(&page.Counters[0], a.Now()))
		})
	}
	return c
}

func (a *app) limits(ctx context.Context, r client.LimitListRequest, show func(*client.LimitPage) error) error {
	cl, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	asking, cancel := a.Asking(ctx)
	defer cancel()
	page, err := cl.Limits(asking, r)
	if err != nil {
		return err
	}
	return show(&page)
}

func limitTable(page *client.LimitPage, now time.Time) term.Table {
	t := term.Table{Header: []string{"LIMIT", "IN USE", "WAITING", "RATE", "NEXT", "BOUNDS"}, Spare: []string{"RATE", "NEXT"}}
	for i := range page.Counters {
		c := &page.Counters[i]
		rate, next := told.NextText(c, now)
		t.Add(term.Plain(c.Name), term.Plain(inUse(c)), term.Plain(strconv.Itoa(c.Waiting)), term.Plain(rate), term.Plain(next), term.Plain(task.LimitWords(c.Name)))
	}
	t.Foot = []string{told.Plural(page.All, "limit")}
	return t
}

func limitFields(c *task.CounterState, now time.Time) term.Table {
	t := term.Table{Title: "Limit " + c.Name}
	t.Field("bounds", task.LimitWords(c.Name))
	t.Field("in use", inUse(c))
	t.Field("waiting", strconv.Itoa(c.Waiting))
	rate, next := told.NextText(c, now)
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

// inUse is how much of a limit is taken; of a rate, nothing is.
func inUse(c *task.CounterState) string {
	if c.Budget != nil {
		return c.Budget.Words()
	}
	if c.Max == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", c.InUse, c.Max)
}
