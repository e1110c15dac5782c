package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"millrace/events"
	"millrace/task"
)

func testJob(name string) task.Job {
	return task.Job{
		Name: name, Title: "A job", Labels: map[string]string{"k": "v"}, Params: map[string]json.RawMessage{"n": []byte("1")}, Queue: "images",
		Spec: task.Spec{Run: &task.Run{Argv: []string{"echo", "hello"}}, Timeout: task.Timeout{Run: task.Duration(time.Minute)}, Retry: task.Retry{Max: 2}},
	}
}

func TestJobs(t *testing.T) {
	t.Parallel()
	s := newStore(t, Layout{})
	ctx := within(t)
	if jobs, err := s.Jobs(ctx); err != nil || len(jobs) != 0 {
		t.Fatalf("the jobs of an empty store: %v, %v", jobs, err)
	}
	if _, err := s.Job(ctx, "thumbnail"); !errors.Is(err, ErrNoJob) {
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
	if err != nil || !changed || second <= first {
		t.Errorf("a changed job: revision %d, changed %v, %v; want one above %d", second, changed, err, first)
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
	for _, bad := range []task.Job{{}, {Name: "a.b", Spec: other.Spec}, {Name: "*", Spec: other.Spec}, {Name: "nothing-to-run"}} {
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
	if err := s.RemoveJob(ctx, "thumbnail", "ada"); !errors.Is(err, ErrNoJob) {
		t.Errorf("RemoveJob again: %v, want ErrNoJob", err)
	}
	facts := must(s.JobFacts(ctx, "thumbnail"))(t)
	var told []uint64
	for i := range facts {
		if facts[i].Err != nil || facts[i].Fact.Actor != "ada" || facts[i].Fact.Job != "thumbnail" {
			t.Errorf("told was %+v", facts[i])
		}
		told = append(told, revisionOf(&facts[i]))
	}
	if len(told) != 3 || told[0] != first || told[1] != second || told[2] <= second || facts[2].Fact.Type != events.JobRemoved {
		t.Errorf("the log tells of the revisions %v, want %d, %d and a removal", told, first, second)
	}
	if third, changed, err := s.PutJob(ctx, other, "ada"); err != nil || !changed || third <= second {
		t.Errorf("a removed job stored again: revision %d, changed %v, %v", third, changed, err)
	}
}

// One definition that cannot be read does not hide the others, and can be removed.
func TestUnreadableJob(t *testing.T) {
	t.Parallel()
	s := newStore(t, Layout{})
	ctx := within(t)
	if _, _, err := s.PutJob(ctx, testJob("good"), "ada"); err != nil {
		t.Fatal(err)
	}
	must(s.jobs.Put(ctx, "bad", []byte("{")))(t)
	jobs, err := s.Jobs(ctx)
	if err == nil || len(jobs) != 1 || jobs[0].Name != "good" {
		t.Errorf("the jobs are %+v, %v; want the good one and an error", jobs, err)
	}
	if err := s.RemoveJob(ctx, "bad", "ada"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Jobs(ctx); err != nil {
		t.Error(err)
	}
}

// A change of which nobody has told, because its writer died or used other
// means, is told by whoever looks next, once.
func TestUntoldChangesAreTold(t *testing.T) {
	t.Parallel()
	s := newStore(t, Layout{})
	ctx := within(t)
	body := must(json.Marshal(testJob("a")))(t)
	first := must(s.define(ctx, definition{bucket: JobsBucket, name: "a", body: body, actor: "ada"}, 0))(t)
	if n, err := s.TellJobs(ctx, first.stored.Add(-time.Minute)); n != 0 || err != nil {
		t.Errorf("told of %d changes that are younger than asked for, %v", n, err)
	}
	for want := 1; want >= 0; want-- {
		if n, err := s.TellJobs(ctx, time.Now().Add(time.Minute)); n != want || err != nil {
			t.Errorf("told of %d changes, %v; want %d", n, err, want)
		}
	}
	gone := must(s.define(ctx, definition{bucket: JobsBucket, name: "a", actor: "bob", removed: true}, first.revision))(t)
	if _, _, err := s.PutJob(ctx, testJob("a"), "cleo"); err != nil {
		t.Fatal(err)
	}
	facts := must(s.JobFacts(ctx, "a"))(t)
	if len(facts) != 3 || revisionOf(&facts[1]) != gone.revision || facts[0].Fact.Actor != "ada" || facts[1].Fact.Actor != "bob" || facts[2].Fact.Actor != "cleo" {
		t.Errorf("the log tells %+v, want a change by each of ada, bob and cleo", facts)
	}
	must(s.jobs.Put(ctx, "a", []byte("{")))(t) // by other means
	if n, err := s.TellJobs(ctx, time.Now().Add(time.Minute)); n != 1 || err != nil {
		t.Errorf("told of %d changes, %v; want 1", n, err)
	}
}

// Who changes a job at the same time as others is told of, and in the order of the bucket.
func TestChangesAtOnceAreToldInOrder(t *testing.T) {
	t.Parallel()
	s := newStore(t, Layout{})
	ctx := within(t)
	const writers = 8
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			j := testJob("a")
			j.Title = fmt.Sprint(i)
			if _, _, err := s.PutJob(ctx, j, fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	facts := must(s.JobFacts(ctx, "a"))(t)
	if len(facts) != writers {
		t.Fatalf("%d changes were told, want %d", len(facts), writers)
	}
	for i := range facts[1:] {
		if revisionOf(&facts[i]) >= revisionOf(&facts[i+1]) {
			t.Errorf("revision %d was told after %d", revisionOf(&facts[i+1]), revisionOf(&facts[i]))
		}
	}
}

func TestAsk(t *testing.T) {
	t.Parallel()
	s := newStore(t, Layout{})
	var answer map[string]string
	if err := s.Ask(within(t), "test.nobody", nil, &answer); !errors.Is(err, ErrNoService) {
		t.Errorf("nobody answers: %v, want ErrNoService", err)
	}
	service := must(micro.AddService(s.nc, micro.Config{Name: "test", Version: "1.0.0"}))(t)
	defer func() {
		if err := service.Stop(); err != nil {
			t.Error(err)
		}
	}()
	for subject, respond := range map[string]func(micro.Request) error{
		"test.echo":    func(r micro.Request) error { return r.Respond(r.Data()) },
		"test.refuse":  func(r micro.Request) error { return r.Error("409", "not now", nil) },
		"test.garbage": func(r micro.Request) error { return r.Respond([]byte("{")) },
	} {
		handler := micro.HandlerFunc(func(r micro.Request) {
			if err := respond(r); err != nil {
				t.Error(err)
			}
		})
		if err := service.AddEndpoint(subject[len("test."):], handler, micro.WithEndpointSubject(subject)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Ask(within(t), "test.echo", map[string]string{"a": "b"}, &answer); err != nil || answer["a"] != "b" {
		t.Errorf("an echo: %v, %v", answer, err)
	}
	var said *ServiceError
	if err := s.Ask(within(t), "test.refuse", nil, &answer); !errors.As(err, &said) || said.Code != "409" || said.Message != "not now" {
		t.Errorf("a refusal: %v, want the service's own words", err)
	}
	if err := s.Ask(within(t), "test.garbage", nil, &answer); err == nil {
		t.Error("an answer that cannot be read was taken")
	}
	must(s.nc.Subscribe("test.silent", func(*nats.Msg) {}))(t)
	ctx, cancel := context.WithTimeout(within(t), 100*time.Millisecond)
	defer cancel()
	if err := s.Ask(ctx, "test.silent", nil, &answer); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent service: %v, want the error of the context", err)
	}
	if err := s.Ask(within(t), "test.echo", func() {}, &answer); err == nil {
		t.Error("a request that cannot be written was sent")
	}
}
