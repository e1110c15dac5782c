package task

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"millrace/task/value"
)

// One id has one birth that counts. Every write to a task's chain (mr.task.<id>) names the message
// that it follows, so the chain has exactly one first message and decides which birth counts:
//
//   - A birth that is the first message of the chain is the task's. Births under an id that the
//     submitter chose lie there, and so do all births of tasks that may not run yet.
//   - Otherwise the first claim binds the task to the birth whose offer it names.
//   - Before any claim, the first birth in the log counts.
//
// Every reader of a task's facts in log order finds the same birth, whether it reads them one by
// one or at once.

// ErrOther refuses a birth under an id that already has a task with another specification.
var ErrOther = errors.New("exists with another specification")

// MaxRivals is how many other births of a task the fold remembers before a claim.
const MaxRivals = 4

// Rival is another birth under the task's id that asks for something different from the first.
type Rival struct {
	// Seq is the sequence of that birth, and At its time.
	Seq uint64    `json:"seq"`
	At  time.Time `json:"at"`
	Work
	// Due is when its first attempt may start; zero for at once. RetryOf is the task of which it is a
	// copy.
	Due     time.Time `json:"due,omitzero"`
	RetryOf ID        `json:"retry_of,omitzero" redact:"keep"`
}

// OnChain tells whether the birth lies on the task's chain even if Millrace drew the id. Births
// that are no offers do: the chain then refuses the claim of a forged birth, so nothing else runs
// in place of the task. Earlier versions put only those there that a signal holds.
func (e *Submitted) OnChain() bool { return !e.Offers() }

// rival records a second birth of the task. A birth that asks for the same is a repeat of the first
// after a lost answer. A birth that lies on no queue can never be claimed. Neither is a rival.
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

// Born finds the birth of a task in its complete, ordered history, by the same rule as the fold. It
// returns the index, or -1 if there is none. For a birth that the log has forgotten it is that of the
// [Carried] fact.
func Born(history []Recorded) int {
	at := born(history)
	for i := range history {
		e, ok := history[i].Event.(Kept)
		if !ok || i == 0 || history[i-1].Seq+1 != history[i].Seq {
			continue
		}
		if c, ok := history[i-1].Event.(Carried); ok && c.Fold.Head == e.Head && (at < 0 || history[at].Seq != c.Born.Seq) {
			return i - 1
		}
	}
	return at
}

func born(history []Recorded) int {
	first := -1
	for i := range history {
		r := &history[i]
		_, birth := r.Event.(Submitted)
		_, kept := r.Event.(Kept)
		switch {
		case !r.Chain && birth && first < 0:
			first = i
		case r.Chain && birth:
			return i
		case r.Chain && !kept:
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

// Differs returns the path of the first field in which another birth asks for something different,
// for example spec.run.argv; "" if both ask for the same. Bounds computed from the moment of
// submission are ignored. Files that other names without a version match any version.
func (e *Submitted) Differs(other *Submitted) string {
	if e.RetryOf != other.RetryOf {
		return "retry_of"
	}
	if !e.Due.Equal(other.Due) {
		return "due"
	}
	mine, his := e.Work, other.Work
	mine.StartBy, mine.EndBy, his.StartBy, his.EndBy = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	mine.Spelled, his.Spelled = false, false // another version asks the same
	return differs("", asJSON(mine), asJSON(his))
}

// asJSON returns a value as generic JSON.
func asJSON(v any) (p any) {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	p, _ = value.Decode(b) // it was just encoded
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
		if mine != his { // null differs from an absent member
			return below
		}
		if at := differs(below, x[name], y[name]); at != "" {
			return at
		}
	}
	return ""
}

// same tells whether two values at a path are equal. It compares lists element by element.
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
	return value.Equal(a, b)
}
