package load

import (
	"testing"
	"time"
)

func TestTally(t *testing.T) {
	const ms = time.Millisecond
	l := NewTally(Plan{Profile: Profile{For: 2 * time.Second}})
	// Two arrivals in the first second, one of which starts 3 s late, and one in the second, in the
	// order of the log.
	l.Sent(Arrival{At: 100 * ms}, 101*ms)
	l.Born(101 * ms)
	l.Started(110 * ms)
	l.Begun(100*ms, 110*ms)
	l.Ended(200*ms, true)
	l.Done(100*ms, 200*ms)
	l.Sent(Arrival{At: 900 * ms}, 900*ms)
	l.Born(900 * ms)
	l.Sent(Arrival{At: 1500 * ms}, 1501*ms)
	l.Born(1501 * ms)
	l.Started(1510 * ms)
	l.Begun(1500*ms, 1510*ms)
	l.Ended(1600*ms, false)
	l.Done(1500*ms, 1600*ms)
	l.Started(3900 * ms)
	l.Begun(900*ms, 3900*ms)
	l.Ended(4*time.Second, true)
	l.Done(900*ms, 4*time.Second)
	l.Sample(-1000*ms, 99, 990, 5000*ms) // the load has not begun
	l.Sample(0, 10, 100, 5000*ms)
	l.Sample(1000*ms, 30, 300, 5500*ms) // all used in the first second
	l.Sample(2000*ms, 30, 300, 5600*ms)
	l.Sample(4000*ms, 20, 200, 5700*ms)
	l.Again()
	r := l.Round(4, 5, 6)
	if r.Arrivals != 3 || r.Tasks != 3 || r.Failed != 1 || r.Lost != 4 || r.Duplicated != 1 || r.PerSecond != 0.75 || r.Depth != 2 || r.Memory != 30 || r.Disk != 300 ||
		r.Every != 1 || r.Server != 5 || r.Worker != 6 {
		t.Errorf("the round is %+v", r)
	}
	near := func(what string, got, want float64) {
		if got < want*0.99 || got > want*1.01 {
			t.Errorf("%s is %v, want about %v", what, got, want)
		}
	}
	near("p50", r.Start.P50, 10)
	near("max", r.Start.Max, 3000)
	near("max of the end", r.End.Max, 3100)
	near("sent late", r.Sent.P50, 1)
	near("max of the first second", r.Points[0].Start.Max, 3000) // it was to come then
	near("max of the second", r.Points[1].Start.Max, 10)
	if len(r.Points) != 5 {
		t.Fatalf("%d points, want 5: %+v", len(r.Points), r.Points)
	}
	want := []Point{{At: 0, Arrived: 2, Started: 1, Ended: 1, Depth: 1, Memory: 10, Busy: 0.5}, {At: 1, Arrived: 1, Started: 1, Ended: 1, Depth: 2, Memory: 30, Busy: 0.1},
		{At: 2, Depth: 1, Memory: 30}, {At: 3, Started: 1, Depth: 1, Memory: 30, Busy: 0.1}, {At: 4, Ended: 1, Memory: 20}}
	for i, p := range r.Points {
		p.Start, p.End = Latency{}, Latency{}
		if p.Busy = float64(int(p.Busy*1000+0.5)) / 1000; p != want[i] {
			t.Errorf("point %d is %+v, want %+v", i, p, want[i])
		}
	}
}

// Impossible times are reported as out of range, and count as 0 or an hour.
func TestOutOfRange(t *testing.T) {
	l := NewTally(Plan{Profile: Profile{For: time.Second}})
	l.Begun(time.Second, 0)
	l.Begun(0, 2*time.Hour)
	if r := l.Round(0, 0, 0); r.OutOfRange != 2 || r.Start.Max < 3.59e6 || r.Start.P50 != 0 {
		t.Errorf("%+v; want two out of range, as 0 and an hour", r)
	}
}

func TestLongRunsHaveFewPoints(t *testing.T) {
	for d, want := range map[time.Duration]float64{time.Second: 1, 10 * time.Minute: 1, time.Hour: 6, 24 * time.Hour: 144} {
		if r := NewTally(Plan{Profile: Profile{For: d}}).Round(0, 0, 0); r.Every != want {
			t.Errorf("a run of %v has a point every %v s, want %v", d, r.Every, want)
		}
	}
}
