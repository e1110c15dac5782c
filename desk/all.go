package desk

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/task"
	"millrace/task/family"
)

// Bounds of [Desk.BearSome].
const (
	// part is how many births are made and then placed at a time. Nothing is on its way between two
	// parts, so a small part would be slow.
	part = 16_384
	// settling is how many timers are armed concurrently.
	settling = 16
)

// Plain tells whether only the queue can refuse the birth, and no further write follows it.
func (n *Newborn) Plain() bool {
	key, err := n.Birth.UniqueKey()
	return err == nil && key == "" && !n.Named && !n.Birth.OnChain() && !n.Birth.Spec.Parental()
}

// BearSome is [Desk.Bear] for the plain births at the beginning of a list, much faster than one by
// one. If the queue of the first has a bound, it takes only births of that queue, and no more than
// there is room for. It returns how many births it took. Done gets each sequence, in order. The
// error is the first that occurred; births before and after it may be recorded.
func (d *Desk) BearSome(ctx context.Context, n int, at func(i int) Newborn, done func(id task.ID, seq uint64)) (int, error) {
	n = min(n, part)
	facts := make([]*events.Fact, 0, n)
	ids := make([]task.ID, 0, n)
	var queue string // the queue with a bound
	var last *task.Submitted
	var event task.Event // of last, made once: it is large
	first := at(0)
	for i := range n {
		b := at(i)
		if b.Birth != last {
			in, most, err := d.boundOf(ctx, b.Birth)
			if err != nil {
				return 0, err
			}
			if most == 0 {
				in = ""
			}
			if i == 0 {
				queue = in
			}
			if !b.Plain() || in != queue {
				break
			}
			last, event = b.Birth, *b.Birth
		}
		facts, ids = append(facts, d.Rec.Fact(b.ID, event)), append(ids, b.ID)
	}
	n, over, err := d.reserve(ctx, first.Birth, ids)
	if err != nil {
		return 0, err
	}
	err = d.place(ctx, facts[:n], func(i int, seq uint64) { done(ids[i], seq) })
	if err == nil || !errors.Is(err, events.ErrUnknown) {
		over(ctx, err == nil)
	}
	return n, err
}

// place places births, and arms the timers of those that are due later, several concurrently.
func (d *Desk) place(ctx context.Context, births []*events.Fact, done func(i int, seq uint64)) error {
	seqs, errs := make([]uint64, len(births)), make([]error, len(births))
	var g errgroup.Group
	g.SetLimit(settling)
	d.Rec.PlaceBirths(ctx, births, func(i int, seq uint64, err error) {
		f := births[i]
		seqs[i], errs[i] = seq, err
		if birth := f.Event.(task.Submitted); err == nil && !birth.Offers() {
			g.Go(func() error {
				errs[i] = d.Rec.SettleBirth(ctx, f, seq)
				return nil
			})
		}
	})
	_ = g.Wait() // errs has the failures
	for i, err := range errs {
		if err == nil {
			done(i, seqs[i])
		}
	}
	return errors.Join(errs...)
}

// BearChildren records the births of these children of a parent, many at once. Other processes may
// do so concurrently: existing children stay as they are, and a repeated birth counts once. A
// parent whose cancel would stop them at once, or that has ended, gets none.
func (d *Desk) BearChildren(ctx context.Context, parent *task.Task, names []string) error {
	if len(names) == 0 || family.Unmade(parent) || parent.State.Terminal() {
		return nil
	}
	birth := family.Births(parent)
	var facts []*events.Fact
	for _, name := range names {
		id, b := family.ChildID(parent.ID, name), birth(name)
		if !b.OnChain() {
			facts = append(facts, d.Rec.Fact(id, b))
			continue
		}
		var there *events.Exists
		if _, err := d.Rec.Submit(ctx, id, b); err != nil && !errors.As(err, &there) {
			return err
		} else if there != nil {
			if err := d.SameBirth(there, &b); err != nil {
				return err
			}
		}
	}
	return d.place(ctx, facts, func(int, uint64) {})
}
