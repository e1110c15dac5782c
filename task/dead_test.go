package task_test

import (
	"errors"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/tasktest"
	"millrace/task/value"
)

func TestUndelivered(t *testing.T) {
	second := task.Queued{Work: tasktest.Work, Attempt: 2, After: 3}
	for name, c := range map[string]struct {
		given []task.Event
		offer task.Recorded
		want  task.Command
	}{
		"waits for it":       {tasktest.Pending, task.Recorded{Seq: 1, Event: tasktest.Birth}, task.GiveUp{Reason: value.Poison, Detail: "offer 1 was handed out again and again, and nobody could start the task"}},
		"waits for another":  {tasktest.After(tasktest.Released, second), task.Recorded{Seq: 1, Event: tasktest.Birth}, nil},
		"waits for that one": {tasktest.After(tasktest.Released, second), task.Recorded{Seq: 4, Event: second}, task.GiveUp{Reason: value.Poison, Detail: "offer 4 was handed out again and again, and nobody could start the task"}},
		"runs under it":      {tasktest.Running, task.Recorded{Seq: 1, Event: tasktest.Birth}, task.Lose{Epoch: 2, Reason: "its lease ran out, and the server gave the offer up"}},
		"runs under another": {tasktest.Running, task.Recorded{Seq: 9, Event: tasktest.Birth}, nil},
		"not offered yet":    {tasktest.Released, task.Recorded{Seq: 1, Event: tasktest.Birth}, nil},
		"has ended":          {tasktest.Finished, task.Recorded{Seq: 1, Event: tasktest.Birth}, nil},
		"no offer at all":    {tasktest.Pending, task.Recorded{Seq: 1}, nil},
	} {
		got, ok := task.Undelivered(tasktest.Given(c.given...), c.offer)
		if got != c.want || ok != (c.want != nil) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, ok, c.want)
		}
	}
}

// Only the first dismissal of a dead letter counts, and reopening the task removes it.
func TestDismiss(t *testing.T) {
	dead := tasktest.After(tasktest.Pending, task.GivenUp{Reason: value.Expired})
	dismissed := tasktest.After(dead, task.Dismissed{Reason: "seen"})
	for name, c := range map[string]struct {
		given []task.Event
		want  task.Event
		err   error
	}{
		"dead":           {dead, task.Dismissed{Reason: "again"}, nil},
		"dismissed":      {dismissed, nil, nil},
		"waits":          {tasktest.Pending, nil, task.ErrNotDead},
		"runs":           {tasktest.Running, nil, task.ErrNotDead},
		"failed":         {tasktest.After(tasktest.Running, task.AttemptFailed{Attempt: 1, Epoch: 2}), nil, task.ErrNotDead},
		"no retry left":  {failed(2, value.Exit, job.Retry{Max: 1}), task.Dismissed{Reason: "again"}, nil},
		"reopened":       {tasktest.After(dismissed, task.Reopened{}), nil, task.ErrNotDead},
		"dead once more": {tasktest.After(dismissed, task.Reopened{}, task.GivenUp{Reason: value.Expired}), task.Dismissed{Reason: "again"}, nil},
	} {
		got, err := task.Decide(tasktest.Given(c.given...), task.Dismiss{Reason: "again"}, tasktest.Noon)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v; want %+v, %v", name, got, err, c.want, c.err)
		}
	}
	k := tasktest.Given(dead...)
	by := task.Recorded{Seq: k.Seq + 1, Chain: true, At: tasktest.Noon.Add(time.Hour), Actor: "ann", Event: task.Dismissed{Reason: "seen"}}
	k = task.Evolve(k, by)
	want := task.Dismissal{At: by.At, By: "ann", Reason: "seen"}
	if k.State != task.Abnormal || k.Reason != value.Expired || k.Dead() || k.Dismissed == nil || *k.Dismissed != want {
		t.Errorf("dismissed: %+v", k)
	}
	by.Seq, by.Actor = by.Seq+1, "bob"
	if k = task.Evolve(k, by); k.Dismissed.By != "ann" || k.Head != by.Seq {
		t.Errorf("dismissed twice: %+v", k)
	}
}

// failed is a task with these retries whose attempts failed, all in one way, and that ended then.
func failed(times int, class string, retry job.Retry) []task.Event {
	birth := tasktest.Birth
	birth.Spec = new(*birth.Spec)
	birth.Spec.Retry = retry
	facts := []task.Event{birth}
	for i := 1; i <= times; i++ {
		started := len(facts) + 1
		facts = append(facts, task.AttemptStarted{Attempt: i, Node: "n1", Session: "s1", Offer: uint64(started - 1)})
		e := task.AttemptFailed{Attempt: i, Epoch: uint64(started), Class: class, Exit: new(1)}
		if i < times {
			e.Retry = &task.RetryPlan{Attempt: i + 1, Due: tasktest.Noon}
		}
		if facts = append(facts, e); i < times {
			facts = append(facts, task.Queued{Work: birth.Work, Attempt: i + 1, After: uint64(len(facts))})
		}
	}
	return facts
}

// A task that failed is a dead letter if it had retries and none is left.
func TestLetter(t *testing.T) {
	for name, c := range map[string]struct {
		given []task.Event
		want  task.Letter
	}{
		"waits":                 {tasktest.Pending, ""},
		"finished":              {tasktest.Finished, ""},
		"given up":              {tasktest.Abnormal, task.LetterGivenUp},
		"no retries":            {failed(1, value.Exit, job.Retry{}), ""},
		"retries left":          {failed(2, value.Exit, job.Retry{Max: 2}), ""}, // the task ruled them out
		"all used up":           {failed(3, value.Exit, job.Retry{Max: 2}), task.LetterUsedUp},
		"of another kind":       {failed(1, value.User, job.Retry{Max: 2, On: []string{value.Exit}}), ""},
		"beyond its budget":     {failed(1, value.Exit, job.Retry{Max: 2, Min: value.Duration(time.Hour), Budget: value.Duration(time.Minute)}), task.LetterUsedUp},
		"another life":          {append(failed(2, value.Exit, job.Retry{Max: 1}), task.Reopened{}), ""},
		"used up and dismissed": {append(failed(2, value.Exit, job.Retry{Max: 1}), task.Dismissed{}), task.LetterUsedUp},
	} {
		k := tasktest.Given(c.given...)
		if got := k.Letter(); got != c.want {
			t.Errorf("%s: it is %q, want %q: %+v", name, got, c.want, k)
		}
		if dead := c.want != "" && k.Dismissed == nil; k.Dead() != dead {
			t.Errorf("%s: dead is %v", name, k.Dead())
		}
	}
}
