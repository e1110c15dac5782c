package task_test

import (
	"slices"
	"testing"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/tasktest"
	"millrace/task/value"
)

func TestTries(t *testing.T) {
	code := 1
	fails := task.AttemptFailed{Attempt: 1, Epoch: 2, Class: value.Exit, Exit: &code, Message: "exit 1", Retry: tasktest.Failed.Retry, Reason: "as it asked"}
	for name, c := range map[string]struct {
		history []task.Event
		want    []string // attempt by attempt
	}{
		"none":                 {tasktest.Pending, nil},
		"one that runs":        {tasktest.Running, []string{task.TryRuns}},
		"one that is to stop":  {tasktest.Cancelling, []string{task.TryRuns}},
		"finished":             {tasktest.Finished, []string{task.TryFinished}},
		"failed and again":     {tasktest.After(tasktest.Running, fails, task.AttemptStarted{Attempt: 2, Node: "n2"}, task.AttemptFinished{Attempt: 2, Epoch: 4}), []string{task.TryFailed, task.TryFinished}},
		"given back":           {tasktest.Released, []string{task.TryReleased}},
		"lost":                 {tasktest.Lost, []string{task.TryLost}},
		"taken over":           {tasktest.After(tasktest.Running, task.AttemptStarted{Attempt: 2, TookOver: &task.TookOver{Epoch: 2}}), []string{task.TryTakenOver, task.TryRuns}},
		"stopped":              {tasktest.After(tasktest.Cancelling, task.CancelConfirmed{Epoch: 2}), []string{task.TryCancelled}},
		"given up":             {tasktest.After(tasktest.Running, task.GivenUp{Reason: value.Poison}), []string{task.TryAbnormal}},
		"a report of no epoch": {tasktest.After(tasktest.Running, task.AttemptFinished{Epoch: 1}, task.AttemptStarted{Attempt: 2}), []string{task.TryRuns}},
		"a parent has none": {[]task.Event{
			task.Submitted{Work: task.Work{Spec: &job.Spec{Steps: []job.Step{{Name: "a", Spec: job.Spec{Handler: "a"}}}}}}, task.Concluded{State: task.Finished}, task.Reopened{}, task.Concluded{State: task.Finished},
		}, nil},
		"in another life": {tasktest.After(tasktest.Finished, task.Reopened{}, task.AttemptStarted{Attempt: 2}), []string{task.TryFinished, task.TryRuns}},
	} {
		var history []task.Recorded
		for i, e := range c.history {
			_, birth := e.(task.Submitted)
			history = append(history, task.Recorded{Seq: uint64(i + 1), Chain: !birth, At: tasktest.At(uint64(i + 1)), Event: e})
		}
		var got []string
		tries := task.Tries(history)
		for _, try := range tries {
			got = append(got, try.Outcome)
			if try.EndedAt.IsZero() != (try.Outcome == task.TryRuns) || !try.StartedAt.Equal(tasktest.At(try.Epoch)) {
				t.Errorf("%s: %+v", name, try)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if name == "failed and again" {
			if f := tries[0]; f.Node != "n1" || f.Class != value.Exit || *f.Exit != 1 || f.Message != "exit 1" || f.Retry != tasktest.Failed.Retry || f.Reason != "as it asked" {
				t.Errorf("the failed one: %+v", f)
			}
		}
	}
}
