package scheduler

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestFloor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f floor
		if at := f.At(time.Now()); !at.IsZero() {
			t.Errorf("it is %v before anything was heard", at)
		}
		// The log's clock is far ahead of this machine's.
		ahead := 7 * time.Hour
		heard := func(way time.Duration) {
			stored := time.Now().Add(ahead)
			time.Sleep(way)
			f.Hear(stored, time.Now())
		}
		below := func(want time.Duration) {
			t.Helper()
			if d := time.Now().Add(ahead).Sub(f.At(time.Now())); d != want {
				t.Errorf("%v below the log's time, want %v", d, want)
			}
		}
		heard(40 * time.Millisecond)
		below(40 * time.Millisecond)
		heard(3 * time.Millisecond)
		below(3 * time.Millisecond)
		heard(time.Second) // a slow message tells nothing new
		below(3 * time.Millisecond)
		time.Sleep(2 * time.Second)
		below(3 * time.Millisecond)

		time.Sleep(2 * time.Second)
		heard(50 * time.Millisecond) // a new window: the one before still counts
		below(3 * time.Millisecond)
		time.Sleep(floorWindow)
		heard(20 * time.Millisecond) // now it does not, in case the clocks have drifted
		below(20 * time.Millisecond)

		time.Sleep(time.Hour)
		ahead = 0 // the log's clock was set back
		heard(10 * time.Millisecond)
		below(10 * time.Millisecond)

		// An answer tells that at once. One that took long tells nothing new.
		ask := func(way time.Duration) {
			asked := time.Now()
			log := asked.Add(ahead)
			time.Sleep(way)
			f.Answer(log, asked, time.Now())
		}
		ask(time.Second)
		below(10 * time.Millisecond)
		ahead = -10 * time.Minute
		ask(20 * time.Millisecond)
		below(20 * time.Millisecond)
	})
}
