package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/task"
)

// A submitter that dies between a birth under a chosen id and its offer leaves a task whose offer is missing.
func TestBirthWithoutItsOfferIsRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld()
		w.join(t, "n1")
		s := w.run(t, 1)[0]
		id := task.ID(events.NewID(time.Now()))
		birth := task.Submitted{Work: task.Work{Spec: &task.Spec{Handler: "x"}, Route: "default.5"}}
		if _, err := w.Append(t.Context(), w.rec.Fact(id, birth), 0); err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		w.tasks = append(w.tasks, id)
		w.mu.Unlock()
		pass(15 * time.Second)
		if now := w.task(t, id); now.State != task.Pending || !now.Offered || s.Repairs()[RepairOffer] != 1 {
			t.Errorf("it is %s, offered %t, repairs %v; want it offered by one repair", now.State, now.Offered, s.Repairs())
		}
	})
}

// A parent under one of whose children's ids lies another task has failed.
func TestStrangerInTheStepsOfAParent(t *testing.T) {
	parent := task.Evolve(task.Task{ID: "01JNA0000000000000000PARNT"}, task.Recorded{Seq: 1, Event: task.Submitted{Work: task.Work{
		Spec: &task.Spec{Steps: []task.Step{{Name: "a", Spec: task.Spec{Handler: "real"}}, {Name: "b", Spec: task.Spec{Handler: "real"}}}}, Route: "default.5",
	}}})
	parent.Apply(task.Recorded{Seq: 2, Chain: true, Event: task.Expanded{Children: task.Children{Names: []string{"a", "b"}}}})
	child := func(name string, change func(*task.Submitted)) task.Task {
		birth := task.Child(&parent, name)
		change(&birth)
		return task.Evolve(task.Task{ID: task.ChildID(parent.ID, name)}, task.Recorded{Seq: 3, Event: birth})
	}
	moved := func(e *task.Submitted) { e.Route, e.Inputs = "other.5", []byte(`{"x":{}}`) }
	forged := func(e *task.Submitted) { e.Spec = &task.Spec{Handler: "another"} }
	s := New(nil, nil, nil, Config{})
	done := task.Conclude{State: task.Finished}
	if c := s.gather(&parent, []task.Task{child("a", moved), child("b", moved)}, done).(task.Conclude); c.State != task.Finished {
		t.Errorf("children that were moved: %+v", c)
	}
	if c := s.gather(&parent, []task.Task{child("a", moved), child("b", forged)}, done).(task.Conclude); c.State != task.Error || c.Reason != task.ReasonSystem {
		t.Errorf("a stranger among them: %+v", c)
	}
}
