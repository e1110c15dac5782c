package chaos

import (
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/schedule"
	"millrace/task/value"
)

// The judge finds what callers, workers and schedulers with wrong clocks would leave in a log.
func TestJudgeTimes(t *testing.T) {
	delays := map[task.ID]delayed{"d": {delay: 3 * time.Second, took: 4 * time.Second}}
	birth := func(due float64) task.Submitted {
		b := task.Submitted{Work: task.Work{Spec: &job.Spec{}}}
		if due != 0 {
			b.Due = after(due)
		}
		return b
	}
	for name, c := range map[string]struct {
		tell func(s *story)
		want string // part of the broken promise; "" for none
	}{
		"in time": {func(s *story) {
			s.put(1, events.KindHold, "d", "chaos", birth(4))
			s.chain(4.1, "d", task.AttemptStarted{})
		}, ""},
		"a caller is ten minutes behind": {func(s *story) {
			s.put(1, events.KindHold, "d", "chaos", birth(4-600))
		}, "is due -10m0s from when it should be"},
		"a caller is ten minutes ahead": {func(s *story) {
			s.put(1, events.KindHold, "d", "chaos", birth(4+600))
		}, "is due 10m0s from when it should be"},
		"a server that took its time": {func(s *story) {
			s.put(7, events.KindHold, "d", "chaos", birth(4))
		}, ""},
		"due later than the server took": {func(s *story) {
			s.put(7.1, events.KindHold, "d", "chaos", birth(4))
		}, "is due -6.1s from when it should be"},
		"due after the caller asked": {func(s *story) {
			s.put(1, events.KindHold, "d", "chaos", birth(6.1))
		}, "is due 2.1s from when it should be"},
		"a start too early": {func(s *story) {
			s.put(1, events.KindHold, "d", "chaos", birth(4))
			s.chain(3.5, "d", task.AttemptStarted{})
		}, "starts 500ms before it is due"},
		"a retry starts when its turn comes": {func(s *story) {
			s.put(1, events.KindHold, "d", "chaos", birth(4))
			s.chain(4.1, "d", task.AttemptStarted{})
			s.chain(4.2, "d", task.AttemptFailed{})
			s.chain(4.3, "d", task.AttemptStarted{})
		}, ""},
		"expired at birth": {func(s *story) {
			s.born(1, "x")
			s.chain(1.5, "x", task.GivenUp{Reason: value.Expired})
		}, "expires 500ms after it was submitted"},
		"expired in time": {func(s *story) {
			s.born(1, "x")
			s.chain(1+impatient.Seconds(), "x", task.GivenUp{Reason: value.Expired})
		}, ""},
		"a time to come": {func(s *story) {
			s.born(1, "x")
			s.records[0].Fact.At = after(601)
		}, "says that it is of 10m0s after it was stored"},
	} {
		s := &story{}
		c.tell(s)
		_, broken := judgeTimes(s.records, delays)
		if got := strings.Join(broken, "; "); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: broken is %q, want %q", name, got, c.want)
		}
	}
}

// A tick without a decision is missed, an early decision breaks a promise, and a late one is
// reported as odd.
func TestJudgeTicks(t *testing.T) {
	define := func(since, changed float64) schedule.Stored {
		return schedule.Stored{Changed: after(changed), Definition: schedule.Definition{
			Name: "s", Since: after(since), Anchor: after(0), When: job.Schedule{Every: value.Duration(2 * time.Second)},
		}}
	}
	for name, c := range map[string]struct {
		stored  schedule.Stored
		decided map[float64]float64 // when, by tick
		broken  string
		odd     string
	}{
		"all":                                   {define(1, 1), map[float64]float64{2: 2, 4: 4.1, 6: 6}, "", ""},
		"one missing":                           {define(1, 1), map[float64]float64{2: 2, 6: 6}, "1 of 3 ticks have no decision", ""},
		"one early":                             {define(1, 1), map[float64]float64{2: 1.5, 4: 4, 6: 6}, "500ms before it was due", ""},
		"one late":                              {define(1, 1), map[float64]float64{2: 2, 4: 8, 6: 8}, "", "4s after it was due"},
		"stored as late as its server answered": {define(1, 5.9), map[float64]float64{2: 2, 4: 4, 6: 6}, "", ""},
		"stored even later":                     {define(1, 6.1), map[float64]float64{2: 2, 4: 4, 6: 6}, "begins -5.1s from when it was stored", ""},
		"stored by a caller who is ten minutes ahead": {define(601, 1), nil, "begins 10m0s from when it was stored", ""},
	} {
		s := &story{}
		for tick, at := range c.decided {
			s.put(at, events.KindTick, "", "", task.ScheduleAdmitted{Tick: after(tick), Due: after(tick)})
			s.records[len(s.records)-1].Fact.Schedule = "s"
		}
		made := &ticker{made: []timed{{c.stored, 3 * time.Second}}}
		var r TimesReport
		broken, odd := made.judge(s.records, after(7), &r)
		for _, is := range []struct {
			got  []string
			want string
		}{{broken, c.broken}, {odd, c.odd}} {
			if got := strings.Join(is.got, "; "); is.want == "" && got != "" || !strings.Contains(got, is.want) {
				t.Errorf("%s: %q, want %q", name, got, is.want)
			}
		}
	}
}

// A schedule stays until its ticks have decisions, and not for ever.
func TestTicksAreDecided(t *testing.T) {
	s := &story{}
	made := &ticker{made: []timed{{schedule.Stored{Changed: after(1), Definition: schedule.Definition{
		Name: "s", Since: after(1), Anchor: after(0), When: job.Schedule{Every: value.Duration(2 * time.Second)},
	}}, 0}}}
	looks := 0
	made.decided(t.Context(), after(5), func() []events.Record {
		if looks++; looks < 4 {
			s.put(float64(2*looks), events.KindTick, "", "", task.ScheduleAdmitted{Tick: after(float64(2 * looks)), Due: after(float64(2 * looks))})
			s.records[len(s.records)-1].Fact.Schedule = "s"
		}
		return s.records
	}, time.Hour)
	if looks != 2 {
		t.Errorf("it looked %d times, want until the second tick has a decision", looks)
	}
	looks = 0
	made.decided(t.Context(), after(5), func() []events.Record { looks++; return nil }, time.Millisecond)
	if looks == 0 {
		t.Error("it did not look at all")
	}
}
