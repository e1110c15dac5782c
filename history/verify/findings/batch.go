package findings

import (
	"fmt"
	"slices"
	"strings"

	"millrace/events"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/value"
)

// batch is a group of admissions that lie directly behind each other: a task under limits of
// several scopes is admitted on the chains of all of them in one batch. So every later admission
// from one of its counters has seen it.
type batch struct {
	first, last uint64
	missing     map[granted][]limit.Scope // the chains on which the grants seen so far are still missing
}

// granted is an admission of a task.
type granted struct {
	task task.ID
	turn uint64
}

// batchAt reads the next record of any kind.
func (l *Lines) batchAt(r *events.Record) {
	a := &l.batch
	if len(a.missing) > 0 && (r.Kind != events.KindLimit || r.Seq != a.last+1) {
		l.judgeBatch()
	}
	if r.Kind != events.KindLimit {
		return
	}
	if r.Seq != a.last+1 {
		a.first = r.Seq
	}
	a.last = r.Seq
	e, _ := r.Fact.Event.(task.Granted)
	for _, g := range e.Grants {
		l.book.Checked[Limits]++
		l.admittedOn(r, &g)
	}
}

func (l *Lines) admittedOn(r *events.Record, g *task.Grant) {
	a := &l.batch
	key := granted{g.Task, g.Turn}
	open, seen := a.missing[key]
	if !seen {
		for _, name := range g.Limits {
			if of := limit.ScopeOf(name); !slices.Contains(open, of) {
				open = append(open, of)
			}
		}
		if len(open) == 0 {
			return // it has no limits any more
		}
	}
	at := slices.Index(open, r.Fact.Scope)
	if at < 0 {
		l.book.Find(Limits, Finding{Task: g.Task, Seqs: []uint64{r.Seq},
			What: fmt.Sprintf("it is admitted on the chain of %s, and stands under %s", r.Fact.Scope, value.List(g.Limits)),
			Look: "`millrace events show` of the `limit.granted`"})
		return
	}
	if open = slices.Delete(open, at, at+1); len(open) == 0 {
		delete(a.missing, key)
		return
	}
	if a.missing == nil {
		a.missing = map[granted][]limit.Scope{}
	}
	key.task = task.ID(strings.Clone(string(key.task)))
	a.missing[key] = open
}

// judgeBatch finds admissions that lie on only some of their chains.
func (l *Lines) judgeBatch() {
	a := &l.batch
	for key, open := range a.missing {
		if a.first == l.first && !l.log.Whole {
			continue // the others may lie before the range
		}
		l.book.Find(Limits, Finding{Task: key.task, Seqs: []uint64{a.first, a.last},
			What: fmt.Sprintf("it is admitted for turn %d, and that is missing on the chains of %v", key.turn, open),
			Look: "`millrace events show` of the `limit.granted` from the first to the last sequence"})
	}
	a.missing = nil
}
