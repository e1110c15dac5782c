package pages

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"testing"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/output"
	"millrace/task/value"
)

// The manifest lists every foreign file, and there is no other.
func TestForeign(t *testing.T) {
	t.Parallel()
	text, err := loaded.ReadFile("foreign/manifest.txt")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{"manifest.txt": true}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		if len(fields) != 6 {
			t.Fatalf("%q has not six fields", lines.Text())
		}
		listed[fields[0]] = true
		body, err := loaded.ReadFile("foreign/" + fields[0])
		if err != nil {
			t.Error(err)
			continue
		}
		if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != fields[5] {
			t.Errorf("%s has the digest %x, want %s", fields[0], sum, fields[5])
		}
	}
	entries, err := loaded.ReadDir("foreign")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !listed[e.Name()] {
			t.Errorf("%s is not in the manifest", e.Name())
		}
	}
}

// mostWeight is how many bytes come to a browser that has nothing yet for a page: the page itself, and all that it
// loads, compressed.
const mostWeight = 70_000

// A page is light, with all that it loads but the editor of texts, also where there is much to show.
func TestWeight(t *testing.T) {
	t.Parallel()
	p := open(t)
	for i := range 30 {
		p.job(fmt.Sprint("report-of-region-", i), "sh", "-c", fmt.Sprintf("pg_dump shop_%d | gzip > /backup/shop-%d.gz", i*i, i))
		p.schedule(fmt.Sprint("night-", i), job.Schedule{Cron: fmt.Sprintf("%d */%d * * *", i, i%5+1)}, "backup", fmt.Sprint(i*i))
		p.node(node.ID(fmt.Sprint("crawler-", i)), ready(fmt.Sprint("crawler-", i))...)
	}
	var id task.ID
	for i := range 60 {
		s := command("curl", "--fail", fmt.Sprintf("https://%d.example.org/%x", i, i*i*i*7919))
		s.Queue, s.Labels = fmt.Sprint("queue-", i), map[string]string{"customer": fmt.Sprint("acme", i*i)}
		id = p.submit(s)
		epoch := p.attempt(id, 0, task.AttemptStarted{Attempt: 1, Node: fmt.Sprint("crawler-", i%30)})
		p.attempt(id, epoch, task.AttemptFailed{Attempt: 1, Epoch: epoch, Reason: "exit", Message: fmt.Sprintf("exit code %d: connection %x refused", i, i*i*i)})
	}
	lines := output.Lines{Task: id, Attempt: 1, Epoch: 1}
	for i := range 2 * shownLines {
		lines.Lines = append(lines.Lines, output.Line{N: i + 1, Stream: output.Stdout, Text: fmt.Sprintf("2026-11-30T01:%02d:%02d fetched %x in %d ms", i/60%60, i%60, value.Digest([]byte{byte(i)})[:16], i*i%997)})
	}
	if err := p.store.Print(t.Context(), lines); err != nil {
		t.Fatal(err)
	}
	p.seen()
	var steps []job.Step
	for i := range 40 {
		step := job.Step{Name: fmt.Sprint("part-", i), Spec: job.Spec{Run: &job.Run{Argv: []string{"part", fmt.Sprint(i)}}}}
		if i > 2 {
			step.Needs = []job.StepNeed{{Step: fmt.Sprint("part-", i/2)}, {Step: fmt.Sprint("part-", i-1)}}
		}
		steps = append(steps, step)
	}
	graph := p.submit(birth.Submission{Spec: &job.Spec{Steps: steps}})
	get := func(at string) []byte {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
		r.Header.Set("Accept-Encoding", "gzip")
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		return w.Body.Bytes()
	}
	for _, at := range append(paths(id), "/tasks/"+string(graph), "/tasks/"+string(graph)+"/graph", "/jobs/report-of-region-1", "/schedules/night-1", "/schedules?by=hour", "/tasks?col=id&col=what&col=params&col=labels&col=submitted&col=why&col=next+step&col=job&col=queue&col=node") {
		body := get(at)
		parts := []string{fmt.Sprint("itself ", len(body))}
		weight := len(body)
		page := body
		if unzipped, err := gzip.NewReader(bytes.NewReader(body)); err == nil { // a short page comes as it is
			if page, err = io.ReadAll(unzipped); err != nil {
				t.Fatal(err)
			}
		}
		from, err := url.Parse("http://site" + at)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range elements(t, string(page)) {
			to := e.attr["src"]
			if e.name == "link" {
				to = e.attr["href"]
			}
			name := path.Base(to)
			if to == "" || name == "codemirror.js" || name == "editor.js" {
				continue
			}
			loads, err := from.Parse(to)
			if err != nil {
				t.Fatal(err)
			}
			n := len(get(loads.RequestURI()))
			weight += n
			parts = append(parts, fmt.Sprint(name, " ", n))
		}
		if weight > mostWeight {
			t.Errorf("%s weighs %d bytes, want at most %d: %s", at, weight, mostWeight, strings.Join(parts, ", "))
		}
	}
}
