package jet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"millrace/events/jet/outputs"
	"millrace/events/jet/streams"
	"millrace/task/output"
)

// TestPrintedFrom: output is read from a message, from a time and backwards, and where attempts lie
// in it is found without reading it.
func TestPrintedFrom(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	id, other := newTask(), newTask()
	for _, read := range []func() (int, error){
		func() (n int, err error) {
			return n, s.PrintedBack(within(t), id, func(uint64, output.Lines) bool { n++; return true })
		},
		func() (int, error) { r, err := s.OutputRanges(within(t), id); return len(r), err },
	} {
		if n, err := read(); n != 0 || err != nil {
			t.Fatalf("of a silent task %d were read, %v", n, err)
		}
	}
	// Three attempts, one of a single message, between those of another task.
	var middle time.Time
	want, seq := map[uint64]outputs.Range{}, uint64(0)
	for i, batches := range []int{7, 1, 20} {
		epoch := uint64(10 * (i + 1))
		for n := range batches {
			for range n % 3 {
				if err := s.Print(within(t), lines(other, 1, 1)); err != nil {
					t.Fatal(err)
				}
				seq++
			}
			b := lines(id, 2*n+1, 2)
			b.Epoch = epoch
			if err := s.Print(within(t), b); err != nil {
				t.Fatal(err)
			}
			seq++
			r, ok := want[epoch]
			if !ok {
				r.First = seq
			}
			want[epoch] = outputs.Range{First: r.First, Last: seq, Lines: 2*n + 2}
			if epoch == 30 && n == 9 {
				middle = time.Now()
			}
		}
	}
	got := must(s.OutputRanges(within(t), id))(t)
	for epoch, r := range want {
		if got[epoch] != r {
			t.Errorf("epoch %d lies at %+v, want %+v", epoch, got[epoch], r)
		}
	}
	read := func(from outputs.Start) (all []string) {
		t.Helper()
		if err := s.PrintedFrom(within(t), id, from, false, func(seq uint64, b output.Lines) error {
			all = append(all, fmt.Sprint(seq, b.Epoch, b.Lines[0].N))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	all := read(outputs.Start{})
	if len(all) != 28 {
		t.Fatalf("%d batches, want 28", len(all))
	}
	if some := read(outputs.Start{Seq: want[20].Last}); !slices.Equal(some, all[7:]) {
		t.Errorf("from the second attempt: %q", some)
	}
	if some := read(outputs.Start{Time: middle}); !slices.Equal(some, all[18:]) {
		t.Errorf("since the middle: %q", some)
	}
	var back []string
	if err := s.PrintedBack(within(t), id, func(seq uint64, b output.Lines) bool {
		back = append(back, fmt.Sprint(seq, b.Epoch, b.Lines[0].N))
		return len(back) < 25
	}); err != nil {
		t.Fatal(err)
	}
	if slices.Reverse(back); !slices.Equal(back, all[3:]) {
		t.Errorf("backwards: %q, want %q", back, all[3:])
	}
}
