package claim_test

import (
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

// A birth from before the horizon that somebody puts into the log again starts nothing, whether it is
// an offer or begins a chain, and whether the worker has just read the horizon. A task that waits since
// before the horizon starts as ever.
func TestForgottenBirthsStartNothing(t *testing.T) {
	for name, again := range map[string]func(w *world, birth *events.Fact){
		"an offer": func(w *world, birth *events.Fact) {
			_, err := w.log.Place(w.Context(), birth)
			w.must(err)
		},
		"a chain": func(w *world, birth *events.Fact) {
			seq, err := w.log.Append(w.Context(), birth, 0)
			w.must(err)
			w.place(task.Queued{Work: birth.Event.(task.Submitted).Work, Attempt: 1, After: seq})
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { sendAgain(t, again) }) })
	}
}

func sendAgain(t *testing.T, again func(w *world, birth *events.Fact)) {
	w := newWorld(t)
	waits := w.submit(job.Spec{})
	born, err := birth.Of(birth.Submission{Job: "j"}, &job.Job{Name: "j", Spec: job.Spec{Handler: "h"}}, 1, time.Now())
	w.must(err)
	w.id = task.ID(events.NewID(time.Now()))
	gone := w.rec.Fact(w.id, born)
	pass(time.Minute)
	p := w.node("a")
	claims := func(want task.ID) (mine bool) {
		t.Helper()
		o := w.next()
		if o.Fact.Task != want {
			t.Fatalf("the offer is of %s, want %s", o.Fact.Task, want)
		}
		var is task.Task
		mine, err := p.Claim(t.Context(), o, &is)
		w.must(err)
		return mine
	}
	fresh := w.submit(job.Spec{})
	e := task.HorizonChosen{Span: task.Span{Below: 1, Before: time.Now().Add(-time.Second)}}
	_, err = w.log.Append(t.Context(), &events.Fact{ID: events.NewID(time.Now()), At: time.Now(), Type: events.TypeOf(e), Event: e}, 0)
	w.must(err)
	pass(time.Millisecond)
	if !claims(waits) {
		t.Error("a task that waits since before the horizon is not started")
	}
	if !claims(fresh) {
		t.Error("a task behind the horizon is not started")
	}
	again(w, gone)
	if claims(w.id) {
		t.Error("a forgotten task runs again")
	}
	if is := w.task(); is.State != task.Abnormal || is.Reason != value.Expired {
		t.Errorf("the forgotten task is %s/%s", is.State, is.Reason)
	}
}
