package main

import "testing"

func TestGarbagePercent(t *testing.T) {
	for _, c := range []struct {
		used, memory uint64
		want         int
	}{
		{0, 0, 400},
		{20 << 20, 0, 400},
		{64 << 20, 0, 400},
		{128 << 20, 0, 200},
		{200 << 20, 0, 128},
		{256 << 20, 0, 100},
		{8 << 30, 0, 100},
		{256 << 20, 2 << 30, 100}, // a small machine
		{600 << 20, 24 << 30, 400},
		{1 << 30, 24 << 30, 239},
		{8 << 30, 24 << 30, 100},
	} {
		if got := garbagePercent(c.used, c.memory); got != c.want {
			t.Errorf("%d MiB in use of %d MiB: %d %%, want %d", c.used>>20, c.memory>>20, got, c.want)
		}
	}
}
