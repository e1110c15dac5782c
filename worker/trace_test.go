package worker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/reason"
	"millrace/worker"
)

// tracer notes the spans that a worker begins and ends.
type tracer struct {
	mu    sync.Mutex
	roots map[task.ID]task.ID
	ends  []string
}

type spanKey struct{}

func (r *tracer) Attempt(ctx context.Context, t *task.Task, root task.ID) (context.Context, worker.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.roots[t.ID] = root
	return context.WithValue(ctx, spanKey{}, t.ID), &span{r}
}

type span struct{ of *tracer }

func (*span) Traceparent() string { return "here" }
func (s *span) End(_ time.Time, class, why string) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.ends = append(s.of.ends, class+":"+why)
}

// A worker with a tracer has a span for each attempt: it covers what the handler does, ends as the
// attempt does, and knows the task's outermost ancestor.
func TestAttemptsAreTraced(t *testing.T) {
	inBubble(t, func(w *world) {
		r := &tracer{roots: map[task.ID]task.ID{}}
		w.start(worker.Config{Tracer: r}, map[string]worker.Handler{"h": func(ctx context.Context, k task.Task) error {
			if in := ctx.Value(spanKey{}); in != k.ID || worker.FromContext(ctx).Traceparent() != "here" {
				w.Errorf("the handler of %s is in the span of %v", k.ID, in)
			}
			if k.Parent != "" {
				return errors.New("no")
			}
			return nil
		}})
		top := w.submit(job.Spec{})
		w.wantState(w.ended(top), task.Finished, "")
		birth, err := birth.Of(birth.Submission{Spec: &job.Spec{Handler: "h"}, Parent: top}, nil, 0, time.Now())
		if err != nil {
			w.Fatal(err)
		}
		child := task.ID(events.NewID(time.Now()))
		if _, err := w.rec.Submit(w.Context(), child, birth); err != nil {
			w.Fatal(err)
		}
		w.wantState(w.ended(child), task.Error, reason.Task)
		if r.roots[top] != top || r.roots[child] != top {
			w.Errorf("the roots are %v, want %s", r.roots, top)
		}
		if len(r.ends) != 2 || r.ends[0] != ":" || r.ends[1] != "task:no" {
			w.Errorf("the spans ended with %q", r.ends)
		}
	})
}

// A worker that does not trace passes the context on with which a task was submitted.
func TestTraceContextIsPassedOn(t *testing.T) {
	const given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	inBubble(t, func(w *world) {
		var told string
		w.start(worker.Config{}, map[string]worker.Handler{"h": func(ctx context.Context, _ task.Task) error {
			told = worker.FromContext(ctx).Traceparent()
			return nil
		}})
		if _, err := birth.Of(birth.Submission{Spec: &job.Spec{Handler: "h"}, Trace: "x"}, nil, 0, time.Now()); err == nil {
			w.Error("what is no trace context was taken")
		}
		birth, err := birth.Of(birth.Submission{Spec: &job.Spec{Handler: "h"}, Trace: given}, nil, 0, time.Now())
		if err != nil {
			w.Fatal(err)
		}
		id := task.ID(events.NewID(time.Now()))
		if _, err := w.rec.Submit(w.Context(), id, birth); err != nil {
			w.Fatal(err)
		}
		if w.ended(id); told != given {
			w.Errorf("the handler was told %q", told)
		}
	})
}
