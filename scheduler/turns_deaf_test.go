package scheduler

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"millrace/node"
)

// hearing is the read model of a scheduler, which is level with the log until it is deaf.
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

// A scheduler that lives and hears no more of the log keeps nothing from the others: soon they count on it no more.
func TestDeafSchedulersGoLast(t *testing.T) {
	for _, l := range loads {
		t.Run(l.name, func(t *testing.T) {
			after := func(deaf int) (took time.Duration) {
				synctest.Test(t, func(t *testing.T) {
					w := l.begin(t, 3, &peers{})
					for _, deafen := range w.deaf[:deaf] {
						deafen()
					}
					pass(stuckAfter + 2*patience)
					for i, s := range w.all {
						if s.turns.joined() != (i >= deaf) {
							t.Errorf("of scheduler %d the others think that it is here: %t", i, s.turns.joined())
						}
					}
					l.give(t, w)
					took = w.work(t)
				})
				return took
			}
			if none, two := after(0), after(2); two-none > patience/2 {
				t.Errorf("with two deaf schedulers of three it took %v, with none %v", two, none)
			}
		})
	}
}

// One whose rounds fail, or do not end, is not counted on, until they do.
func TestFitness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f fitness
		is := func(want bool, when string) {
			t.Helper()
			if f.fit() != want {
				t.Errorf("%s it is fit: %t", when, !want)
			}
		}
		is(false, "before its read model is level")
		f.level()
		is(true, "then")
		f.begins("a")
		f.ends("a", errors.New("no"))
		is(false, "after a round that failed")
		f.begins("a")
		is(false, "during the next")
		f.ends("a", nil)
		is(true, "after that")
		f.begins("b")
		time.Sleep(stuckAfter)
		f.level()
		is(true, "in a long round")
		time.Sleep(time.Second)
		is(false, "in one that does not end")
		f.ends("b", nil)
		is(true, "when it has ended")
		time.Sleep(stuckAfter)
		is(false, "behind the log")
	})
}

// unheard are heartbeats of which nobody hears when they run out.
type unheard struct{ Heartbeats }

func (unheard) WatchBeats(ctx context.Context, _ func(node.ID), lost func()) error {
	lost()
	<-ctx.Done()
	return nil
}
