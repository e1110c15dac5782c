package crawler

import (
	"slices"
	"strings"
	"testing"
)

func TestSampleSite(t *testing.T) {
	// Given no address, the program serves and crawls its own site.
	s := crawlFor(t, "--delay", "0", "--workers", "8")

	if s.code != ExitOK {
		t.Fatalf("exit code %d, stderr: %s", s.code, s.stderr)
	}
	type want struct {
		path          string
		status, depth int
	}
	wanted := []want{
		{"/", 200, 0},
		{"/archive.html", 200, 2},
		{"/files/flow.csv", 200, 3},
		{"/files/plan.svg", 200, 3},
		{"/first-miller.html", 404, 2},
		{"/grain/", 200, 1},
		{"/grain/index.html", 301, 1},
		{"/grain/rye.html", 200, 2},
		{"/grain/wheat.html", 200, 2},
		{"/history.html", 200, 1},
		{"/news/", 200, 1},
		{"/news/index.html", 301, 2},
		{"/news/opening.html", 200, 2},
		{"/news/stone.html", 200, 2},
		{"/old-wheels.html", 301, 2},
		{"/race.html", 200, 1},
		{"/sluice.html", 200, 2},
		{"/visit.html", 200, 1},
		{"/wheels/", 200, 1},
		{"/wheels/breastshot.html", 200, 2},
		{"/wheels/overshot.html", 200, 2},
		{"/wheels/undershot.html", 200, 2},
	}
	var got []want
	var bytes int64
	for _, p := range s.pages {
		got = append(got, want{pathOf(t, p.URL), p.Status, p.Depth})
		bytes += p.Bytes
	}
	slices.SortFunc(got, func(a, b want) int { return strings.Compare(a.path, b.path) })
	if !slices.Equal(got, wanted) {
		t.Errorf("pages:\n%v\nwant:\n%v", got, wanted)
	}
	r := s.result(t)
	if r.Seconds <= 0 || r.Bytes != bytes || bytes == 0 {
		t.Errorf("%d bytes in %vs, want %d in more than 0s", r.Bytes, r.Seconds, bytes)
	}
	r.Seconds, r.Bytes = 0, 0
	if r != (result{Pages: 22, Errors: 1, Skipped: 1}) {
		t.Errorf("result %+v", r)
	}
	if p := s.page(t, "/grain/rye.html"); p.Title != "Rye – “Roggen”" {
		t.Errorf("title %q", p.Title)
	}
	if p := s.page(t, "/files/plan.svg"); p.Title != "" || p.Bytes == 0 {
		t.Errorf("a file that is no page has the title %q and %d bytes", p.Title, p.Bytes)
	}
	if p := s.page(t, "/archive.html"); p.MS < 300 {
		t.Errorf("the slow page took %d ms", p.MS)
	}
	if last := s.status[len(s.status)-1]; last.Progress != 1 {
		t.Errorf("the last status is %+v", last)
	}
	if !strings.HasPrefix(s.log[0], "serving the sample site at http://127.0.0.1:") {
		t.Errorf("the first line for people is %q", s.log[0])
	}
}
