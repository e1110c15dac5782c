package claim_test

import (
	"fmt"
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

// What somebody forges under the id of a task that is due later, that waits for its needs or its
// limits, or that is a parent, starts no other work, however soon it comes. Only an offer that opens
// the limits starts the task itself: verify misses its grant.
func TestForgeriesStartNothing(t *testing.T) {
	for name, change := range map[string]func(*task.Submitted){
		"due later": func(e *task.Submitted) { e.Due = time.Now().Add(time.Hour) },
		"needs": func(e *task.Submitted) {
			e.Needs, e.Holds = &task.Needs{Of: []task.Need{{Task: "01JNA000000000000000000001", Name: "a"}}}, []string{task.HoldNeeds}
		},
		"limit": func(e *task.Submitted) { e.Holds = []string{task.HoldLimit} },
		"a parent": func(e *task.Submitted) {
			e.Spec = &job.Spec{Steps: []job.Step{{Name: "a", Spec: job.Spec{Handler: "h"}}}}
		},
	} {
		for _, after := range []time.Duration{0, 2 * time.Second} {
			for _, birth := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, after %v, by a birth: %t", name, after, birth), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { forge(t, change, after, birth, name == "limit" && !birth) })
				})
			}
		}
	}
}

func forge(t *testing.T, change func(*task.Submitted), after time.Duration, asBirth, starts bool) {
	w := newWorld(t)
	born, err := birth.Of(birth.Submission{Job: "j"}, &job.Job{Name: "j", Spec: job.Spec{Handler: "h"}}, 1, time.Now())
	w.must(err)
	change(&born)
	w.id = task.ID(events.NewID(time.Now()))
	_, err = w.rec.Submit(t.Context(), w.id, born)
	w.must(err)
	pass(after)
	before := w.task()
	evil := born.Work
	evil.Spec, evil.Holds, evil.Inputs = &job.Spec{Run: &job.Run{Shell: "id"}}, nil, []byte(`{"a":1}`)
	forged := task.Event(task.Submitted{Work: evil})
	if !asBirth {
		forged = task.Queued{Work: evil, Attempt: 1, After: before.Turn}
	}
	_, err = w.log.Place(t.Context(), w.rec.Fact(w.id, forged))
	w.must(err)
	var k task.Task
	if got, err := w.node("a").Claim(t.Context(), w.next(), &k); got != starts || err != nil {
		t.Errorf("it starts: %t, %+v, %v", got, k.Spec, err)
	}
	if is := w.task(); !starts && is.State != before.State || is.Spec.Run != nil || is.Inputs != nil {
		t.Errorf("it was %s and is %s, to run %+v with %s", before.State, is.State, is.Spec.Run, is.Inputs)
	}
}

// An offer that names a second birth on the chain starts nothing, whatever that says.
func TestASecondBirthOnTheChainStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.id = w.submit(limited)
		k := w.task()
		evil := k.Work
		evil.Spec = &job.Spec{Run: &job.Run{Shell: "id"}, Concurrency: limited.Concurrency}
		second, err := w.log.Append(t.Context(), w.rec.Fact(w.id, task.Submitted{Work: evil}), k.Head)
		w.must(err)
		evil.Holds = nil
		w.place(task.Queued{Work: evil, Attempt: 1, After: second})
		var now task.Task
		if got, err := w.node("a").Claim(t.Context(), w.next(), &now); got || err != nil {
			t.Errorf("it starts %+v, %v", now.Spec, err)
		}
		if is := w.task(); is.State != task.Held || is.Spec.Run != nil {
			t.Errorf("it is %s, to run %+v", is.State, is.Spec.Run)
		}
	})
}

// A birth of other work that is placed under the id of a task that waits starts nothing.
func TestAnotherBirthStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.id = w.submit(job.Spec{})
		pass(time.Minute)
		evil := w.task().Work
		evil.Spec = &job.Spec{Run: &job.Run{Shell: "id"}}
		_, err := w.log.Place(t.Context(), w.rec.Fact(w.id, task.Submitted{Work: evil}))
		w.must(err)
		own, forged := w.next(), w.next()
		var k task.Task
		if got, err := w.node("a").Claim(t.Context(), forged, &k); got || err != nil {
			t.Errorf("it starts %+v, %v", k.Spec, err)
		}
		if got, err := w.node("a").Claim(t.Context(), own, &k); !got || err != nil || k.Spec.Run != nil {
			t.Errorf("the task itself starts: %t, %v", got, err)
		}
	})
}
