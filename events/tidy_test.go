package events_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/placement"
)

// telling is a log that records removed timers and notified nodes.
type telling struct {
	*events.Memory
	said []string
}

func (l *telling) Disarm(ctx context.Context, id task.ID, head uint64) error {
	l.said = append(l.said, "disarm")
	return l.Memory.Disarm(ctx, id, head)
}

func (l *telling) Hint(id node.ID, _ task.ID) error {
	l.said = append(l.said, "hint "+string(id))
	return nil
}

// Ending a task, by any actor and for any reason, leaves no timer behind and notifies the node that
// runs it.
func TestWhatFollowsFromAnEvent(t *testing.T) {
	later := time.Hour
	born := func(w task.Work, due time.Duration) func(*testing.T, *events.Recorder) task.Task {
		return func(t *testing.T, r *events.Recorder) task.Task {
			t.Helper()
			w.Spec, w.Route = &job.Spec{Handler: "h"}, placement.QueueRoute("q", 5)
			birth := task.Submitted{Work: w}
			if due > 0 {
				birth.Due = r.Now().Add(due)
			}
			id := task.ID(events.NewID(time.Now()))
			if _, err := r.Submit(t.Context(), id, birth); err != nil {
				t.Fatal(err)
			}
			made, err := r.Load(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return made
		}
	}
	running := func(t *testing.T, r *events.Recorder) task.Task {
		t.Helper()
		at := born(task.Work{}, 0)(t, r)
		at, _, err := r.Do(t.Context(), at, task.Claim{Node: "n1", Session: "s1", Offer: at.Seq})
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for _, c := range []struct {
		name  string
		is    func(*testing.T, *events.Recorder) task.Task
		do    task.Command
		wants []string
	}{
		{"a person cancels what is due later", born(task.Work{}, later), task.Cancel{}, []string{"disarm"}},
		{"a purge cancels what is due later", born(task.Work{}, later), task.CancelWaiting{}, []string{"disarm"}},
		{"what is due later is given more urgency", born(task.Work{}, later), task.Prioritize{Priority: 9}, nil},
		{"a person cancels what waits", born(task.Work{}, 0), task.Cancel{}, nil},
		{"a person cancels what is held", born(task.Work{Holds: []string{task.HoldSignal}}, 0), task.Cancel{}, nil},
		{"a person cancels what runs", running, task.Cancel{}, []string{"hint n1"}},
		{"a limit cancels what runs", running, task.Judged{Command: task.Cancel{}, By: task.By{Rule: task.RuleLimit}}, []string{"hint n1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := &telling{Memory: events.NewMemory(time.Now, time.Minute)}
			r := &events.Recorder{Log: log, Actor: "test", Hints: log, Now: time.Now, NewID: events.NewID}
			is := c.is(t, r)
			if _, event, err := r.Do(t.Context(), is, c.do); err != nil || event == nil {
				t.Fatalf("%v, %v", event, err)
			}
			if !slices.Equal(log.said, c.wants) {
				t.Errorf("what followed: %q, want %q", log.said, c.wants)
			}
		})
	}
}
