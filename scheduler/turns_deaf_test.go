package scheduler

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/testkit"
	"millrace/task/node"
)

// hearing is the read model of a scheduler, which is level with the log until it goes deaf.
type hearing struct {
	*crowd
	deaf chan struct{}
}

func (h hearing) Wait(ctx context.Context, _ uint64) error {
	select {
	case <-h.deaf:
		<-ctx.Done()
		return ctx.Err()
	case <-time.After(time.Millisecond):
		return nil
	}
}

// A scheduler that lives but no longer observes the log holds nothing up: soon the others do not
// rely on it.
func TestDeafSchedulersGoLast(t *testing.T) {
	for _, l := range testkit.Size(loads[:2], loads) {
		t.Run(l.name, func(t *testing.T) {
			after := func(deaf int) (took time.Duration) {
				synctest.Test(t, func(t *testing.T) {
					w := l.begin(t, 3, &peers{})
					for _, deafen := range w.deaf[:deaf] {
						deafen()
					}
					pass(StuckAfter + 2*Patience)
					for i, s := range w.all {
						if s.turns.Joined() != (i >= deaf) {
							t.Errorf("of scheduler %d the others think that it is here: %t", i, s.turns.Joined())
						}
					}
					l.give(t, w)
					took = w.work(t)
				})
				return took
			}
			if none, two := after(0), after(2); two-none > Patience/2 {
				t.Errorf("with two deaf schedulers of three it took %v, with none %v", two, none)
			}
		})
	}
}

// unheard are heartbeats whose expiry is never reported.
type unheard struct{ Heartbeats }

func (unheard) WatchBeats(ctx context.Context, _ func(node.ID, time.Time), lost func()) error {
	lost()
	<-ctx.Done()
	return nil
}
