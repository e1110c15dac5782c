package settings

import "testing"

func TestGarbagePercent(t *testing.T) {
	for _, c := range []struct {
		name              string
		used, rate, limit uint64
		at                Pace
		want              int
	}{
		{"nothing is known yet", 0, 0, 1 << 10, Slowly, 400},
		{"at rest, small", 16, 0, 1 << 10, Slowly, 25},
		{"at rest, small, a worker", 8, 0, 1 << 10, Briskly, 600},
		{"at rest, not so small, a worker", 80, 0, 1 << 10, Briskly, 60},
		{"some work, not so small, a worker", 80, 3, 1 << 10, Briskly, 60},
		{"some more work, not so small, a worker", 80, 4, 1 << 10, Briskly, 80},
		{"much work, a worker", 50, 150, 1 << 10, Briskly, 128},
		{"much work, a large worker", 80, 150, 1 << 10, Briskly, 100},
		{"at rest", 400, 0, 1 << 10, Slowly, 10},
		{"some work", 400, 2, 1 << 10, Slowly, 40},
		{"much work, small", 60, 150, 1 << 10, Slowly, 400},
		{"much work", 300, 150, 1 << 10, Slowly, 241},
		{"much work, little room", 800, 150, 1 << 10, Slowly, 28},
		{"much work, no room", 1 << 10, 150, 1280, Slowly, 25},
		{"much work, much room", 800, 150, 8 << 10, Slowly, 400},
		{"much work, no time", 400, 150, 8 << 10, AtOnce, 128},
		{"much work, no time, much in use", 800, 150, 8 << 10, AtOnce, 100},
		{"much work, no time, little room", 800, 150, 1 << 10, AtOnce, 28},
	} {
		if got := garbagePercent(c.used<<20, c.rate<<20, c.limit<<20, c.at); got != c.want {
			t.Errorf("%s: %d %%, want %d", c.name, got, c.want)
		}
	}
}

func TestHeapLimit(t *testing.T) {
	for _, c := range []struct{ used, may, want uint64 }{
		{100, 1024, 1024}, {819, 1024, 1024}, {1024, 1024, 1280}, {4096, 1024, 5120},
	} {
		if got := heapLimit(c.used<<20, c.may<<20) >> 20; got != c.want {
			t.Errorf("%d MiB in use where %d are allowed: limit %d, want %d", c.used, c.may, got, c.want)
		}
	}
}

func TestMemory(t *testing.T) {
	all := memory(0)
	if got := memory(1 << 20); got != 1<<20 {
		t.Errorf("1 MiB of a machine: %d", got)
	}
	if got := memory(all * 2); got != all {
		t.Errorf("twice what there is: %d, want %d", got, all)
	}
}

func TestHeapWatch(t *testing.T) {
	var h heapWatch
	allocated := uint64(1 << 30)
	look := func(live, more uint64) (used, rate, most uint64) {
		allocated += more << 20
		used, rate, most = h.look(live<<20, allocated)
		return used >> 20, rate >> 20, most >> 20
	}
	if used, rate, most := look(40, 0); used != 40 || rate != 0 || most != 0 {
		t.Errorf("the first look: %d, %d, %d", used, rate, most)
	}
	if used, rate, most := look(400, 80); used != 40 || rate != 80 || most != 80 {
		t.Errorf("what grew a moment ago may go again: %d, %d, %d", used, rate, most)
	}
	var used, rate, most uint64
	for range rateLooks - 1 {
		used, rate, most = look(400, 8)
	}
	if used != 40 || rate != 8 || most != 80 {
		t.Errorf("a burst that may come again: %d, %d, %d", used, rate, most)
	}
	for range usedLooks - rateLooks {
		used, rate, most = look(400, 8)
	}
	if used != 400 || rate != 8 || most != 8 {
		t.Errorf("it has been so for a minute: %d, %d, %d", used, rate, most)
	}
}

func TestApproach(t *testing.T) {
	if got := approach(0, 100, Slowly.looks); got != 100 {
		t.Errorf("the first: %d", got)
	}
	if got := approach(400, 10, Slowly.looks); got != 10 {
		t.Errorf("down: %d", got)
	}
	if got := approach(10, 400, AtOnce.looks); got != 400 {
		t.Errorf("up at once: %d", got)
	}
	share, looks := 10, 0
	for ; share < 400; looks++ {
		share = approach(share, 400, Slowly.looks)
	}
	if share != 400 || looks < 40 || looks > 80 {
		t.Errorf("up to %d after %d looks", share, looks)
	}
}

// A short burst takes little memory, and lasting work soon gets the memory that it needs.
func TestLooksAfter(t *testing.T) {
	for _, c := range []struct {
		name string
		at   Pace
		mib  uint64
		want int
	}{
		{"from rest", Slowly, 0, 16},
		{"ten thousand tasks", Slowly, 256, 16},
		{"as much as a short burst", Slowly, 512, 16},
		{"more than that", Slowly, 513, 2},
		{"a worker", Briskly, 0, 1},
		{"a worker, after much work", Briskly, 1 << 20, 1},
	} {
		if got := c.at.looksAfter(c.mib << 20); got != c.want {
			t.Errorf("%s: %d looks, want %d", c.name, got, c.want)
		}
	}
}
