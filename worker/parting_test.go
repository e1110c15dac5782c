package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/output"
	"millrace/task/value"
	"millrace/worker"
)

// TestLastWordsAtShutdown: what an attempt prints and produces while its worker stops it is stored.
func TestLastWordsAtShutdown(t *testing.T) {
	for _, spec := range []job.Spec{{}, carriesOn} {
		inBubble(t, func(w *world) {
			a := w.start(worker.Config{Grace: time.Second}, doing(func(ctx context.Context, a *worker.Attempt) error {
				a.Output.Line(output.Stdout, "first")
				<-ctx.Done()
				wait(500 * time.Millisecond)
				a.Output.Line(output.Stdout, "saved 7 pages")
				return errors.Join(ctx.Err(), a.Output.Insert(json.RawMessage(`7`)))
			}))
			set(a.store, &a.print, func(ctx context.Context) error { return ctx.Err() })
			w.submit(spec)
			pass(time.Second)
			a.stop()
			if err := <-a.done; err != nil {
				t.Fatal(err)
			}
			var last string
			for _, p := range get(a.store, &a.printed) {
				for _, l := range p.Lines.Lines {
					last = l.Text
				}
			}
			if n := len(get(a.store, &a.kept)); last != "saved 7 pages" || n != 1 {
				t.Errorf("on_disconnect %q: the last line is %q, with %d batches of records", spec.OnDisconnect, last, n)
			}
		})
	}
}

// TestShutdownWaitsForNoStore: a store that does not answer holds up the end of a worker only for
// so long.
func TestShutdownWaitsForNoStore(t *testing.T) {
	inBubble(t, func(w *world) {
		spec := job.Spec{Timeout: job.Timeout{Stop: value.Duration(5 * time.Second)}}
		a := w.start(worker.Config{Grace: time.Second}, doing(func(ctx context.Context, a *worker.Attempt) error {
			<-ctx.Done()
			a.Output.Line(output.Stdout, "last")
			return ctx.Err()
		}))
		set(a.store, &a.print, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		id := w.submit(spec)
		pass(time.Second)
		began := time.Now()
		a.stop()
		if err := <-a.done; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the worker ended after %v", took)
		}
		w.wantState(w.task(id), task.Pending, "the worker shuts down")
	})
}

// TestGoodbyeIsBounded: a log that answers no write, as after a full disk, or nothing at all delays the
// end of a worker by some seconds at most, whether it runs a task, has something to report, or neither.
func TestGoodbyeIsBounded(t *testing.T) {
	const grace, stop, more = 2 * time.Second, 4 * time.Second, 10 * time.Second
	for name, c := range map[string]struct {
		busy bool
		runs time.Duration // 0: until it is told to end
		most time.Duration
	}{
		"idle":            {false, 0, more},
		"busy":            {true, 0, grace + stop + more},
		"with its report": {true, time.Second, grace + stop + more},
	} {
		for log, silent := range map[string]func(*store) *bool{
			"mute": func(s *store) *bool { return &s.mute },
			"deaf": func(s *store) *bool { return &s.deaf },
		} {
			for disconnected, spec := range map[string]job.Spec{"stops": {}, "continues": carriesOn} {
				t.Run(name+", "+log+", "+disconnected, func(t *testing.T) {
					inBubble(t, func(w *world) {
						a := w.start(worker.Config{Grace: grace}, doing(func(ctx context.Context, a *worker.Attempt) error {
							if c.runs > 0 {
								wait(c.runs)
								return nil
							}
							<-ctx.Done()
							a.Output.Line(output.Stdout, "last")
							return ctx.Err()
						}))
						if c.busy {
							spec.Timeout.Stop = value.Duration(stop)
							w.submit(spec)
							pass(500 * time.Millisecond)
						}
						set(a.store, silent(a.store), true)
						pass(time.Second)
						began := time.Now()
						a.stop()
						if err := <-a.done; err != nil {
							t.Fatal(err)
						}
						if took := time.Since(began); took > c.most {
							t.Errorf("the worker ended after %v, want %v at most", took, c.most)
						}
						set(a.store, silent(a.store), false) // for the look at the log
					})
				})
			}
		}
	}
}

// A worker that is asked to end while a claim is under way says that it is draining only when that is
// over: nothing begins on a node after it has said so.
func TestNothingBeginsAfterDraining(t *testing.T) {
	for _, slow := range []time.Duration{time.Second, 10 * time.Second} { // longer than the worker waits to say so
		inBubble(t, func(w *world) {
			s := &slowClaims{store: newStore(w.log)}
			k := w.startPorts(s.store, worker.Ports{Log: s, Offers: s, Nodes: s, Outputs: s}, worker.Config{Beat: 2 * time.Second, NodeTTL: 6 * time.Second}, map[string]worker.Handler{"h": done})
			s.slow.Store(int64(slow))
			w.submit(job.Spec{})
			pass(slow / 2)
			k.stop()
			<-k.done
			draining := uint64(0)
			for _, r := range w.log.All() {
				switch {
				case r.Fact.Type == events.NodeDraining:
					draining = r.Seq
				case r.Fact.Type == events.AttemptStarted && draining > 0:
					t.Errorf("with claims of %v an attempt starts at %d, after its node is draining at %d", slow, r.Seq, draining)
				}
			}
		})
	}
}

// slowClaims is a store whose claims arrive late.
type slowClaims struct {
	*store
	slow atomic.Int64
}

func (s *slowClaims) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	if f.Type == events.AttemptStarted {
		wait(time.Duration(s.slow.Load()))
	}
	return s.store.Append(ctx, f, last)
}
