package events

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Chain is what several processes change by compare-and-set: whoever writes says which message was the last, and is
// refused if another one is. S is how the chain stands, W what is written on it.
//
// All that is known of conflicts and of lost answers is known here.
type Chain[S, W any] struct {
	// Read reads how the chain stands and where it ends, and whether it holds what was written last. It is
	// called after a conflict or a lost answer with what was to be written, else with the zero value. If what is written cannot
	// be told from what others write, it returns false: then whoever decides finds that what it wants holds already.
	Read func(ctx context.Context, wrote W) (is S, end uint64, mine bool, err error)
	// Write writes what was decided if the chain ends at a sequence, and returns the sequence of that. The
	// error wraps [ErrConflict] if it ends elsewhere, and [ErrUnknown] if the answer was lost.
	Write func(ctx context.Context, w W, end uint64) (uint64, error)
	// Once keeps who was too late from deciding again.
	Once bool
}

// Outcome is what became of a decision.
type Outcome int

// The outcomes of a decision.
const (
	// Held: nothing had to be written.
	Held Outcome = iota
	// Recorded: it was written.
	Recorded
	// Found: it was written as well, and the answer was lost.
	Found
	// Lost: somebody else was first, and [Chain.Once] is set. Nothing was written.
	Lost
)

// Decided is a decision on a chain.
type Decided[S, W any] struct {
	Outcome
	// Is is how the chain stood when it was decided on; after [Found] and [Lost], and after an error behind them, as it was
	// read then.
	Is S
	// End is where the chain ends: at what was written, if that is [Recorded]. What was [Found] may have others behind it.
	End uint64
	// Wrote is what was written, or was to be.
	Wrote W
}

// Done tells whether what was decided lies on the chain.
func (d *Decided[S, W]) Done() bool { return d.Outcome == Recorded || d.Outcome == Found }

// ErrContended: others were faster each time.
var ErrContended = errors.New("others were faster each time")

// Of a decision that others get in the way of.
const (
	decisions  = 1000 // how often it is tried
	decideFast = 10   // how often without a pause
	decidePace = 100 * time.Millisecond
)

// Decide reads the chain and then is [Chain.DecideFrom].
func (c Chain[S, W]) Decide(ctx context.Context, decide func(is S) (w W, write bool, err error)) (Decided[S, W], error) {
	var none W
	is, end, _, err := c.Read(ctx, none)
	if err != nil {
		return Decided[S, W]{Is: is, End: end}, err
	}
	return c.DecideFrom(ctx, is, end, decide)
}

// DecideFrom has decide say what to write on the chain as it is known to stand, and writes it where that is still so.
// Else it reads the chain anew and asks decide again, unless [Chain.Once] is set. It returns only when it is known
// whether what was decided is written, or when the chain cannot be read, for example because ctx has ended; then the error
// wraps [ErrUnknown] if the outcome is open. It gives up after [ErrContended].
func (c Chain[S, W]) DecideFrom(ctx context.Context, is S, end uint64, decide func(is S) (w W, write bool, err error)) (Decided[S, W], error) {
	d := Decided[S, W]{Is: is, End: end}
	for try, again := 1, false; ; try++ {
		if !again {
			var none W
			d.Wrote = none
			w, write, err := decide(d.Is)
			if err != nil || !write {
				return d, err
			}
			d.Wrote = w
		}
		seq, err := c.Write(ctx, d.Wrote, d.End)
		conflict, unknown := errors.Is(err, ErrConflict), errors.Is(err, ErrUnknown)
		switch {
		case err == nil:
			d.Outcome, d.End = Recorded, seq
			return d, nil
		case !conflict && !unknown:
			return d, err
		}
		now, at, mine, readErr := c.Read(ctx, d.Wrote)
		switch {
		case readErr != nil && unknown:
			return d, fmt.Errorf("%w; reading the chain: %w", err, readErr)
		case readErr != nil:
			return d, readErr
		}
		// A chain that stands where it stood may yet get what was written before. So it has to be the same
		// again: one of the two will fail.
		again = at == d.End
		d.Is, d.End = now, at
		switch {
		case mine:
			d.Outcome = Found
			return d, nil
		case c.Once && (conflict || !again):
			d.Outcome = Lost
			return d, nil
		case try < decisions && pause(ctx, try):
		case ctx.Err() != nil && again:
			return d, fmt.Errorf("%w: %w", ErrUnknown, context.Cause(ctx))
		case ctx.Err() != nil:
			return d, context.Cause(ctx)
		default:
			return d, fmt.Errorf("%w: %w", ErrContended, err)
		}
	}
}

// pause waits before a decision is tried again, not at first and then for longer each time. It is false if ctx ends.
func pause(ctx context.Context, try int) bool {
	if try > decideFast {
		pause, over := context.WithTimeout(ctx, min(time.Millisecond<<min(try-decideFast, 10), decidePace))
		defer over()
		<-pause.Done()
	}
	return ctx.Err() == nil
}

// tried tells of a write that is not tried again whether it is recorded. It may be, too, where the answer was lost. The
// error is neither that nor a conflict.
func tried(err error) (done bool, _ error) {
	if errors.Is(err, ErrConflict) || errors.Is(err, ErrUnknown) {
		return false, nil
	}
	return err == nil, err
}

// unlessThere is the error of a write for which it is as good that somebody else has made it.
func unlessThere(err error) error {
	if errors.Is(err, ErrConflict) {
		return nil
	}
	return err
}
