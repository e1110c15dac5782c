package task_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/value"
)

// Budgets are counted per kind and key; invalid ones are refused.
func TestBudgetCounters(t *testing.T) {
	for name, c := range map[string]struct {
		budgets limit.Budgets
		want    string
	}{
		"of the job":          {limit.Budgets{{Starts: 2}}, "budget:day:mail {2 0s 1m0s} job.mail"},
		"by a key":            {limit.Budgets{{Run: value.Duration(time.Hour), Per: limit.PerWeek, Key: "{queue}"}}, "budget:week:mail/default {0 1h0m0s 1m0s} job.mail"},
		"common to all":       {limit.Budgets{{Starts: 2, Timezone: "Europe/Berlin", Key: "/api"}}, "budget:day.Europe.Berlin:/api {2 0s 1m0s} " + string(limit.ScopeOf("key:/api"))},
		"the same":            {limit.Budgets{{Starts: 2}, {Starts: 3, Run: 9, Timezone: "UTC"}}, "budget:day:mail {2 9ns 1m0s} job.mail"},
		"two":                 {limit.Budgets{{Starts: 2}, {Starts: 9, Per: limit.PerMonth}}, "budget:day:mail {2 0s 1m0s} job.mail, budget:month:mail {9 0s 1m0s} job.mail"},
		"nothing":             {limit.Budgets{{}}, "budget.starts and budget.run are missing: how many may start, or how long they may run"},
		"less than none":      {limit.Budgets{{Starts: -1}}, "budget.starts is -1, want 1 or more"},
		"no time":             {limit.Budgets{{Run: -1}}, "budget.run is -1ns, want more than 0"},
		"no such period":      {limit.Budgets{{Starts: 1}, {Starts: 1, Per: "hour"}}, `budget[1].per is "hour", want one of day, week, month`},
		"no such zone":        {limit.Budgets{{Starts: 1, Timezone: "Nowhere"}}, `budget.timezone is "Nowhere", want a zone such as Europe/Berlin: unknown time zone Nowhere`},
		"that of the machine": {limit.Budgets{{Starts: 1, Timezone: "Local"}}, `budget.timezone is "Local", want a zone such as Europe/Berlin: it is another one on every machine`},
		"a key of nothing":    {limit.Budgets{{Starts: 1, Key: "{params.}"}}, `budget.key is "{params.}", want text with {params.NAME}, {labels.NAME} or {queue} in it`},
	} {
		w := task.Work{Job: "mail", Route: "default.5", Spec: &job.Spec{Handler: "h", Budget: c.budgets, Timeout: job.Timeout{Run: value.Duration(time.Minute)}}}
		counters, err := w.Counters()
		if wrong := c.budgets.Validate("budget"); wrong != nil {
			err = wrong
		}
		var said []string
		for _, of := range counters {
			said = append(said, fmt.Sprint(of.Name, " ", of.Allows, " ", limit.ScopeOf(of.Name)))
		}
		got := strings.Join(said, ", ")
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A fact starts an attempt, ends one, or does both.
func TestShiftOf(t *testing.T) {
	for name, c := range map[string]struct {
		was    task.State
		before uint64
		is     task.State
		after  uint64
		want   string
	}{
		"an offer":        {task.Held, 0, task.Pending, 0, "false false"},
		"a start":         {task.Pending, 0, task.Running, 7, "false true"},
		"a second one":    {task.Pending, 5, task.Running, 7, "false true"},
		"an end":          {task.Running, 7, task.Finished, 7, "true false"},
		"a failure":       {task.Running, 7, task.Retrying, 7, "true false"},
		"a takeover":      {task.Running, 7, task.Running, 9, "true true"},
		"more time":       {task.Running, 7, task.Running, 7, "false false"},
		"a cancel":        {task.Running, 7, task.Cancelling, 7, "false false"},
		"what follows":    {task.Cancelling, 7, task.Cancelled, 7, "true false"},
		"a cancel before": {task.Pending, 0, task.Cancelled, 0, "false false"},
		"another life":    {task.Finished, 7, task.Pending, 7, "false false"},
	} {
		s := task.ShiftOf(task.Course{State: c.was, Epoch: c.before, StartedAt: logtest.Noon}, task.Course{State: c.is, Epoch: c.after}, task.Recorded{At: logtest.Noon.Add(time.Hour)})
		if got := fmt.Sprint(s.Ended, " ", s.Began); got != c.want {
			t.Errorf("%s: ended, began %s, want %s", name, got, c.want)
		}
	}
}
