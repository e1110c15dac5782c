package replay

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
)

// ErrKept: what [Restore] was given is not what [Span.Keep] returned.
var ErrKept = errors.New("it is no kept span")

// Keep returns a span as bytes, so that [Restore] need neither decode nor fold its facts again. It is
// nil for a span of which something is missing or unreadable. The form is for this program alone:
// another build may count otherwise.
func (s *Span) Keep() []byte {
	if len(s.gaps) > 0 {
		return nil
	}
	refs := make(map[view.Ref]uint64, len(s.chains))
	of := make([]uint64, len(s.facts)) // the chain of each fact, from 1
	var w keeper
	w.number(s.from)
	w.number(uint64(len(s.words.text)))
	for _, text := range s.words.text {
		w.text(text)
	}
	w.number(uint64(len(s.chains)))
	for ref, c := range s.chains {
		refs[ref] = uint64(len(refs) + 1)
		w.number(uint64(ref.Kind))
		w.text(ref.ID)
		w.number(uint64(len(c.at)))
		for _, at := range c.at {
			of[at] = refs[ref]
		}
	}
	w.number(uint64(len(s.facts)))
	for i := range s.facts {
		f := &s.facts[i]
		if f.bad != nil {
			return nil
		}
		for _, n := range []uint64{f.seq, uint64(f.stored), uint64(f.kind), uint64(f.place), uint64(f.typ), uint64(f.schedule), of[i]} { // its bits
			w.number(n)
		}
		w.stand(f.was)
		w.stand(f.is)
		w.text(string(f.raw))
	}
	return w
}

// Restore adds the facts of a kept span to this one, which has none yet, until stop says so of one;
// inside tells which belong to the span. Both see no more of a record than its sequence and time. The
// span keeps text. The error wraps [ErrKept], and leaves the span unusable.
func (s *Span) Restore(text []byte, stop, inside func(*events.Record) bool) (err error) {
	defer func() {
		if recover() != nil { // any text that Keep did not write may be cut anywhere
			err = ErrKept
		}
	}()
	r := reader(text)
	if r.number() != s.from {
		return ErrKept
	}
	for range r.count() {
		s.words.of(r.text())
	}
	chains := make([]*chain, 1, len(text)/64+1)
	refs := make([]view.Ref, 1, len(text)/64+1)
	for range r.count() {
		ref := view.Ref{Kind: view.Kind(r.number()), ID: r.text()} // one of few
		chains, refs = append(chains, &chain{at: make([]int32, 0, r.count())}), append(refs, ref)
	}
	n := r.count()
	s.facts = make([]fact, 0, n)
	for range n {
		f := fact{seq: r.number(), stored: int64(r.number()), kind: events.Kind(r.number()), place: r.word(), typ: r.word(), schedule: r.word()} // its bits
		in := r.number()
		f.was, f.is = r.stand(), r.stand()
		f.raw = r.bytes()
		record := events.Record{Seq: f.seq, Stored: timeOf(f.stored)}
		if stop(&record) {
			break
		}
		if err := s.append(f, inside(&record)); err != nil {
			return ErrKept
		}
		if in == 0 {
			continue
		}
		at := int32(len(s.facts) - 1) // Keep had room for it
		s.enter(refs[in], chains[in], at)
		if refs[in].Kind == view.Tasks {
			s.totals.move(&s.facts[at], 1)
		}
	}
	for ref, c := range s.chains {
		if ref.Kind != view.Tasks {
			s.refold(ref, c)
		}
	}
	return nil
}

// refold folds a chain that is no task's anew.
func (s *Span) refold(ref view.Ref, c *chain) {
	is := view.Nothing(ref)
	for i, at := range c.at {
		r := s.record(int(at))
		is.Add(ref, &r)
		if (i+1)%foldEvery == 0 {
			c.folded = append(c.folded, is.Clone())
		}
	}
}

// keeper writes numbers and texts, one behind the other.
type keeper []byte

func (w *keeper) number(n uint64) { *w = binary.AppendUvarint(*w, n) }

func (w *keeper) text(text string) {
	w.number(uint64(len(text)))
	*w = append(*w, text...)
}

func (w *keeper) stand(s stand) {
	if !s.there {
		w.number(0)
		return
	}
	w.number(uint64(s.state) + 1)
	w.number(uint64(s.queue))
	w.number(uint64(s.node))
}

// reader reads what a keeper wrote. It panics behind the end.
type reader []byte

func (*reader) cut() { panic(ErrKept) }

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(*r)
	if size <= 0 {
		r.cut()
	}
	*r = (*r)[size:]
	return n
}

// count is a number of things that follow, of a byte at least each.
func (r *reader) count() int {
	n := r.number()
	if n > uint64(len(*r)) {
		r.cut()
	}
	return int(n) // as long as the text at most
}

func (r *reader) word() word { return word(r.number()) } // as it was written

func (r *reader) bytes() []byte {
	n := r.count()
	text := slices.Clip((*r)[:n])
	*r = (*r)[n:]
	return text
}

func (r *reader) text() string { return strings.Clone(string(r.bytes())) }

func (r *reader) stand() stand {
	state := r.number()
	if state == 0 {
		return stand{}
	}
	return stand{there: true, state: task.State(state - 1), queue: r.word(), node: r.word()} // one of few
}
