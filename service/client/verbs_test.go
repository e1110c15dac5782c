package client_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/events/jet/streams"
	"millrace/integration/harness"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

// noop is a task that no worker runs in these tests.
var noop = birth.Submission{Spec: &job.Spec{Handler: "noop"}}

func open(t *testing.T) *client.Client {
	t.Helper()
	t.Parallel()
	return client.New(harness.Open(t, streams.Layout{}).Store, "test")
}

// submit makes a task that must be taken.
func submit(t *testing.T, c *client.Client, s birth.Submission) client.Receipt {
	t.Helper()
	r, err := c.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Under an id one task is made, and what may not be submitted is refused with an error that says which kind it is.
func TestSubmit(t *testing.T) {
	c := open(t)
	named := noop
	named.ID = client.NewID()
	first := submit(t, c, named)
	if again := submit(t, c, named); !again.Again || again.ID != first.ID || again.Seq != first.Seq || first.Again {
		t.Errorf("first %+v, and again %+v", first, again)
	}
	other := named
	other.Queue = "other"
	if _, err := c.Submit(t.Context(), other); !errors.Is(err, client.ErrOther) {
		t.Errorf("another task under the id: %v, want ErrOther", err)
	}

	once := noop
	once.Unique = &job.Unique{Key: "/once"}
	holder := submit(t, c, once)
	var taken *events.Taken
	if _, err := c.Submit(t.Context(), once); !errors.As(err, &taken) || taken.Holder != holder.ID {
		t.Errorf("a second task with the key: %v, want that %s has it", err, holder.ID)
	}

	for name, of := range map[string]struct {
		s    birth.Submission
		want error
	}{
		"nothing to run":     {birth.Submission{}, client.ErrInvalid},
		"an id of Millrace":  {birth.Submission{ID: birth.ChildID(first.ID, "a"), Spec: noop.Spec}, client.ErrInvalid},
		"the name of a tick": {birth.Submission{Spec: noop.Spec, Origin: task.Origin{Schedule: "s"}}, client.ErrInvalid},
		"a job there is not": {birth.Submission{Job: "none"}, definitions.ErrNoJob},
		"too large":          {birth.Submission{Spec: noop.Spec, Params: map[string]json.RawMessage{"a": json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}}, events.ErrTooLarge},
	} {
		if _, err := c.Submit(t.Context(), of.s); !errors.Is(err, of.want) {
			t.Errorf("%s: %v, want %v", name, err, of.want)
		}
	}
}

// Many are made in their order; if one of a list is wrong, none is.
func TestSubmitSeveral(t *testing.T) {
	c := open(t)
	var seqs []uint64
	note := func(r client.Receipt) { seqs = append(seqs, r.Seq) }
	if err := c.SubmitMany(t.Context(), noop, 100, note); err != nil || len(seqs) != 100 || !slices.IsSorted(seqs) {
		t.Fatalf("%d receipts at %v: %v", len(seqs), seqs, err)
	}
	seqs = nil
	if err := c.SubmitAll(t.Context(), []birth.Submission{noop, {}}, note); !errors.Is(err, client.ErrInvalid) || len(seqs) != 0 {
		t.Errorf("with a wrong one: %d receipts, %v", len(seqs), err)
	}
	if err := c.SubmitAll(t.Context(), []birth.Submission{noop, noop, noop}, note); err != nil || len(seqs) != 3 || !slices.IsSorted(seqs) {
		t.Errorf("three: %v, %v", seqs, err)
	}
}

// What may be done with a task, and what is refused.
func TestVerbs(t *testing.T) {
	c := open(t)
	ctx := t.Context()
	state := func(id task.ID, want task.State) {
		t.Helper()
		if is, err := c.Task(ctx, id); err != nil || is.State != want {
			t.Errorf("task %s is %s, want %s: %v", id, is.State, want, err)
		}
	}
	refused := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	id := submit(t, c, noop).ID
	state(id, task.Pending)
	if is, err := c.Prioritize(ctx, id, 9, "soon"); err != nil || is.Route.Priority() != 9 {
		t.Errorf("its priority is %d: %v", is.Route.Priority(), err)
	}
	_, err := c.Retry(ctx, id, "again")
	refused(err, task.ErrRunning)
	_, err = c.Signal(ctx, id, nil, "go")
	refused(err, task.ErrNotHeld)
	if is, err := c.Cancel(ctx, id, "enough"); err != nil || is.State != task.Cancelled {
		t.Errorf("cancelled it is %s: %v", is.State, err)
	}
	if done, err := c.Wait(ctx, id); err != nil || done.State != task.Cancelled || done.Message != "enough" {
		t.Errorf("waited for, it is %s, %q: %v", done.State, done.Message, err)
	}
	if was, err := c.CancelWaiting(ctx, id, "late"); err != nil || was {
		t.Errorf("what has ended waited: %v, %v", was, err)
	}
	if is, err := c.Retry(ctx, id, "again"); err != nil || is.State != task.Pending {
		t.Errorf("reopened it is %s: %v", is.State, err)
	}
	if was, err := c.CancelWaiting(ctx, id, "enough"); err != nil || !was {
		t.Errorf("it did not wait: %v, %v", was, err)
	}
	state(id, task.Cancelled)

	held := noop
	held.Signal = &job.Signal{Name: "go"}
	id = submit(t, c, held).ID
	state(id, task.Held)
	if is, err := c.Signal(ctx, id, json.RawMessage(`{"by":"hand"}`), "go"); err != nil || is.State != task.Pending || string(is.Inputs) != `{"go":{"by":"test","data":{"by":"hand"}}}` {
		t.Errorf("signalled it is %s with %s: %v", is.State, is.Inputs, err)
	}

	none := client.NewID()
	_, err = c.Task(ctx, none)
	refused(err, task.ErrUnknown)
	_, err = c.Cancel(ctx, none, "")
	refused(err, task.ErrUnknown)
	_, err = c.Retry(ctx, none, "")
	refused(err, task.ErrUnknown)
}

// Another task that has the unique key by now keeps the first from another life.
func TestRetryWithoutItsKey(t *testing.T) {
	c := open(t)
	once := noop
	once.Unique = &job.Unique{Key: "/once"}
	first := submit(t, c, once).ID
	if _, err := c.Cancel(t.Context(), first, "enough"); err != nil {
		t.Fatal(err)
	}
	second := submit(t, c, once).ID
	var taken *events.Taken
	if _, err := c.Retry(t.Context(), first, "again"); !errors.As(err, &taken) || taken.Holder != second {
		t.Errorf("reopened: %v, want that %s has the key", err, second)
	}
}

// The children of a parent are there when it is submitted. A scheduler cancels them with it.
func TestParent(t *testing.T) {
	c := open(t)
	ctx := t.Context()
	steps := birth.Submission{Spec: &job.Spec{Steps: []job.Step{
		{Name: "a", Spec: job.Spec{Handler: "noop"}},
		{Name: "b", Spec: job.Spec{Handler: "noop"}, Needs: []job.StepNeed{{Step: "a"}}},
	}}}
	id := submit(t, c, steps).ID
	parent, err := c.Task(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	children := birth.ChildIDs(&parent)
	if len(children) != 2 {
		t.Fatalf("it has the children %v", children)
	}
	are := func(when string, a, b task.State) {
		t.Helper()
		for name, want := range map[string]task.State{"a": a, "b": b} {
			if is, err := c.Task(ctx, children[name]); err != nil || is.State != want {
				t.Errorf("%s: step %s is %s, want %s: %v", when, name, is.State, want, err)
			}
		}
	}
	are("born", task.Pending, task.Held)
	if is, err := c.Cancel(ctx, id, "enough"); err != nil || is.State != task.Cancelling {
		t.Errorf("cancelled it is %s: %v", is.State, err)
	}
	are("before a scheduler sees that", task.Pending, task.Held)
}

// Of two who decide on an approval at once, one counts, and the other is told that it is too late.
func TestApprovedAndRejected(t *testing.T) {
	c := open(t)
	for range 20 {
		id := submit(t, c, birth.Submission{Spec: &job.Spec{Handler: "noop", Signal: &job.Signal{}}}).ID
		done := make(chan error, 2)
		go func() { _, err := c.Signal(t.Context(), id, nil, ""); done <- err }()
		go func() { _, err := c.Reject(t.Context(), id, "no"); done <- err }()
		first, second := <-done, <-done
		lost := errors.Join(first, second)
		is, err := c.Task(t.Context(), id)
		switch {
		case err != nil || first != nil && second != nil || lost == nil:
			t.Fatalf("of both were refused %v, and the task is %v, %v", lost, is.State, err)
		case is.State == task.Pending && errors.Is(lost, task.ErrNotHeld):
		case is.State == task.Abnormal && errors.Is(lost, task.ErrEnded) && is.Reason == "rejected" && is.Message == "rejected by test: no":
		default:
			t.Errorf("it is %s/%s (%s), and the other was told %v", is.State, is.Reason, is.Message, lost)
		}
	}
	if _, err := c.Refuse(t.Context(), submit(t, c, birth.Submission{Spec: &job.Spec{Handler: "noop", Signal: &job.Signal{}}}).ID, client.Approval{Name: "other"}); !errors.Is(err, task.ErrNotHeld) {
		t.Errorf("a task that waits for another approval: %v", err)
	}
	if _, err := c.Reject(t.Context(), submit(t, c, noop).ID, ""); !errors.Is(err, task.ErrNotHeld) {
		t.Errorf("a task that waits for no approval: %v", err)
	}
}

// Of several steps of a run that wait, a name finds the one that is meant. Given again, it answers no other one.
func TestApprovedByName(t *testing.T) {
	c := open(t)
	ctx := t.Context()
	sign := func(name, signal string, who ...string) job.Step {
		return job.Step{Name: name, Spec: job.Spec{Handler: "noop", Signal: &job.Signal{Name: signal, Who: who}}}
	}
	run := submit(t, c, birth.Submission{Spec: &job.Spec{Steps: []job.Step{sign("a", "boss"), sign("b", "boss"), sign("c", ""), sign("d", "", "test"), sign("e", "", "ann")}}}).ID
	approve := func(name, step string, want error, says string) {
		t.Helper()
		is, err := c.Approve(ctx, run, client.Approval{Name: name})
		if !errors.Is(err, want) || err == nil && is.Step != step || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("approved as %q: step %q, %v; want %q, %v, %s", name, is.Step, err, step, want, says)
		}
	}
	approve("", "", client.ErrInvalid, "name the one that is meant, of a (")
	approve("boss", "", client.ErrInvalid, "of a (")
	approve("none", "", task.ErrNotHeld, `signal "none"`)
	approve("b", "b", nil, "")
	approve("b", "", task.ErrNotHeld, "these steps wait: a (")
	approve("boss", "a", nil, "")
	for name, want := range map[string]bool{"d": true, "e": false, "c": false} {
		if is, err := c.Asked(ctx, run, name); err != nil || is != want {
			t.Errorf("%s asks test by name: %v, %v", name, is, err)
		}
	}
	if is, err := c.Refuse(ctx, run, client.Approval{Name: "c"}); err != nil || is.Step != "c" || is.Reason != "rejected" {
		t.Errorf("rejected is step %q, %s: %v", is.Step, is.Reason, err)
	}
	one := submit(t, c, birth.Submission{Spec: &job.Spec{Steps: []job.Step{sign("a", "boss")}}}).ID
	if _, err := c.Approve(ctx, one, client.Approval{Name: "b"}); !errors.Is(err, task.ErrNotHeld) || !strings.Contains(err.Error(), `it waits for "boss"`) {
		t.Errorf("the only step that waits, by another name: %v", err)
	}
	if is, err := c.Approve(ctx, one, client.Approval{Name: "a"}); err != nil || is.Step != "a" {
		t.Errorf("the only step that waits, by its name: %q, %v", is.Step, err)
	}
}
