package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events/jet/embed"
	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/events/jet/streams"
	"millrace/task"
	"millrace/task/output"
)

func lines(id task.ID, from, n int) output.Lines {
	b := output.Lines{Task: id, Attempt: 1, Epoch: 7}
	for i := range n {
		b.Lines = append(b.Lines, output.Line{N: from + i, At: time.Now().UTC(), Stream: output.Stdout, Text: fmt.Sprint("line ", from+i)})
	}
	return b
}

func printed(t *testing.T, s *Store, id task.ID) (n int) {
	t.Helper()
	err := s.Printed(within(t), id, false, func(b output.Lines) error {
		for _, line := range b.Lines {
			if n++; line.N != n {
				t.Errorf("got line %d, want %d", line.N, n)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestPrinted(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	id := newTask()
	if n := printed(t, s, id); n != 0 {
		t.Fatalf("a silent task printed %d lines", n)
	}
	const batches, size = 60, 5
	for i := range batches {
		if err := s.Print(within(t), lines(id, i*size+1, size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Print(within(t), lines(newTask(), 1, 1)); err != nil { // another task's
		t.Fatal(err)
	}
	if n := printed(t, s, id); n != batches*size {
		t.Errorf("read %d lines, want %d", n, batches*size)
	}
	enough := errors.New("enough")
	if err := s.Printed(within(t), id, false, func(output.Lines) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("Printed: %v, want the reader's own error", err)
	}
	raw(t, s, names.OutputPrefix+string(id), nil, []byte("garbage"))
	if n := printed(t, s, id); n != batches*size {
		t.Errorf("with garbage behind them read %d lines, want %d", n, batches*size)
	}
}

func TestPrintedFollows(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	id := newTask()
	got := make(chan int)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.Printed(ctx, id, true, func(b output.Lines) error {
			for _, line := range b.Lines {
				got <- line.N
			}
			return nil
		})
	}()
	for i := range 5 {
		if err := s.Print(within(t), lines(id, i+1, 1)); err != nil {
			t.Fatal(err)
		}
		if n := <-got; n != i+1 {
			t.Errorf("got line %d, want %d", n, i+1)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Printed: %v, want the error of its context", err)
	}
}

func TestKeepIsOnce(t *testing.T) {
	t.Parallel()
	lost := 0
	nc := connect(t, startServer(t, embed.Config{}).URL(), losing(func() bool { lost++; return lost%2 == 1 })) // every first answer
	s := newImpatientStore(t, nc, 100*time.Millisecond, streams.Layout{})
	id := newTask()
	const batches = 4
	for i := range batches {
		b := output.Records{Task: id, Attempt: 1, Epoch: 7, First: 2 * i, Items: []json.RawMessage{[]byte(fmt.Sprint(2 * i)), []byte(fmt.Sprint(2*i + 1))}}
		if err := s.Keep(within(t), b); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	err := s.Kept(within(t), id, false, func(b output.Records) error {
		for _, item := range b.Items {
			got = append(got, string(item))
		}
		return nil
	})
	if want := "[0 1 2 3 4 5 6 7]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("kept %v, %v; want %s", got, err, want)
	}
	if lost < 2*batches {
		t.Errorf("%d answers for %d batches: none was lost, so nothing was tested", lost, batches)
	}
	if err := s.Keep(canceled(), output.Records{Task: id}); !errors.Is(err, context.Canceled) {
		t.Errorf("Keep with a context that has ended: %v", err)
	}
}

// TestKeepIsNotDeduced: a stranger who knows a task and its epoch cannot take the place of its
// records, and one who knows all of a batch's name cannot do so in silence.
func TestKeepIsNotDeduced(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	id := newTask()
	occupy := func(name string) {
		t.Helper()
		m := &nats.Msg{Subject: names.DataPrefix + string(id), Header: nats.Header{nats.MsgIdHdr: {name}}, Data: []byte("{}")}
		if _, err := s.Insist(within(t), m); err != nil {
			t.Fatal(err)
		}
	}
	occupy(string(id) + ".7.0")
	b := output.Records{Task: id, Attempt: 1, Epoch: 7, Items: []json.RawMessage{[]byte("1")}}
	if err := s.Keep(within(t), b); err != nil {
		t.Fatal(err)
	}
	b.First, b.Word = 1, "word"
	occupy(string(id) + ".7.1.word")
	if err := s.Keep(within(t), b); !errors.Is(err, request.ErrDuplicate) {
		t.Errorf("a batch whose name is taken: %v, want %v", err, request.ErrDuplicate)
	}
	if b.Again = true; s.Keep(within(t), b) != nil {
		t.Error("a batch that was sent before counts as another one's")
	}
	var kept []string
	err := s.Kept(within(t), id, false, func(b output.Records) error {
		for _, item := range b.Items {
			kept = append(kept, string(item))
		}
		return nil
	})
	if err != nil || fmt.Sprint(kept) != "[1]" {
		t.Errorf("kept %v, %v; want [1]", kept, err)
	}
}

// TestPrintedInParts: lines that JSON makes larger than a message are stored all the same.
func TestPrintedInParts(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	id := newTask()
	b := lines(id, 1, 20)
	for i := range b.Lines {
		b.Lines[i].Text = strings.Repeat("\x01", 60<<10) // each takes six bytes
	}
	b.Lines = append(b.Lines, output.Line{N: 22, Stream: output.Stdout, Text: "a<b>\n&c", Several: 2})
	if err := s.Print(within(t), b); err != nil {
		t.Fatal(err)
	}
	if n := printed(t, s, id); n != 22 {
		t.Errorf("read %d lines, want 22", n)
	}
	ranges, err := s.OutputRanges(within(t), id)
	if r := ranges[7]; err != nil || r.Lines != 22 || r.First == r.Last {
		t.Errorf("the ranges are %+v, %v", ranges, err)
	}
}
