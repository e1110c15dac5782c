package task_test

import (
	"slices"
	"testing"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

func TestTries(t *testing.T) {
	code := 1
	fails := task.AttemptFailed{Attempt: 1, Epoch: 2, Class: value.Exit, Exit: &code, Message: "exit 1", Retry: logtest.Failed.Retry, Reason: "as it asked"}
	for name, c := range map[string]struct {
		history []task.Event
		want    []string // attempt by attempt
	}{
		"none":                 {logtest.Pending, nil},
		"one that runs":        {logtest.Running, []string{task.TryRuns}},
		"one that is to stop":  {logtest.Cancelling, []string{task.TryRuns}},
		"finished":             {logtest.Finished, []string{task.TryFinished}},
		"failed and again":     {logtest.After(logtest.Running, fails, task.AttemptStarted{Attempt: 2, Node: "n2"}, task.AttemptFinished{Attempt: 2, Epoch: 4}), []string{task.TryFailed, task.TryFinished}},
		"given back":           {logtest.Released, []string{task.TryReleased}},
		"lost":                 {logtest.Lost, []string{task.TryLost}},
		"taken over":           {logtest.After(logtest.Running, task.AttemptStarted{Attempt: 2, TookOver: &task.TookOver{Epoch: 2}}), []string{task.TryTakenOver, task.TryRuns}},
		"stopped":              {logtest.After(logtest.Cancelling, task.CancelConfirmed{Epoch: 2}), []string{task.TryCancelled}},
		"given up":             {logtest.After(logtest.Running, task.GivenUp{Reason: value.Poison}), []string{task.TryAbnormal}},
		"a report of no epoch": {logtest.After(logtest.Running, task.AttemptFinished{Epoch: 1}, task.AttemptStarted{Attempt: 2}), []string{task.TryRuns}},
		"a parent has none": {[]task.Event{
			task.Submitted{Work: task.Work{Spec: &job.Spec{Steps: []job.Step{{Name: "a", Spec: job.Spec{Handler: "a"}}}}}}, task.Concluded{State: task.Finished}, task.Reopened{}, task.Concluded{State: task.Finished},
		}, nil},
		"in another life": {logtest.After(logtest.Finished, task.Reopened{}, task.AttemptStarted{Attempt: 2}), []string{task.TryFinished, task.TryRuns}},
	} {
		var history []task.Recorded
		for i, e := range c.history {
			_, birth := e.(task.Submitted)
			history = append(history, task.Recorded{Seq: uint64(i + 1), Chain: !birth, At: logtest.At(uint64(i + 1)), Event: e})
		}
		var got []string
		tries := task.Tries(history)
		for _, try := range tries {
			got = append(got, try.Outcome)
			if try.EndedAt.IsZero() != (try.Outcome == task.TryRuns) || !try.StartedAt.Equal(logtest.At(try.Epoch)) {
				t.Errorf("%s: %+v", name, try)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if name == "failed and again" {
			if f := tries[0]; f.Node != "n1" || f.Class != value.Exit || *f.Exit != 1 || f.Message != "exit 1" || f.Retry != logtest.Failed.Retry || f.Reason != "as it asked" {
				t.Errorf("the failed one: %+v", f)
			}
		}
	}
}
