package verify

import (
	"fmt"
	"maps"
	"slices"

	"millrace/events"
	"millrace/task"
	"millrace/verify/book"
)

// dismissed takes an unreadable message off the list. The dismissed message comes before the
// dismissal (I-7); this version may be able to read it.
func (v *Verifier) dismissed(r *events.Record) {
	if _, ok := r.Fact.Event.(task.MessageDismissed); !ok {
		return
	}
	v.book.Checked[CauseFirst]++
	if seq := r.Fact.Message; seq >= r.Seq {
		v.book.Find(CauseFirst, Finding{Seqs: []uint64{seq, r.Seq},
			What: fmt.Sprintf("the fact at %d dismisses a message that comes after it, at %d", r.Seq, seq),
			Look: book.Show(r.Seq)})
		return
	}
	delete(v.poison, r.Fact.Message)
}

// dismissed checks that the task ended abnormal: only such a task is a dead letter (I-7).
func (s *story) dismissed(v *Verifier, r *events.Record) {
	v.book.Checked[CauseFirst]++
	switch {
	case s.end == 0 && !s.cut:
		s.found(v, CauseFirst, []uint64{r.Seq}, "dismissed as a dead letter, and it has not ended")
	case s.result:
		s.found(v, CauseFirst, []uint64{s.end, r.Seq}, "dismissed as a dead letter, and its result was accepted at %d", s.end)
	}
}

// maxPoisonSeqs is how many sequences of unreadable messages a report names.
const maxPoisonSeqs = 20

// poisonSeqs returns the first unreadable messages.
func (v *Verifier) poisonSeqs() []uint64 {
	seqs := slices.Sorted(maps.Keys(v.poison))
	return seqs[:min(len(seqs), maxPoisonSeqs)]
}
