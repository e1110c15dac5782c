package projections

import (
	"testing"
	"time"

	"millrace/task"
)

// Tasks that have ended, or are due in years, take no place in the cache.
func TestCacheKeepsWhatMayChange(t *testing.T) {
	c := newCache(2)
	since := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	put := func(id task.ID, state task.State, due time.Duration) {
		c.put(&task.Task{ID: id, State: state, Since: since, Due: since.Add(due)}, 1)
	}
	has := func(id task.ID, want bool) {
		t.Helper()
		if _, ok := c.get(id); ok != want {
			t.Errorf("task %s is kept: %v, want %v", id, ok, want)
		}
	}
	put("soon", task.Scheduled, time.Minute)
	put("runs", task.Running, 0)
	put("late", task.Scheduled, 24*time.Hour)
	has("soon", true)
	has("runs", true)
	has("late", false)
	put("late", task.Pending, 24*time.Hour) // its time has come
	has("late", true)
	has("soon", false)
	put("late", task.Finished, 0)
	has("late", false)
	put("runs", task.Scheduled, 24*time.Hour)
	has("runs", false)
}
