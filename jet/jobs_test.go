package jet

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

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
	first, changed, err := s.PutJob(ctx, testJob("thumbnail"))
	if err != nil || !changed {
		t.Fatalf("PutJob: changed %v, %v", changed, err)
	}
	if again, changed, err := s.PutJob(ctx, testJob("thumbnail")); again != first || changed || err != nil {
		t.Errorf("an equal job: revision %d, changed %v, %v; want revision %d, unchanged", again, changed, err, first)
	}
	other := testJob("thumbnail")
	other.Title = "Another title"
	second, changed, err := s.PutJob(ctx, other)
	if err != nil || !changed || second <= first {
		t.Errorf("a changed job: revision %d, changed %v, %v; want one above %d", second, changed, err, first)
	}
	if _, _, err := s.PutJob(ctx, testJob("backup")); err != nil {
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
		if _, _, err := s.PutJob(ctx, bad); err == nil {
			t.Errorf("PutJob took %+v", bad)
		}
	}
	for _, name := range []string{"", "a.b", ">", "a b"} {
		if _, err := s.Job(ctx, name); err == nil {
			t.Errorf("Job(%q) found something", name)
		}
	}
	if err := s.RemoveJob(ctx, "thumbnail"); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveJob(ctx, "thumbnail"); !errors.Is(err, ErrNoJob) {
		t.Errorf("RemoveJob again: %v, want ErrNoJob", err)
	}
	if third, changed, err := s.PutJob(ctx, other); err != nil || !changed || third <= second {
		t.Errorf("a removed job stored again: revision %d, changed %v, %v", third, changed, err)
	}
}

// One definition that cannot be read does not hide the others, and can be removed.
func TestUnreadableJob(t *testing.T) {
	t.Parallel()
	s := newStore(t, Layout{})
	ctx := within(t)
	if _, _, err := s.PutJob(ctx, testJob("good")); err != nil {
		t.Fatal(err)
	}
	must(s.jobs.Put(ctx, "bad", []byte("{")))(t)
	jobs, err := s.Jobs(ctx)
	if err == nil || len(jobs) != 1 || jobs[0].Name != "good" {
		t.Errorf("the jobs are %+v, %v; want the good one and an error", jobs, err)
	}
	if err := s.RemoveJob(ctx, "bad"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Jobs(ctx); err != nil {
		t.Error(err)
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
