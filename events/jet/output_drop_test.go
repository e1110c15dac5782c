package jet

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/names"
	"millrace/events/jet/outputs"
	"millrace/events/jet/streams"
	"millrace/task"
	"millrace/task/output"
)

func TestDropOutput(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	id, other := newTask(), newTask()
	drop := func(want int) { // lines; 0: nothing to do
		t.Helper()
		dropped := 0
		did, err := s.DropOutput(within(t), id, func(n int) output.Lines {
			dropped = n
			return output.Lines{Task: id, Attempt: 1, Epoch: 7, Dropped: n, Lines: []output.Line{{N: 1, Stream: output.System, Text: "dropped"}}}
		})
		if did != (want > 0) || dropped != want || err != nil {
			t.Fatalf("DropOutput: %v, %d lines, %v; want %d", did, dropped, err, want)
		}
	}
	drop(0)
	for i := range 3 {
		if err := s.Print(within(t), lines(id, 5*i+1, 5)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Print(within(t), lines(other, 1, 5)); err != nil {
		t.Fatal(err)
	}
	drop(15)
	drop(0)
	if n := printed(t, s, id); n != 1 {
		t.Errorf("%d lines are left, want the marker", n)
	}
	if n := printed(t, s, other); n != 5 {
		t.Errorf("of another task %d lines are left, want 5", n)
	}
	again := lines(id, 1, 5) // it was retried
	again.Epoch = 8
	if err := s.Print(within(t), again); err != nil {
		t.Fatal(err)
	}
	drop(20)
	ids, err := s.OutputTasks(within(t))
	if slices.Sort(ids); err != nil || len(ids) != 2 || !slices.Contains(ids, id) {
		t.Errorf("OutputTasks: %v, %v", ids, err)
	}
}

// The process that stored the marker may have died before it removed what the marker replaces.
func TestDropIsFinished(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	id := newTask()
	if err := s.Print(within(t), lines(id, 1, 5)); err != nil {
		t.Fatal(err)
	}
	raw(t, s, names.OutputPrefix+string(id), nats.Header{outputs.DroppedHeader: {"1"}}, []byte(`{"task":"`+string(id)+`","dropped":5,"lines":[{"n":1,"stream":"system","text":"dropped"}]}`))
	if did, err := s.DropOutput(within(t), id, func(int) output.Lines { t.Error("it is dropped twice"); return output.Lines{} }); did || err != nil {
		t.Fatal(did, err)
	}
	if n := printed(t, s, id); n != 1 {
		t.Errorf("%d lines are left, want the marker", n)
	}
}

// A user that writes output, records or files cannot remove those of others by a header.
func TestNoRollupOfOutput(t *testing.T) {
	t.Parallel()
	srv := newStrict(t)
	s := srv.as("s")
	id := newTask()
	if err := s.Print(within(t), lines(id, 1, 5)); err != nil {
		t.Fatal(err)
	}
	js := must(jetstream.New(srv.dial("w")))(t)
	for _, subject := range []string{names.OutputPrefix + "x", names.DataPrefix + "x", names.ChunkPrefix + "x", names.LivePrefix + "x"} {
		for _, roll := range []string{jetstream.MsgRollupAll, jetstream.MsgRollupSubject} {
			if _, err := js.PublishMsg(within(t), &nats.Msg{Subject: subject, Header: nats.Header{jetstream.MsgRollup: {roll}}}); err == nil {
				t.Errorf("%s takes a message that removes others (%s)", subject, roll)
			}
		}
	}
	if n := printed(t, s, id); n != 5 {
		t.Errorf("%d lines are left, want 5", n)
	}
}

func TestDropRecords(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	id := newTask()
	for i := range 4 { // the second attempt has produced more
		r := output.Records{Task: id, Attempt: 1 + i/2, Epoch: uint64(7 + i/2), First: 2 * (i % 2), Items: []json.RawMessage{[]byte(`1`), []byte(`2`)}}
		if err := s.Keep(within(t), r); err != nil {
			t.Fatal(err)
		}
	}
	drop := func() (bool, error) {
		return s.DropRecords(within(t), id, func(n int) output.Records { return output.Records{Task: id, Epoch: 8, Dropped: n, Reason: "enough"} })
	}
	if did, err := drop(); !did || err != nil {
		t.Fatalf("DropRecords: %v, %v", did, err)
	}
	if did, err := drop(); did || err != nil {
		t.Fatalf("the second time: %v, %v", did, err)
	}
	var left []output.Records
	if err := s.Kept(within(t), id, false, func(r output.Records) error { left = append(left, r); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 || left[0].Dropped != 8 || left[0].Reason != "enough" || len(left[0].Items) != 0 {
		t.Errorf("left is %+v", left)
	}
	if ids, err := s.RecordTasks(within(t)); err != nil || !slices.Equal(ids, []task.ID{id}) {
		t.Errorf("RecordTasks: %v, %v", ids, err)
	}
}

// What was printed before a time goes with one request, and nothing later does.
func TestForgetOutput(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	old, young := newTask(), newTask()
	print := func(id task.ID) time.Time {
		t.Helper()
		if err := s.Print(within(t), lines(id, 1, 5)); err != nil {
			t.Fatal(err)
		}
		stream, err := s.JS.Stream(within(t), names.OutputStream)
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().State.LastTime
	}
	left := func(before time.Time, want ...task.ID) {
		t.Helper()
		if err := s.ForgetOutput(within(t), before); err != nil {
			t.Fatal(err)
		}
		if ids, err := s.OutputTasks(within(t)); err != nil || !slices.Equal(ids, want) {
			t.Errorf("left are %v, %v, want %v", ids, err, want)
		}
	}
	left(time.Unix(1, 0))
	print(old)
	left(time.Unix(1, 0), old)
	at := print(young)
	left(at, young)
	left(at, young)
	left(at.Add(time.Hour))
	print(young)
	left(at, young)
}
