package task

import (
	"slices"
	"testing"

	"millrace/task/job"
	"millrace/task/reason"
)

func TestTries(t *testing.T) {
	code := 1
	fails := AttemptFailed{Attempt: 1, Epoch: 2, Class: reason.Exit, Exit: &code, Message: "exit 1", Retry: failed.Retry, Reason: "as it asked"}
	for name, c := range map[string]struct {
		history []Event
		want    []string // attempt by attempt
	}{
		"none":                 {pending, nil},
		"one that runs":        {running, []string{TryRuns}},
		"one that is to stop":  {cancelling, []string{TryRuns}},
		"finished":             {finished, []string{TryFinished}},
		"failed and again":     {after(running, fails, AttemptStarted{Attempt: 2, Node: "n2"}, AttemptFinished{Attempt: 2, Epoch: 4}), []string{TryFailed, TryFinished}},
		"given back":           {released, []string{TryReleased}},
		"lost":                 {lost, []string{TryLost}},
		"taken over":           {after(running, AttemptStarted{Attempt: 2, TookOver: &TookOver{Epoch: 2}}), []string{TryTakenOver, TryRuns}},
		"stopped":              {after(cancelling, CancelConfirmed{Epoch: 2}), []string{TryCancelled}},
		"given up":             {after(running, GivenUp{Reason: reason.Poison}), []string{TryAbnormal}},
		"a report of no epoch": {after(running, AttemptFinished{Epoch: 1}, AttemptStarted{Attempt: 2}), []string{TryRuns}},
		"a parent has none": {[]Event{
			Submitted{Work: Work{Spec: &job.Spec{Steps: []job.Step{{Name: "a", Spec: job.Spec{Handler: "a"}}}}}}, Concluded{State: Finished}, Reopened{}, Concluded{State: Finished},
		}, nil},
		"in another life": {after(finished, Reopened{}, AttemptStarted{Attempt: 2}), []string{TryFinished, TryRuns}},
	} {
		var history []Recorded
		for i, e := range c.history {
			_, birth := e.(Submitted)
			history = append(history, Recorded{Seq: uint64(i + 1), Chain: !birth, At: at(uint64(i + 1)), Event: e})
		}
		var got []string
		tries := Tries(history)
		for _, try := range tries {
			got = append(got, try.Outcome)
			if try.EndedAt.IsZero() != (try.Outcome == TryRuns) || !try.StartedAt.Equal(at(try.Epoch)) {
				t.Errorf("%s: %+v", name, try)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if name == "failed and again" {
			if f := tries[0]; f.Node != "n1" || f.Class != reason.Exit || *f.Exit != 1 || f.Message != "exit 1" || f.Retry != failed.Retry || f.Reason != "as it asked" {
				t.Errorf("the failed one: %+v", f)
			}
		}
	}
}
