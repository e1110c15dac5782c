package verify_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/events/logtest"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/job"
)

// Claims of a unique key are repeated: the first, one behind an ended task, one without a birth,
// and one under another policy. Changes in them are found.
func TestClaimsAreDecidedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := events.NewMemory(time.Now, time.Minute)
		rec := &events.Recorder{Log: log, Actor: "test", Now: time.Now, NewID: events.NewID}
		submit := func(while ...string) (task.ID, error) {
			id := task.ID(events.NewID(time.Now()))
			_, err := rec.Submit(t.Context(), id, task.Submitted{Work: task.Work{Route: "default.5", Spec: &job.Spec{Handler: "x", Unique: job.Unique{Key: "/k", While: while}}}})
			return id, err
		}
		end := func(id task.ID) {
			k, err := rec.Load(t.Context(), id)
			if err == nil {
				_, _, err = rec.Do(t.Context(), k, task.Cancel{Reason: "enough"})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		must := func(while ...string) task.ID {
			t.Helper()
			id, err := submit(while...)
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		first := must()
		if _, err := submit(); !errors.As(err, new(*events.Taken)) {
			t.Fatalf("%v, want it refused", err)
		}
		end(first)
		second := must()
		third := must("running") // the second only waits
		end(second)
		end(third)
		key, err := (&task.Work{Spec: &job.Spec{Unique: job.Unique{Key: "/k"}}}).UniqueKey()
		last, _, _ := log.Latest(t.Context(), events.Fact{Key: key})
		if err != nil || last.Seq == 0 {
			t.Fatal(err, last.Seq)
		}
		k, err := rec.Load(t.Context(), first)
		if err == nil {
			_, _, err = rec.Do(t.Context(), k, task.Reopen{Reason: "again"})
		}
		if err != nil {
			t.Fatal(err)
		}
		end(first)
		must() // behind a claim to be reopened: it checks the earlier claimants, too
		for _, f := range verify.Decided(log.All()) {
			t.Errorf("%s", f.What)
		}
		changed := map[string]int{}
		logtest.Alter(t, log.All(), 9, changed, verify.Doubted)
		if changed["unique.claimed before"] < 4 || changed["unique.claimed by.ends"] < 4 {
			t.Errorf("changed: %v", changed)
		}
	})
}
