package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/output"
	"millrace/task/value"
	"millrace/worker"
)

// attempt gives a test the attempt of a handler that does something with it.
func doing(do func(ctx context.Context, a *worker.Attempt) error) map[string]worker.Handler {
	return map[string]worker.Handler{"h": func(ctx context.Context, _ task.Task) error { return do(ctx, worker.FromContext(ctx)) }}
}

// TestStandingIsCoalesced: however often a program reports progress, it is stored once a second,
// and the last report always is.
func TestStandingIsCoalesced(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.start(worker.Config{}, doing(func(_ context.Context, a *worker.Attempt) error {
			for i := range 1000 {
				a.Output.Status(fmt.Sprintf("page %d", i), float64(i)/1000)
				if err := a.Output.Metrics(map[string]float64{"pages": float64(i)}); err != nil {
					return err
				}
				wait(10 * time.Millisecond)
			}
			a.Output.Progress(1, "done")
			return nil
		}))
		ended := w.ended(w.submit(job.Spec{}))
		w.wantState(ended, task.Finished, "")
		lives := get(r.store, &r.lives)
		if n := len(lives); n < 9 || n > 13 {
			w.Errorf("it was stored %d times in 10 s", n)
		}
		last := lives[len(lives)-1]
		if last.Message != "done" || *last.Progress != 1 || last.Metrics["pages"] != 999 || last.Epoch != ended.Epoch {
			w.Errorf("the last word is %+v", last)
		}
		lines, err := r.store.lines()
		if n := len(lines); err != nil || n < 9 || n > 13 || !strings.HasSuffix(lines[n-1], "page 999") {
			w.Errorf("%d lines, %v: %q", n, err, lines)
		}
	})
}

func TestMetricsAreBounded(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.start(worker.Config{}, doing(func(_ context.Context, a *worker.Attempt) error {
			for i := range output.MaxLiveMetrics + 6 {
				err := a.Output.Metrics(map[string]float64{fmt.Sprint("m", i): 1})
				if (err != nil) != (i >= output.MaxLiveMetrics) {
					return fmt.Errorf("figure %d: %w", i, err)
				}
			}
			return nil
		}))
		w.wantState(w.ended(w.submit(job.Spec{})), task.Finished, "")
		if lives := get(r.store, &r.lives); len(lives[len(lives)-1].Metrics) != output.MaxLiveMetrics {
			w.Errorf("%d figures", len(lives[len(lives)-1].Metrics))
		}
	})
}

// TestCheckpointIsHandedOn: the next attempt gets the checkpoint; the first one reads nothing.
func TestCheckpointIsHandedOn(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.start(worker.Config{}, doing(func(ctx context.Context, a *worker.Attempt) error {
			if a.Task.Attempt == 1 {
				if a.Last() != nil {
					return fmt.Errorf("the first attempt goes on from %s", a.Last())
				}
				return errors.Join(a.Checkpoint(ctx, []byte(`{"next":7}`)), errors.New("again"))
			}
			a.Output.SetResult(a.Last())
			return nil
		}))
		ended := w.ended(w.submit(job.Spec{Retry: job.Retry{Max: 1}}))
		w.wantState(ended, task.Finished, "")
		if string(ended.Result) != `{"next":7}` {
			w.Errorf("the result is %s", ended.Result)
		}
		// An attempt that was fenced off cannot replace it.
		later := output.Checkpoint{Task: ended.ID, Epoch: ended.Epoch + 100, Value: []byte(`1`)}
		if err := r.store.SaveCheckpoint(w.Context(), later); err != nil {
			w.Fatal(err)
		}
		if err := r.store.SaveCheckpoint(w.Context(), output.Checkpoint{Task: ended.ID, Epoch: ended.Epoch}); !errors.Is(err, task.ErrFenced) {
			w.Errorf("an older epoch: %v", err)
		}
	})
}

