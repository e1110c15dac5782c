package jet

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet/embed"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
	"millrace/task/output"
)

// Told knows exactly which lines and records of an attempt are stored, even if another attempt has
// printed since, or a batch was stored in parts.
func TestTold(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	id := newTask()
	want := func(what string, epoch uint64, want output.Told) {
		t.Helper()
		if got, err := s.Told(within(t), id, epoch); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", what, got, err, want)
		}
	}
	say := func(epoch uint64, lines ...output.Line) {
		t.Helper()
		if err := s.Print(within(t), output.Lines{Task: id, Attempt: 1, Epoch: epoch, Lines: lines}); err != nil {
			t.Fatal(err)
		}
	}
	produce := func(epoch uint64, first, n int) {
		t.Helper()
		r := output.Records{Task: id, Attempt: 1, Epoch: epoch, First: first}
		for range n {
			r.Items = append(r.Items, json.RawMessage("1"))
		}
		if err := s.Keep(within(t), r); err != nil {
			t.Fatal(err)
		}
	}
	want("nothing", 7, output.Told{})
	say(7, output.Line{N: 1, Text: "a", Upto: 30}, output.Line{N: 4, Text: "b\nc\nd", Several: 3, Upto: 120})
	produce(7, 0, 3)
	want("lines and records", 7, output.Told{Lines: 4, Upto: 120, Records: 3})
	say(5, output.Line{N: 90, Text: "late"})
	produce(5, 40, 2)
	want("another attempt has spoken since", 7, output.Told{Lines: 4, Upto: 120, Records: 3})
	large := strings.Repeat("\x01", 100_000) // six bytes each
	say(7, output.Line{N: 5, Text: large, Upto: 200}, output.Line{N: 6, Text: large, Upto: 300})
	want("stored in parts", 7, output.Told{Lines: 6, Upto: 300, Records: 3})
}

// A lease goes on in another process by its token.
func TestResumedLease(t *testing.T) {
	t.Parallel()
	server := startServer(t, embed.Config{})
	s := openStore(t, connect(t, server.URL()), streams.Layout{AckWait: time.Second})
	submit(t, s, "default")
	offers := offersOf(t, s, "default")
	offer, err := offers.Next(within(t))
	if err != nil {
		t.Fatal(err)
	}
	token := offer.Lease.(events.Lasting).Token()
	offers.Close()
	other := openStore(t, connect(t, server.URL()), streams.Layout{AckWait: time.Second})
	resumed := other.Resume(token)
	if err := resumed.Extend(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := resumed.Ack(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the offer is done with", func() bool {
		lanes, err := other.QueueState(within(t), "default")
		return err == nil && len(lanes) == 1 && lanes[0].Leased == 0 && lanes[0].Waiting == 0
	})
}
