package millracetest_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"millrace"
	"millrace/millracetest"
)

// A schedule makes its tasks while the test's clock moves: those of a stored job, and those of a schedule of its own,
// which ends when it is removed.
func TestSchedules(t *testing.T) {
	t.Parallel()
	millracetest.Run(t, func(t *testing.T, w *millracetest.World) {
		var at []string
		note := millrace.Action("note", func(_ context.Context, what string) error {
			at = append(at, time.Now().Format("Mon 15:04 ")+what)
			return nil
		}, millrace.Cron("30 6 * * *", ""))
		w.Work(note)
		if err := note.Schedule(t.Context(), w.App, "mornings", "milk"); err != nil {
			t.Fatal(err)
		}
		if err := note.Schedule(t.Context(), w.App, "weekly", "bread", millrace.Cron("0 9 * * 1", "Europe/Berlin")); err != nil {
			t.Fatal(err)
		}
		w.Advance(3 * 24 * time.Hour) // the first day is a Saturday
		if want := []string{"Sat 06:30 milk", "Sun 06:30 milk", "Mon 06:30 milk", "Mon 08:00 bread"}; !slices.Equal(at, want) {
			t.Errorf("it ran at %q, want %q", at, want)
		}
		if err := w.App.Client().RemoveSchedule(t.Context(), "mornings"); err != nil {
			t.Fatal(err)
		}
		w.Advance(7 * 24 * time.Hour)
		if len(at) != 5 {
			t.Errorf("it ran at %q, want once more", at)
		}
	})
}

// A tick that comes while the task of the one before runs waits for it, if the schedule says so.
func TestOverlap(t *testing.T) {
	t.Parallel()
	millracetest.Run(t, func(t *testing.T, w *millracetest.World) {
		var began []time.Duration
		first := time.Now()
		slow := millrace.Action("slow", func(ctx context.Context, _ struct{}) error {
			began = append(began, time.Since(first))
			select {
			case <-time.After(90 * time.Minute):
			case <-ctx.Done():
			}
			return ctx.Err()
		}, millrace.Fields("schedule: {every: 1h, overlap: queue}"))
		w.Work(slow)
		if err := w.App.Apply(t.Context(), slow); err != nil {
			t.Fatal(err)
		}
		w.Advance(5 * time.Hour)
		for i := 1; i < len(began); i++ {
			if between := began[i] - began[i-1]; between < 90*time.Minute || between > 91*time.Minute {
				t.Errorf("they began at %v", began)
			}
		}
		if len(began) != 3 {
			t.Errorf("they began at %v, want three", began)
		}
	})
}
