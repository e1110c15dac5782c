package jet

import (
	"errors"
	"iter"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet/embed"
	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
	"millrace/task/queue"
)

// messagesOf are messages, as a stream has them.
func messagesOf(all []embed.Message) iter.Seq2[embed.Message, error] {
	return func(yield func(embed.Message, error) bool) {
		for i := range all {
			if !yield(all[i], nil) {
				return
			}
		}
	}
}

// Messages written into a data directory keep their sequences and times; later messages follow
// them, and timers fire there.
func TestFill(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	due := events.Record{Fact: events.Fact{Type: events.TaskDue}, Place: "mr.queue.default.5.due.01JD6Z8V3M0QK4T7W2X9Y5AB0C"}
	log := []embed.Message{
		{Seq: 1_000_007, At: noon, Subject: "mr.probe", Body: []byte("{}")},
		{Seq: 1_000_009, At: noon.Add(time.Second), Subject: "mr.queue_state.bulk", Body: []byte(`{"type":"queue.paused","id":"01JD6Z8V3M0QK4T7W2X9Y5AB0C","at":"2026-03-01T12:00:00Z","queue":"bulk","reason":"loud"}`)},
		{Seq: 1_000_013, At: noon.Add(time.Second), Subject: due.Place, Header: request.HeaderOf(&due),
			Body: []byte(`{"type":"task.due","id":"01JD6Z8V3M0QK4T7W2X9Y5AB0F","at":"2026-03-01T12:00:00Z","task":"01JD6Z8V3M0QK4T7W2X9Y5AB0C","after":1000001,"route":"default.5","due":"2026-03-01T12:00:00Z"}`)},
		{Seq: 2_000_000, At: noon.Add(-time.Second), Subject: "mr.queue_state.bulk", Body: []byte(`{"type":"queue.resumed","id":"01JD6Z8V3M0QK4T7W2X9Y5AB0D","at":"2026-03-01T12:00:00Z","queue":"bulk"}`)},
	}
	dir := t.TempDir()
	fill := func() error {
		return embed.Fill(dir, embed.Stream{Config: must(streams.Layout{}.Config(names.LogStream))(t), Messages: messagesOf(log)},
			embed.Stream{Config: must(streams.Layout{}.Config(names.OutputStream))(t), Messages: messagesOf(nil)})
	}
	if err := fill(); err != nil {
		t.Fatal(err)
	}
	if err := fill(); !errors.Is(err, embed.ErrFilled) {
		t.Errorf("a second time: %v", err)
	}
	s := startServer(t, embed.Config{Dir: dir})
	store := must(Open(within(t), connect(t, s.URL()), streams.Layout{}))(t)
	t.Cleanup(store.Close)
	records := must(store.Queue(within(t), "bulk"))(t)
	if len(records) != 2 || records[0].Seq != 1_000_009 || !records[0].Stored.Equal(noon.Add(time.Second)) || records[1].Seq != 2_000_000 || records[1].Err != nil {
		t.Errorf("the queue has %+v", records)
	}
	offers := must(store.Task(within(t), "01JD6Z8V3M0QK4T7W2X9Y5AB0C"))(t)
	if len(offers) != 1 || offers[0].Err != nil || offers[0].Fact.Type != events.TaskDue {
		t.Errorf("the task has %+v", offers)
	}
	f := &events.Fact{ID: events.NewID(store.Now()), At: store.Now(), Queue: "bulk", Event: queue.Paused{Reason: "again"}}
	if seq, err := store.Append(within(t), f, 2_000_000); err != nil || seq <= 2_000_000 {
		t.Errorf("what follows has the sequence %d, %v", seq, err)
	}
	testkit.Eventually(t, "the log sources the timers", func() bool {
		info, err := store.log.Info(within(t))
		return err == nil && len(info.Sources) == 1 && info.Sources[0].Active >= 0
	})
}
