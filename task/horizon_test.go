package task_test

import (
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/value"
)

func TestEvolveHorizon(t *testing.T) {
	span := func(below uint64) task.Span { return task.Span{From: 1, Below: below, Before: logtest.At(below)} }
	chosen := func(below uint64) task.HorizonEvent { return task.HorizonChosen{Span: span(below)} }
	for name, c := range map[string]struct {
		from   uint64 // of the first fact; earlier ones are forgotten
		facts  []task.HorizonEvent
		below  uint64
		step   task.HorizonStep
		sealed bool
	}{
		"none":                   {1, nil, 0, task.HorizonRests, false},
		"chosen":                 {1, []task.HorizonEvent{chosen(10)}, 10, task.HorizonOpen, false},
		"chosen twice":           {1, []task.HorizonEvent{chosen(10), chosen(20)}, 10, task.HorizonOpen, false},
		"sealed":                 {1, []task.HorizonEvent{chosen(10), task.HorizonSealed{Span: span(10)}}, 10, task.HorizonOpen, true},
		"another is sealed":      {1, []task.HorizonEvent{chosen(10), task.HorizonSealed{Span: span(20)}}, 10, task.HorizonOpen, false},
		"carried":                {1, []task.HorizonEvent{chosen(10), task.HorizonCarried{Span: span(10)}}, 10, task.HorizonClosed, false},
		"purged too early":       {1, []task.HorizonEvent{chosen(10), task.HorizonPurged{Span: span(10)}}, 10, task.HorizonOpen, false},
		"purged":                 {1, []task.HorizonEvent{chosen(10), task.HorizonCarried{Span: span(10)}, task.HorizonPurged{Span: span(10)}}, 10, task.HorizonRests, false},
		"never earlier":          {1, []task.HorizonEvent{chosen(10), task.HorizonCarried{Span: span(10)}, task.HorizonPurged{Span: span(10)}, chosen(9)}, 10, task.HorizonRests, false},
		"the next":               {1, []task.HorizonEvent{chosen(10), task.HorizonCarried{Span: span(10)}, task.HorizonPurged{Span: span(10)}, chosen(30)}, 30, task.HorizonOpen, false},
		"only the last is known": {40, []task.HorizonEvent{task.HorizonPurged{Span: span(30)}}, 30, task.HorizonRests, false},
		"only carried is known":  {40, []task.HorizonEvent{task.HorizonCarried{Span: span(30)}}, 30, task.HorizonClosed, false},
		"an archive is cut":      {1, []task.HorizonEvent{chosen(10), task.ArchiveRemoved{}, task.HorizonSealed{Span: span(10)}}, 10, task.HorizonOpen, true},
		"only that is known":     {40, []task.HorizonEvent{task.ArchiveRemoved{Span: span(30), Open: true, Sealed: true}}, 30, task.HorizonOpen, true},
		"only sealed is known":   {40, []task.HorizonEvent{task.HorizonSealed{Span: span(30)}}, 30, task.HorizonOpen, true},
	} {
		var h task.Horizon
		for i, e := range c.facts {
			h = task.EvolveHorizon(h, c.from+uint64(i), logtest.At(c.from+uint64(i)), e)
			again := task.EvolveHorizon(h, c.from+uint64(i), logtest.At(99), chosen(1000))
			if again != h {
				t.Errorf("%s: a fact that was applied already makes %+v of %+v", name, again, h)
			}
		}
		if h.Below != c.below || h.Step != c.step || h.Sealed != c.sealed || c.below > 0 && !h.Before.Equal(logtest.At(c.below)) {
			t.Errorf("%s: %+v, want below %d, step %d, sealed %v", name, h, c.below, c.step, c.sealed)
		}
	}
}

// Each duration is in the first bucket that has room for it, and no bucket is much wider than a fifth.
func TestBuckets(t *testing.T) {
	for d := time.Duration(0); d < 400*24*time.Hour; d = d + d/97 + 1 {
		i := task.BucketOf(d)
		if d > task.BucketTop(i) || i > 0 && d <= task.BucketTop(i-1)-time.Microsecond {
			t.Fatalf("%v is in bucket %d, up to %v", d, i, task.BucketTop(i))
		}
	}
	var sum, more task.JobTallied
	for i, s := range []task.State{task.Finished, task.Finished, task.Error, task.Cancelled, task.Abnormal, task.Running} {
		more.Add(&task.Task{State: s, Ran: value.Duration(time.Duration(i+1) * time.Second), EndedAt: logtest.At(uint64(i + 1))})
	}
	sum.Join(more)
	sum.Join(more)
	if sum.Finished != 4 || sum.Error != 2 || sum.Cancelled != 2 || sum.Abnormal != 2 || sum.Ran.Std() != 30*time.Second ||
		!sum.First.Equal(logtest.At(1)) || !sum.Last.Equal(logtest.At(5)) || sum.Buckets[task.BucketOf(time.Second)] != 2 || more.Buckets[task.BucketOf(time.Second)] != 1 {
		t.Errorf("the sums are %+v of twice %+v", sum, more)
	}
}
