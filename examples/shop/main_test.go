package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"millrace"
	"millrace/embedded"
	"millrace/task"
)

// shop starts all of Millrace in this process, for this test.
func shop(t *testing.T) *millrace.App {
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // where workers keep their names
	app := must(embedded.Open(t.Context(), ""))(t)
	t.Cleanup(func() {
		if err := app.Close(); err != nil {
			t.Error(err)
		}
	})
	return app
}

// working runs a worker until the returned function is called.
func working(t *testing.T, app *millrace.App) (end func()) {
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- work(ctx, app) }()
	return func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
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

func TestConfirm(t *testing.T) {
	app := shop(t)
	defer working(t, app)()
	var out strings.Builder
	if err := confirmed(t.Context(), &out, app, "4711"); err != nil || !strings.HasSuffix(out.String(), ": message of order 4711\n") {
		t.Errorf("%v, printed %q", err, out.String())
	}
	if err := confirmed(t.Context(), &out, app, ""); err == nil || !strings.Contains(err.Error(), "failed 1 times") {
		t.Errorf("a mail about no order: %v, want one failure", err)
	}
}

// The web application answers before the mail is sent, and another request finds the result.
func TestWeb(t *testing.T) {
	app := shop(t)
	defer working(t, app)()
	server := httptest.NewServer(web(app))
	defer server.Close()
	ask := func(method, path string) (int, string) {
		r := must(http.NewRequestWithContext(t.Context(), method, server.URL+path, nil))(t)
		answer := must(http.DefaultClient.Do(r))(t)
		defer answer.Body.Close()
		return answer.StatusCode, strings.Trim(string(must(io.ReadAll(answer.Body))(t)), "\"\n")
	}
	status, id := ask("POST", "/orders/4711")
	if status != http.StatusAccepted {
		t.Fatalf("an order: %d %s", status, id)
	}
	if status, text := ask("GET", "/mail/"+id); status != http.StatusOK || text != "message of order 4711" {
		t.Errorf("its mail: %d %s", status, text)
	}
	if status, text := ask("GET", "/mail/01ARZ3NDEKTSV4RRFFQ69G5FAV"); status != http.StatusNotFound {
		t.Errorf("no mail: %d %s", status, text)
	}
}

func TestReport(t *testing.T) {
	app := shop(t)
	defer working(t, app)()
	if orders := must(must(report.Submit(t.Context(), app, "2026-11-29"))(t).Result(t.Context()))(t); orders != 1000 {
		t.Errorf("%d orders", orders)
	}
	// A function is a function: called as one it needs nothing.
	if orders := must(count(t.Context(), "2026-11-29"))(t); orders != 1000 {
		t.Errorf("%d orders", orders)
	}
}

// While no worker runs, a second confirmation of an order returns the first, and a delayed task
// waits.
func TestSubmissions(t *testing.T) {
	app := shop(t)
	first := must(confirm(t.Context(), app, "4711"))(t)
	if again := must(confirm(t.Context(), app, "4711"))(t); again.ID != first.ID || !again.Existing {
		t.Errorf("a second confirmation: %+v, want that of %s", again, first.ID)
	}
	if other := must(confirm(t.Context(), app, "4712"))(t); other.ID == first.ID || other.Existing {
		t.Errorf("a confirmation of another order: %+v", other)
	}
	waits := must(must(remind(t.Context(), app, "4711"))(t).Task(t.Context()))(t)
	if waits.State != task.Scheduled || waits.Labels["order"] != "4711" {
		t.Errorf("the reminder is %s with %v", waits.State, waits.Labels)
	}
	if urgent := must(first.Task(t.Context()))(t); urgent.Route.Priority() != 8 || urgent.Spec.Retry.Max != 5 {
		t.Errorf("the confirmation has the route %+v and %+v", urgent.Route, urgent.Spec.Retry)
	}
}
