package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"millrace/client"
	"millrace/task"
	"millrace/verify"
	"millrace/view"
)

// completer gives the words that may stand in a place of the command line.
type completer = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// completions says what the values of flags are, by the flag's name, which means the same in every command.
// A flag that its command completes by itself is left alone, and so is one that takes a file.
func (a *app) completions() map[string]completer {
	words := func(list []string) completer { return cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp) }
	// alone completes a value as the command's first argument would be.
	alone := func(of completer) completer {
		return func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return of(c, nil, typed)
		}
	}
	tasks, nodes := alone(a.completeTasks), alone(a.completeNodes)
	return map[string]completer{
		"job": alone(a.completeJobs), "schedule": alone(a.completeSchedules), "queue": alone(a.completeQueues), "window": alone(a.completeCalendars),
		"node": nodes, "avoid": nodes, "task": tasks, "needs": tasks, "after": tasks,
		"handler": a.completeHandlers, "param": a.completeParams, "step": a.completeSteps, "files": a.completeFileNames,
		"late": words(task.Lates), "no-node": words(task.NoNodes), "on-limit": words(task.OnLimits), "needs-rule": words(task.NeedRules),
		"dst": words(task.DSTs), "catchup": words(task.CatchUps), "overlap": words(task.Overlaps), "sticky": words([]string{task.StickyJob, task.StickyAttempt}),
		"type": words(typeNames()), "state": words(append(strings.Split(stateNames(), ", "), "active", "ended")),
		"rule": words(ruleNames()), "context": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return client.Contexts(), cobra.ShellCompDirectiveDefault
		},
		"profile": words([]string{profileDev, profileProd}),
	}
}

// completeFlags gives all flags below a command their completion.
func (a *app) completeFlags(root *cobra.Command) {
	known := a.completions()
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if _, there := c.GetFlagCompletionFunc(f.Name); there {
				return
			}
			complete := known[f.Name]
			if one, is := f.Value.(*choice); is {
				complete = cobra.FixedCompletions(one.of, cobra.ShellCompDirectiveNoFileComp)
			}
			if complete == nil && !takesFile(f) {
				complete = cobra.NoFileCompletions
			}
			if complete != nil {
				_ = c.RegisterFlagCompletionFunc(f.Name, complete) // it has none yet
			}
		})
		for _, below := range c.Commands() {
			visit(below)
		}
	}
	visit(root)
}

// takesFile tells whether the value of a flag names a file or a folder, by what its help calls it.
func takesFile(f *pflag.Flag) bool {
	name, _ := pflag.UnquoteUsage(f)
	return slices.ContainsFunc([]string{"file", "folder", "directory"}, func(word string) bool { return strings.Contains(name, word) })
}

func ruleNames() []string {
	var names []string
	for _, r := range verify.Rules() {
		names = append(names, r.String())
	}
	return names
}

// completeHandlers are the handlers that the programs of nodes have.
func (a *app) completeHandlers(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(c, func(ctx context.Context, cl *client.Client) []string {
		page, _ := cl.Nodes(ctx, client.NodeListRequest{})
		var names []string
		for i := range page.Nodes {
			names = append(names, page.Nodes[i].Handlers...)
		}
		slices.Sort(names)
		return slices.Compact(names)
	})
}

// completeParams are the parameters of the job that stands on the line.
func (a *app) completeParams(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if c.Name() != "run" || len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, _ := a.complete(c, func(ctx context.Context, cl *client.Client) []string {
		job, _ := cl.Job(ctx, args[0])
		var names []string
		for name, value := range job.Params {
			names = append(names, name+"=\t"+string(value))
		}
		slices.Sort(names)
		return names
	})
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeSteps are the steps of the task that stands on the line, as paths.
func (a *app) completeSteps(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.complete(c, func(ctx context.Context, cl *client.Client) []string {
		id, err := a.taskID(ctx, cl, args[0])
		if err != nil {
			return nil
		}
		b, _ := view.Tree(ctx, cl.View(), id)
		root := leafOf(&b, a.now())
		return root.paths("", nil)
	})
}

// completeFileNames are bundles, and the folders that the shell knows.
func (a *app) completeFileNames(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	names, _ := a.completeFiles(c, args, typed)
	return names, cobra.ShellCompDirectiveDefault
}

// completedFacts is how many of the latest facts are offered.
const completedFacts = 15

// completeFacts are the sequences of the latest facts.
func (a *app) completeFacts(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.complete(c, func(ctx context.Context, cl *client.Client) []string {
		end, err := cl.Last(ctx)
		if err != nil || end == 0 {
			return nil
		}
		feed, err := cl.Store().Follow(ctx, max(end, completedFacts)-completedFacts+1)
		if err != nil {
			return nil
		}
		defer feed.Close()
		var latest []string
		for seen := uint64(0); seen < end; {
			records, err := nextRecords(ctx, feed, true)
			if err != nil || len(records) == 0 {
				break
			}
			for i := range records {
				r := &records[i]
				seen = r.Seq
				latest = append(latest, strconv.FormatUint(r.Seq, 10)+"\t"+factType(r)+" "+printable(r.Fact.About()))
			}
		}
		slices.Reverse(latest)
		return latest
	})
}

// completeLimits are the limits under which tasks stand.
func (a *app) completeLimits(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.complete(c, func(ctx context.Context, cl *client.Client) []string {
		page, _ := cl.Limits(ctx, client.LimitListRequest{Limit: 50})
		var names []string
		for i := range page.Counters {
			names = append(names, page.Counters[i].Name)
		}
		return names
	})
}
