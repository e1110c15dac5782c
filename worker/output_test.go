package worker_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/output"
	"millrace/task/value"
	"millrace/worker"
)

// TestLinesThatComeAtOnceAreStoredTogether: readers get what was written, line by line, and batches
// are bounded.
func TestLinesThatComeAtOnceAreStoredTogether(t *testing.T) {
	inBubble(t, func(w *world) {
		const n = 20_000
		text := strings.Repeat("x", 90)
		r := w.start(worker.Config{}, doing(func(_ context.Context, a *worker.Attempt) error {
			for i := range n {
				switch {
				case i%5000 == 17:
					a.Output.Text(output.Stderr, fmt.Appendf(nil, "%d", i), false)
				case i%5000 == 18:
					a.Output.Text(output.Stdout, fmt.Appendf(nil, "%d and", i), true)
				case i%5000 == 19:
					a.Output.Log("warn", fmt.Sprint(i), nil)
				case i%5000 == 20:
					a.Output.Text(output.Stdout, []byte{}, false)
				default:
					a.Output.Text(output.Stdout, fmt.Appendf(nil, "%d %s", i, text), false)
				}
			}
			return nil
		}))
		w.wantState(w.ended(w.submit(job.Spec{})), task.Finished, "")
		next, stored := 1, 0
		for _, p := range get(r.store, &r.printed) {
			size := 0
			for _, l := range p.Lines.Lines {
				size += len(l.Text)
				stored++
			}
			if size > 1<<20 {
				t.Errorf("a batch holds %d bytes", size)
			}
			b := p.Lines
			b.OneByOne()
			for _, l := range b.Lines {
				i := l.N - 1
				want, stream, more := fmt.Sprintf("%d %s", i, text), output.Stdout, false
				switch i % 5000 {
				case 17:
					want, stream = fmt.Sprint(i), output.Stderr
				case 18:
					want, more = fmt.Sprintf("%d and", i), true
				case 19:
					want, stream = fmt.Sprint(i), output.Log
				case 20:
					want = ""
				}
				if l.N != next || l.Text != want || l.Stream != stream || l.More != more {
					t.Fatalf("line %d is %+v, want %q of %s", next, l, want, stream)
				}
				next++
			}
		}
		if next != n+1 || stored > 100 {
			t.Errorf("%d lines were stored as %d, want %d as a few", next-1, stored, n)
		}
	})
}

// TestWhoPrintsFasterWaits: while one batch is stored, at most one more waits encoded and one is
// filled; a program that prints faster waits.
func TestWhoPrintsFasterWaits(t *testing.T) {
	inBubble(t, func(w *world) {
		var printed, ahead atomic.Int64
		r := w.start(worker.Config{}, doing(func(_ context.Context, a *worker.Attempt) error {
			line := []byte(strings.Repeat("y", 1000))
			for range 20_000 {
				a.Output.Text(output.Stdout, line, false)
				printed.Add(1)
			}
			return nil
		}))
		set(r.store, &r.print, func(ctx context.Context) error {
			before := printed.Load()
			wait(50 * time.Millisecond)
			ahead.Store(max(ahead.Load(), printed.Load()-before))
			return nil
		})
		w.wantState(w.ended(w.submit(job.Spec{})), task.Finished, "")
		if n := ahead.Load(); n == 0 || n > 1100 {
			t.Errorf("%d lines of 1 kB were taken while a batch was stored, want at most two batches", n)
		}
	})
}

// TestLinesAddedTogether: lines added in one call are stored as if they had come one by one, also
// where the limit cuts them.
func TestLinesAddedTogether(t *testing.T) {
	for _, limit := range []value.Size{0, 100, 1 << 20} {
		inBubble(t, func(w *world) {
			together := true
			r := w.start(worker.Config{Slots: 1}, doing(func(_ context.Context, a *worker.Attempt) error {
				a.Output.Line(output.Stdout, "first")
				for i := range 8 {
					text := fmt.Appendf(nil, "line %d\n\n  and é \xff %d", i, i)
					if together {
						a.Output.Texts(output.Stdout, text, 3)
						continue
					}
					for line := range bytes.SplitSeq(text, []byte{'\n'}) {
						a.Output.Text(output.Stdout, line, false)
					}
				}
				a.Output.Line(output.Stdout, "last")
				return nil
			}))
			said := func() (lines []string) {
				id := w.submit(job.Spec{Resources: job.Resources{Output: limit}})
				w.wantState(w.ended(id), task.Finished, "")
				for _, p := range get(r.store, &r.printed) {
					b := p.Lines
					b.OneByOne()
					for _, l := range b.Lines {
						if p.Task == id {
							lines = append(lines, fmt.Sprintf("%d %s %s", l.N, l.Stream, l.Text))
						}
					}
				}
				return lines
			}
			all := said()
			together = false
			if single := said(); !slices.Equal(all, single) {
				t.Errorf("limit %d: together %q, one by one %q", limit, all, single)
			}
		})
	}
}

