package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"millrace/client"
)

// completionPatience bounds what a person waits for after pressing the tab key.
const completionPatience = 700 * time.Millisecond

// complete asks a server for words; without one there are none.
func (a *app) complete(c *cobra.Command, words func(context.Context, *client.Client) []string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(orBackground(c.Context())), completionPatience)
	defer cancel()
	a.conn.timeout = completionPatience
	a.errs = io.Discard // nothing has a place on a line that is being typed
	cl, err := a.connect(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer cl.Close()
	return words(ctx, cl), cobra.ShellCompDirectiveNoFileComp
}

func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

func (a *app) completeJobs(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && c.Name() != "rm" {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return a.complete(c, func(ctx context.Context, cl *client.Client) []string {
		jobs, _ := cl.Jobs(ctx) // those that can be read
		names := make([]string, len(jobs))
		for i, j := range jobs {
			names[i] = j.Name + "\t" + j.Title
		}
		return names
	})
}

func (a *app) completeCalendars(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && c.Name() != "rm" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.complete(c, func(ctx context.Context, cl *client.Client) []string {
		calendars, _ := cl.Calendars(ctx) // those that can be read
		names := make([]string, len(calendars))
		for i := range calendars {
			names[i] = calendars[i].Name + "\t" + calendars[i].Title
		}
		return names
	})
}

func (a *app) completeSchedules(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && c.Name() != "rm" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.complete(c, func(ctx context.Context, cl *client.Client) []string {
		schedules, _ := cl.Schedules(ctx) // those that can be read
		names := make([]string, len(schedules))
		for i := range schedules {
			names[i] = schedules[i].Name + "\t" + whenText(&schedules[i].When)
		}
		return names
	})
}

func (a *app) completeTasks(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(c, func(ctx context.Context, cl *client.Client) []string {
		page, _ := cl.List(ctx, client.ListRequest{Limit: 30})
		ids := make([]string, len(page.Tasks))
		for i := range page.Tasks {
			t := &page.Tasks[i]
			ids[i] = string(t.ID) + "\t" + stateAndReason(t) + " " + printable(cut(t.What(), 40))
		}
		return ids
	})
}

func (a *app) completeNodes(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.complete(c, func(ctx context.Context, cl *client.Client) []string {
		page, _ := cl.Nodes(ctx, client.NodeListRequest{})
		names := make([]string, len(page.Nodes))
		for i := range page.Nodes {
			names[i] = string(page.Nodes[i].ID) + "\t" + page.Nodes[i].State.String()
		}
		return names
	})
}
