package task

import "testing"

func TestUndelivered(t *testing.T) {
	second := Queued{Work: work, Attempt: 2, After: 3}
	for name, c := range map[string]struct {
		given []Event
		offer Recorded
		want  Command
	}{
		"waits for it":       {pending, Recorded{Seq: 1, Event: birth}, GiveUp{Reason: ReasonPoison, Detail: "offer 1 was handed out again and again, and nobody could start the task"}},
		"waits for another":  {after(released, second), Recorded{Seq: 1, Event: birth}, nil},
		"waits for that one": {after(released, second), Recorded{Seq: 4, Event: second}, GiveUp{Reason: ReasonPoison, Detail: "offer 4 was handed out again and again, and nobody could start the task"}},
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
