package duties

import (
	"time"

	"millrace/task"
	"millrace/task/limit"
	"millrace/task/schedule"
	"millrace/task/value"
)

// Read is what a rule that postpones tasks reads, beside the task and the inputs of its decision.
// Each rule needs one field.
type Read struct {
	// Calendar returns a calendar by its name.
	Calendar func(name string) (task.Definition, error)
	// Circuit is the state of the breaker of the task's job, after the fact [task.By.Circuit].
	Circuit limit.Circuit
	// Max is how many tasks the counter [task.By.Limit] lets run on one node.
	Max int
}

// Ruling is what a rule says about the start of a task.
type Ruling struct {
	// Command replaces the start, by the inputs By; nil if the task may start.
	Command task.Command
	By      task.By
	// Closes is by when the task must start; zero if that is not soon.
	Closes time.Time
}

// Words say why the task may not start; "" if it may.
func (r *Ruling) Words() string {
	switch c := r.Command.(type) {
	case task.Postpone:
		return c.Detail
	case task.GiveUp:
		return c.Detail
	}
	return ""
}

// Ask asks the rule of [job.Rules] that an input names ([task.By.Rule]) whether the task may start.
// The claim asks it, whoever explains or plans a claim, and whoever makes its decision again. The
// error is that of what is read.
func Ask(t *task.Task, by task.By, read Read) (Ruling, error) {
	r := Ruling{By: by}
	ask := postponers[by.Rule]
	if ask == nil {
		return r, nil
	}
	err := ask(t, &r, read)
	return r, err
}

// postponers are the rules that postpone tasks. Each fills in a ruling, of which the inputs are
// given.
var postponers = map[string]func(*task.Task, *Ruling, Read) error{
	value.Window: func(t *task.Task, r *Ruling, read Read) error {
		is, err := read.Calendar(t.Spec.Window)
		if err != nil {
			return err
		}
		var wait *schedule.Wait
		r.By.Calendar = is.Revision
		if wait, r.Closes = schedule.Window(t.Spec.Window, &is, r.By.At); wait != nil {
			r.Command = wait.Postpone(t.Turn)
		}
		return nil
	},
	value.PerNode: func(t *task.Task, r *Ruling, read Read) error {
		by := &r.By
		c := Crowd{Node: by.Self.Node, Counter: limit.Counter{Name: by.Limit, Max: read.Max}, Epochs: by.Ends, Last: by.Since}
		if c.Counter.Crowded(c.Epochs) {
			r.Command, r.By = c.Postpone(t.Turn, by.At), c.By(by.At)
		}
		return nil
	},
	value.Breaker: func(t *task.Task, r *Ruling, read Read) error {
		a, _ := Admits(t, read.Circuit, r.By.At, r.By.Drawn)
		switch hold := a.Hold; {
		case hold == nil:
		case hold.Fails:
			r.Command = task.GiveUp{Reason: value.Breaker, Detail: hold.Detail}
		default:
			r.Command = task.Postpone{After: t.Turn, Reason: value.Breaker, Detail: hold.Detail, Due: hold.Until}
		}
		return nil
	},
}
