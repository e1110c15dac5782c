package browser

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var pictures = flag.String("pictures", "", "a directory to which the pictures of the README and of docs are written")

// mostBytes is how large a picture may be, and allBytes all of them.
const mostBytes, allBytes = 150_000, 1_700_000

// picture is one of a page.
type picture struct {
	name, path, scheme string
	height             int64
	follow             string // the link on the page that leads to the one of the picture
	shown              string // a condition
}

// rows is the condition that a page has so many rows.
func rows(n int) string {
	return fmt.Sprintf(`document.querySelectorAll("main tbody tr").length >= %d`, n)
}

const drawn = `document.querySelectorAll("main svg").length > 0`

// The pictures of the README and of docs can be made at any time, and are small.
func docPictures(t *testing.T, s *site) {
	b := look(t, s)
	all, release := 0, ""
	for _, p := range []picture{
		{"overview", "/", "light", 680, "", `document.querySelectorAll("#running tbody tr").length > 2 && document.querySelectorAll("#failed tbody tr").length > 2 && [...document.querySelectorAll(".plot")].every((p) => p.dataset.seconds)`},
		{"task", "/tasks?q=job%3Aencode", "dark", 800, "main tbody tr a", `document.querySelectorAll("#output .line").length > 8`},
		{"tasks", "/tasks", "light", 640, "", rows(8)},
		{"graph", "/tasks/RELEASE/graph", "light", 720, "", drawn},
		{"jobs", "/jobs?by=team", "light", 450, "", rows(3)},
		{"job", "/jobs/backup", "dark", 900, "", rows(1)},
		{"schedules", "/schedules", "light", 420, "", rows(1)},
		{"nodes", "/nodes", "light", 460, "", rows(2)},
		{"queues", "/queues", "dark", 460, "", rows(1)},
		{"dead", "/dead", "light", 420, "", rows(1)},
		{"events", "/events", "light", 560, "", rows(8)},
		{"editor", "/edit/job", "light", 760, "", `document.querySelectorAll(".cm-line, textarea").length > 0`},
		{"diff", "/diff", "light", 560, "", rows(1)},
		{"verify", "/verify", "light", 420, "", `document.querySelector("main") !== null`},
		{"compare", "/tasks/RELEASE/compare", "light", 520, "", rows(3)},
		{"run", "/run/job/backup", "light", 480, "", `document.querySelector("main form") !== null`},
		{"schedule", "/schedules", "dark", 560, "main tbody tr a", `document.querySelector("main h1") !== null && location.pathname !== "/schedules"`},
		{"node", "/nodes", "light", 560, "main tbody tr a", `location.pathname !== "/nodes" && ` + rows(1)},
		{"event", "/events", "light", 420, "main tbody tr a", `location.pathname !== "/events" && document.querySelector("main") !== null`},
		{"calendars", "/calendars", "light", 300, "", rows(1)},
		{"calendar", "/calendars", "light", 420, "main tbody tr a", `location.pathname !== "/calendars" && document.querySelector("main") !== null`},
		{"files", "/files", "light", 300, "", rows(1)},
		{"bundle", "/files/reports", "light", 420, "", rows(1)},
		{"incidents", "/incidents", "light", 380, "", `document.querySelector("main form") !== null`},
	} {
		if p.name == "tasks" { // what the demo lacks, when its own pictures are made: a graph, a calendar, a folder, and a dead letter
			s.cli(t, "job", "apply", "-f", "../../examples/steps/release.yaml")
			s.cli(t, "run", "release", "--wait")
			release, _, _ = strings.Cut(s.cli(t, "run", "release", "--wait"), " ")
			s.cli(t, "calendar", "apply", "-f", "../../examples/calendars.yaml")
			s.cli(t, "files", "push", "../../examples/start", "--name", "reports")
			s.cli(t, "run", "-q", "nobody", "--pending-timeout", "1ms", "--", "true")
		}
		b.as(p.scheme, 1200, p.height)
		b.goTo(strings.ReplaceAll(p.path, "RELEASE", release))
		if p.follow != "" {
			b.click(p.follow)
		}
		b.until("it shows what it is for", p.shown)
		if seconds := ask[[]int](b, `[...document.querySelectorAll(".plot")].map((p) => Number(p.dataset.seconds))`); slices.ContainsFunc(seconds, func(n int) bool { return n < 60 || n > 2000 }) {
			t.Errorf("the plots of the page %s show %d s, want some minutes", p.name, seconds)
		}
		if *pictures != "" && p.name == "overview" {
			b.until("the plots have something to show", `document.querySelectorAll("#points tbody tr").length > 8`)
		}
		b.do(run(`window.scrollTo(0, 0)`))
		_, text := b.shot("docs-" + p.name)
		if all += len(text); len(text) > mostBytes || all > allBytes {
			t.Errorf("the picture of the page %s has %d bytes, all have %d, want at most %d and %d", p.name, len(text), all, mostBytes, allBytes)
		}
		if *pictures == "" {
			continue
		}
		if err := os.MkdirAll(*pictures, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(*pictures, p.name+".png"), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
