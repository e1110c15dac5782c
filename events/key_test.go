package events_test

import (
	"context"
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
	"millrace/task/job"
	"millrace/task/limit"
)

func uniqueBirth(key string) task.Submitted {
	return task.Submitted{Work: task.Work{Job: "j", Route: "default.5", Spec: &job.Spec{Handler: "h", Unique: job.Unique{Key: key}}}}
}

func submitter(log events.Log) *events.Recorder {
	return &events.Recorder{Log: log, Actor: "test", Now: time.Now, NewID: events.NewID}
}

// Of many concurrent submitters on a log that loses answers, exactly one makes a task. The others
// learn which.
func TestUniqueRace(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			mem := events.NewMemory(time.Now, time.Second)
			log := logtest.NewFaulty(mem, seed, 0.3)
			var wg sync.WaitGroup
			for n := range 8 {
				id := task.ID(fmt.Sprintf("01JNA0%020d", n))
				wg.Go(func() {
					_, err := submitter(log).Submit(t.Context(), id, uniqueBirth("k"))
					var taken *events.Taken
					if err != nil && !errors.As(err, &taken) {
						t.Errorf("seed %d: %v", seed, err)
					}
				})
			}
			wg.Wait()
			born := map[task.ID]bool{}
			for _, r := range mem.All() {
				if _, ok := r.Fact.Event.(task.Submitted); ok {
					born[r.Fact.Task] = true
				}
			}
			if len(born) != 1 {
				t.Errorf("seed %d: %d tasks have the key", seed, len(born))
			}
		})
	}
}

// What anybody may put behind the claims of a key, or behind the facts about a breaker, frees no key
// and closes no breaker.
func TestGarbageFreesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := events.NewMemory(time.Now, time.Second)
		r, holder := submitter(mem), task.ID("01JNA000000000000000000001")
		if _, err := r.Submit(t.Context(), holder, uniqueBirth("k")); err != nil {
			t.Fatal(err)
		}
		mem.AppendRaw(events.Fact{Key: "j/k"}, []byte("garbage"))
		_, err := r.Submit(t.Context(), "01JNA000000000000000000002", uniqueBirth("k"))
		if taken, ok := errors.AsType[*events.Taken](err); !ok || taken.Holder != holder {
			t.Errorf("behind garbage another task has the key: %v", err)
		}
		end := time.Now().Add(time.Minute)
		open := func(limit.Circuit, time.Time) events.Verdict {
			return events.Verdict{Event: limit.Opened{Reason: "all fails", Until: end}}
		}
		if _, _, err := r.DoBreaker(t.Context(), "j", open); err != nil {
			t.Fatal(err)
		}
		mem.AppendRaw(events.Fact{Job: "j"}, []byte("garbage"))
		was, _, err := r.DoBreaker(t.Context(), "j", open)
		if err != nil || was.State != limit.StateOpen || !was.Until.Equal(end) {
			t.Errorf("behind garbage the breaker is %+v, %v", was, err)
		}
	})
}

// A submitter that dies between its claim and the birth locks nothing. The birth of one that is
// only slow is not accepted any more: its task is made under another claim, or refused.
func TestUniqueCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := events.NewMemory(time.Now, time.Second)
		dead := submitter(mem)
		claim := dead.Fact("", nil)
		claim.Type, claim.Key, claim.Event = events.UniqueClaimed, "j/k", birth.KeyClaimed{Holder: "01JNA000000000000000000001"}
		seq, err := mem.Append(t.Context(), claim, 0)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := submitter(mem).Submit(t.Context(), "01JNA000000000000000000002", uniqueBirth("k")); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it took %v to find that the claim has no task", took)
		}
		if _, err := mem.PlaceClaimed(t.Context(), dead.Fact("01JNA000000000000000000001", uniqueBirth("k")), "j/k", seq, false); !errors.Is(err, events.ErrConflict) {
			t.Errorf("the late birth: %v, want ErrConflict", err)
		}
		var taken *events.Taken
		if _, err := submitter(mem).Submit(t.Context(), "01JNA000000000000000000003", uniqueBirth("k")); !errors.As(err, &taken) || taken.Holder != "01JNA000000000000000000002" {
			t.Errorf("a third one: %v, want that the second has the key", err)
		}
	})
}

// A claim that comes between two checks finds the births before it.
func TestUniqueLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := events.NewMemory(time.Now, time.Second)
		slow := &late{Memory: mem}
		first, second := task.ID("01JNA000000000000000000001"), task.ID("01JNA000000000000000000002")
		// The first one's birth comes when the second has given up on it and is about to claim.
		slow.before = func() {
			claim, _, _ := mem.Latest(t.Context(), events.Fact{Key: "j/k"})
			if claim.Fact.Event.(birth.KeyClaimed).Holder == first {
				if _, err := mem.PlaceClaimed(t.Context(), submitter(mem).Fact(first, uniqueBirth("k")), "j/k", claim.Seq, false); err != nil {
					t.Error(err)
				}
			}
		}
		claim := submitter(mem).Fact("", nil)
		claim.Type, claim.Key, claim.Event = events.UniqueClaimed, "j/k", birth.KeyClaimed{Holder: first}
		if _, err := mem.Append(t.Context(), claim, 0); err != nil {
			t.Fatal(err)
		}
		var taken *events.Taken
		if _, err := submitter(slow).Submit(t.Context(), second, uniqueBirth("k")); !errors.As(err, &taken) || taken.Holder != first {
			t.Errorf("the second: %v, want that the first has the key", err)
		}
		// The second one's claim is the last, and it was never born, so the first one still has the
		// key.
		if _, err := submitter(mem).Submit(t.Context(), "01JNA000000000000000000003", uniqueBirth("k")); !errors.As(err, &taken) || taken.Holder != first {
			t.Errorf("the third: %v, want that the first has the key", err)
		}
	})
}

// late does something just before a claim is recorded.
type late struct {
	*events.Memory
	before func()
}

func (l *late) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	if f.Key != "" {
		l.before()
	}
	return l.Memory.Append(ctx, f, last)
}
