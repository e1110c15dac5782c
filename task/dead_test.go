package task_test

import (
	"errors"
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

func TestUndelivered(t *testing.T) {
	second := task.Queued{Work: logtest.Work, Attempt: 2, After: 3}
	for name, c := range map[string]struct {
		given []task.Event
		offer task.Recorded
		want  task.Command
	}{
		"waits for it":       {logtest.Pending, task.Recorded{Seq: 1, Event: logtest.Birth}, task.GiveUp{Reason: value.Poison, Detail: "offer 1 was handed out again and again, and nobody could start the task"}},
		"waits for another":  {logtest.After(logtest.Released, second), task.Recorded{Seq: 1, Event: logtest.Birth}, nil},
		"waits for that one": {logtest.After(logtest.Released, second), task.Recorded{Seq: 4, Event: second}, task.GiveUp{Reason: value.Poison, Detail: "offer 4 was handed out again and again, and nobody could start the task"}},
		"runs under it":      {logtest.Running, task.Recorded{Seq: 1, Event: logtest.Birth}, task.Lose{Epoch: 2, Reason: "its lease ran out, and the server gave the offer up"}},
		"runs under another": {logtest.Running, task.Recorded{Seq: 9, Event: logtest.Birth}, nil},
		"not offered yet":    {logtest.Released, task.Recorded{Seq: 1, Event: logtest.Birth}, nil},
		"has ended":          {logtest.Finished, task.Recorded{Seq: 1, Event: logtest.Birth}, nil},
		"no offer at all":    {logtest.Pending, task.Recorded{Seq: 1}, nil},
	} {
		got, ok := task.Undelivered(logtest.Given(c.given...), c.offer)
		if got != c.want || ok != (c.want != nil) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, ok, c.want)
		}
	}
}

// Only the first dismissal of a dead letter counts, and reopening the task removes it.
func TestDismiss(t *testing.T) {
	dead := logtest.After(logtest.Pending, task.GivenUp{Reason: value.Expired})
	dismissed := logtest.After(dead, task.Dismissed{Reason: "seen"})
	for name, c := range map[string]struct {
		given []task.Event
		want  task.Event
		err   error
	}{
		"dead":           {dead, task.Dismissed{Reason: "again"}, nil},
		"dismissed":      {dismissed, nil, nil},
		"waits":          {logtest.Pending, nil, task.ErrNotDead},
		"runs":           {logtest.Running, nil, task.ErrNotDead},
		"failed":         {logtest.After(logtest.Running, task.AttemptFailed{Attempt: 1, Epoch: 2}), nil, task.ErrNotDead},
		"no retry left":  {failed(2, value.Exit, job.Retry{Max: 1}), task.Dismissed{Reason: "again"}, nil},
		"reopened":       {logtest.After(dismissed, task.Reopened{}), nil, task.ErrNotDead},
		"dead once more": {logtest.After(dismissed, task.Reopened{}, task.GivenUp{Reason: value.Expired}), task.Dismissed{Reason: "again"}, nil},
	} {
		got, err := task.Decide(logtest.Given(c.given...), task.Dismiss{Reason: "again"}, logtest.Noon)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v; want %+v, %v", name, got, err, c.want, c.err)
		}
	}
	k := logtest.Given(dead...)
	by := task.Recorded{Seq: k.Seq + 1, Chain: true, At: logtest.Noon.Add(time.Hour), Actor: "ann", Event: task.Dismissed{Reason: "seen"}}
	k = task.Evolve(k, by)
	want := task.Dismissal{At: by.At, By: "ann", Reason: "seen"}
	if k.State != task.Abnormal || k.Reason != value.Expired || k.Dead() || k.Dismissed == nil || *k.Dismissed != want {
		t.Errorf("dismissed: %+v", k)
	}
	by.Seq, by.Actor = by.Seq+1, "bob"
	if k = task.Evolve(k, by); k.Dismissed.By != "ann" || k.Head != by.Seq {
		t.Errorf("dismissed twice: %+v", k)
	}
	e, err := task.Decide(k, task.Dismiss{Undo: true}, logtest.Noon)
	by.Seq, by.Event = by.Seq+1, e
	if k = task.Evolve(k, by); err != nil || !k.Dead() || k.Dismissed != nil {
		t.Errorf("put back: %+v, %v", k, err)
	}
	for _, is := range []task.Task{k, logtest.Given(logtest.Pending...)} {
		if e, err := task.Decide(is, task.Dismiss{Undo: true}, logtest.Noon); e != nil || errors.Is(err, task.ErrNotDead) != (is.State == task.Pending) {
			t.Errorf("put back again: %+v, %v", e, err)
		}
	}
}

// failed is a task with these retries whose attempts failed, all in one way, and that ended then.
func failed(times int, class string, retry job.Retry) []task.Event {
	birth := logtest.Birth
	birth.Spec = new(*birth.Spec)
	birth.Spec.Retry = retry
	facts := []task.Event{birth}
	for i := 1; i <= times; i++ {
		started := len(facts) + 1
		facts = append(facts, task.AttemptStarted{Attempt: i, Node: "n1", Session: "s1", Offer: uint64(started - 1)})
		e := task.AttemptFailed{Attempt: i, Epoch: uint64(started), Class: class, Exit: new(1)}
		if i < times {
			e.Retry = &task.RetryPlan{Attempt: i + 1, Due: logtest.Noon}
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
		"waits":                 {logtest.Pending, ""},
		"finished":              {logtest.Finished, ""},
		"given up":              {logtest.Abnormal, task.LetterGivenUp},
		"no retries":            {failed(1, value.Exit, job.Retry{}), ""},
		"retries left":          {failed(2, value.Exit, job.Retry{Max: 2}), ""}, // the task ruled them out
		"all used up":           {failed(3, value.Exit, job.Retry{Max: 2}), task.LetterUsedUp},
		"of another kind":       {failed(1, value.User, job.Retry{Max: 2, On: []string{value.Exit}}), ""},
		"beyond its budget":     {failed(1, value.Exit, job.Retry{Max: 2, Min: value.Duration(time.Hour), Budget: value.Duration(time.Minute)}), task.LetterUsedUp},
		"another life":          {append(failed(2, value.Exit, job.Retry{Max: 1}), task.Reopened{}), ""},
		"used up and dismissed": {append(failed(2, value.Exit, job.Retry{Max: 1}), task.Dismissed{}), task.LetterUsedUp},
	} {
		k := logtest.Given(c.given...)
		if got := k.Letter(); got != c.want {
			t.Errorf("%s: it is %q, want %q: %+v", name, got, c.want, k)
		}
		if dead := c.want != "" && k.Dismissed == nil; k.Dead() != dead {
			t.Errorf("%s: dead is %v", name, k.Dead())
		}
	}
}
