package worker

import "testing"

func TestMachine(t *testing.T) {
	t.Parallel()
	stat := "cpu  100 0 50 800 40 5 5 0 30 0\ncpu0 50 0 25 400 20 2 3 0 15 0\ncpu1 50 0 25 400 20 3 2 0 15 0\nintr 5 1 2 3 4 5\n"
	if n, is := ticksOf(stat); n != 2 || is != (ticks{all: 1000, idle: 840}) {
		t.Errorf("%d processors with %+v", n, is)
	}
	for text, want := range map[string][2]int64{
		"MemTotal:       2048 kB\nMemFree:         100 kB\nMemAvailable:   1024 kB\nHugePages_Total: 0\n": {2 << 20, 1 << 20},
		"MemTotal:       2048 kB\nMemFree:         100 kB\n":                                              {},
		"MemTotal: 1 kB\nMemAvailable: 2 kB\n":                                                            {},
		"":                                                                                                {},
	} {
		if all, used := memoryOf(text); all != want[0] || used != want[1] {
			t.Errorf("%q has %d, of which %d are used", text, all, used)
		}
	}
	for _, text := range []string{"", "cpu\n", "cpu x y z\n", "intr 1 2 3 4 5 6\n"} {
		if n, is := ticksOf(text); n != 0 || is != (ticks{}) {
			t.Errorf("%q has %d processors with %+v", text, n, is)
		}
	}
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	var m machine
	is := m.measure()
	if is.Busy < 0 || is.Busy > 1 || is.Processors < 1 || is.Memory < 1<<20 || is.MemoryUsed < 1<<20 || is.MemoryUsed > is.Memory {
		t.Fatalf("this machine is %+v", is)
	}
	for before := m.last; m.last == before; {
		is = m.measure()
	}
	if is.Busy <= 0 || is.Busy > 1 {
		t.Errorf("it is busy for %v while it runs this test", is.Busy)
	}
	m.last.idle, m.last.all = m.last.idle+1<<40, m.last.all-2*fewTicks // the kernel's count has stepped back
	if is = m.measure(); is.Busy != 1 {
		t.Errorf("it is busy for %v, without idle time", is.Busy)
	}
	if m.last.all = 1 << 60; m.measure().Busy < 0 || m.last.all == 1<<60 {
		t.Error("counts that begin anew are not taken")
	}
}