// TestFirstAndLastLinesAreKept: if an attempt prints beyond its bound, the beginning and the end
// are kept, with a line between that says how much is missing.
func TestFirstAndLastLinesAreKept(t *testing.T) {
	for _, c := range []struct {
		name        string
		node        int64
		job         value.Size
		lines       int
		first, last int // how many of them are to be there
		why         string
	}{
		{"within the bound", 1 << 20, 1000, 100, 100, 0, ""},
		{"just within", 1 << 20, 1000, 100, 100, 0, ""},
		{"the job's bound", 1 << 20, 1000, 1000, 75, 25, "resources.output is 1kB"},
		{"the node's bound", 2000, 0, 1000, 150, 50, "the worker's task_output is 2kB"},
		{"the node's is less", 2000, 1 << 20, 1000, 150, 50, "the worker's task_output is 2kB"},
		{"no bound", worker.NoBound, 0, 1000, 1000, 0, ""},
		{"many lines", 1 << 30, 1 << 18, 1 << 16, (1<<18 - 1<<16) / 10, 2000, "resources.output is 256KiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				r := w.start(worker.Config{Slots: 1, Output: c.node}, doing(func(_ context.Context, a *worker.Attempt) error {
					for i := range c.lines {
						a.Output.Text(output.Stdout, fmt.Appendf(nil, "%09d", i), false) // 10 bytes with its end
					}
					return nil
				}))
				w.wantState(w.ended(w.submit(job.Spec{Resources: job.Resources{Output: c.job}})), task.Finished, "")
				var said []string
				var numbers []int
				for _, p := range get(r.store, &r.printed) {
					b := p.Lines
					b.OneByOne()
					for _, l := range b.Lines {
						said, numbers = append(said, l.Text), append(numbers, l.N)
					}
				}
				for i, n := range numbers {
					if n != i+1 {
						t.Fatalf("line %d has the number %d", i+1, n)
					}
				}
				if c.why == "" {
					if len(said) != c.lines {
						t.Errorf("%d lines are kept, want all %d", len(said), c.lines)
					}
					return
				}
				if len(said) != c.first+2+c.last {
					t.Fatalf("%d lines are kept, want the first %d, two words of what is missing, and the last %d", len(said), c.first, c.last)
				}
				dropped := c.lines - c.first - c.last
				want := fmt.Sprintf("%d lines (%d bytes) were dropped here: %s", dropped, 10*dropped, c.why)
				if said[c.first+1] != want || !strings.Contains(said[c.first], "is reached") {
					t.Errorf("between them stand %q and %q, want %q", said[c.first], said[c.first+1], want)
				}
				for i, n := range map[int]int{0: 0, c.first - 1: c.first - 1, c.first + 2: c.lines - c.last, len(said) - 1: c.lines - 1} {
					if said[i] != fmt.Sprintf("%09d", n) {
						t.Errorf("kept line %d is %q, want %09d", i, said[i], n)
					}
				}
			})
		})
	}
}

// TestTooManyRecords: an attempt that produces too many records fails, for half a result is no
// result.
func TestTooManyRecords(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.start(worker.Config{Slots: 1, Records: 100}, doing(func(_ context.Context, a *worker.Attempt) error {
			for i := range 1000 {
				// The attempt fails even if the program ignores the error.
				_ = a.Output.Insert(fmt.Appendf(nil, "%d", i))
			}
			return nil
		}))
		ended := w.ended(w.submit(job.Spec{}))
		w.wantState(ended, task.Error, "system")
		if !strings.Contains(ended.Message, "the records of this attempt are more than 100: the worker's task_records allows no more") {
			t.Errorf("it says %q", ended.Message)
		}
		n := 0
		for _, k := range get(r.store, &r.kept) {
			n += len(k.Items)
		}
		if n != 55 { // ten of one digit and 45 of two
			t.Errorf("%d records are stored, want those that fit", n)
		}
	})
}
