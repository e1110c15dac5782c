package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

// say writes a decision in few words.
func say(e task.ScheduleEvent) string {
	clock := func(t time.Time) string { return t.Format("15:04") }
	switch e := e.(type) {
	case task.ScheduleAdmitted:
		return "admit " + clock(e.Tick) + " " + e.Trigger
	case task.ScheduleQueued:
		return "queue " + clock(e.Tick)
	case task.ScheduleSkipped:
		if e.Count > 1 {
			return fmt.Sprintf("skip %d %s-%s %s", e.Count, clock(e.Tick), clock(e.Until), e.Reason)
		}
		return "skip " + clock(e.Tick) + " " + e.Reason
	}
	return fmt.Sprint(e)
}

func TestDecide(t *testing.T) {
	now := at(t, "2026-01-01T10:00:00Z")
	earlier := TaskID("nightly", now.Add(-time.Hour))
	busy := task.Ledger{Last: now.Add(-time.Hour), Open: []task.ID{earlier}}
	queued := busy
	queued.Waiting = []task.WaitingTick{{Tick: now.Add(-30 * time.Minute), Trigger: task.TriggerSchedule}}
	for _, c := range []struct {
		overlap string
		depth   int
		ledger  task.Ledger
		want    string
		cancels int
	}{
		{"", 0, task.Ledger{}, "admit 10:00 schedule", 0},
		{"allow", 0, busy, "admit 10:00 schedule", 0},
		{"skip", 0, task.Ledger{}, "admit 10:00 schedule", 0},
		{"skip", 0, busy, "skip 10:00 overlap", 0},
		{"queue", 0, busy, "queue 10:00", 0},
		{"queue", 0, queued, "skip 10:00 overlap", 0},
		{"queue", 2, queued, "queue 10:00", 0},
		{"cancel_old", 0, busy, "queue 10:00", 1},
		{"cancel_old", 0, queued, "skip 09:30 overlap, queue 10:00", 1},
		{"replace", 0, busy, "admit 10:00 schedule", 1},
		{"allow", 0, task.Ledger{Failures: 3}, "skip 10:00 failing", 0},
	} {
		p := plan(t, job.Schedule{Cron: "@hourly", Overlap: c.overlap, Depth: c.depth, PauseAfter: 3})
		events := p.Decide(c.ledger, Owed{Tick: now, Trigger: task.TriggerSchedule}, 7)
		var said []string
		for _, e := range events {
			said = append(said, say(e))
			if l := LedgerOf(e); l.Last.Before(now) {
				t.Errorf("%s: the ledger ends at %v", say(e), l.Last)
			}
		}
		last := events[len(events)-1]
		if got := strings.Join(said, ", "); got != c.want || len(p.Cancels(last)) != c.cancels {
			t.Errorf("overlap %q after %+v: %s and %d cancels, want %s and %d", c.overlap, c.ledger, got, len(p.Cancels(last)), c.want, c.cancels)
		}
		if !Decides(last, now) || Decides(last, now.Add(time.Second)) {
			t.Errorf("%s is not about its tick alone", say(last))
		}
		if slices.Contains(p.Cancels(last), TaskID("nightly", now)) {
			t.Errorf("%s cancels its own task", say(last))
		}
	}
}

