package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
)

// One id, one birth. The chain of a task (mr.task.<id>) has one first message, for a write to it
// names the message that it follows. So the chain is the arbiter of which birth counts:
//
//   - a birth that lies on the chain, as its first message, is the task's. Every birth under an id
//     that somebody chose lies there, and every one that a signal holds;
//   - else the first claim binds the task to the birth whose offer it names;
//   - before any of that the first birth of the log counts.
//
// Whoever reads all facts of a task in their order, one by one or at once, comes to the same birth.

// ErrOther refuses a birth under an id that has a task which does something else.
var ErrOther = errors.New("exists with another specification")

// ErrNoTask means that no task can be made of what is named: it is not there, or cannot be read.
var ErrNoTask = errors.New("no task can be made")

// NoTask is an error of such a thing: it says what err says, and wraps both err and [ErrNoTask].
func NoTask(err error) error { return noTask{err} }

type noTask struct{ error }

func (e noTask) Unwrap() []error { return []error{e.error, ErrNoTask} }

// MaxRivals is how many other births of a task the fold remembers before a claim.
const MaxRivals = 4

// Rival is another birth under the id of a task, which asks for something else than the first.
type Rival struct {
	// Seq is the sequence of that birth and At its time.
	Seq uint64    `json:"seq"`
	At  time.Time `json:"at"`
	Work
	Due     time.Time `json:"due,omitzero"`
	RetryOf ID        `json:"retry_of,omitzero"`
}

// OnChain tells whether the birth lies on the task's chain whoever drew the id: no offer that
// somebody forges may open what a signal holds, and the chain refuses the claim of one.
func (e *Submitted) OnChain() bool { return slices.Contains(e.Holds, HoldSignal) }

// rival notes a second birth of the task. One that asks for the same is the first one again, after an
// answer was lost; one that lies on no queue can never be claimed.
func (t *Task) rival(e *Submitted, r Recorded) {
	if t.Head != 0 || !e.Offers() || len(t.Rivals) == MaxRivals {
		return
	}
	born := Submitted{Work: t.Work, Due: t.Due, RetryOf: t.RetryOf}
	if born.Differs(e) != "" {
		t.Rivals = append(slices.Clip(t.Rivals), Rival{Seq: r.Seq, At: r.At, Work: e.Work, Due: e.Due, RetryOf: e.RetryOf})
	}
}

// bind reads the first message of the chain, which decides which birth is the task's.
func (t *Task) bind(r Recorded) {
	switch e := r.Event.(type) {
	case Submitted:
		*t = Task{ID: t.ID, Seq: r.Seq, Head: r.Seq}
		t.submitted(&e, r)
	case AttemptStarted:
		i := slices.IndexFunc(t.Rivals, func(other Rival) bool { return other.Seq == e.Offer })
		if i < 0 {
			break
		}
		other := t.Rivals[i]
		*t = Task{ID: t.ID, Seq: r.Seq, Head: r.Seq}
		t.submitted(&Submitted{Work: other.Work, Due: other.Due, RetryOf: other.RetryOf}, Recorded{Seq: other.Seq, At: other.At})
	}
	t.Rivals = nil
}

// Born finds the birth of a task in its history, which is complete and in order, as the fold does.
// It returns the index, or -1 if there is none.
func Born(history []Recorded) int {
	first := -1
	for i := range history {
		r := &history[i]
		_, birth := r.Event.(Submitted)
		switch {
		case !r.Chain && birth && first < 0:
			first = i
		case r.Chain && birth:
			return i
		case r.Chain:
			if e, ok := r.Event.(AttemptStarted); ok {
				for k := range history[:i] {
					if _, birth := history[k].Event.(Submitted); birth && history[k].Seq == e.Offer {
						return k
					}
				}
			}
			return first
		}
	}
	return first
}

// Differs says in which field another birth asks for something else, as a path such as
// spec.run.argv; "" if it asks for the same. Bounds that follow from the moment of the submission
// count for nothing. Files that other names without a version are the same in any version.
func (e *Submitted) Differs(other *Submitted) string {
	if e.RetryOf != other.RetryOf {
		return "retry_of"
	}
	if !e.Due.Equal(other.Due) {
		return "due"
	}
	mine, his := e.Work, other.Work
	mine.StartBy, mine.EndBy, his.StartBy, his.EndBy = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return differs("", asJSON(mine), asJSON(his))
}

// asJSON is a value as JSON has it.
func asJSON(v any) (p any) {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	_ = d.Decode(&p) // it was just encoded
	return p
}

// differs finds the first path, in order of names, at which two values differ.
func differs(path string, a, b any) string {
	x, isObject := a.(map[string]any)
	y, both := b.(map[string]any)
	if !isObject || !both {
		if same(path, a, b) {
			return ""
		}
		return path
	}
	var names []string
	for name := range x {
		names = append(names, name)
	}
	for name := range y {
		if _, there := x[name]; !there {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		below := name
		if path != "" {
			below = path + "." + name
		}
		_, mine := x[name]
		_, his := y[name]
		if mine != his { // null is something else than nothing
			return below
		}
		if at := differs(below, x[name], y[name]); at != "" {
			return at
		}
	}
	return ""
}

// same tells whether two values at a path are equal, lists element by element.
func same(path string, a, b any) bool {
	x, isList := a.([]any)
	y, both := b.([]any)
	if isList && both {
		return slices.EqualFunc(x, y, func(a, b any) bool { return differs(path, a, b) == "" })
	}
	if text, ok := b.(string); ok && strings.HasSuffix(path, "files.bundle") {
		was, _ := a.(string)
		return was == text || strings.HasPrefix(was, text+"@")
	}
	return a == b
}
