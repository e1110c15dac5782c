package main

import "testing"

func TestGarbagePercent(t *testing.T) {
	for _, c := range []struct {
		used uint64
		want int
	}{
		{0, 400},
		{20 << 20, 400},
		{64 << 20, 400},
		{128 << 20, 200},
		{200 << 20, 128},
		{256 << 20, 100},
		{8 << 30, 100},
	} {
		if got := garbagePercent(c.used); got != c.want {
			t.Errorf("%d MiB in use: %d %%, want %d", c.used>>20, got, c.want)
		}
	}
}
