package findings

import (
	"fmt"
	"slices"

	"millrace/task"
)

// At every sequence, at most as many epochs run under one counter as the most permissive task among
// them allows. Only the end of an epoch frees a place, so an open epoch's place cannot have gone to
// another task.

// use is the running epochs under a counter, each with the bound that it allows.
type use map[uint64]uint32

// Occupy opens an epoch under its limits.
func (n *Running) Occupy(id task.ID, under Bounds, epoch uint64) {
	for _, b := range under {
		n.occupyOne(id, b, epoch)
	}
}

func (n *Running) occupyOne(id task.ID, b bound, epoch uint64) {
	if b.max == 0 {
		return
	}
	n.book.Checked[Limits]++
	u := n.uses[b.counter]
	if u == nil {
		u = use{}
		n.uses[b.counter] = u
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
	name := n.terms.words.Text(b.counter)
	n.book.Find(Limits, Finding{Task: id, Seqs: seqs,
		What: fmt.Sprintf("at %d the limit %s has %d attempts under way, and allows %d", epoch, name, len(u), most),
		Look: "`millrace events show` of each epoch, and the `limit.granted` before them"})
}

// Vacate closes an epoch under its limits.
func (n *Running) Vacate(under Bounds, epoch uint64) {
	for _, b := range under {
		if u := n.uses[b.counter]; u != nil {
			if delete(u, epoch); len(u) == 0 {
				delete(n.uses, b.counter)
			}
		}
	}
}
