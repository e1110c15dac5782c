package request

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// machine is a clock that is set by hand. The bubble's clock is the log's.
type machine struct{ shift atomic.Int64 }

func (m *machine) now() time.Time { return time.Now().Add(time.Duration(m.shift.Load())) }

func log(context.Context) (time.Time, error) { return time.Now(), nil }

func TestHear(t *testing.T) {
	for name, c := range map[string]struct {
		shift, way time.Duration
		apart      bool
	}{
		"agrees":                  {0, 0, false},
		"a little late":           {-40 * time.Millisecond, 0, false},
		"a little early":          {Tolerance, 0, false},
		"late by more":            {-60 * time.Millisecond, 0, true},
		"early by a second":       {time.Second, 0, true},
		"early":                   {time.Minute, 0, true},
		"late":                    {-5 * time.Minute, time.Second, true},
		"nobody knows":            {time.Second, 2 * time.Second, false},
		"apart after all the way": {4 * time.Second, 2 * time.Second, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &machine{}
			m.shift.Store(int64(c.shift))
			k := NewClock(m.now)
			if d := time.Until(k.Now()); d != c.shift {
				t.Errorf("%s: %v ahead before it has heard anything", name, d)
			}
			ahead, err := k.Ask(t.Context(), func(context.Context) (time.Time, error) {
				time.Sleep(c.way / 2)
				at := time.Now()
				time.Sleep(c.way - c.way/2)
				return at, nil
			})
			want, told := c.shift, time.Duration(0)
			if c.apart {
				want, told = 0, c.shift
			}
			if d := time.Until(k.Now()); d != want || ahead != told || err != nil {
				t.Errorf("%s: %v ahead and says %v (%v), want %v and %v", name, d, ahead, err, want, told)
			}
		})
	}
}

// Whatever happens to the machine's clock, time advances steadily.
func TestJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, away := &machine{}, atomic.Bool{}
		k := NewClock(m.now)
		var told []time.Duration
		ctx, stop := context.WithCancel(t.Context())
		go k.Follow(ctx, 5*time.Second, func(ctx context.Context) (time.Time, error) {
			if away.Load() {
				return time.Time{}, errors.New("the link is cut")
			}
			return log(ctx)
		}, func(ahead time.Duration) { told = append(told, ahead) })
		for _, shift := range []time.Duration{0, 3 * time.Minute, -7 * time.Minute, 0, 0} {
			synctest.Wait()
			m.shift.Store(int64(shift))
			for range 60 {
				if d := time.Until(k.Now()); d != 0 {
					t.Fatalf("shifted by %v, it is %v ahead", shift, d)
				}
				time.Sleep(300 * time.Millisecond)
			}
			away.Store(!away.Load())
		}
		stop()
		synctest.Wait()
		if want := []time.Duration{-7 * time.Minute, 0}; !slices.Equal(told, want) {
			t.Errorf("told %v, want %v", told, want)
		}
	})
}

// A clock that is not followed asks when its answer is outdated, when the machine's clock was set,
// and when the machine slept. It does not keep asking a log that does not answer.
func TestRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, asked, away := &machine{}, 0, false
		k := NewClock(m.now)
		ask := func() (time.Time, error) {
			asked++
			if away {
				return time.Time{}, errors.New("no answer")
			}
			return time.Now(), nil
		}
		for i, step := range []struct {
			pass, shift time.Duration
			away        bool
			asked       int           // in total by then
			ahead       time.Duration // the clock's offset then
		}{
			{0, 10 * time.Minute, false, 1, 0},
			{29 * time.Second, 10 * time.Minute, false, 1, 0},
			{2 * time.Second, 10 * time.Minute, false, 2, 0},
			{time.Second, -10 * time.Minute, false, 3, 0}, // set
			{time.Second, -10 * time.Minute, false, 3, 0},
			{time.Minute, -10 * time.Minute, true, 4, 0},
			{4 * time.Second, -10 * time.Minute, true, 4, 0},
			{2 * time.Second, -10 * time.Minute, true, 5, 0},
			{6 * time.Second, -10 * time.Minute, false, 6, 0},
		} {
			time.Sleep(step.pass)
			m.shift.Store(int64(step.shift))
			away = step.away
			k.Renew(ask)
			if d := time.Until(k.Now()); asked != step.asked || d != step.ahead {
				t.Errorf("step %d: asked %d times and %v ahead, want %d and %v", i, asked, d, step.asked, step.ahead)
			}
		}
	})
}

// A leap of the log's clock ahead is told from the time that passes, also while nobody asks.
func TestLeap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := time.Duration(0)
		ask := func(context.Context) (time.Time, error) { return time.Now().Add(set), nil }
		k := NewClock(nil)
		for i, step := range []struct {
			pass, set time.Duration
			until, by time.Duration // since the start
		}{
			{0, 0, 0, 0},
			{time.Hour, 0, 0, 0},
			{time.Second, Apart, 0, 0}, // two machines may be as far apart
			{time.Second, 10 * time.Minute, time.Hour + 2*time.Second + Apart, 10*time.Minute - Apart},
			{time.Minute, 10 * time.Minute, time.Hour + 2*time.Second + Apart, 10*time.Minute - Apart},
			{time.Minute, 0, time.Hour + 2*time.Second + Apart, 10*time.Minute - Apart}, // set back
			{time.Minute, time.Minute, time.Hour + 3*time.Minute + 2*time.Second, time.Minute},
		} {
			time.Sleep(step.pass)
			set = step.set
			if _, err := k.Ask(t.Context(), ask); err != nil {
				t.Fatal(err)
			}
			until, by := k.Leap()
			want := time.Time{}
			if step.by > 0 {
				want = midnight.Add(step.until)
			}
			if !until.Equal(want) || by != step.by {
				t.Errorf("step %d: a leap by %v at %v, want by %v at %v", i, by, until, step.by, want)
			}
		}
	})
}

// midnight is when a bubble begins.
var midnight = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