func TestSpawnIsAsked(t *testing.T) {
	inBubble(t, func(w *world) {
		asked := make(chan birth.Submission, 2)
		handlers := doing(func(ctx context.Context, a *worker.Attempt) error {
			id, err := a.Spawn(ctx, "k", birth.Submission{Job: "page"})
			if err == nil && id != birth.ChildID(a.Task.ID, "k") {
				err = fmt.Errorf("the child is %s", id)
			}
			return err
		})
		r := w.start(worker.Config{Submit: func(_ context.Context, s birth.Submission) error { asked <- s; return nil }}, handlers)
		id := w.submit(job.Spec{})
		w.wantState(w.ended(id), task.Finished, "")
		if s := <-asked; s.Parent != id || s.Job != "page" || s.ID != birth.ChildID(id, "k") {
			w.Errorf("asked for %+v", s)
		}
		r.stop()
		<-r.done
		w.start(worker.Config{Node: "b"}, handlers)
		ended := w.ended(w.submit(job.Spec{}))
		if w.wantState(ended, task.Error, value.Task); !strings.Contains(ended.Message, "cannot submit") {
			w.Errorf("%s", ended.Message)
		}
	})
}

// chatty runs like a child process: it may be given more time, and it prints.
type chatty struct {
	do func(ctx context.Context, a *worker.Attempt)
}

func (c chatty) Run(ctx context.Context, a *worker.Attempt) worker.Outcome {
	c.do(ctx, a)
	if ctx.Err() != nil {
		return worker.Outcome{Class: value.Killed, Stopped: true}
	}
	return worker.Outcome{}
}

func command(spec job.Spec) job.Spec {
	spec.Run = &job.Run{Argv: []string{"x"}}
	return spec
}

func TestMoreTime(t *testing.T) {
	inBubble(t, func(w *world) {
		w.start(worker.Config{Commands: chatty{func(ctx context.Context, a *worker.Attempt) {
			for range 10 {
				if _, err := a.Extend(ctx, time.Minute); err != nil && ctx.Err() == nil {
					w.Errorf("extend: %v", err)
				}
				if takes(ctx, 20*time.Second) != nil {
					return
				}
			}
		}}}, nil)
		spec := command(job.Spec{Timeout: job.Timeout{Run: value.Duration(30 * time.Second), Extend: value.Duration(time.Hour)}})
		id := w.submit(spec)
		w.wantState(w.ended(id), task.Finished, "")
		if n := len(w.facts(id)); n > 2+5 {
			w.Errorf("asking ten times has left %d facts", n-2)
		}
		spec.Timeout.Extend = value.Duration(time.Minute)
		ended := w.ended(w.submit(spec))
		w.wantState(ended, task.Error, value.Timeout)
		if took := ended.EndedAt.Sub(ended.StartedAt); took != 90*time.Second {
			w.Errorf("it was ended after %v", took)
		}
	})
}

func TestHeartbeatTimeout(t *testing.T) {
	inBubble(t, func(w *world) {
		beats := true
		w.start(worker.Config{Commands: chatty{func(ctx context.Context, a *worker.Attempt) {
			for range 60 {
				a.Output.Line(output.Stdout, "still here")
				if beats {
					a.Output.Heartbeat()
				}
				if takes(ctx, time.Second) != nil {
					return
				}
			}
		}}}, nil)
		spec := command(job.Spec{Timeout: job.Timeout{Heartbeat: value.Duration(5 * time.Second)}})
		w.wantState(w.ended(w.submit(spec)), task.Finished, "")
		beats = false
		ended := w.ended(w.submit(spec))
		w.wantState(ended, task.Error, value.Timeout)
		if took := ended.EndedAt.Sub(ended.StartedAt); took < 5*time.Second || took > 6*time.Second || !strings.Contains(ended.Message, "heartbeat") {
			w.Errorf("after %v: %s", took, ended.Message)
		}
	})
}
