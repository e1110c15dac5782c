package wording

import (
	"fmt"
	"time"

	"millrace/events"
	"millrace/internal/cli/term"
	"millrace/task"
	"millrace/task/value"
)

// LateWord is what a fenced attempt tried to report: evidence that never counts.
type LateWord struct {
	Epoch uint64 `json:"epoch"`
	Node  string `json:"node,omitempty"`
	// At is when the attempt reported it, and Kept when it was stored.
	At   time.Time   `json:"at,omitzero"`
	Kept time.Time   `json:"kept"`
	Type events.Type `json:"type,omitempty"`
	Says string      `json:"says,omitempty"`
}

// LateWords returns those in the history of a task, in order.
func LateWords(records []events.Record) []LateWord {
	var all []LateWord
	for i := range records {
		e, ok := records[i].Fact.Event.(task.AttemptLate)
		if !ok {
			continue
		}
		w := LateWord{Epoch: e.Epoch, Node: e.Node, Kept: FactTime(&records[i])}
		w.At = w.Kept
		if said, err := events.Decode(e.Said); err == nil {
			w.At, w.Type = said.At, said.Type
			w.Says = FactDetails(&events.Record{Kind: events.KindChain, Fact: said})
		} else {
			w.Says = term.Cut(string(e.Said), 200) // shown whatever it is
		}
		all = append(all, w)
	}
	return all
}

// Text is one line.
func (w *LateWord) Text() string {
	said := Words(string(w.Type), w.Says)
	return term.Printable(fmt.Sprintf("epoch %d on %s wanted to say at %s: %s", w.Epoch, w.Node, value.Clock(w.At.UTC()), said))
}
