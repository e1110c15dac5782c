package main

import (
	"context"
	"testing"

	"millrace/events/jet"
	"millrace/events/jet/embed"
	"millrace/events/jet/streams"
	"millrace/service/client"
	"millrace/task"
)

func TestConfirm(t *testing.T) {
	c := millrace(t)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- work(ctx, c) }()
	first := must(confirm(ctx, c, "4711"))(t)
	if done := must(c.Wait(ctx, first.ID))(t); done.State != task.Finished || string(done.Result) != `"message of order 4711"` {
		t.Errorf("the confirmation is %s: %s", done.State, done.Result)
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// millrace starts a server in this process, for this test.
func millrace(t *testing.T) *client.Client {
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // where workers spool
	server := must(embed.Start(embed.Config{Dir: t.TempDir()}))(t)
	t.Cleanup(server.Stop)
	nc := must(server.Connect())(t)
	t.Cleanup(nc.Close)
	store := must(jet.Open(t.Context(), nc, streams.Layout{}))(t)
	t.Cleanup(store.Close)
	return client.New(store, "test")
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// While no worker runs, a second confirmation of an order returns the first, and a delayed task
// waits.
func TestSubmissions(t *testing.T) {
	c := millrace(t)
	first := must(confirm(t.Context(), c, "4711"))(t)
	if again := must(confirm(t.Context(), c, "4711"))(t); again.ID != first.ID || !again.Existing {
		t.Errorf("a second confirmation: %+v, want that of %s", again, first.ID)
	}
	if other := must(confirm(t.Context(), c, "4712"))(t); other.ID == first.ID || other.Existing {
		t.Errorf("a confirmation of another order: %+v", other)
	}
	later := must(remind(t.Context(), c, "4711"))(t)
	waits := must(c.Task(t.Context(), later.ID))(t)
	if waits.State != task.Scheduled || waits.Labels["order"] != "4711" {
		t.Errorf("the reminder is %s with %v", waits.State, waits.Labels)
	}
	if urgent := must(c.Task(t.Context(), first.ID))(t); urgent.Route.Priority() != 8 || urgent.Spec.Retry.Max != 5 {
		t.Errorf("the confirmation has the route %+v and %+v", urgent.Route, urgent.Spec.Retry)
	}
}