func TestReleaseInOrder(t *testing.T) {
	p := plan(t, job.Schedule{Cron: "@hourly", Overlap: "queue", Depth: 5})
	now := at(t, "2026-01-01T10:00:00Z")
	ledger := task.Ledger{}
	var events []task.ScheduleEvent
	for i := range 4 {
		e := p.Decide(ledger, Owed{Tick: now.Add(time.Duration(i) * time.Hour), Trigger: task.TriggerSchedule}, 1)
		events = append(events, e...)
		ledger = LedgerOf(e[len(e)-1])
	}
	if e := p.Release(ledger, 1); e != nil {
		t.Errorf("a task has not ended, and there is %s", say(e))
	}
	for len(ledger.Open) > 0 {
		ledger = Observe(ledger, []Ended{{ID: ledger.Open[0]}})
		e := p.Release(ledger, 1)
		if e == nil {
			break
		}
		events = append(events, e)
		ledger = LedgerOf(e)
	}
	var said []string
	for _, e := range events {
		said = append(said, say(e))
	}
	want := "admit 10:00 schedule, queue 11:00, queue 12:00, queue 13:00, admit 11:00 schedule, admit 12:00 schedule, admit 13:00 schedule"
	if got := strings.Join(said, ", "); got != want || len(ledger.Waiting) != 0 {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestObserveCountsFailuresInARow(t *testing.T) {
	l := task.Ledger{Open: []task.ID{"a", "b", "c"}, Failures: 1}
	if got := Observe(l, []Ended{{"a", true}, {"b", true}, {"x", true}}); got.Failures != 3 || len(got.Open) != 1 {
		t.Errorf("two more failed: %+v", got)
	}
	if got := Observe(l, []Ended{{"a", true}, {"b", false}}); got.Failures != 0 {
		t.Errorf("the last one did not fail: %+v", got)
	}
	if len(l.Open) != 3 {
		t.Error("the ledger given was changed")
	}
}

// TestLook covers fires by when they were stored and when they are handled.
func TestLook(t *testing.T) {
	for _, c := range []struct {
		name         string
		s            job.Schedule
		tick, stored string
		now          string
		decided      string
		want, next   string
	}{
		{"in time", job.Schedule{Cron: "@hourly"}, "10:00:00", "10:00:00", "10:00:00", "", "10:00 schedule", "11:00"},
		{"dealt with late", job.Schedule{Cron: "@hourly"}, "10:00:00", "10:00:00", "10:30:00", "", "10:00 schedule", "11:00"},
		{"nobody was there for hours, last", job.Schedule{Cron: "@hourly"}, "10:00:00", "10:00:00", "13:30:00", "", "skip 2 11:00-12:00 missed, 10:00 schedule, 13:00 catchup", "14:00"},
		{"nobody was there for hours, none", job.Schedule{Cron: "@hourly", CatchUp: "none"}, "10:00:00", "10:00:00", "13:30:00", "", "skip 3 11:00-13:00 missed, 10:00 schedule", "14:00"},
		{"nobody was there for hours, all", job.Schedule{Cron: "@hourly", CatchUp: "all"}, "10:00:00", "10:00:00", "12:30:00", "", "10:00 schedule, 11:00 catchup, 12:00 catchup", "13:00"},
		{"the server was away, last", job.Schedule{Cron: "@hourly"}, "10:00:00", "12:30:00", "12:30:00", "", "skip 2 10:00-11:00 missed, 12:00 catchup", "13:00"},
		{"the server was away, none", job.Schedule{Cron: "@hourly", CatchUp: "none"}, "10:00:00", "10:20:00", "10:20:00", "", "skip 10:00 missed", "11:00"},
		{"the server was away, all", job.Schedule{Cron: "@hourly", CatchUp: "all"}, "10:00:00", "11:30:00", "11:30:00", "", "10:00 catchup, 11:00 catchup", "12:00"},
		{"beyond the window, all", job.Schedule{Cron: "@hourly", CatchUp: "all", CatchUpWindow: value.Duration(2 * time.Hour)}, "10:00:00", "14:30:00", "14:30:00", "",
			"skip 3 10:00-12:00 window, 13:00 catchup, 14:00 catchup", "15:00"},
		{"beyond the window, last", job.Schedule{Cron: "@hourly", CatchUpWindow: value.Duration(time.Minute)}, "10:00:00", "12:30:00", "12:30:00", "", "skip 3 10:00-12:00 window", "13:00"},
		{"what has just passed is no miss", job.Schedule{Cron: "@hourly"}, "10:00:00", "10:00:00", "11:00:05", "", "10:00 schedule", "11:00"},
		{"dealt with again", job.Schedule{Cron: "@hourly", CatchUp: "all"}, "10:00:00", "10:00:00", "13:30:00", "12:00:00", "10:00 schedule, 13:00 catchup", "14:00"},
		{"the last one", job.Schedule{Cron: "@hourly", End: "2026-01-01 10:00"}, "10:00:00", "10:00:00", "10:00:00", "", "10:00 schedule", "never"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := plan(t, c.s)
			clock := func(s string) time.Time {
				if s == "" {
					return time.Time{}
				}
				return at(t, "2026-01-01T"+s+"Z")
			}
			l := p.Look(Fire{Tick: clock(c.tick), Due: clock(c.tick), Stored: clock(c.stored)}, "", clock(c.decided), clock(c.now))
			var said []string
			for _, m := range l.Missed {
				said = append(said, say(m.Skip(task.Ledger{}, 1)))
			}
			for _, o := range l.Owed {
				said = append(said, o.Tick.Format("15:04")+" "+o.Trigger)
			}
			next := "never"
			if l.Next != nil {
				next = l.Next.At.Format("15:04")
			}
			if got := strings.Join(said, ", "); got != c.want || next != c.next {
				t.Errorf("got %s, then %s; want %s, then %s", got, next, c.want, c.next)
			}
		})
	}
}

// For any number of missed seconds, the facts about them are few.
func TestLongOutagesAreToldInFewFacts(t *testing.T) {
	p := plan(t, job.Schedule{Every: value.Duration(time.Second), CatchUp: "all"})
	fire := at(t, "2026-01-01T10:00:00Z")
	now := fire.Add(20 * time.Hour)
	l := p.Look(Fire{Tick: fire, Due: fire, Stored: now}, "", time.Time{}, now)
	if len(l.Missed) > 2 || len(l.Owed) != MaxCatchUp {
		t.Errorf("%d facts of missed ticks and %d tasks", len(l.Missed), len(l.Owed))
	}
}

// A run by hand that counts for the overlap is a tick of its own, and takes none away.
func TestByHand(t *testing.T) {
	noon := at(t, "2026-03-01T12:00:00Z")
	before := noon.Add(-time.Minute)
	for overlap, want := range map[string]string{
		job.OverlapAllow: "", job.OverlapReplace: "", job.OverlapSkip: "overlap is skip: task x has not ended",
		job.OverlapQueue: "overlap is queue: task x has not ended", job.OverlapCancelOld: "overlap is cancel_old: task x has not ended",
	} {
		p := plan(t, job.Schedule{Every: value.Duration(time.Hour), Overlap: overlap})
		for _, open := range [][]task.ID{nil, {"x"}} {
			e, why := p.ByHand(task.Ledger{Last: before, Open: open}, noon, 3)
			switch {
			case open != nil && why != want:
				t.Errorf("%s, one runs: %q, want %q", overlap, why, want)
			case open == nil && why != "":
				t.Errorf("%s, none runs: %q", overlap, why)
			case why == "" && (!e.Ledger.Last.Equal(before) || e.Made != TaskID("nightly", noon) || e.Ledger.Open[len(open)] != e.Made || e.Trigger != task.TriggerManual):
				t.Errorf("%s: %+v", overlap, e)
			}
		}
	}
	p := plan(t, job.Schedule{Every: value.Duration(time.Hour)})
	e, _ := p.ByHand(task.Ledger{Last: before}, noon, 3)
	if left := p.Leave(e.Ledger, noon, 3, task.SkipFull, "full"); !left.Ledger.Last.Equal(before) || len(left.Ledger.Open) > 0 {
		t.Errorf("left out: %+v", left)
	}
}
