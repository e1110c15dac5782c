package events_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/birth"
)

// Ended tasks, new tasks and retries of both run at once, and answers get lost. At any place in the
// log, at most one task with the key is alive.
func TestUniqueAgainRace(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			mem := events.NewMemory(time.Now, time.Second)
			clean, log := submitter(mem), logtest.NewFaulty(mem, seed, 0.25)
			id := func(n int) task.ID { return task.ID(fmt.Sprintf("01JNA0%020d", n)) }
			end := func(r *events.Recorder, id task.ID) {
				if known, err := r.Load(t.Context(), id); err == nil && !known.State.Terminal() {
					if _, _, err := r.Do(t.Context(), known, task.Cancel{}); err != nil && !errors.Is(err, task.ErrEnded) {
						t.Errorf("seed %d: cancel: %v", seed, err)
					}
				}
			}
			for n := range 3 {
				if _, err := clean.Submit(t.Context(), id(n), uniqueBirth("k")); err != nil {
					t.Fatal(err)
				}
				end(clean, id(n))
			}
			var wg sync.WaitGroup
			refused := func(err error) {
				if err != nil && !errors.As(err, new(*events.Taken)) && !errors.Is(err, task.ErrRunning) {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
			for n := range 3 {
				for range 2 { // two that want the same
					wg.Go(func() {
						r := submitter(log)
						known, err := r.Load(t.Context(), id(n))
						if err == nil {
							_, _, err = r.Do(t.Context(), known, task.Reopen{Reason: "again"})
						}
						refused(err)
					})
				}
				wg.Go(func() {
					_, err := submitter(log).Submit(t.Context(), id(10+n), uniqueBirth("k"))
					refused(err)
				})
				wg.Go(func() { end(submitter(log), id(n)) })
			}
			wg.Wait()
			live := map[task.ID]bool{}
			lived := 0
			known := map[task.ID]task.Task{}
			for _, r := range mem.All() {
				about := r.Fact.Task
				if about == "" {
					continue
				}
				was, ok := known[about]
				if !ok {
					was.ID = about
				}
				is := task.Evolve(was, r.Task())
				known[about] = is
				if delete(live, about); !is.State.Terminal() {
					live[about] = true
				}
				if was.State.Terminal() && !is.State.Terminal() {
					lived++
				}
				if len(live) > 1 {
					t.Fatalf("seed %d: at %d the key is held by %v", seed, r.Seq, live)
				}
			}
			if len(live) == 0 && lived == 0 {
				t.Errorf("seed %d: nobody got the key", seed)
			}
		})
	}
}

// A task whose reopening was refused has claimed the key nevertheless. That does not hide the
// holder.
func TestUniqueAgainRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := events.NewMemory(time.Now, time.Second)
		r := submitter(mem)
		old, holder := task.ID("01JNA000000000000000000001"), task.ID("01JNA000000000000000000002")
		if _, err := r.Submit(t.Context(), old, uniqueBirth("k")); err != nil {
			t.Fatal(err)
		}
		ended, err := r.Load(t.Context(), old)
		if err == nil {
			ended, _, err = r.Do(t.Context(), ended, task.Cancel{})
		}
		if err != nil {
			t.Fatal(err)
		}
		// The holder is born just before the old one's claim.
		slow := &late{Memory: mem}
		slow.before = func() {
			slow.before = func() {}
			if _, err := r.Submit(t.Context(), holder, uniqueBirth("k")); err != nil {
				t.Error(err)
			}
			claim, _, _ := mem.Latest(t.Context(), events.Fact{Key: "j/k"})
			f := r.Fact("", nil)
			f.Type, f.Key, f.Event = events.UniqueClaimed, "j/k", birth.KeyClaimed{Holder: old, Before: []task.ID{holder}}
			if _, err := mem.Append(t.Context(), f, claim.Seq); err != nil {
				t.Error(err)
			}
		}
		for n, who := range []*events.Recorder{submitter(slow), r, r} {
			var taken *events.Taken
			if _, _, err := who.Do(t.Context(), ended, task.Reopen{}); !errors.As(err, &taken) || taken.Holder != holder {
				t.Errorf("retry %d: %v, want that %s has the key", n, err, holder)
			}
			if _, err := r.Submit(t.Context(), task.ID(fmt.Sprintf("01JNA00000000000000000001%d", n)), uniqueBirth("k")); !errors.As(err, &taken) || taken.Holder != holder {
				t.Errorf("submission %d: %v, want that %s has the key", n, err, holder)
			}
		}
	})
}
