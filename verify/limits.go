package verify

import (
	"fmt"
	"slices"

	"millrace/task"
)

// I-4, the limits of tasks: at no sequence run more epochs under one counter than the most
// that a task among them allows. Slots are freed by the end of an epoch only, so there is
// no epoch that is open in the log and whose place somebody else may have.

// limited are the bounds on its concurrency that a task stands under.
type limited []bound

// bound is one of them. Its counter is the number of a word.
type bound struct{ counter, max uint32 }

func (t *tasks) limited(w *task.Work) limited {
	if !w.Spec.Limited() || len(w.Spec.Concurrency) == 0 {
		return nil
	}
	counters, err := w.Counters()
	if err != nil {
		return nil // nobody can have admitted it
	}
	var all limited
	for _, c := range counters {
		if c.Max > 0 {
			all = append(all, bound{uint32(t.words.number(c.Name)), uint32(c.Max)})
		}
	}
	return all
}

// use is who runs under a counter: epochs, and what each of them allows.
type use map[uint64]uint32

// occupy opens an epoch under its limits.
func (v *Verifier) occupy(s *story, epoch uint64) {
	for _, b := range s.limit {
		v.occupyOne(s, b, epoch)
	}
}

func (v *Verifier) occupyOne(s *story, b bound, epoch uint64) {
	v.checked[Limits]++
	u := v.uses[b.counter]
	if u == nil {
		u = use{}
		v.uses[b.counter] = u
	}
	u[epoch] = b.max
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
	name := v.tasks.words.list[b.counter]
	v.find(Limits, Finding{Task: s.id, Seqs: seqs,
		What: fmt.Sprintf("at %d the limit %s has %d attempts under way, and allows %d", epoch, name, len(u), most),
		Look: "`millrace events show` of each epoch, and the `limit.granted` before them"})
}

// vacate closes an epoch under its limits.
func (v *Verifier) vacate(s *story, epoch uint64) {
	for _, b := range s.limit {
		if u := v.uses[b.counter]; u != nil {
			if delete(u, epoch); len(u) == 0 {
				delete(v.uses, b.counter)
			}
		}
	}
}
