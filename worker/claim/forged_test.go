package claim_test

import (
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

// An offer that somebody has forged starts nothing else in place of a task, and no task that a signal
// holds, whatever turn it names.
func TestForgedOffersStartNothingElse(t *testing.T) {
	for name, spec := range map[string]job.Spec{
		"a task that a signal holds": {Signal: &job.Signal{Name: "go"}},
		"a task that waits":          {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.id = w.submit(spec)
				before := w.task()
				evil := before.Work
				evil.Spec, evil.Holds = &job.Spec{Run: &job.Run{Shell: "id"}}, nil
				pass(time.Minute)
				w.offers.Try() // its own offer is lost
				for _, after := range []uint64{0, before.Turn, before.Head, before.Seq} {
					for _, e := range []task.Event{task.Queued{Work: evil, After: after, Attempt: 1}, task.Submitted{Work: evil}} {
						if _, err := w.log.Place(t.Context(), w.rec.Fact(w.id, e)); err != nil {
							t.Fatal(err)
						}
						o := w.next()
						var k task.Task
						got, err := w.node("a").Claim(t.Context(), o, &k)
						if got && k.Spec.Run != nil {
							t.Fatalf("%T after %d starts %q, %v", e, after, k.Spec.Run.Shell, err)
						}
						if is := w.task(); spec.Signal != nil && is.State != task.Held {
							t.Fatalf("after %T after %d it is %s", e, after, is.State)
						}
					}
				}
			})
		})
	}
}

// A birth that somebody forges under the id of a task that is due later, or that waits for its needs
// or its limits, starts nothing.
func TestForgedBirthsStartNothing(t *testing.T) {
	for name, change := range map[string]func(*task.Submitted){
		"due later": func(e *task.Submitted) { e.Due = time.Now().Add(time.Hour) },
		"needs":     func(e *task.Submitted) { e.Holds = []string{task.HoldNeeds} },
		"limit":     func(e *task.Submitted) { e.Holds = []string{task.HoldLimit} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				born, err := birth.Of(birth.Submission{Job: "j"}, &job.Job{Name: "j", Spec: job.Spec{Handler: "h"}}, 1, time.Now())
				w.must(err)
				change(&born)
				w.id = task.ID(events.NewID(time.Now()))
				_, err = w.rec.Submit(t.Context(), w.id, born)
				w.must(err)
				pass(2 * time.Second)
				evil := born.Work
				evil.Spec, evil.Holds = &job.Spec{Run: &job.Run{Shell: "id"}}, nil
				_, err = w.log.Place(t.Context(), w.rec.Fact(w.id, task.Submitted{Work: evil}))
				w.must(err)
				before := w.task()
				var k task.Task
				if got, err := w.node("a").Claim(t.Context(), w.next(), &k); got || err != nil {
					t.Errorf("it starts %+v, %v", k.Spec.Run, err)
				}
				if is := w.task(); is.State != before.State || is.Spec.Run != nil {
					t.Errorf("it was %s and is %s, to run %+v", before.State, is.State, is.Spec.Run)
				}
			})
		})
	}
}
