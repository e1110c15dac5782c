package task

import (
	"errors"
	"testing"
	"time"

	"millrace/task/reason"
)

func TestUndelivered(t *testing.T) {
	second := Queued{Work: work, Attempt: 2, After: 3}
	for name, c := range map[string]struct {
		given []Event
		offer Recorded
		want  Command
	}{
		"waits for it":       {pending, Recorded{Seq: 1, Event: birth}, GiveUp{Reason: reason.Poison, Detail: "offer 1 was handed out again and again, and nobody could start the task"}},
		"waits for another":  {after(released, second), Recorded{Seq: 1, Event: birth}, nil},
		"waits for that one": {after(released, second), Recorded{Seq: 4, Event: second}, GiveUp{Reason: reason.Poison, Detail: "offer 4 was handed out again and again, and nobody could start the task"}},
		"runs under it":      {running, Recorded{Seq: 1, Event: birth}, Lose{Epoch: 2, Reason: "its lease ran out, and the server gave the offer up"}},
		"runs under another": {running, Recorded{Seq: 9, Event: birth}, nil},
		"not offered yet":    {released, Recorded{Seq: 1, Event: birth}, nil},
		"has ended":          {finished, Recorded{Seq: 1, Event: birth}, nil},
		"no offer at all":    {pending, Recorded{Seq: 1}, nil},
	} {
		got, ok := Undelivered(given(c.given...), c.offer)
		if got != c.want || ok != (c.want != nil) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, ok, c.want)
		}
	}
}

// Only the first dismissal of a dead letter counts, and reopening the task removes it.
func TestDismiss(t *testing.T) {
	dead := after(pending, GivenUp{Reason: reason.Expired})
	dismissed := after(dead, Dismissed{Reason: "seen"})
	for name, c := range map[string]struct {
		given []Event
		want  Event
		err   error
	}{
		"dead":           {dead, Dismissed{Reason: "again"}, nil},
		"dismissed":      {dismissed, nil, nil},
		"waits":          {pending, nil, ErrNotDead},
		"runs":           {running, nil, ErrNotDead},
		"failed":         {after(running, AttemptFailed{Attempt: 1, Epoch: 2}), nil, ErrNotDead},
		"reopened":       {after(dismissed, Reopened{}), nil, ErrNotDead},
		"dead once more": {after(dismissed, Reopened{}, GivenUp{Reason: reason.Expired}), Dismissed{Reason: "again"}, nil},
	} {
		got, err := Decide(given(c.given...), Dismiss{Reason: "again"}, noon)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v; want %+v, %v", name, got, err, c.want, c.err)
		}
	}
	k := given(dead...)
	by := Recorded{Seq: k.Seq + 1, Chain: true, At: noon.Add(time.Hour), Actor: "ann", Event: Dismissed{Reason: "seen"}}
	k = Evolve(k, by)
	want := Dismissal{At: by.At, By: "ann", Reason: "seen"}
	if k.State != Abnormal || k.Reason != reason.Expired || k.Dead() || k.Dismissed == nil || *k.Dismissed != want {
		t.Errorf("dismissed: %+v", k)
	}
	by.Seq, by.Actor = by.Seq+1, "bob"
	if k = Evolve(k, by); k.Dismissed.By != "ann" || k.Head != by.Seq {
		t.Errorf("dismissed twice: %+v", k)
	}
}
