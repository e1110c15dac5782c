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
	"millrace/worker"
)

// TestLinesThatComeAtOnceAreStoredTogether: what a reader gets is what was
// written, line by line, and a batch is bounded.
func TestLinesThatComeAtOnceAreStoredTogether(t *testing.T) {
	inBubble(t, func(w *world) {
		const n = 20_000
		text := strings.Repeat("x", 90)
		r := w.start(worker.Config{}, doing(func(_ context.Context, a *worker.Attempt) error {
			for i := range n {
				switch {
				case i%5000 == 17:
					a.Output.Text(task.Stderr, fmt.Appendf(nil, "%d", i), false)
				case i%5000 == 18:
					a.Output.Text(task.Stdout, fmt.Appendf(nil, "%d and", i), true)
				case i%5000 == 19:
					a.Output.Log("warn", fmt.Sprint(i), nil)
				case i%5000 == 20:
					a.Output.Text(task.Stdout, []byte{}, false)
				default:
					a.Output.Text(task.Stdout, fmt.Appendf(nil, "%d %s", i, text), false)
				}
			}
			return nil
		}))
		w.wantState(w.ended(w.submit(task.Spec{})), task.Finished, "")
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
				want, stream, more := fmt.Sprintf("%d %s", i, text), task.Stdout, false
				switch i % 5000 {
				case 17:
					want, stream = fmt.Sprint(i), task.Stderr
				case 18:
					want, more = fmt.Sprintf("%d and", i), true
				case 19:
					want, stream = fmt.Sprint(i), task.Log
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

// TestWhoPrintsFasterWaits: while one batch is stored, no more than one waits encoded and one is filled.
func TestWhoPrintsFasterWaits(t *testing.T) {
	inBubble(t, func(w *world) {
		var printed, ahead atomic.Int64
		r := w.start(worker.Config{}, doing(func(_ context.Context, a *worker.Attempt) error {
			line := []byte(strings.Repeat("y", 1000))
			for range 20_000 {
				a.Output.Text(task.Stdout, line, false)
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
		w.wantState(w.ended(w.submit(task.Spec{})), task.Finished, "")
		if n := ahead.Load(); n == 0 || n > 1100 {
			t.Errorf("%d lines of 1 kB were taken while a batch was stored, want at most two batches", n)
		}
	})
}

// TestLinesAddedTogether: what is added at once is stored as if it had come line by line, also where
// the limit cuts it.
func TestLinesAddedTogether(t *testing.T) {
	for _, limit := range []task.Size{0, 100, 1 << 20} {
		inBubble(t, func(w *world) {
			together := true
			r := w.start(worker.Config{Slots: 1}, doing(func(_ context.Context, a *worker.Attempt) error {
				a.Output.Line(task.Stdout, "first")
				for i := range 8 {
					text := fmt.Appendf(nil, "line %d\n\n  and é \xff %d", i, i)
					if together {
						a.Output.Texts(task.Stdout, text, 3)
						continue
					}
					for line := range bytes.SplitSeq(text, []byte{'\n'}) {
						a.Output.Text(task.Stdout, line, false)
					}
				}
				a.Output.Line(task.Stdout, "last")
				return nil
			}))
			said := func() (lines []string) {
				id := w.submit(task.Spec{Resources: task.Resources{Output: limit}})
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
