package verify

import (
	"fmt"
	"slices"

	"millrace/task"
)

// I-4, the limits of tasks: at no sequence run more epochs under one counter than the most
// that a task among them allows. Slots are freed by the end of an epoch only, so there is
// no epoch that is open in the log and whose place somebody else may have.

// limited is the bound on its concurrency that a task stands under. Its counter is the number
// of a word, 0 for none.
type limited struct{ counter, max uint32 }

func (t *tasks) limited(w *task.Work) limited {
	if !w.Spec.Limited() || w.Spec.Concurrency.Max <= 0 {
		return limited{}
	}
	counters, err := w.Counters()
	if err != nil {
		return limited{} // nobody can have admitted it
	}
	return limited{t.words.number(counters[0].Name), uint32(counters[0].Max)}
}

// use is who runs under a counter: epochs, and what each of them allows.
type use map[uint64]uint32

// occupy opens an epoch under a limit.
func (v *Verifier) occupy(s *story, epoch uint64) {
	if s.limit.counter == 0 {
		return
	}
	v.checked[Limits]++
	u := v.uses[s.limit.counter]
	if u == nil {
		u = use{}
		v.uses[s.limit.counter] = u
	}
	u[epoch] = s.limit.max
	most := uint32(0)
	seqs := make([]uint64, 0, len(u))
	for e, allowed := range u {
		most = max(most, allowed)
		seqs = append(seqs, e)
	}
	if len(u) <= int(most) {
		return
	}
	slices.Sort(seqs)
	name := v.tasks.words.list[s.limit.counter]
	v.find(Limits, Finding{Task: s.id, Seqs: seqs,
		What: fmt.Sprintf("at %d the limit %s has %d attempts under way, and allows %d", epoch, name, len(u), most),
		Look: "`millrace events show` of each epoch, and the `limit.granted` before them"})
}

// vacate closes an epoch under a limit.
func (v *Verifier) vacate(s *story, epoch uint64) {
	if u := v.uses[s.limit.counter]; u != nil {
		if delete(u, epoch); len(u) == 0 {
			delete(v.uses, s.limit.counter)
		}
	}
}
