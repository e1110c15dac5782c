package definitions_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"millrace/events/jet"
	"millrace/events/jet/definitions"
	"millrace/events/jet/names"
	"millrace/events/jet/streams"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/schedule"
)

func testSchedule(name string) schedule.Definition {
	return schedule.Definition{Name: name, When: job.Schedule{Cron: "@yearly"}, Make: birth.Submission{Spec: &job.Spec{Handler: "x"}}}
}

// A follower of the changes knows what the leader has, however many there were.
func TestScheduleChanges(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := within(t)
	if changed, all, reached, err := s.ScheduleChanges(ctx, 0, 0); len(changed) > 0 || all || reached != 0 || err != nil {
		t.Fatalf("changes of an empty store: %v, all %t, up to %d, %v", changed, all, reached, err)
	}
	if _, _, err := s.PutSchedule(ctx, testSchedule("first"), "ada"); err != nil {
		t.Fatal(err)
	}
	_, all, at, err := s.ScheduleChanges(ctx, 0, 0)
	if !all || err != nil {
		t.Fatalf("changes since the beginning: all %t, %v; want all, to be listed", all, err)
	}
	const some = definitions.FewChanges - 2
	for i := range some {
		if _, _, err := s.PutSchedule(ctx, testSchedule(fmt.Sprint("s", i)), "ada"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.PauseSchedule(ctx, "s1", "ada", ""); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveSchedule(ctx, "s2", "ada"); err != nil {
		t.Fatal(err)
	}
	changed, all, reached, err := s.ScheduleChanges(ctx, at, 0)
	if all || err != nil || len(changed) != some {
		t.Fatalf("%d changed, all %t, up to %d, %v; want all %d told", len(changed), all, reached, err, some)
	}
	now := map[string]*schedule.Stored{}
	for _, c := range changed {
		now[c.Name] = c.Now
	}
	if len(now) != some || now["s0"] == nil || now["s0"].Paused != nil || now["s1"] == nil || now["s1"].Paused == nil || now["s2"] != nil {
		t.Errorf("%d schedules were changed, s0 to s2 are %v, %v, %v; want %d, the second paused and the third gone", len(now), now["s0"], now["s1"], now["s2"], some)
	}
	if changed, all, again, err := s.ScheduleChanges(ctx, reached, 0); len(changed) > 0 || all || again != reached || err != nil {
		t.Errorf("changes of which there are none: %v, all %t, up to %d, %v", changed, all, again, err)
	}
	if _, err := s.ResumeSchedule(ctx, "s1", "ada", ""); err != nil {
		t.Fatal(err)
	}
	if more, all, _, err := s.ScheduleChanges(ctx, at, 0); err != nil || all || len(more) != some || more[some-1].Name != "s1" || more[some-1].Now.Paused != nil {
		t.Errorf("%d changed, read in a batch, all %t, %v; want %d, the last the resumed one", len(more), all, err, some)
	}
	if _, err := s.JS.Publish(ctx, names.DefPrefix+"schedule.s3", []byte("{")); err != nil {
		t.Fatal(err)
	}
	changed, all, _, err = s.ScheduleChanges(ctx, reached, 0)
	if all || err != nil || len(changed) != 2 || changed[1].Name != "s3" || changed[1].Now == nil || changed[1].Now.Revision != 1 {
		t.Errorf("after nonsense on the chain of s3: %+v, all %t, %v; want the resumed one, and s3 as it was", changed, all, err)
	}
	publish(t, s, definitions.MostChanges, func(int) string { return names.DefPrefix + "schedule.s4" })
	if _, all, _, err := s.ScheduleChanges(ctx, at, 0); err != nil || !all {
		t.Errorf("more changes than are worth reading: all %t, %v; want all to be listed", all, err)
	}
	if _, all, _, _ := s.ScheduleChanges(ctx, reached+1_000_000, 0); !all {
		t.Error("a log that was made anew must be read anew")
	}
}

// A log that was made again begins after everything that any reader has read of the previous one.
func TestChangesOfAnotherLog(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := within(t)
	if _, _, err := s.PutSchedule(ctx, testSchedule("s"), "ada"); err != nil {
		t.Fatal(err)
	}
	_, _, at, err := s.ScheduleChanges(ctx, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	k := streams.NewRestorer(s.JS, timersOf(t, s), func(string) {})
	if err := k.Look(ctx, streams.Layout{}); err != nil {
		t.Fatal(err)
	}
	if err := s.JS.DeleteStream(ctx, names.LogStream); err != nil {
		t.Fatal(err)
	}
	if err := k.Look(ctx, streams.Layout{}); err != nil {
		t.Fatal(err)
	}
	if _, all, _, err := s.ScheduleChanges(ctx, at, 0); err != nil || !all {
		t.Errorf("changes after the log was made again: all %t, %v; want all to be listed", all, err)
	}
}

// Who knows that the log has gone on learns of each change, and up to where there is none.
func TestChangesUpToAKnownSequence(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := within(t)
	if _, _, err := s.PutSchedule(ctx, testSchedule("s"), "ada"); err != nil {
		t.Fatal(err)
	}
	_, _, at, err := s.ScheduleChanges(ctx, 0, 99)
	if err != nil {
		t.Fatal(err)
	}
	busy(t, s, 10)
	for _, known := range []uint64{at + 3, at + 10} {
		if changed, all, reached, err := s.ScheduleChanges(ctx, at, known); len(changed) > 0 || all || reached != known || err != nil {
			t.Errorf("no changes after %d, where %d is known: %v, all %t, up to %d, %v", at, known, changed, all, reached, err)
		}
	}
	if _, err := s.PauseSchedule(ctx, "s", "ada", ""); err != nil {
		t.Fatal(err)
	}
	for _, known := range []uint64{at + 3, at + 11, at} {
		changed, all, reached, err := s.ScheduleChanges(ctx, at, known)
		if len(changed) != 1 || changed[0].Now == nil || changed[0].Now.Paused == nil || all || reached != at+11 || err != nil {
			t.Errorf("a change after %d, where %d is known: %v, all %t, up to %d, %v", at, known, changed, all, reached, err)
		}
	}
	if _, all, _, err := s.ScheduleChanges(ctx, 0, at); !all || err != nil {
		t.Errorf("changes since the beginning: all %t, %v; want all, to be listed", all, err)
	}
}

// busy makes the log store a number of messages that define nothing, each on a subject of its own,
// like those of tasks.
func busy(t testing.TB, s *jet.Store, messages int) {
	t.Helper()
	publish(t, s, messages, func(i int) string { return fmt.Sprint(names.TickPrefix, "busy", i) })
}

// publish makes the log store a number of empty messages on the subjects that are chosen for them.
func publish(t testing.TB, s *jet.Store, messages int, subject func(i int) string) {
	t.Helper()
	for i := range messages {
		if _, err := s.JS.PublishAsync(subject(i), nil); err != nil {
			t.Fatal(err)
		}
		if i%1024 == 1023 { // the library takes a few thousand at once
			<-s.JS.PublishAsyncComplete()
		}
	}
	<-s.JS.PublishAsyncComplete()
}

// Changes are also found after more messages than are worth scanning, and so is their absence.
func TestChangesFarBehind(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := within(t)
	busy(t, s, 1)
	at := must(s.End(ctx))(t)
	changed := func(want ...string) {
		t.Helper()
		busy(t, s, definitions.FarBehind+1)
		found, all, reached, err := s.ScheduleChanges(ctx, at, 0)
		if end := must(s.End(ctx))(t); all || err != nil || reached != end {
			t.Fatalf("all %t, up to %d, %v; want up to %d", all, reached, err, end)
		}
		var names []string
		for _, c := range found {
			names = append(names, c.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("changed are %v, want %v", names, want)
		}
		at = reached
	}
	changed() // nothing was ever defined
	for _, name := range []string{"first", "second"} {
		if _, _, err := s.PutSchedule(ctx, testSchedule(name), "ada"); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.PutJob(ctx, testJob("thumbnail"), "ada"); err != nil {
		t.Fatal(err)
	}
	changed("first", "second")
	changed()
	if err := s.RemoveSchedule(ctx, "first", "ada"); err != nil {
		t.Fatal(err)
	}
	changed("first")
}

// Looking for changes after as many messages as a busy log stores in some seconds.
func BenchmarkChanges(b *testing.B) {
	s := newStore(b)
	ctx := b.Context()
	if _, _, err := s.PutSchedule(ctx, testSchedule("s"), "ada"); err != nil {
		b.Fatal(err)
	}
	at := must(s.End(ctx))(b)
	busy(b, s, 100_000)
	for b.Loop() {
		if found, all, _, err := s.ScheduleChanges(ctx, at, 0); len(found) > 0 || all || err != nil {
			b.Fatal(found, all, err)
		}
	}
}

func TestJobChanges(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := within(t)
	if _, _, err := s.PutJob(ctx, testJob("thumbnail"), "ada"); err != nil {
		t.Fatal(err)
	}
	_, _, at, err := s.JobChanges(ctx, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if j, revision, err := s.JobToRun(ctx, "thumbnail"); err != nil || revision != 1 || j.Name != "thumbnail" {
		t.Errorf("the job is %+v, %v", j, err)
	}
	if err := s.RemoveJob(ctx, "thumbnail", "ada"); err != nil {
		t.Fatal(err)
	}
	if names, all, _, err := s.JobChanges(ctx, at, 0); len(names) != 1 || names[0] != "thumbnail" || all || err != nil {
		t.Errorf("changed are %v, all %t, %v; want thumbnail", names, all, err)
	}
	for _, name := range []string{"thumbnail", "never"} {
		if _, _, err := s.JobToRun(ctx, name); !errors.Is(err, definitions.ErrNoJob) || !errors.Is(err, birth.ErrNoTask) {
			t.Errorf("job %s: %v, want ErrNoJob", name, err)
		}
	}
}
