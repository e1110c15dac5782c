package jet

import (
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/streams"
	"millrace/task"
)

func TestLastDecisions(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	ctx := within(t)
	if last, err := s.LastDecisions(ctx, []string{"a", "b"}); len(last) > 0 || err != nil {
		t.Fatalf("decisions in an empty log: %v, %v", last, err)
	}
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	want := map[string]uint64{}
	for _, name := range []string{"a", "b", "a"} {
		e := task.ScheduleAdmitted{Tick: noon, Trigger: task.TriggerSchedule, Ledger: task.Ledger{Last: noon}}
		seq, err := s.Append(ctx, &events.Fact{ID: events.NewID(noon), At: noon, Type: events.TypeOf(e), Schedule: name, Event: e}, want[name])
		if err != nil {
			t.Fatal(err)
		}
		want[name] = seq
	}
	last, err := s.LastDecisions(ctx, []string{"a", "b", "c", "a"})
	if err != nil || len(last) != 2 {
		t.Fatalf("the latest decisions are %v, %v; want those of a and b", last, err)
	}
	for name, seq := range want {
		one, err := s.LastDecision(ctx, name)
		if got := last[name]; err != nil || got.Seq != seq || got.Err != nil || !got.Stored.Equal(one.Stored) || got.Fact.Schedule != name || got.Fact.ID != one.Fact.ID {
			t.Errorf("the latest decision of %s is %+v, alone %+v, %v; want sequence %d", name, got, one, err, seq)
		}
	}
	raw(t, s, names.TickPrefix+"a", nil, []byte("rubbish")) // it changes only where the next decision follows
	last, err = s.LastDecisions(ctx, []string{"a"})
	if got := last["a"]; err != nil || got.Seq <= want["b"] || got.Fact.Schedule != "a" || !got.Readable() {
		t.Errorf("the latest decision before rubbish is %+v, %v", got, err)
	}
}
