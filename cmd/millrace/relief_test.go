package main

import "testing"

func TestHeapWatch(t *testing.T) {
	var h heapWatch
	look := func(live, objects uint64, want bool) {
		t.Helper()
		if got := h.tooMuch(live<<20, objects<<20, 0); got != want {
			t.Errorf("%d MiB of which %d lived: %v, want %v", objects, live, got, want)
		}
	}
	look(40, 500, false) // no heap is large below half a GiB
	look(40, 513, true)
	look(400, 600, true) // what grew a moment ago may go again
	for range heapSpan {
		look(400, 500, false)
	}
	look(400, 600, false) // it has been so for a minute, so it must be
	look(400, 1000, false)
	look(400, 1001, true)
	if h.tooMuch(400<<20, 2400<<20, 24<<30) || !h.tooMuch(400<<20, 2600<<20, 24<<30) {
		t.Error("where there is much memory, want 2500 MiB to be the bound")
	}
}
