package jet

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"millrace/events/jet/names"
	"millrace/events/jet/outputs"
	"millrace/events/jet/streams"
	"millrace/task/output"
)

// Lines of a printout are read by their numbers, and found by their text, forwards and backwards,
// whatever lies between them.
func TestPrintout(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	id, other := newTask(), newTask()
	if p, err := s.Printout(within(t), id, time.Time{}); err != nil || p.Lines != 0 {
		t.Fatalf("of a silent task there are %d lines, %v", p.Lines, err)
	}
	// Attempts of 200, 1 and 300 lines, in batches of several sizes; some batches are stored twice,
	// others and garbage lie between, and ten lines were dropped.
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	type is struct {
		number  int
		attempt int
		text    string
	}
	var want []is
	number := 0
	print := func(b output.Lines) {
		t.Helper()
		if err := s.Print(within(t), b); err != nil {
			t.Fatal(err)
		}
	}
	for i, size := range []int{200, 1, 300} {
		for n := 1; n <= size; {
			b := output.Lines{Task: id, Attempt: i + 1, Epoch: uint64(10 * (i + 1))}
			for range min(1+n%7, size-n+1) {
				l := output.Line{N: n, At: noon.Add(time.Duration(number+n) * time.Second), Stream: output.Stdout, Text: fmt.Sprintf("attempt %d line %d", i+1, n)}
				if n == 77 {
					l.Stream = output.Stderr
				}
				b.Lines = append(b.Lines, l)
				want = append(want, is{number + n, i + 1, l.Text})
				n++
			}
			print(b)
			switch {
			case n%5 == 0:
				print(b)
			case n%3 == 0:
				print(lines(other, 1, 1))
			case n == 92:
				raw(t, s, names.OutputPrefix+string(id), nil, []byte("garbage"))
			case i == 2 && n > 140 && n < 150:
				n += 10
			}
		}
		number += size
	}
	p := must(s.Printout(within(t), id, time.Time{}))(t)
	if p.Lines != number || p.Last == 0 {
		t.Fatalf("there are %d lines, the last at %d; want %d", p.Lines, p.Last, number)
	}
	shown := func(all []outputs.Numbered) (are []is) {
		for _, l := range all {
			are = append(are, is{l.Number, l.Attempt, l.Text})
		}
		return are
	}
	between := func(from, upto int) (are []is) {
		for _, w := range want {
			if w.number >= from && w.number <= upto {
				are = append(are, w)
			}
		}
		return are
	}
	for from := 1; from <= number; from += 13 {
		lead, got, err := s.Window(within(t), &p, from, 20)
		if err != nil || !slices.Equal(shown(got), between(from, from+19)) {
			t.Fatalf("from %d there are %v, %v; want %v", from, shown(got), err, between(from, from+19))
		}
		if n := len(lead); n > 0 && !slices.Equal(shown(lead), between(lead[0].Number, from-1)[len(between(lead[0].Number, from-1))-n:]) {
			t.Errorf("before %d there are %v", from, shown(lead))
		}
	}
	if _, got, err := s.Window(within(t), &p, number+1, 5); err != nil || len(got) != 0 {
		t.Errorf("behind the end there are %v, %v", shown(got), err)
	}
	for _, c := range []struct {
		from int
		back bool
		m    output.Match
		want []int
	}{
		{1, false, output.Match{Text: "LINE 170"}, []int{170, 371}},
		{171, false, output.Match{Text: "line 170"}, []int{371}},
		{370, true, output.Match{Text: "line 170"}, []int{170}},
		{169, true, output.Match{Text: "line 170"}, nil},
		{1, false, output.Match{Level: "error"}, []int{77, 278}},
		{number, true, output.Match{Level: "error"}, []int{278}},
		{1, false, output.Match{Text: "no line"}, nil},
	} {
		hits, reached, err := s.Search(within(t), &p, c.from, 10, c.back, c.m)
		var got []int
		for _, h := range hits {
			got = append(got, h.Number)
		}
		if end := map[bool]int{false: number, true: 1}[c.back]; err != nil || !slices.Equal(got, c.want) || len(got) == 0 && reached != end {
			t.Errorf("%+v: found %v up to %d, %v", c, got, reached, err)
		}
	}
	if hits, reached, err := s.Search(within(t), &p, 1, 1, false, output.Match{Level: "error"}); err != nil || len(hits) != 1 || reached != 77 {
		t.Errorf("the first error is %v, up to %d, %v", shown(hits), reached, err)
	}
	over, end := context.WithCancel(t.Context())
	end()
	if hits, reached, err := s.Search(over, &p, 5, math.MaxInt, false, output.Match{Text: "line"}); err != nil || len(hits) != 0 || reached != 4 {
		t.Errorf("without time %v are found up to %d, %v", shown(hits), reached, err)
	}
	// As it was when the tenth line of the third attempt came.
	then := must(s.Printout(within(t), id, noon.Add(211*time.Second)))(t)
	_, got, err := s.Window(within(t), &then, 205, 100)
	if err != nil || then.Lines != 211 || !slices.Equal(shown(got), between(205, 211)) {
		t.Errorf("then there were %d lines: %v, %v", then.Lines, shown(got), err)
	}
}
