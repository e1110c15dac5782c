package promises

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"millrace/events"
	"millrace/integration/harness"
	"millrace/internal/testkit"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

// However a retry of a task with steps and a submission under the same unique key meet, a step of
// that task lives only if the task itself does, and of the two tasks one does.
func TestRetriedStepsHaveTheKey(t *testing.T) {
	t.Parallel()
	store := openLog(t)
	d := startDecider(t, store, filepath.Join(t.TempDir(), "view.db"), 0)
	defer d.end(t)
	c := client.New(store, "test")
	load := func(id task.ID) task.Task {
		now, err := c.Task(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	rounds := 6
	if *harness.Long {
		rounds = 200
	}
	for n := range rounds {
		spec := &job.Spec{
			Steps:  []job.Step{{Name: "a", Spec: job.Spec{Handler: "nobody"}}, {Name: "b", Spec: job.Spec{Handler: "nobody"}}},
			Unique: job.Unique{Key: fmt.Sprintf("/k%d", n)},
		}
		first, err := c.Submit(t.Context(), birth.Submission{Spec: spec, Queue: "nobody"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Cancel(t.Context(), first.ID, ""); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "it has ended", func() bool { return load(first.ID).State.Terminal() })
		which := first.ID // the whole, or one of its steps
		if n%2 == 1 {
			which = birth.ChildID(first.ID, "a")
		}
		var wg sync.WaitGroup
		var refused error
		other := false
		wg.Go(func() { _, refused = c.Retry(t.Context(), which, "") })
		wg.Go(func() {
			_, err := client.New(store, "other").Submit(t.Context(), birth.Submission{Spec: spec, Queue: "nobody"})
			if other = err == nil; !other && !errors.As(err, new(*events.Taken)) {
				t.Errorf("the other one: %v", err)
			}
		})
		wg.Wait()
		if refused != nil && !errors.As(refused, new(*events.Taken)) {
			t.Errorf("retry: %v", refused)
		}
		whole := load(first.ID)
		if refused == nil == other || whole.State.Terminal() == (refused == nil) {
			t.Errorf("round %d: the retry got %v and is %s, the other one lives: %v", n, refused, whole.State, other)
		}
		for _, step := range []string{"a", "b"} {
			if now := load(birth.ChildID(first.ID, step)); !now.State.Terminal() && whole.State.Terminal() {
				t.Errorf("round %d: step %s is %s, and the whole is %s", n, step, now.State, whole.State)
			}
		}
	}
}
