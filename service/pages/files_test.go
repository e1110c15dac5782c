package pages

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"millrace/events/jet/rights"
	"millrace/internal/files"
	"millrace/service/client"
	"millrace/task/job"
)

// pushed pushes files, by their paths, as a version of app.
func (p *place) pushed(all map[string]string) files.Digest {
	p.Helper()
	dir := p.TempDir()
	for path, text := range all {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o700); err != nil {
			p.Fatal(err)
		}
	}
	done, err := p.client.PushFiles(p.Context(), client.FilesPush{Dir: dir, Name: "app"})
	if err != nil {
		p.Fatal(err)
	}
	p.seen()
	return done.Digest
}

// content reads a file of the version to which a name or a digest leads.
func (p *place) content(version, path string) string {
	p.Helper()
	is, err := p.server.Desk.Contents(p.Context(), "ada", version, path)
	if err != nil {
		p.Fatal(err)
	}
	var b strings.Builder
	if err := is.Write(p.Context(), &b); err != nil {
		p.Fatal(err)
	}
	return b.String()
}

// The files of a version can be seen, and a text edited into a new version, of which a second editor is told.
func TestFiles(t *testing.T) {
	t.Parallel()
	p := open(t)
	page, _ := p.get(200, "/files")
	p.says(page, "There are no files yet")
	p.get(404, "/files/app")
	odd := "<script>alert(1)<script>.txt"
	all := map[string]string{"go.sh": "\n\necho one\n", "bare": "no line end", "image.png": "\x89PNG\x00", "dos.bat": "echo\r\n", "large.txt": strings.Repeat("x", client.MaxEdited+1), odd: "<b>&amp;</textarea>", "empty": ""}
	first := p.pushed(all)
	page, _ = p.get(200, "/files")
	p.says(page, `href="./files/app"`, first.Short(), ">7<")
	const of = "/files/app?path="
	page, _ = p.get(200, "/files/app")
	p.says(page, "go.sh", "program", "./app?path=image.png", "256.0 KiB")
	for path, want := range map[string]string{"go.sh": "<textarea", "image.png": "It is not text", "dos.bat": "line ends of Windows", "large.txt": "a page shows 256.0 KiB at most", odd: "<textarea", "empty": "<textarea"} {
		page, _ := p.get(200, of+url.QueryEscape(path))
		p.says(page, want)
		if want != "<textarea" && strings.Contains(page, "Store as a new version") {
			t.Errorf("%s can be edited", path)
		}
	}
	p.get(404, of+"nothing")
	p.get(400, "/files/app?version=none")

	// A browser leaves out the line end that the text area begins with, so it is none of the file's.
	for path, text := range all {
		page, _ := p.get(200, of+url.QueryEscape(path))
		if _, shown, ok := strings.Cut(page, `rows="20" spellcheck="false" autocomplete="off">`); ok {
			shown, _, _ = strings.Cut(shown, "</textarea>")
			if html.UnescapeString(shown) != "\n"+text {
				t.Errorf("%s is shown as %q, want %q", path, shown, text)
			}
		}
	}
	_, h := p.press(303, of+"go.sh", "seen", string(first), "text", "\r\n\r\necho two\r\n")
	if at := h.Get("Location"); at != "../files/app?path=go.sh" {
		t.Errorf("it leads to %s", at)
	}
	if got := p.content("app", "go.sh"); got != "\n\necho two\n" {
		t.Errorf("it is %q", got)
	}
	if got := p.content(string(first), "go.sh"); got != all["go.sh"] {
		t.Errorf("the earlier version is %q", got)
	}
	for path, text := range all {
		if path != "go.sh" && p.content("app", path) != text {
			t.Errorf("%s is not what it was", path)
		}
	}
	page, _ = p.get(200, "/files/app")
	p.says(page, "by ada", "./app?version="+string(first), "program")
	page, _ = p.get(200, "/files/app?path=go.sh&version="+string(first))
	p.says(page, "echo one", "not the latest")
	if strings.Contains(page, "Store as a new version") {
		t.Error("an earlier version can be edited")
	}

	// Whoever has seen the first version only is told of the second, and keeps what was typed.
	page, _ = p.press(200, of+"go.sh", "seen", string(first), "text", "echo mine\n")
	p.says(page, "Another version was stored", "by ada", "echo mine")
	if strings.Contains(page, "Store as a new version") || p.content("app", "go.sh") != "\n\necho two\n" {
		t.Error("the second editor overwrites what the first one has stored")
	}
	// The same text once more changes nothing.
	p.press(303, of+"go.sh", "seen", string(first), "text", "\n\necho two\n")
	second, err := p.client.Bundles(t.Context(), "app")
	if err != nil || len(second) != 2 {
		t.Fatalf("%d versions, %v", len(second), err)
	}
	seen := string(second[0].Digest)
	p.press(400, of+"go.sh", "seen", seen, "text", "a\x00b")
	p.press(400, of+"go.sh", "seen", seen, "text", strings.Repeat("x", client.MaxEdited+1))
	p.press(400, of+"go.sh", "seen", seen)
	p.press(400, of+"nothing", "seen", seen, "text", "x")
	p.press(400, of+"go.sh", "seen", "", "text", "x")
	p.press(404, of+"go.sh", "seen", fmt.Sprintf("%064x", 1), "text", "x")
	// A file is added, renamed and removed, each in a new version.
	now := func() string { // the version that the page was made from
		page, _ := p.get(200, "/files/app?add")
		p.says(page, "A new file", `name="to"`, "Store as a new version")
		return part(t, page, `name="seen" value="`, `"`)
	}
	first = files.Digest(now())
	_, h = p.press(303, "/files/app?add", "seen", now(), "to", " bin/tidy.sh ", "exec", "on", "text", "echo tidy\r\n")
	if at := h.Get("Location"); at != "../files/app?path=bin%2Ftidy.sh" {
		t.Errorf("it leads to %s", at)
	}
	page, _ = p.get(200, of+"bin%2Ftidy.sh")
	p.says(page, "echo tidy", "Rename…", "Remove…")
	_, h = p.press(303, of+"bin%2Ftidy.sh", "seen", now(), "to", "tidy & <more>.sh")
	if at := h.Get("Location"); at != "../files/app?path=tidy+%26+%3Cmore%3E.sh" || p.content("app", "tidy & <more>.sh") != "echo tidy\n" {
		t.Errorf("it leads to %s", at)
	}
	p.get(404, of+"bin%2Ftidy.sh")
	p.press(303, of+"large.txt", "seen", now(), "to", "larger.txt") // though no page shows it
	if p.content("app", "larger.txt") != all["large.txt"] {
		t.Error("a file that was renamed is not what it was")
	}
	_, h = p.press(303, of+"larger.txt", "seen", now(), "gone", "1")
	if at := h.Get("Location"); at != "../files/app" {
		t.Errorf("it leads to %s", at)
	}
	p.get(404, of+"larger.txt")
	for _, bad := range [][]string{{"to", "bare"}, {"to", "/etc/passwd"}, {"to", "../x"}, {"to", "bare/x"}, {"to", ""}, {}} {
		p.press(400, "/files/app?add", append(bad, "seen", now(), "text", "x")...)
		p.press(400, "/files/app?add", append(bad, "seen", now())...)
	}
	for _, to := range []string{"go.sh", " ", "", "../x"} {
		p.press(400, of+"empty", "seen", now(), "to", to)
	}
	// Of a change for an earlier version the page tells, and keeps what was typed.
	page, _ = p.press(200, "/files/app?add", "seen", string(first), "to", "mine.sh", "exec", "on", "text", "echo mine\n")
	p.says(page, "Another version was stored", "echo mine", `value="mine.sh"`, ` checked`)
	page, _ = p.press(200, of+"go.sh", "seen", string(first), "gone", "1")
	p.says(page, "Another version was stored", "Nothing was changed", "echo two", "Remove…")
	page, _ = p.press(200, of+"large.txt", "seen", string(first), "to", "x")
	p.says(page, "Another version was stored", "Nothing was changed")
	page, _ = p.press(200, of+"large.txt", "seen", string(first), "text", "mine")
	p.says(page, "Another version was stored", "Yours is below")
	if versions, err := p.client.Bundles(t.Context(), "app"); err != nil || len(versions) != 6 || p.content("app", "go.sh") != "\n\necho two\n" {
		t.Errorf("%d versions, %v", len(versions), err)
	}
	for _, text := range hostile {
		p.get(400, "/files/app?version="+url.QueryEscape(text))
	}

	j := job.Job{Name: "report", Spec: job.Spec{Run: &job.Run{Argv: []string{"true"}}, Files: &job.Files{Bundle: "app"}}}
	if _, _, err := p.client.Apply(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	p.seen()
	page, _ = p.get(200, "/jobs/report")
	p.says(page, `files <a href="../files/app">app</a>`)
	then := fmt.Sprint(p.server.Desk.Reached())
	p.pushed(map[string]string{"go.sh": "echo three\n"})
	page, _ = p.get(200, of+"go.sh&at="+then)
	p.says(page, "echo two")
	if strings.Contains(page, `method="post"`) {
		t.Error("the past can be edited")
	}
	p.as(rights.Viewer)
	page, _ = p.get(200, of+"go.sh")
	p.says(page, "echo three")
	if strings.Contains(page, `<form method="post"`) {
		t.Error("a viewer has a button that stores files")
	}
	for _, change := range []string{"text", "to", "gone"} {
		p.press(403, of+"go.sh", "seen", seen, change, "x")
	}
	if page, _ = p.get(200, "/files/app?add"); strings.Contains(page, "A new file") || strings.Contains(page, "Add a file") {
		t.Error("a viewer is asked for a new file")
	}
	p.as(rights.Submitter)
	p.get(403, "/files")
	p.get(403, "/files/app")
}

// Of those who edit the same version at the same moment one is heard, and the others are told.
func TestFilesAtOnce(t *testing.T) {
	t.Parallel()
	p := open(t)
	seen := p.pushed(map[string]string{"a": "one", "b": "two"})
	var stored, told atomic.Int32
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			form := url.Values{"seen": {string(seen)}, "text": {fmt.Sprint("text ", i)}}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/files/app?path="+[]string{"a", "b"}[i%2], strings.NewReader(form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			p.ServeHTTP(w, r)
			switch {
			case w.Code == http.StatusSeeOther:
				stored.Add(1)
			case w.Code == http.StatusOK && strings.Contains(w.Body.String(), "Another version was stored"):
				told.Add(1)
			default:
				t.Errorf("%d: %s", w.Code, w.Body)
			}
		})
	}
	all.Wait()
	versions, err := p.client.Bundles(t.Context(), "app")
	if err != nil || len(versions) != 2 || stored.Load() != 1 || told.Load() != 7 {
		t.Errorf("%d are stored and %d told, of %d versions, %v", stored.Load(), told.Load(), len(versions), err)
	}
}
