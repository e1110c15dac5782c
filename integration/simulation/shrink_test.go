package simulation

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"millrace/worker/claim"
)

// size is how long a history is: its steps before the faults are over, the faults
// that happened, and the actors that came on.
type size struct{ steps, faults, actors int }

func (s size) String() string {
	return fmt.Sprintf("%d steps, %d faults, %d actors", s.steps, s.faults, s.actors)
}

func (h *history) size() size {
	last := min(cmp.Or(h.variant.length, length), h.at)
	s := size{steps: last}
	for at := range h.variant.skipped {
		if at <= last {
			s.steps--
		}
	}
	for _, f := range h.faults {
		if !h.variant.spared[f] {
			s.faults++
		}
	}
	s.actors = len(h.called) - len(h.variant.absent)
	return s
}

// shrink looks for a shorter story with the same kind of failure. It leaves out actors, the last
// steps, then steps and faults in ever smaller groups, as long as the history still fails, and
// repeats all that while much is removed. Without a part the rest of the history may differ, so
// each attempt is played, not computed.
func shrink(t *testing.T, failed *history) *history {
	s := shrinker{t: t, least: failed}
	for before := 2 * length; s.least.size().steps <= before*9/10; {
		before = s.least.size().steps
		for _, name := range failed.called {
			if !s.least.variant.absent[name] {
				s.try(func(v *variant) { v.absent[name] = true })
			}
		}
		s.cut()
		s.thin(func() (there []int) {
			for at := 1; at <= min(cmp.Or(s.least.variant.length, length), s.least.at); at++ {
				if !s.least.variant.skipped[at] {
					there = append(there, at)
				}
			}
			return there
		}, func(v *variant, at int) { v.skipped[at] = true })
		s.thin(func() []int {
			return slices.DeleteFunc(slices.Clone(s.least.faults), func(f int) bool { return s.least.variant.spared[f] })
		}, func(v *variant, fault int) { v.spared[fault] = true })
	}
	return s.least
}

// shrinker holds the shortest history so far that still fails.
type shrinker struct {
	t     *testing.T
	least *history
}

// try plays the history with something left out, and keeps it if it still fails
// in the same way.
func (s *shrinker) try(leave func(*variant)) bool {
	v := s.least.variant
	v.spared, v.skipped, v.absent = cloned(v.spared), cloned(v.skipped), cloned(v.absent)
	leave(&v)
	h := play(s.t, s.least.seed, v)
	if errors.Is(s.least.failure, errVerify) {
		h.verify(s.t)
	}
	if !sameKind(h.failure, s.least.failure) {
		return false
	}
	s.least = h
	return true
}

func cloned[K comparable](m map[K]bool) map[K]bool {
	if m == nil {
		return map[K]bool{}
	}
	return maps.Clone(m)
}

// cut ends the faults earlier.
func (s *shrinker) cut() {
	for now := min(cmp.Or(s.least.variant.length, length), s.least.at); now > 1; {
		least, most := 1, now // it fails with most steps, and is not known to with least
		for least < most {
			half := (least + most) / 2
			if s.try(func(v *variant) { v.length = half }) {
				most = half
			} else {
				least = half + 1
			}
		}
		if most == now {
			return
		}
		now = most
	}
}

// thin leaves out what list returns, one group after the other.
func (s *shrinker) thin(list func() []int, leave func(*variant, int)) {
	for group := max(len(list())/2, 1); ; group /= 2 {
		there := list()
		for from := 0; from < len(there); {
			some := there[from:min(from+group, len(there))]
			if s.try(func(v *variant) {
				for _, n := range some {
					leave(v, n)
				}
			}) {
				// Others may have vanished with them, or appeared.
				from = len(slices.DeleteFunc(list(), func(n int) bool { return n >= some[0] }))
				there = list()
				continue
			}
			from += group
		}
		if group <= 1 {
			return
		}
	}
}

// sameKind tells whether two failures break the same promise.
func sameKind(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	for _, promise := range []error{errI2, errI3, errI5, errI7, errI8, errEvidence, errVerify} {
		if errors.Is(b, promise) {
			return errors.Is(a, promise)
		}
	}
	return true
}

// A failing history shrinks to a short story that fails in the same way, every time.
func TestShrink(t *testing.T) {
	told := 0
	for name, c := range map[string]struct {
		lacks   variant
		promise error
	}{
		"unfenced": {variant{protocol: func(p *claim.Protocol) protocol { return unfenced{p} }}, errI3},
		"hasty":    {variant{protocol: func(p *claim.Protocol) protocol { return hasty{p} }}, errI2},
	} {
		for seed, tried := uint64(8), 0; seed < enough && tried < 1; seed++ { // in 7, what fails comes late, and half of it is needed
			h := play(t, seed, c.lacks)
			if !errors.Is(h.failure, c.promise) || len(h.faults) < 20 { // a short one has little to leave out
				continue
			}
			tried++
			told++
			short := shrink(t, h)
			was, is := h.size(), short.size()
			story := short.trace(short.blamed)
			if !errors.Is(short.failure, c.promise) || is.steps > was.steps/2 || is.faults > was.faults/2 || strings.Count(story, "\n") > 60 {
				t.Errorf("%s, seed %d: %v of %v are left, and it fails with %v\n%s", name, seed, is, was, short.failure, story)
			}
			if again := play(t, seed, short.variant); again.trace("") != short.trace("") {
				t.Errorf("%s, seed %d: the short story differs when it is played again", name, seed)
			}
			t.Logf("%s, seed %d: %v became %v, a story of %d lines", name, seed, was, is, strings.Count(story, "\n"))
		}
	}
	if told == 0 {
		t.Error("no seed fails")
	}
}

// Leaving out a step makes the size one step less, in whatever order steps are counted.
func TestSizeOfAVariant(t *testing.T) {
	t.Parallel()
	v := variant{skipped: map[int]bool{}}
	for at := 51; at <= length; at++ {
		v.skipped[at] = true
	}
	for range 20 { // each time the steps may be counted in another order
		for at, steps := range map[int]int{length: 50, 100: 50, 20: 20} {
			if is := (&history{variant: v, at: at}).size(); is.steps != steps {
				t.Fatalf("of %d steps %d are left, not %d", at, is.steps, steps)
			}
		}
	}
}
