package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"millrace/events"
	"millrace/task"
	"millrace/task/queue"
	"millrace/task/schedule"
)

// minutes is the calendar of all windows.
const minutes = "minutes"

// windowedQueue has a window.
const windowedQueue = "bulk"

// everyOther is a calendar that is closed every other minute for an hour.
func everyOther() schedule.Calendar {
	c := schedule.Calendar{Name: minutes}
	for m := 1; m < 59; m += 2 {
		c.Rules = append(c.Rules, schedule.Rule{Closed: fmt.Sprintf("2000-01-01 00:%02d-00:%02d", m, m+1)})
	}
	return c
}

// openAndClose stores the calendar, and makes it the window of a queue.
func (h *history) openAndClose() {
	text, err := json.Marshal(everyOther())
	if err == nil {
		is := task.DefinitionApplied{Edition: task.Edition{Revision: 1, Text: text, Digest: task.DigestOf(text)}}
		_, err = h.mem.Append(context.Background(), &events.Fact{ID: h.newID(h.began), At: h.began, Type: events.DefinitionApplied, Def: task.Named(task.DefCalendar, minutes), Event: is}, 0)
	}
	if err == nil {
		is := queue.Limited{Valve: queue.Valve{Window: minutes}}
		_, err = h.mem.Append(context.Background(), &events.Fact{ID: h.newID(h.began), At: h.began, Type: events.QueueLimited, Queue: windowedQueue, Event: is}, 0)
	}
	if err != nil {
		panic(err)
	}
}

// Where half of the tasks, and those of one of the queues, may start only in every other minute,
// none starts in the others. All tasks end, whatever is killed or lost, and verify comes to every
// decision of a window as well.
func TestSimulationOfWindows(t *testing.T) {
	calendar := everyOther()
	hours, err := calendar.Hours()
	if err != nil {
		t.Fatal(err)
	}
	var postponed, flowed atomic.Int64
	each(max(*historiesFlag/5, 1), func(seed uint64) bool {
		h := play(t, *firstFlag+seed, variant{windowed: true})
		h.report(t)
		for _, f := range h.whole(t).Findings {
			t.Errorf("seed %d of windows: %v: task %s, %v: %s", seed, f.Rule, f.Task, f.Seqs, f.What)
		}
		windowed, tasks := map[task.ID]bool{}, map[task.ID]task.Task{}
		for i := range h.records {
			r := &h.records[i]
			if r.Err != nil || r.Fact.Actor == stranger {
				continue
			}
			was := tasks[r.Fact.Task]
			if r.Fact.Task != "" {
				tasks[r.Fact.Task] = task.Evolve(was, r.Task())
			}
			switch e := r.Fact.Event.(type) {
			case task.Submitted:
				windowed[r.Fact.Task] = e.Spec.Window != ""
			case task.Postponed:
				postponed.Add(1)
			case task.AttemptStarted:
				queue := was.RateQueue() == windowedQueue
				if (windowed[r.Fact.Task] || queue) && e.TookOver == nil && !hours.Open(r.Fact.At.Add(task.TimerError)) && !hours.Open(r.Fact.At) {
					t.Errorf("seed %d of windows: task %s started at %v, when its window was closed", seed, r.Fact.Task, r.Fact.At)
				}
				if queue {
					flowed.Add(1)
				}
			}
		}
		return !t.Failed()
	})
	if *seedFlag < 0 && postponed.Load() == 0 {
		t.Error("no history has a task that was postponed")
	}
	if *seedFlag < 0 && flowed.Load() == 0 {
		t.Error("in no history a task of the queue has started")
	}
}
