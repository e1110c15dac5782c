package bench

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"millrace/events/jet"
	"millrace/events/jet/streams"
	"millrace/service/client"
	"millrace/task"
)

// The benchmark measures every page that links lead to, a few of each kind, in the present and,
// where the page existed then, in the past.
func TestManyPages(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer secret":
			t.Errorf("%s is asked for without the token", r.URL)
		case r.URL.Path == "/":
			fmt.Fprint(w, `<a href="./?">here</a><a href="tasks">tasks</a><a href="jobs#h">jobs</a><a href="http://elsewhere.example/">other</a>`)
		case r.URL.Path == "/tasks":
			fmt.Fprint(w, `<a href="tasks/a">a</a><a href="tasks/b">b</a><a href="tasks/c">c</a><a href="tasks/a/output" download>all</a><a href="?q=x&at=5">then</a>`)
		case r.URL.Path == "/jobs" && r.URL.Query().Has("at"):
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer site.Close()
	cfg := Config{Dial: serve(t, streams.Layout{}), Pages: func() (string, string, error) { return site.URL, "secret", nil }}
	pages, err := ManyPages(ctx, cfg, 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	between := 0
	for _, p := range pages {
		if p.P50 <= 0 || p.P95 < p.P50 {
			t.Errorf("measured %+v", p)
		}
		switch {
		case strings.Contains(p.Path, "from=*&at=*"):
			between++
		case !slices.ContainsFunc(pagesAsked, func(asked string) bool { return strings.HasPrefix(p.Path, "/"+asked) }):
			got = append(got, p.Path)
		}
	}
	if want := []string{"/", "/jobs", "/tasks", "/tasks/*", "/?at=*", "/tasks?at=*", "/tasks/*?at=*"}; !slices.Equal(got, want) {
		t.Errorf("measured are %q, want %q", got, want)
	}
	if len(pages) != len(got)+2*len(pagesAsked)+len(pagesBetween) || between != len(pagesBetween) {
		t.Errorf("%d pages, of which %d were asked for", len(pages), len(pages)-len(got))
	}
	// The mix has tasks in each state that lasts.
	nc, err := cfg.Dial("test")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	store, err := jet.Open(ctx, nc, streams.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	page, err := client.New(store, "test").List(ctx, client.ListRequest{Counts: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range []task.State{task.Scheduled, task.Held, task.Pending, task.Finished, task.Error, task.Cancelled} {
		if page.Counts[state.String()] == 0 {
			t.Errorf("no task is %s: %v", state, page.Counts)
		}
	}
}
