package events

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Chain is a sequence of messages that several processes extend by compare-and-set: the writer
// names the last message, and is refused if another one is the last. S is the state of the chain, W
// the message to write.
//
// All code about conflicts and lost answers is here.
type Chain[S, W any] struct {
	// Read returns the state and the end of the chain, and whether the chain holds the last write
	// (mine). It is called with the attempted write after a conflict or a lost answer, else with
	// the zero value. If the write cannot be told from the writes of others, Read returns false;
	// the decider then finds that what it wants holds already.
	Read func(ctx context.Context, wrote W) (is S, end uint64, mine bool, err error)
	// Write writes w if the chain ends at end, and returns its sequence. The error wraps
	// [ErrConflict] if the chain ends elsewhere, and [ErrUnknown] if the answer was lost.
	Write func(ctx context.Context, w W, end uint64) (uint64, error)
	// Another tells, after Read, whether the chain is not the one that was known before, though it may
	// end at the same sequence: it has lost its last messages, and others have come. A write for the one
	// is not repeated on the other; the writer decides again. Default: it never is.
	Another func() bool
	// Once forbids a second decision after a conflict.
	Once bool
}

// Outcome is the result of a decision.
type Outcome int

// The outcomes of a decision.
const (
	// Held: there was nothing to write.
	Held Outcome = iota
	// Recorded: the message was written.
	Recorded
	// Found: the message was written, but the answer was lost.
	Found
	// Lost: another writer was first, and [Chain.Once] is set. Nothing was written.
	Lost
)

// Decided is a decision on a chain.
type Decided[S, W any] struct {
	Outcome
	// Is is the state of the chain on which decide decided; after [Found] and [Lost], and after an
	// error behind them, the state read then.
	Is S
	// End is the end of the chain: the written message, if the outcome is [Recorded]. A message
	// that was [Found] may have others behind it.
	End uint64
	// Wrote is the message that was written, or was to be.
	Wrote W
}

// Done tells whether the decision lies on the chain.
func (d *Decided[S, W]) Done() bool { return d.Outcome == Recorded || d.Outcome == Found }

// ErrContended: other writers were faster every time.
var ErrContended = errors.New("others were faster each time")

// Retries of a decision that conflicts with others.
const (
	decisions  = 1000 // the largest number of tries
	decideFast = 10   // tries without a pause
	decidePace = 100 * time.Millisecond
)

// Decide reads the chain and calls [Chain.DecideFrom].
func (c Chain[S, W]) Decide(ctx context.Context, decide func(is S) (w W, write bool, err error)) (Decided[S, W], error) {
	var none W
	is, end, _, err := c.Read(ctx, none)
	if err != nil {
		return Decided[S, W]{Is: is, End: end}, err
	}
	return c.DecideFrom(ctx, is, end, decide)
}

// DecideFrom calls decide with the known state of the chain and writes its result if the chain
// still ends there. Otherwise it reads the chain anew and calls decide again, unless [Chain.Once]
// is set. It returns only when the outcome is known, or when the chain cannot be read, for example
// because ctx has ended; then the error wraps [ErrUnknown] if the outcome is open. It gives up with
// [ErrContended].
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
		// If the chain has not moved, the earlier write may still arrive. So the same message is
		// written again: at most one of the two succeeds.
		again = at == d.End && (c.Another == nil || !c.Another())
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

// pause waits before another try: not for the first ones, then longer each time. It is false if ctx
// ends.
func pause(ctx context.Context, try int) bool {
	if try > decideFast {
		pause, over := context.WithTimeout(ctx, min(time.Millisecond<<min(try-decideFast, 10), decidePace))
		defer over()
		<-pause.Done()
	}
	return ctx.Err() == nil
}

// tried turns the error of a write that is not repeated into whether it was recorded. After a lost
// answer it may be recorded although done is false. The error is neither that nor a conflict.
func tried(err error) (done bool, _ error) {
	if errors.Is(err, ErrConflict) || errors.Is(err, ErrUnknown) {
		return false, nil
	}
	return err == nil, err
}
