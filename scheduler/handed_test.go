package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/value"
)

// A task that was left to a busy node returns exactly when the time is over.
func TestHandedGoesBackInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		w.join(t, "n2")
		all := w.runTold(t, 2)
		id := w.submit(t, job.Spec{Place: job.Place{Sticky: job.StickyAttempt, PreferWait: value.Duration(3 * time.Second)}})
		w.do(t, w.task(t, id), task.HandOver{To: placement.NodeRoute("n2", 5), Reason: "it ran there"})
		handed := w.task(t, id)
		if err := w.rec.Settle(t.Context(), &handed); err != nil {
			t.Fatal(err)
		}
		if now := w.task(t, id); now.Route != "@n2.5" {
			t.Fatalf("it waits on %s", now.Route)
		}
		pass(2900 * time.Millisecond)
		if now := w.task(t, id); now.Route != "@n2.5" {
			t.Errorf("too soon it waits on %s", now.Route)
		}
		pass(500 * time.Millisecond)
		if now := w.task(t, id); now.Route == "@n2.5" {
			t.Errorf("0.4s after its time it waits on %s", now.Route)
		}
		pass(time.Minute)
		noRepairs(t, all)
		for _, s := range all {
			if s.handed.some.Load() {
				t.Errorf("left are %v", s.handed.until)
			}
		}
	})
}

// A scheduler dies just before it should move tasks back: others do it.
func TestHandedGoesBackThoughASchedulerDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrowd(t, 3, &peers{})
		var ids []task.ID
		for range 12 {
			id := w.submit(t, job.Spec{Place: job.Place{Sticky: job.StickyAttempt, PreferWait: value.Duration(3 * time.Second)}})
			ids = append(ids, id)
			w.do(t, w.task(t, id), task.HandOver{To: placement.NodeRoute("n2", 5), Reason: "it ran there"})
			handed := w.task(t, id)
			if err := w.rec.Settle(t.Context(), &handed); err != nil {
				t.Fatal(err)
			}
		}
		pass(2900 * time.Millisecond)
		w.stop[0]()
		before := w.log.counts()
		pass(400*time.Millisecond + Patience)
		for _, id := range ids {
			if now := w.task(t, id); now.Route == "@n2.5" {
				t.Errorf("%v after its time it waits on %s", 300*time.Millisecond+Patience, now.Route)
			}
		}
		pass(3 * Patience)
		if cost := w.log.counts().less(before); cost.reads > 2*len(ids) || cost.refused > 0 {
			t.Errorf("to move %d tasks cost %+v", len(ids), cost)
		}
		noRepairs(t, w.all)
	})
}
