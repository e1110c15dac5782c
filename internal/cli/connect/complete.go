package connect

import (
	"context"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
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

// CompleteJobs completes the names of jobs.
func (a *App) CompleteJobs(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && c.Name() != "rm" {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return a.Complete(c, func(ctx context.Context, cl *client.Client) []string {
		jobs, _ := cl.Jobs(ctx) // the valid ones
		names := make([]string, len(jobs))
		for i, j := range jobs {
			names[i] = j.Name + "\t" + j.Title
		}
		return names
	})
}

// CompleteCalendars completes the names of calendars.
func (a *App) CompleteCalendars(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.CompleteOne(c, args, func(ctx context.Context, cl *client.Client) []string {
		calendars, _ := cl.Calendars(ctx) // the valid ones
		names := make([]string, len(calendars))
		for i := range calendars {
			names[i] = calendars[i].Name + "\t" + calendars[i].Title
		}
		return names
	})
}

// CompleteSchedules completes the names of schedules.
func (a *App) CompleteSchedules(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.CompleteOne(c, args, func(ctx context.Context, cl *client.Client) []string {
		schedules, _ := cl.Schedules(ctx) // the valid ones
		names := make([]string, len(schedules))
		for i := range schedules {
			names[i] = schedules[i].Name + "\t" + wording.When(&schedules[i].When)
		}
		return names
	})
}

// CompleteTasks completes the ids of the latest tasks.
func (a *App) CompleteTasks(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.Complete(c, func(ctx context.Context, cl *client.Client) []string {
		page, _ := cl.List(ctx, client.ListRequest{Filter: view.Filter{Limit: 30}})
		ids := make([]string, len(page.Tasks))
		for i := range page.Tasks {
			t := &page.Tasks[i]
			ids[i] = string(t.ID) + "\t" + wording.StateAndReason(t) + " " + term.Printable(term.Cut(t.What(), 40))
		}
		return ids
	})
}

// CompleteNodes completes the names of nodes.
func (a *App) CompleteNodes(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.CompleteOne(c, args, func(ctx context.Context, cl *client.Client) []string {
		page, _ := cl.Nodes(ctx, client.NodeListRequest{})
		names := make([]string, len(page.Nodes))
		for i := range page.Nodes {
			names[i] = string(page.Nodes[i].ID) + "\t" + page.Nodes[i].State.String()
		}
		return names
	})
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
		var names []string
		for i := range page.Counters {
			names = append(names, page.Counters[i].Name)
		}
		return names
	})
}

// CompleteQueues completes the names of queues.
func (a *App) CompleteQueues(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.CompleteOne(c, args, QueueNames)
}

// QueueNames returns the names of the queues, as far as a server knows them.
func QueueNames(ctx context.Context, cl *client.Client) []string {
	page, _ := cl.Queues(ctx, client.QueueListRequest{})
	var names []string
	for _, q := range page.Queues {
		names = append(names, q.Name)
	}
	slices.Sort(names)
	return names
}

// CompleteFiles completes the names of bundles.
func (a *App) CompleteFiles(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.Complete(c, func(ctx context.Context, cl *client.Client) []string {
		names := bundleNames(ctx, cl)
		return names
	})
}

// NodeNames returns the names of the nodes, as far as a server knows them.
func NodeNames(ctx context.Context, c *client.Client) []string {
	page, _ := c.Nodes(ctx, client.NodeListRequest{})
	names := make([]string, len(page.Nodes))
	for i := range page.Nodes {
		names[i] = string(page.Nodes[i].ID)
	}
	return names
}
