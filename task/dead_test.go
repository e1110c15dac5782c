package task_test

import (
	"errors"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/reason"
	"millrace/task/tasktest"
)

func TestUndelivered(t *testing.T) {
	second := task.Queued{Work: tasktest.Work, Attempt: 2, After: 3}
	for name, c := range map[string]struct {
		given []task.Event
		offer task.Recorded
		want  task.Command
	}{
		"waits for it":       {tasktest.Pending, task.Recorded{Seq: 1, Event: tasktest.Birth}, task.GiveUp{Reason: reason.Poison, Detail: "offer 1 was handed out again and again, and nobody could start the task"}},
		"waits for another":  {tasktest.After(tasktest.Released, second), task.Recorded{Seq: 1, Event: tasktest.Birth}, nil},
		"waits for that one": {tasktest.After(tasktest.Released, second), task.Recorded{Seq: 4, Event: second}, task.GiveUp{Reason: reason.Poison, Detail: "offer 4 was handed out again and again, and nobody could start the task"}},
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
	dead := tasktest.After(tasktest.Pending, task.GivenUp{Reason: reason.Expired})
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
		"reopened":       {tasktest.After(dismissed, task.Reopened{}), nil, task.ErrNotDead},
		"dead once more": {tasktest.After(dismissed, task.Reopened{}, task.GivenUp{Reason: reason.Expired}), task.Dismissed{Reason: "again"}, nil},
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
	if k.State != task.Abnormal || k.Reason != reason.Expired || k.Dead() || k.Dismissed == nil || *k.Dismissed != want {
		t.Errorf("dismissed: %+v", k)
	}
	by.Seq, by.Actor = by.Seq+1, "bob"
	if k = task.Evolve(k, by); k.Dismissed.By != "ann" || k.Head != by.Seq {
		t.Errorf("dismissed twice: %+v", k)
	}
}
