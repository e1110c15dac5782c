package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"millrace/history/verify"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/task"
	"millrace/internal/cli/verb"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task/job"
	"millrace/task/limit"
)

// completions returns how the values of flags are completed, by the flag's name, which means the
// same in every command. It leaves out flags that their command or package program completes, and
// flags that take a file.
func (a *app) completions() map[string]connect.Completer {
	words := func(list []string) connect.Completer {
		return cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)
	}
	// alone completes a value as the command's first argument would be.
	alone := func(of connect.Completer) connect.Completer {
		return func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return of(c, nil, typed)
		}
	}
	tasks, nodes := alone(a.CompleteTasks), alone(a.CompleteNodes)
	return map[string]connect.Completer{
		"job": alone(a.CompleteJobs), "schedule": alone(a.CompleteSchedules), "queue": alone(a.CompleteQueues), "window": alone(a.CompleteCalendars),
		"node": nodes, "avoid": nodes, "task": tasks, "needs": tasks, "after": tasks,
		"handler": a.CompleteHandlers, "param": verb.Of(a.App).CompleteParams, "step": a.completeSteps, "files": a.completeFileNames,
		"late": words(job.Lates), "no-node": words(job.NoNodes), "on-limit": words(limit.OnLimits), "needs-rule": words(job.NeedRules),
		"dst": words(job.DSTs), "catchup": words(job.CatchUps), "overlap": words(job.Overlaps), "sticky": words([]string{job.StickyJob, job.StickyAttempt}),
		"type": words(view.TypeNames()), "state": words(append(strings.Split(view.StateNames(), ", "), "active", "ended")),
		"rule": words(ruleNames()),
	}
}

func ruleNames() []string {
	var names []string
	for _, r := range verify.Rules() {
		names = append(names, r.String())
	}
	return names
}

// completeSteps completes the steps of the task on the line, as paths.
func (a *app) completeSteps(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.Complete(c, func(ctx context.Context, cl *client.Client) []string {
		id, err := a.TaskID(ctx, cl, args[0])
		if err != nil {
			return nil
		}
		b, _ := view.ExpandedTree(ctx, cl.View(), id)
		return task.StepPaths(&b, a.Now())
	})
}

// completeFileNames completes bundles, and folders through the shell.
func (a *app) completeFileNames(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	names, _ := a.CompleteFiles(c, args, typed)
	return names, cobra.ShellCompDirectiveDefault
}
