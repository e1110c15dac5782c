package submit

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
)

// SubmitMany is [Maker.Submit] for n equal tasks, much faster than one by one. It calls each with
// every receipt, in order. The error is the first that occurred; tasks before and after it may
// exist.
func (d *Maker) SubmitMany(ctx context.Context, s birth.Submission, n int, each func(Receipt)) error {
	if s.ID != "" {
		return errors.New("many tasks cannot have one id")
	}
	same, err := d.Prepare(ctx, s)
	if err != nil {
		return err
	}
	if key, err := same.Birth.UniqueKey(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	} else if key != "" {
		return fmt.Errorf("%w: many equal tasks cannot have one unique key (%q)", ErrInvalid, key)
	}
	ids := make([]task.ID, n)
	return d.takeAll(ctx, n, func(i int) Newborn {
		if ids[i] == "" {
			ids[i] = d.drawID()
		}
		return Newborn{ID: ids[i], Birth: same.Birth}
	}, each)
}

// SubmitAll is [Maker.Submit] for several submissions, much faster than one by one if they have no id
// or a fresh one, and no unique key. It calls each with every receipt, in order. If one of them is
// invalid, none is submitted; any other error is the first that occurred, and tasks before and after
// it may exist.
func (d *Maker) SubmitAll(ctx context.Context, all []birth.Submission, each func(Receipt)) error {
	newborns := make([]Newborn, len(all))
	for i := range all {
		var err error
		if newborns[i], err = d.Prepare(ctx, all[i]); err != nil {
			return fmt.Errorf("task %d of %d: %w", i+1, len(all), err)
		}
	}
	works := make([]*task.Work, len(newborns))
	for i := range newborns {
		works[i] = &newborns[i].Birth.Work
	}
	if err := d.Store.DeclareAll(ctx, works, d.Rec.Actor); err != nil {
		return err
	}
	return d.takeAll(ctx, len(all), func(i int) Newborn { return newborns[i] }, each)
}

// takeAll is take for many: births that only the queue can refuse are placed together, the rest one
// by one.
func (d *Maker) takeAll(ctx context.Context, n int, at func(i int) Newborn, each func(Receipt)) error {
	if each == nil {
		each = func(Receipt) {}
	}
	for i := 0; i < n; {
		if first := at(i); !first.plain() {
			r, err := d.take(ctx, &first)
			if err != nil {
				return fmt.Errorf("task %d of %d: %w", i+1, n, err)
			}
			each(r)
			i++
			continue
		}
		placed, err := d.bearSome(ctx, n-i, func(k int) Newborn { return at(i + k) }, each)
		if err != nil {
			return err
		}
		i += placed
	}
	return nil
}

// Bounds of bearSome.
const (
	// part is how many births are made and then placed at a time. Nothing is on its way between two
	// parts, so a small part would be slow. A birth that a slow machine places long after its id was
	// drawn costs its claim a look at the log, and there are more of these in a large part.
	part = 4096
	// settling is how many timers are armed concurrently.
	settling = 16
)

// plain tells whether only the queue can refuse the birth, and no further write follows it.
func (n *Newborn) plain() bool {
	key, err := n.Birth.UniqueKey()
	return err == nil && key == "" && n.drawn() && !n.Birth.Spec.Parental()
}

// bearSome is [Maker.Bear] for the plain births at the beginning of a list, much faster than one by
// one. If the queue of the first has a bound, it takes only births of that queue, and no more than
// there is room for. It returns how many births it took.
func (d *Maker) bearSome(ctx context.Context, n int, at func(i int) Newborn, each func(Receipt)) (int, error) {
	n = min(n, part)
	facts := make([]*events.Fact, 0, n)
	ids := make([]task.ID, 0, n)
	var queue string // the queue with a bound
	var most int     // its bound
	var last *task.Submitted
	var event task.Event // of last, made once: it is large
	for i := range n {
		b := at(i)
		if b.Birth != last {
			in, bound, err := d.boundOf(ctx, b.Birth)
			if err != nil {
				return 0, err
			}
			if bound == 0 {
				in = ""
			}
			if i == 0 {
				queue, most = in, bound
			}
			if !b.plain() || in != queue {
				break
			}
			last, event = b.Birth, *b.Birth
		}
		facts, ids = append(facts, d.Rec.Fact(b.ID, event)), append(ids, b.ID)
	}
	n = len(ids)
	over := func(context.Context, bool) {}
	if most > 0 {
		var err error
		if n, over, err = d.reserve(ctx, queue, most, ids); err != nil {
			return 0, err
		}
	}
	err := d.place(ctx, facts[:n], func(i int, seq uint64) { each(Receipt{ID: ids[i], Seq: seq}) })
	if err == nil || !errors.Is(err, events.ErrUnknown) {
		over(ctx, err == nil)
	}
	return n, err
}

// place places births, and arms the timers of those that are due later, several concurrently.
func (d *Maker) place(ctx context.Context, births []*events.Fact, done func(i int, seq uint64)) error {
	seqs, errs := make([]uint64, len(births)), make([]error, len(births))
	var g errgroup.Group
	g.SetLimit(settling)
	d.Rec.PlaceBirths(ctx, births, func(i int, seq uint64, err error) {
		f := births[i]
		if there, is := errors.AsType[*events.Exists](err); is { // another process has made it
			birth := f.Event.(task.Submitted)
			seqs[i], errs[i] = there.Birth.Seq, d.SameBirth(there, &birth)
			return
		}
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
