package definitions_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/events/jet/names"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/param"
	"millrace/task/value"
)

func testJob(name string) job.Job {
	return job.Job{
		Name: name, Title: "A job", Labels: map[string]string{"k": "v"}, Params: param.Params{Defaults: map[string]json.RawMessage{"n": []byte("1")}}, Queue: "images",
		Spec: job.Spec{Run: &job.Run{Argv: []string{"echo", "hello"}}, Timeout: job.Timeout{Run: value.Duration(time.Minute)}, Retry: job.Retry{Max: 2}},
	}
}

func TestJobs(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := within(t)
	if jobs, err := s.Jobs(ctx); err != nil || len(jobs) != 0 {
		t.Fatalf("the jobs of an empty store: %v, %v", jobs, err)
	}
	if _, err := s.Job(ctx, "thumbnail"); !errors.Is(err, definitions.ErrNoJob) {
		t.Fatalf("a job that never was: %v, want ErrNoJob", err)
	}
	first, changed, err := s.PutJob(ctx, testJob("thumbnail"), "ada")
	if err != nil || !changed {
		t.Fatalf("PutJob: changed %v, %v", changed, err)
	}
	if again, changed, err := s.PutJob(ctx, testJob("thumbnail"), "ada"); again != first || changed || err != nil {
		t.Errorf("an equal job: revision %d, changed %v, %v; want revision %d, unchanged", again, changed, err, first)
	}
	other := testJob("thumbnail")
	other.Title = "Another title"
	second, changed, err := s.PutJob(ctx, other, "ada")
	if err != nil || !changed || first != 1 || second != 2 {
		t.Errorf("a changed job: revision %d after %d, changed %v, %v; want 2 after 1", second, first, changed, err)
	}
	if _, _, err := s.PutJob(ctx, testJob("backup"), "ada"); err != nil {
		t.Fatal(err)
	}
	got, err := s.Job(ctx, "thumbnail")
	if err != nil || got.Revision != second || !reflect.DeepEqual(got.Job, other) || time.Since(got.Changed).Abs() > time.Minute {
		t.Errorf("read %+v, %v; want %+v at revision %d", got, err, other, second)
	}
	if jobs, err := s.Jobs(ctx); err != nil || len(jobs) != 2 || jobs[0].Name != "backup" || jobs[1].Name != "thumbnail" {
		t.Errorf("the jobs are %+v, %v; want backup and thumbnail", jobs, err)
	}
	for _, bad := range []job.Job{{}, {Name: "a.b", Spec: other.Spec}, {Name: "*", Spec: other.Spec}, {Name: "nothing-to-run"}} {
		if _, _, err := s.PutJob(ctx, bad, "ada"); err == nil {
			t.Errorf("PutJob took %+v", bad)
		}
	}
	for _, name := range []string{"", "a.b", ">", "a b"} {
		if _, err := s.Job(ctx, name); err == nil {
			t.Errorf("Job(%q) found something", name)
		}
	}
	if err := s.RemoveJob(ctx, "thumbnail", "ada"); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveJob(ctx, "thumbnail", "ada"); !errors.Is(err, definitions.ErrNoJob) {
		t.Errorf("RemoveJob again: %v, want ErrNoJob", err)
	}
	facts := must(s.DefinitionFacts(ctx, "job.thumbnail"))(t)
	var told []uint64
	var is task.Definition
	for i := range facts {
		if facts[i].Err != nil || facts[i].Fact.Actor != "ada" || facts[i].Fact.Def != "job.thumbnail" {
			t.Errorf("told was %+v", facts[i])
		}
		if err := is.Follows(facts[i].Fact.Event.(task.DefinitionEvent)); err != nil {
			t.Error(err)
		}
		is = events.FoldDefinition(facts[:i+1])
		told = append(told, is.Revision)
	}
	if len(told) != 3 || told[0] != first || told[1] != second || told[2] != 3 || facts[2].Fact.Type != events.DefinitionRemoved {
		t.Errorf("the log tells of the revisions %v, want %d, %d and a removal", told, first, second)
	}
	if fourth, changed, err := s.PutJob(ctx, other, "ada"); err != nil || !changed || fourth != 4 {
		t.Errorf("a removed job stored again: revision %d, changed %v, %v; want 4", fourth, changed, err)
	}
	for revision, title := range map[uint64]string{1: "A job", 2: other.Title, 4: other.Title, 0: other.Title} {
		if j, at, err := s.JobAt(ctx, "thumbnail", revision); err != nil || j.Title != title || at != max(revision, at) || revision == 0 && at != 4 {
			t.Errorf("revision %d is %+v at %d, %v; want the title %q", revision, j, at, err, title)
		}
	}
	for _, revision := range []uint64{3, 5} {
		if _, _, err := s.JobAt(ctx, "thumbnail", revision); !errors.Is(err, definitions.ErrNoJob) {
			t.Errorf("revision %d: %v, want ErrNoJob", revision, err)
		}
	}
}

