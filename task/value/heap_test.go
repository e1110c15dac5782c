package value

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type element struct{ n, index int }

// Whatever was pushed, changed and removed, the heap gives the rest in order, and each element knows
// where it is.
func TestOrder(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		h := Heap[*element]{Before: func(a, b *element) bool { return a.n < b.n }, Index: func(e *element) *int { return &e.index }}
		var want []int
		for range rng.IntN(40) {
			h.Push(&element{n: rng.IntN(20)})
		}
		for range rng.IntN(10) {
			if h.Len() == 0 {
				break
			}
			e := h.All()[rng.IntN(h.Len())]
			if rng.IntN(2) == 0 {
				if got := h.Remove(e.index); got != e || e.index != -1 {
					t.Fatalf("seed %d: removed %v, want %v at -1", seed, got, e)
				}
				continue
			}
			e.n = rng.IntN(20)
			h.Fix(e.index)
		}
		for i, e := range h.All() {
			if e.index != i {
				t.Fatalf("seed %d: the element at %d says %d", seed, i, e.index)
			}
			want = append(want, e.n)
		}
		slices.Sort(want)
		for _, n := range want {
			if first := h.First(); first.n != n || h.Pop() != first || first.index != -1 {
				t.Fatalf("seed %d: popped %v, want %d", seed, first, n)
			}
		}
		if h.Len() > 0 {
			t.Fatalf("seed %d: %d are left", seed, h.Len())
		}
	}
}

// A heap of values needs nothing but an order.
func TestValues(t *testing.T) {
	h := Heap[int]{Before: func(a, b int) bool { return a > b }}
	for _, n := range []int{3, 1, 4, 1, 5} {
		h.Push(n)
	}
	var got []int
	for h.Len() > 0 {
		got = append(got, h.Pop())
	}
	if want := []int{5, 4, 3, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("popped %v, want %v", got, want)
	}
}
