package scheduler

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A scheduler whose rounds fail, or do not end, is unfit until they do.
func TestFitness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Fitness
		is := func(want bool, when string) {
			t.Helper()
			if f.Fit() != want {
				t.Errorf("%s it is fit: %t", when, !want)
			}
		}
		is(false, "before its read model is level")
		f.Level()
		is(true, "then")
		f.Begins("a")
		f.Ends("a", errors.New("no"))
		is(false, "after a round that failed")
		f.Begins("a")
		is(false, "during the next")
		f.Ends("a", nil)
		is(true, "after that")
		f.Begins("b")
		time.Sleep(StuckAfter)
		f.Level()
		is(true, "in a long round")
		time.Sleep(time.Second)
		is(false, "in one that does not end")
		f.Ends("b", nil)
		is(true, "when it has ended")
		time.Sleep(StuckAfter)
		is(false, "behind the log")
	})
}
