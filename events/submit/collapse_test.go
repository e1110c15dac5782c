package submit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	desk "millrace/events/submit"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

func collapsing(n int) birth.Submission {
	return birth.Submission{Params: map[string]json.RawMessage{"n": json.RawMessage(fmt.Sprint(n))}, Spec: &job.Spec{Handler: "h",
		Collapse: &job.Collapse{Key: "k", Quiet: value.Duration(10 * time.Second), Keep: job.KeepAll}}}
}

func collectedBy(t *testing.T, d *desk.Maker, id task.ID) []struct{ N int } {
	t.Helper()
	is, err := d.Rec.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var params struct{ Collected []struct{ N int } }
	if err := json.Unmarshal(is.Params, &params); err != nil {
		t.Fatal(err)
	}
	return params.Collected
}

// Submissions with one key become one task while that waits, of two servers as well. One that is repeated
// joins it once, and the first after its start makes another.
func TestCollapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newDesk(t)
		b := &desk.Maker{Store: a.Store, Rec: a.Rec}
		first, err := a.Submit(t.Context(), collapsing(0))
		if err != nil || first.Existing {
			t.Fatal(first, err)
		}
		for n, d := range []*desk.Maker{a, b, a, b} {
			s := collapsing(n + 1)
			s.ID = id(n + 1)
			for range 3 { // its answer is lost twice
				if r, err := d.Submit(t.Context(), s); err != nil || r.ID != first.ID || !r.Existing {
					t.Fatalf("submission %d: %+v, %v", n+1, r, err)
				}
			}
		}
		if all := collectedBy(t, a, first.ID); len(all) != 5 || all[0].N != 0 || all[4].N != 4 {
			t.Errorf("the task has %v", all)
		}
		is, err := a.Rec.Load(t.Context(), first.ID)
		if err != nil || is.State != task.Scheduled || is.Collapsed != 4 {
			t.Fatalf("%+v, %v", is, err)
		}
		if _, _, err := a.Rec.Do(t.Context(), is, task.Cancel{}); err != nil {
			t.Fatal(err)
		}
		repeated := collapsing(2)
		repeated.ID = id(2)
		if r, err := b.Submit(t.Context(), repeated); err != nil || r.ID != first.ID {
			t.Errorf("a repeated submission after the end of its task: %+v, %v", r, err)
		}
		for _, d := range []*desk.Maker{a, b} {
			if r, err := d.Submit(t.Context(), collapsing(9)); err != nil || r.ID == first.ID {
				t.Errorf("after the end: %+v, %v", r, err)
			}
		}
		if is, err = a.Rec.Load(t.Context(), first.ID); err != nil {
			t.Fatal(err)
		}
		if again, _, err := a.Rec.Do(t.Context(), is, task.Reopen{}); err != nil || again.State != task.Pending {
			t.Errorf("a retry while another waits: %v, %v", again.State, err)
		}
	})
}

// A flood becomes few tasks, and none of it is lost.
func TestCollapsedFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newDesk(t)
		desks := []*desk.Maker{a, {Store: a.Store, Rec: a.Rec}}
		const each, senders = 60, 20
		ctx, over := context.WithTimeout(t.Context(), 24*time.Hour)
		defer over()
		var mu sync.Mutex
		tasks := map[task.ID]int{}
		var wg sync.WaitGroup
		for s := range senders {
			wg.Go(func() {
				for n := range each {
					r, err := desks[s%2].Submit(ctx, collapsing(s*each+n))
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					tasks[r.ID]++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		got := map[int]bool{}
		for id := range tasks {
			for _, s := range collectedBy(t, a, id) {
				got[s.N] = true
			}
		}
		if len(tasks) != 2 || len(got) != each*senders {
			t.Errorf("%d submissions became %d tasks with %d", each*senders, len(tasks), len(got))
		}
	})
}

// However many come, a task is due at the latest time after its first, and what comes then makes another.
func TestCollapsedFloodKeepsTheLatestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newDesk(t)
		b := &desk.Maker{Store: a.Store, Rec: a.Rec}
		var all []task.ID
		for n := range 260 {
			r, err := []*desk.Maker{a, b}[n%2].Submit(t.Context(), collapsing(n))
			if err != nil {
				t.Fatal(err)
			}
			if !r.Existing {
				all = append(all, r.ID)
			}
			time.Sleep(time.Second)
		}
		for n, id := range all {
			is, err := a.Rec.Load(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if most := 100 * time.Second; n < 2 && (is.State != task.Pending || !is.Offered || is.Due.Sub(is.SubmittedAt) != most || is.Collapsed != 99) {
				t.Errorf("task %d is %s, due after %v, and stands for %d more", n+1, is.State, is.Due.Sub(is.SubmittedAt), is.Collapsed)
			}
		}
		if len(all) != 3 {
			t.Errorf("260 submissions, one a second, became %d tasks", len(all))
		}
	})
}
