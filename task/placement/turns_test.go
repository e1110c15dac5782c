package placement

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"millrace/internal/testkit"
)

// play takes n tasks from lines that never run dry and returns the order.
func play(t *Turns, open []Lane, n int) []Lane {
	var took []Lane
	for range n {
		l := t.Next(open)
		t.Took(l, open)
		took = append(took, l)
	}
	return took
}

func TestTurns(t *testing.T) {
	t.Parallel()
	at := func(priority, lane int) Lane { return Lane{"q", priority, lane} }
	for _, c := range []struct {
		name string
		open []Lane
		want string // priority.lane of each
	}{
		{"one line", []Lane{at(5, 0)}, "5.0 5.0 5.0"},
		{"the larger priority is the more urgent", []Lane{at(1, 0), at(10, 0), at(5, 0)}, "10.0 10.0 10.0"},
		{"the tenth is of a lower one", []Lane{at(5, 0), at(8, 0)}, "8.0 8.0 8.0 8.0 8.0 8.0 8.0 8.0 8.0 5.0 8.0"},
		{"lower ones take turns", []Lane{at(1, 0), at(9, 0), at(5, 0)},
			"9.0 9.0 9.0 9.0 9.0 9.0 9.0 9.0 9.0 5.0 9.0 9.0 9.0 9.0 9.0 9.0 9.0 9.0 9.0 1.0 9.0 9.0 9.0 9.0 9.0 9.0 9.0 9.0 9.0 5.0"},
		{"lanes take turns", []Lane{at(5, 3), at(5, 0), at(5, 1)}, "5.0 5.1 5.3 5.0 5.1 5.3"},
	} {
		took := play(new(Turns), c.open, 60)
		got := ""
		for _, l := range took {
			if got += fmt.Sprintf("%d.%d", l.Priority, l.Number); len(got) >= len(c.want) {
				break
			}
			got += " "
		}
		if got != c.want {
			t.Errorf("%s: got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestWeights(t *testing.T) {
	t.Parallel()
	turns := &Turns{Weights: map[string]int{"crawl": 3}}
	count := map[string]int{}
	for _, l := range play(turns, []Lane{{"crawl", 5, 0}, {"default", 5, 0}}, 400) {
		count[l.Queue]++
	}
	if count["crawl"] != 300 || count["default"] != 100 {
		t.Errorf("with the weights 3 and 1, 400 tasks were %v", count)
	}
	// A queue that was empty does not make up for missed turns.
	play(turns, []Lane{{"default", 5, 0}}, 1000)
	clear(count)
	for _, l := range play(turns, []Lane{{"crawl", 5, 0}, {"default", 5, 0}}, 80) {
		count[l.Queue]++
	}
	if n := count["default"]; n < 19 || n > 21 {
		t.Errorf("after crawl was away, 80 tasks were %v, want 60 and 20", count)
	}
}

// While other lines come and go, a line that always has tasks gets its promised share, and a higher
// priority never waits behind lower ones.
func TestNothingStarves(t *testing.T) {
	t.Parallel()
	for seed := range testkit.Size(uint64(100), 300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var all []Lane
		queues := []string{"a", "b", "c"}[:1+rng.IntN(3)]
		turns := &Turns{Weights: map[string]int{}}
		total := 0
		for _, q := range queues {
			turns.Weights[q] = 1 + rng.IntN(4)
			total += turns.Weights[q]
			for range 1 + rng.IntN(8) {
				l := Lane{q, 1 + rng.IntN(10), rng.IntN(3)}
				if !slices.Contains(all, l) {
					all = append(all, l)
				}
			}
		}
		patient := all[rng.IntN(len(all))]
		levels, lanes := map[int]bool{}, 0
		for _, l := range all {
			if l.Queue == patient.Queue {
				levels[l.Priority] = true
				if l.Priority == patient.Priority {
					lanes++
				}
			}
		}
		// The queue's own turns, each of which comes after a number of all queues' turns.
		own := LowerTurn * len(levels) * (lanes + 1)
		bound := (own + 1) * (total + len(queues)) / turns.Weights[patient.Queue]
		waited, lowInARow := 0, 0
		for step := range 4000 {
			open := slices.DeleteFunc(slices.Clone(all), func(l Lane) bool { return l != patient && rng.IntN(3) == 0 })
			next := turns.Next(open)
			if !slices.Contains(open, next) {
				t.Fatalf("seed %d: %v is not among %v", seed, next, open)
			}
			higher := slices.ContainsFunc(open, func(l Lane) bool { return l.Queue == next.Queue && l.Priority > next.Priority })
			if lowInARow++; !higher {
				lowInARow = 0
			}
			if lowInARow > len(queues) {
				t.Fatalf("seed %d, step %d: lower priorities had %d turns in a row", seed, step, lowInARow)
			}
			turns.Took(next, open)
			if waited++; next == patient {
				waited = 0
			}
			if waited > bound {
				t.Fatalf("seed %d, step %d: %v waits for %d turns, want at most %d (%v, weights %v)", seed, step, patient, waited, bound, all, turns.Weights)
			}
		}
	}
}

func TestWithOwn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		weights map[string]int
		want    int
	}{{nil, 1}, {map[string]int{"a": 1}, 1}, {map[string]int{"a": 7, "b": 3}, 7}} {
		given := maps.Clone(c.weights)
		got := WithOwn(c.weights, "@n1")
		if got["@n1"] != c.want || len(got) != len(c.weights)+1 || !maps.Equal(given, c.weights) {
			t.Errorf("with the weights %v: %v, want %d for the own route", given, got, c.want)
		}
	}
}
