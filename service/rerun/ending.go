// Package rerun runs functions again against what a log has recorded of their tasks, and tells where they now end
// otherwise: for millracetest.Replay, in the same process, and for `millrace replay --with`, which speaks to a
// program over a socket.
package rerun

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/value"
)

// Ending is the end of a task's last attempt, as it was recorded.
type Ending struct {
	Task     task.ID
	Function string
	Seq      uint64
	At       time.Time
	Says     Outcome

	tree  map[task.ID]bool // the task, those below it, and what it needs
	drawn *events.Record   // what the function drew last, which the end itself records; nil for nothing
}

// Outcome is how an attempt ended.
type Outcome struct {
	Result json.RawMessage `json:"result,omitempty"`
	// Failure is the words of the error; "" for success.
	Failure string `json:"failure,omitempty"`
}

func (o Outcome) String() string {
	switch {
	case o.Failure != "":
		return "it fails: " + o.Failure
	case len(o.Result) == 0:
		return "it returns nothing"
	}
	return "it returns " + string(o.Result)
}

// Same tells whether two outcomes are alike.
func (o Outcome) Same(as Outcome) bool {
	if o.Failure != as.Failure || (len(o.Result) == 0) != (len(as.Result) == 0) {
		return false
	}
	return len(o.Result) == 0 || value.Same(o.Result, as.Result)
}

// Differs says in words how an outcome differs from the recorded one; "" if it does not.
func (e *Ending) Differs(now Outcome) string {
	if now.Same(e.Says) {
		return ""
	}
	return fmt.Sprintf("task %s of %s ends otherwise than recorded at #%d\nrecorded: %v\nnow:      %v", e.Task, e.Function, e.Seq, e.Says, now)
}

// outcomeOf is the outcome of an attempt that ended by itself; false for any other fact.
func outcomeOf(r *events.Record) (o Outcome, is bool) {
	switch e := r.Fact.Event.(type) {
	case task.AttemptFinished:
		return Outcome{Result: e.Result}, true
	case task.AttemptFailed:
		return Outcome{Failure: e.Message}, e.Class == value.Task
	}
	return Outcome{}, false
}

// drawnAt is what the end of an attempt records of its steps, as a fact of its own before the end.
func drawnAt(r *events.Record) *events.Record {
	is := task.AttemptStepped{}
	switch e := r.Fact.Event.(type) {
	case task.AttemptFinished:
		is.Attempt, is.Epoch, is.Steps = e.Attempt, e.Epoch, e.Drawn
	case task.AttemptFailed:
		is.Attempt, is.Epoch, is.Steps = e.Attempt, e.Epoch, e.Drawn
	}
	if len(is.Steps) == 0 {
		return nil
	}
	before := *r
	before.Fact.Type, before.Fact.Event, before.Fact.By = events.AttemptStepped, is, nil
	var err error
	if before.Raw, err = events.Encode(nil, &before.Fact); err != nil {
		return nil // then the replay says that the record has no outcome of the step
	}
	return &before
}

// Log is what a log has recorded. It is never modified.
type Log struct {
	// Endings are in the order of the log: one for each task of a function whose last attempt has ended by itself. One
	// that was cancelled, lost or stopped by a timeout has none.
	Endings []Ending

	// Apart reads results of steps that the log does not have itself, as [worker.Outputs] says. Nil: the
	// functions that need one fail.
	Apart func(id task.ID, digest string, size int) ([]byte, error)

	of map[task.ID][]events.Record
	// defined are the definitions of jobs.
	defined []events.Record
}

// LogOf reads records, which are in the order of the log. Unreadable ones are left out.
func LogOf(records []events.Record) *Log {
	l := &Log{of: map[task.ID][]events.Record{}}
	function, trees, last := map[task.ID]string{}, map[task.ID]map[task.ID]bool{}, map[task.ID]Ending{}
	parent := map[task.ID]task.ID{}
	for i := range records {
		r := &records[i]
		id := r.Fact.Task
		switch {
		case r.Err != nil:
			continue
		case r.Fact.Def.Kind() == task.DefJob:
			l.defined = append(l.defined, *r)
			continue
		case id == "":
			continue
		}
		l.of[id] = append(l.of[id], *r)
		switch e := r.Fact.Event.(type) {
		case task.Submitted:
			if parent[id] = e.Parent; e.Spec.Handler != "" {
				function[id], trees[id] = e.Spec.Handler, map[task.ID]bool{id: true}
				if e.Needs != nil {
					for _, n := range e.Needs.Of {
						trees[id][n.Task] = true
					}
				}
			}
			for above := e.Parent; above != ""; above = parent[above] {
				if trees[above] != nil {
					trees[above][id] = true
				}
			}
		case task.AttemptStarted:
			delete(last, id)
		}
		if says, is := outcomeOf(r); is && function[id] != "" {
			last[id] = Ending{Task: id, Function: function[id], Seq: r.Seq, At: r.Fact.At, Says: says, tree: trees[id], drawn: drawnAt(r)}
		}
	}
	for _, e := range last {
		l.Endings = append(l.Endings, e)
	}
	slices.SortFunc(l.Endings, func(a, b Ending) int { return cmp.Compare(a.Seq, b.Seq) })
	return l
}

// before returns the records from before an ending that its task can know of.
func (l *Log) before(e *Ending) (all []events.Record) {
	all = slices.Clone(l.defined)
	for id := range e.tree {
		all = append(all, l.of[id]...)
	}
	all = slices.DeleteFunc(all, func(r events.Record) bool { return r.Seq >= e.Seq })
	slices.SortFunc(all, func(a, b events.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	if e.drawn != nil {
		all = append(all, *e.drawn)
	}
	return all
}

// apart reads what the steps in some records gave that those do not have, by digest. What cannot be read is missing.
func (l *Log) apart(records []events.Record) map[string][]byte {
	all := map[string][]byte{}
	for i := 0; i < len(records) && l.Apart != nil; i++ {
		for _, s := range task.StepsApart(records[i].Fact.Event) {
			if result, err := l.Apart(records[i].Fact.Task, s.Digest, s.Size); err == nil {
				all[s.Digest] = result
			}
		}
	}
	return all
}
