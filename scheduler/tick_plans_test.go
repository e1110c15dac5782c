package scheduler

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A follower asks the cheap question while the log is known to go on, and at intervals the whole one,
// from where that last came to.
func TestFollowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard atomic.Uint64
		f := newFollowing(&heard)
		type asked struct{ after, known uint64 }
		end := uint64(7) // of the log
		look := func(want asked) {
			t.Helper()
			time.Sleep(time.Millisecond)
			var got asked
			err := f.upTo(t.Context(), time.Now(), func(after, known uint64) (func(), uint64, error) {
				got = asked{after, known}
				if known > 0 {
					return func() {}, known, nil
				}
				return func() {}, end, nil
			})
			if err != nil || got != want {
				t.Errorf("asked %+v, %v; want %+v", got, err, want)
			}
		}
		look(asked{0, 0})
		look(asked{7, 0})
		heard.Store(7)
		look(asked{7, 0}) // it has heard of nothing more
		heard.Store(9)
		look(asked{7, 9})
		heard.Store(20)
		look(asked{9, 20})
		time.Sleep(wholeAge)
		end = 30
		look(asked{7, 0})
		heard.Store(31)
		look(asked{30, 31})
		if err := f.upTo(t.Context(), time.Now().Add(time.Second), func(uint64, uint64) (func(), uint64, error) {
			return nil, 0, context.Canceled
		}); err == nil {
			t.Error("no error")
		}
		time.Sleep(wholeAge)
		look(asked{30, 0})
	})
}
