package scheduler

import (
	"context"
	"time"
)

// Hurried is an optional part of a [Model]: the scheduler can make it catch up with the log at
// once.
type Hurried interface {
	// Wait returns once the reported changes reflect the log up to a sequence.
	Wait(ctx context.Context, seq uint64) error
}

// The pause before the read model is hurried again grows with the number of records of the last
// batch, up to mostPatience. Processing a batch takes time as well; a pause that grew with all of
// that would make the next batch larger, and thereby the next pause.
const (
	perNews      = 50 * time.Microsecond
	mostPatience = 20 * time.Millisecond
)

// hurry hurries the read model whenever busy signals, as long as crowded tells that tasks wait for
// its changes. Otherwise the read model takes its time, because large batches are cheaper.
func hurry(ctx context.Context, view Hurried, busy <-chan struct{}, observed func() uint64, crowded func() bool) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-busy:
		}
		for crowded() {
			before := observed()
			if view.Wait(ctx, before+1) != nil {
				break // it is behind or ends; the next round asks again
			}
			// Larger batches are cheaper for all parts here, too.
			select {
			case <-ctx.Done():
			case <-time.After(min(time.Duration(observed()-before)*perNews, mostPatience)):
			}
		}
	}
}
