package main

import (
	"fmt"
	"time"

	"millrace/events"
	"millrace/task"
)

// lateWord is what a fenced attempt wanted to say: evidence that never counts.
type lateWord struct {
	Epoch uint64 `json:"epoch"`
	Node  string `json:"node,omitempty"`
	// At is when the attempt said it, and Kept when it was stored.
	At   time.Time   `json:"at,omitzero"`
	Kept time.Time   `json:"kept"`
	Type events.Type `json:"type,omitempty"`
	Says string      `json:"says,omitempty"`
}

// lateWords are those in the history of a task, in order.
func lateWords(records []events.Record) []lateWord {
	var all []lateWord
	for i := range records {
		e, ok := records[i].Fact.Event.(task.AttemptLate)
		if !ok {
			continue
		}
		w := lateWord{Epoch: e.Epoch, Node: e.Node, Kept: factTime(&records[i])}
		w.At = w.Kept
		if said, err := events.Decode(e.Said); err == nil {
			w.At, w.Type = said.At, said.Type
			w.Says = factDetails(&events.Record{Kind: events.KindChain, Fact: said})
		} else {
			w.Says = cut(string(e.Said), 200) // whoever wrote it, it is shown
		}
		all = append(all, w)
	}
	return all
}

func (w *lateWord) text() string {
	said := words(string(w.Type), w.Says)
	return printable(fmt.Sprintf("epoch %d on %s wanted to say at %s: %s", w.Epoch, w.Node, clock(w.At), said))
}
