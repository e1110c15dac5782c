package millracetest

import (
	"context"
	"reflect"
	"testing"

	"millrace"
	"millrace/worker"
)

// CrashEverywhere plays a test again and again, and loses the node at another moment each time: before and after each
// thing that a worker stores about a task, such as its start, a checkpoint or its end. What play returns must always
// be the same as without a crash: results, what lies in a database, how often a customer was charged. The test fails at
// the first difference, and says where.
//
// Each run has a world of its own, so play makes all that it uses. The lost node's tasks start again elsewhere, so what
// a function does before the moment it does again.
func CrashEverywhere[T any](t *testing.T, play func(t *testing.T, w *World) T) {
	t.Helper()
	run := func(at crash) (is T, crashed crash) {
		bubble(t, func(t *testing.T) {
			w := New(t)
			w.house.crash = at
			is = play(t, w)
			w.house.aside.Lock()
			defer w.house.aside.Unlock()
			crashed = w.house.crash
		})
		return is, crashed
	}
	want, all := run(crash{})
	for n := 1; n <= all.seen && !t.Failed(); n++ {
		for _, after := range []bool{false, true} {
			is, at := run(crash{at: n, after: after})
			if !reflect.DeepEqual(is, want) {
				t.Errorf("millracetest: with the node lost %s what it stores as number %d (%s) the outcome is\n%+v\nwithout that it is\n%+v",
					map[bool]string{false: "before", true: "after"}[after], n, at.what, is, want)
				break
			}
		}
	}
}

// between is a place of a function where its node is to be lost.
type between struct {
	function, step, next string
	lost                 bool // guarded by mu of the world
}

// CrashBetween loses the node of the first task of a function that comes to the step next behind step, once: what
// step gave is remembered, what stands between the two was done, and next has not begun. "" as step is the beginning of
// the function, as next its end. Steps without a name go by their kind, such as id. The test fails if no task comes
// there.
func (w *World) CrashBetween(f millrace.Handler, step, next string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &between{function: millrace.NameOf(f), step: step, next: next}
	w.between = append(w.between, b)
	w.t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !b.lost {
			w.t.Errorf("millracetest: no task of %s came from step %q to step %q", b.function, step, next)
		}
	})
}

// cross is the middleware that loses the nodes of [World.CrashBetween].
func (w *World) cross(ctx context.Context, t *millrace.Task, next func(context.Context) error) error {
	at := ""
	come := func(behind, step string) error {
		at = step
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, b := range w.between {
			if b.lost || *b != (between{function: t.Spec.Handler, step: behind, next: step}) {
				continue
			}
			b.lost = true
			w.house.lose(t.Node)
			<-ctx.Done()
			return context.Cause(ctx)
		}
		return nil
	}
	if err := next(worker.AtSteps(ctx, come)); err != nil {
		return err
	}
	return come(at, "")
}
