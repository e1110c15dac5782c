package connect

import (
	"context"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"millrace/events/jet/definitions"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/quota"
	"millrace/task/schedule"
)

// completionPatience bounds the wait of a user that presses the tab key.
const completionPatience = 700 * time.Millisecond

// Complete asks a server for words; without a server there are none.
func (a *App) Complete(c *cobra.Command, words func(context.Context, *client.Client) []string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(orBackground(c.Context())), completionPatience)
	defer cancel()
	a.Conn.Timeout = completionPatience
	a.Errs = io.Discard // the line being typed has no room for messages
	cl, err := a.Connect(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer cl.Close()
	return words(ctx, cl), cobra.ShellCompDirectiveNoFileComp
}

// CompleteOne completes the first argument, and all those of rm.
func (a *App) CompleteOne(c *cobra.Command, args []string, words func(context.Context, *client.Client) []string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && c.Name() != "rm" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.Complete(c, words)
}

func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// each returns a word for each of a list: a name and, behind a tab, what completion says of it.
func each[T any](all []T, word func(*T) string) []string {
	words := make([]string, len(all))
	for i := range all {
		words[i] = word(&all[i])
	}
	return words
}

// The words of each kind of definitions: the valid ones.
func jobWords(ctx context.Context, cl *client.Client) []string {
	all, _ := cl.Jobs(ctx)
	return each(all, func(j *definitions.StoredJob) string { return j.Name + "\t" + j.Title })
}

func calendarWords(ctx context.Context, cl *client.Client) []string {
	all, _ := cl.Calendars(ctx)
	return each(all, func(is *schedule.StoredCalendar) string { return is.Name + "\t" + is.Title })
}

func scheduleWords(ctx context.Context, cl *client.Client) []string {
	all, _ := cl.Schedules(ctx)
	return each(all, func(is *schedule.Stored) string { return is.Name + "\t" + wording.When(&is.When) })
}

func tokenWords(ctx context.Context, cl *client.Client) []string {
	all, _ := cl.Tokens(ctx)
	return each(all, func(is *definitions.StoredToken) string { return is.Name + "\t" + string(is.Role) })
}

// nodeWords and queueWords are the nodes and queues that a server knows.
func nodeWords(ctx context.Context, cl *client.Client) []string {
	page, _ := cl.Nodes(ctx, client.NodeListRequest{})
	return each(page.Nodes, func(n *client.NodeView) string { return string(n.ID) + "\t" + n.State.String() })
}

func queueWords(ctx context.Context, cl *client.Client) []string {
	page, _ := cl.Queues(ctx, client.QueueListRequest{})
	names := each(page.Queues, func(q *client.QueueView) string { return q.Name })
	slices.Sort(names)
	return names
}

// bundleWords are the names of bundles.
func bundleWords(ctx context.Context, cl *client.Client) []string {
	all, _ := cl.Bundles(ctx, "")
	return each(all, func(is *definitions.NamedVersion) string { return is.Name })
}

// CompleteJobs completes the names of jobs.
func (a *App) CompleteJobs(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && c.Name() != "rm" {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return a.Complete(c, jobWords)
}

// CompleteCalendars completes the names of calendars.
func (a *App) CompleteCalendars(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.CompleteOne(c, args, calendarWords)
}

// CompleteSchedules completes the names of schedules.
func (a *App) CompleteSchedules(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.CompleteOne(c, args, scheduleWords)
}

// CompleteTokens completes the names of tokens.
func (a *App) CompleteTokens(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.CompleteOne(c, args, tokenWords)
}

// CompleteTasks completes the ids of the latest tasks.
func (a *App) CompleteTasks(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.Complete(c, func(ctx context.Context, cl *client.Client) []string {
		page, _ := cl.List(ctx, client.ListRequest{Filter: view.Filter{Limit: 30}})
		return each(page.Tasks, func(t *task.Task) string {
			return string(t.ID) + "\t" + wording.StateAndReason(t) + " " + term.Printable(term.Cut(t.What(), 40))
		})
	})
}

// CompleteNodes completes the names of nodes.
func (a *App) CompleteNodes(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.CompleteOne(c, args, nodeWords)
}

// Completer returns the words that may stand at a place of the command line.
type Completer = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// CompleteHandlers completes the handlers of the nodes' programs.
func (a *App) CompleteHandlers(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.Complete(c, func(ctx context.Context, cl *client.Client) []string {
		page, _ := cl.Nodes(ctx, client.NodeListRequest{})
		var names []string
		for i := range page.Nodes {
			names = append(names, page.Nodes[i].Handlers...)
		}
		slices.Sort(names)
		return slices.Compact(names)
	})
}

// CompleteFacts completes the sequences of the latest facts.
func (a *App) CompleteFacts(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.CompleteOne(c, args, func(ctx context.Context, cl *client.Client) []string {
		end, err := cl.Last(ctx)
		if err != nil || end == 0 {
			return nil
		}
		feed, err := cl.Follow(ctx, max(end, completedFacts)-completedFacts+1)
		if err != nil {
			return nil
		}
		defer feed.Close()
		var latest []string
		for seen := uint64(0); seen < end; {
			records, err := NextRecords(ctx, feed, true)
			if err != nil || len(records) == 0 {
				break
			}
			for i := range records {
				r := &records[i]
				seen = r.Seq
				latest = append(latest, strconv.FormatUint(r.Seq, 10)+"\t"+wording.FactType(r)+" "+term.Printable(r.Fact.About()))
			}
		}
		slices.Reverse(latest)
		return latest
	})
}

// completedFacts is how many of the latest facts are offered.
const completedFacts = 15

// CompleteLimits completes the limits that apply to tasks.
func (a *App) CompleteLimits(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.CompleteOne(c, args, func(ctx context.Context, cl *client.Client) []string {
		page, _ := cl.Limits(ctx, client.LimitListRequest{Limit: 50})
		return each(page.Counters, func(is *quota.CounterState) string { return is.Name })
	})
}

// CompleteQueues completes the names of queues.
func (a *App) CompleteQueues(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.CompleteOne(c, args, queueWords)
}

// CompleteFiles completes the names of bundles.
func (a *App) CompleteFiles(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.Complete(c, bundleWords)
}
