package schedule

import (
	"slices"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

func TestHeed(t *testing.T) {
	l := task.Ledger{Open: []task.ID{"a", "b", "c"}, Failures: 1}
	runs, good, bad, nobody := Seen{5, task.Running}, Seen{6, task.Finished}, Seen{7, task.Abnormal}, Seen{}
	for name, c := range map[string]struct {
		seen     []Seen
		after    time.Duration
		open     []task.ID
		failures int
	}{
		"none has ended":                {[]Seen{runs, runs, runs}, 0, l.Open, 1},
		"one has":                       {[]Seen{runs, good, runs}, 0, []task.ID{"a", "c"}, 0},
		"one has failed":                {[]Seen{runs, bad, runs}, 0, []task.ID{"a", "c"}, 2},
		"the order is that of the list": {[]Seen{bad, good, bad}, 0, nil, 1},
		"not born yet":                  {[]Seen{runs, runs, nobody}, BornWithin, l.Open, 1},
		"never born":                    {[]Seen{runs, runs, nobody}, BornWithin + 1, []task.ID{"a", "b"}, 0},
	} {
		got := Heed(l, c.seen, c.after)
		if !slices.Equal(got.Open, c.open) || got.Failures != c.failures {
			t.Errorf("%s: %+v, want %v and %d failures", name, got, c.open, c.failures)
		}
	}
	if len(l.Open) != 3 {
		t.Error("the ledger given was changed")
	}
}

func TestRemember(t *testing.T) {
	now := time.Now()
	l := task.Ledger{Open: []task.ID{"a"}, Failures: 2}
	if got := Remember(l, now, now); got.Failures != 2 || len(got.Open) != 1 {
		t.Errorf("a decision of the present definition leaves %+v", got)
	}
	if got := Remember(l, now, now.Add(time.Second)); got.Failures != 0 || len(got.Open) != 1 {
		t.Errorf("a decision before that leaves %+v", got)
	}
}

// A tick that gets no task after all is not open any more, and the failures before it still count.
func TestLeave(t *testing.T) {
	p, err := Compile("s", job.Schedule{Every: value.Duration(time.Minute)}, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	tick := time.Unix(60, 0)
	got := p.Leave(task.Ledger{Open: []task.ID{"a", TaskID("s", tick)}, Failures: 2, Last: tick}, tick, 3, task.SkipFull, "why")
	if !slices.Equal(got.Ledger.Open, []task.ID{"a"}) || got.Ledger.Failures != 2 || got.Reason != task.SkipFull || got.Detail != "why" || got.Revision != 3 {
		t.Errorf("left out as %+v", got)
	}
	if !Refuses(got.Reason) || Refuses(task.SkipOverlap) {
		t.Error("which reasons are those of a birth that was refused is wrong")
	}
}
