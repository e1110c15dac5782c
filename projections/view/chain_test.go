package view

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/value"
)

func TestChain(t *testing.T) {
	nightly := task.Named(task.DefSchedule, "nightly")
	tick := noon.Add(time.Minute)
	applied := func(s *story, revision uint64) uint64 {
		return s.add(events.KindDefinition, events.Fact{Def: nightly, Event: task.DefinitionApplied{Edition: task.Edition{Revision: revision, Text: []byte("{}")}}})
	}
	copied := func(s *story, of task.ID) task.ID {
		id := s.submit(birth.Submission{})
		birth := &s.records[len(s.records)-1].Fact
		is, _ := birth.Event.(task.Submitted)
		is.RetryOf = of
		birth.Event = is
		return id
	}
	for _, c := range []struct {
		name string
		log  func(s *story) task.ID
		at   uint64
		want string
	}{
		{"submitted, and waits", func(s *story) task.ID { return s.submit(birth.Submission{}) }, 0, "1 submitted"},
		{"what is said of others, and what changes nothing, leads to nothing", func(s *story) task.ID {
			s.submit(birth.Submission{})
			id := s.submit(birth.Submission{})
			epoch := s.start(id, "n1")
			s.on(id, task.AttemptLate{Epoch: 1})
			s.on(id, task.AttemptFinished{Epoch: epoch + 9})
			return id
		}, 0, "2 submitted, 3 attempt"},
		{"a retry and a takeover", func(s *story) task.ID {
			id := s.submit(birth.Submission{})
			failed := s.on(id, task.AttemptFailed{Epoch: s.start(id, "n1"), Class: value.Exit, Retry: &task.RetryPlan{Attempt: 2}})
			is := events.FoldTask(id, s.about(Task(id)))
			s.add(events.KindOffer, events.Fact{Task: id, Event: task.Queued{Work: is.Work, Attempt: 2, After: failed}})
			epoch := s.start(id, "n1")
			last := s.on(id, task.AttemptStarted{Attempt: 3, Node: "n2", TookOver: &task.TookOver{Epoch: epoch}})
			s.finish(id, last)
			return id
		}, 0, "1 submitted, 2 attempt, 3 retry, 4 offered, 5 attempt, 6 takeover, 7 end"},
		{"at a moment only what was before it", func(s *story) task.ID {
			id := s.submit(birth.Submission{})
			s.finish(id, s.start(id, "n1"))
			return id
		}, 2, "1 submitted, 2 attempt"},
		{"from the schedule, as it was defined then", func(s *story) task.ID {
			applied(s, 1)
			applied(s, 2)
			s.add(events.KindTick, events.Fact{Schedule: "nightly", Event: task.ScheduleSkipped{Tick: tick.Add(-time.Hour), Reason: task.SkipOverlap}})
			s.add(events.KindTick, events.Fact{Schedule: "nightly", Event: task.ScheduleAdmitted{Revision: 2, Tick: tick}})
			id := s.submit(birth.Submission{Origin: task.Origin{Schedule: "nightly", Tick: tick, Trigger: task.TriggerSchedule}})
			applied(s, 3)
			return id
		}, 0, "2 schedule, 4 tick, 5 submitted"},
		{"of a child, with its parent as far as that had come", func(s *story) task.ID {
			parent, _ := kin(s)
			s.on(parent, task.CancelRequested{Reason: "enough"})
			return birth.ChildID(parent, "fetch")
		}, 0, "1 submitted, 2 expanded, 3 child, 4 attempt"},
		{"of a copy, with what was copied", func(s *story) task.ID {
			id := s.submit(birth.Submission{})
			s.fail(id, s.start(id, "n1"), "no")
			is := copied(s, id)
			s.on(id, task.Reopened{})
			return is
		}, 0, "1 submitted, 2 attempt, 3 end, 4 copy"},
		{"with the end of what it needed", func(s *story) task.ID {
			first := s.submit(birth.Submission{})
			id := s.submit(birth.Submission{Needs: &task.Needs{Of: []task.Need{{Task: first}}}})
			s.finish(first, s.start(first, "n1"))
			s.on(id, task.Unheld{Hold: task.HoldNeeds})
			return id
		}, 0, "2 submitted, 4 need met, 5 opened"},
		{"what it needs has not led to anything yet", func(s *story) task.ID {
			first := s.submit(birth.Submission{})
			id := s.submit(birth.Submission{Needs: &task.Needs{Of: []task.Need{{Task: first}}}})
			s.finish(first, s.start(first, "n1"))
			return id
		}, 0, "2 submitted"},
		{"of what is not in the log", func(s *story) task.ID { return copied(s, "01JD6Z8V3M0QK4T7W2X9Y5ZZZZ") }, 0, "1 copy, missing 01JD6Z8V3M0QK4T7W2X9Y5ZZZZ"},
		{"a long life", func(s *story) task.ID {
			id := s.submit(birth.Submission{})
			for range 30 {
				s.on(id, task.AttemptLost{Epoch: s.start(id, "n1")})
			}
			return id
		}, 0, "1 submitted, 43 put back, 44 attempt, 45 put back, 46 attempt, 47 put back, 48 attempt, 49 put back, 50 attempt, 51 put back, 52 attempt, 53 put back, " +
			"54 attempt, 55 put back, 56 attempt, 57 put back, 58 attempt, 59 put back, 60 attempt, 61 put back, left 41"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &story{t: t}
			id := c.log(s)
			v := s.end()
			if c.at > 0 {
				v = s.at(c.at)
			}
			found, err := Chain(t.Context(), v, id)
			if err != nil {
				t.Fatal(err)
			}
			var is []string
			for _, k := range found.Of {
				is = append(is, fmt.Sprint(k.Seq, " ", k.Why))
			}
			for _, id := range found.Missing {
				is = append(is, "missing "+string(id))
			}
			if found.Left > 0 {
				is = append(is, fmt.Sprint("left ", found.Left))
			}
			if got := strings.Join(is, ", "); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
	if _, err := Chain(t.Context(), (&story{t: t}).end(), "01JD6Z8V3M0QK4T7W2X9Y5ZZZZ"); !errors.Is(err, task.ErrUnknown) {
		t.Errorf("a task that is not there: %v", err)
	}
}

// A decision on several ticks is about each of them, and about no other.
func TestTicks(t *testing.T) {
	s := &story{t: t}
	hour := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Hour) }
	seq := s.add(events.KindTick, events.Fact{Schedule: "nightly", Event: task.ScheduleSkipped{Tick: hour(1), Until: hour(3), Reason: task.SkipMissed}})
	for n, want := range map[int]bool{0: false, 1: true, 2: true, 3: true, 4: false} {
		is := slices.ContainsFunc(s.about(Tick("nightly", hour(n))), func(r events.Record) bool { return r.Seq == seq })
		if is != want || len(s.about(Tick("daily", hour(n)))) > 0 {
			t.Errorf("%d hours: %v", n, is)
		}
	}
	if _, _, err := TickOf(Ref{Decisions, "nightly"}); !errors.Is(err, ErrQuery) {
		t.Error(err)
	}
}
