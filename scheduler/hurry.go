package scheduler

import (
	"context"
	"time"
)

// Hurried is what a [Model] may be besides: one that can be hurried.
type Hurried interface {
	// Wait returns when all that is told reflects the log up to a sequence.
	Wait(ctx context.Context, seq uint64) error
}

// The read model is hurried again when each record that it had last time has been waited
// for so long, and mostPatience at most: what it has to do with that takes its time as well, and a pause
// that grew with all of it would make the next batch larger, and so the next pause.
const (
	perNews      = 50 * time.Microsecond
	mostPatience = 20 * time.Millisecond
)

// hurry hurries the read model whenever busy says so, as long as somebody waits for what it
// tells: it would else take its time, because much at once is cheaper than the same one by one.
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
			// Much at once is cheaper for everybody here, too.
			select {
			case <-ctx.Done():
			case <-time.After(min(time.Duration(observed()-before)*perNews, mostPatience)):
			}
		}
	}
}