// A job that was published by other means hides neither the other jobs nor its own earlier
// revision, and can be replaced and removed.
func TestUnreadableJob(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := within(t)
	for _, name := range []string{"good", "was"} {
		if _, _, err := s.PutJob(ctx, testJob(name), "ada"); err != nil {
			t.Fatal(err)
		}
	}
	must(s.JS.Publish(ctx, names.DefPrefix+"job.was", []byte("{")))(t)
	must(s.JS.Publish(ctx, names.DefPrefix+"job.never", []byte("{")))(t)
	next := must((&task.Definition{}).Next([]byte(`{"name":"another"}`)))(t)
	now := s.Now()
	must(s.Append(ctx, &events.Fact{ID: events.NewID(now), At: now, Def: "job.bad", Type: events.DefinitionApplied, Event: task.DefinitionApplied{Edition: next}}, 0))(t)
	jobs, err := s.Jobs(ctx)
	if !errors.Is(err, definitions.ErrBadJob) || len(jobs) != 2 || jobs[0].Name != "good" || jobs[1].Name != "was" {
		t.Errorf("the jobs are %+v, %v; want the good one, the one that was, and an error", jobs, err)
	}
	if err := s.RemoveJob(ctx, "bad", "ada"); err != nil {
		t.Fatal(err)
	}
	other := testJob("was")
	other.Title = "another"
	if revision, _, err := s.PutJob(ctx, other, "ada"); revision != 2 || err != nil {
		t.Errorf("stored after nonsense: revision %d, %v; want 2", revision, err)
	}
	if _, err := s.Jobs(ctx); err != nil {
		t.Error(err)
	}
}

// Of several concurrent changes of a job one wins each time, and the others get an error; a change
// equal to the winner's succeeds.
func TestChangesAtOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := within(t)
	const writers, rounds = 8, 5
	var told, same atomic.Int32
	for round := range rounds {
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() {
				j := testJob("a")
				j.Title = fmt.Sprint(round, " ", i/2)
				_, changed, err := s.PutJob(ctx, j, fmt.Sprint(i))
				switch {
				case errors.Is(err, definitions.ErrChanged):
					told.Add(1)
				case err != nil:
					t.Error(err)
				case !changed:
					same.Add(1)
				}
			})
		}
		all.Wait()
	}
	facts := must(s.DefinitionFacts(ctx, "job.a"))(t)
	if len(facts)+int(told.Load()+same.Load()) != writers*rounds || told.Load() == 0 {
		t.Errorf("%d changes are in the log, %d writers were told, %d wanted what was there; want %d in all, and somebody told", len(facts), told.Load(), same.Load(), writers*rounds)
	}
	var is task.Definition
	for i := range facts {
		if err := is.Follows(facts[i].Fact.Event.(task.DefinitionEvent)); err != nil {
			t.Error(err)
		}
		is = events.FoldDefinition(facts[:i+1])
	}
	if is.Revision != uint64(len(facts)) {
		t.Errorf("%d changes led to revision %d", len(facts), is.Revision)
	}
}

func TestLongDefinition(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := within(t)
	j := testJob("a")
	j.Params.Defaults["long"] = []byte(`"` + strings.Repeat("x", task.MaxDefinition) + `"`)
	if _, _, err := s.PutJob(ctx, j, "ada"); !errors.Is(err, task.ErrLongDefinition) {
		t.Errorf("a job that is too long: %v", err)
	}
	if facts := must(s.DefinitionFacts(ctx, "job.a"))(t); len(facts) != 0 {
		t.Errorf("%d facts of it", len(facts))
	}
	j.Params.Defaults["long"] = []byte(`"` + strings.Repeat("x", task.MaxDefinition-1000) + `"`)
	if _, _, err := s.PutJob(ctx, j, "ada"); err != nil {
		t.Error(err)
	}
}
