package httpapi

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millrace/events/jet/definitions"

	"millrace/events/jet/rights"
	"millrace/service/client"
)

// tarOf is an archive of entries: of files with their contents.
func tarOf(t *testing.T, entries ...tar.Header) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		text := "content of " + h.Name
		if h.Typeflag == 0 || h.Typeflag == tar.TypeReg {
			h.Typeflag, h.Size = tar.TypeReg, int64(len(text))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, text); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const ofTar = "application/x-tar"

// A pushed archive comes back as an archive, and file by file.
func TestContents(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	given := tarOf(t, tar.Header{Name: "./", Typeflag: tar.TypeDir}, tar.Header{Name: "./bin/run", Mode: 0o755}, tar.Header{Name: "a b.txt"},
		tar.Header{Name: "empty/", Typeflag: tar.TypeDir}, tar.Header{Name: "bin/again", Typeflag: tar.TypeSymlink, Linkname: "run"})
	var done client.FilesPushed
	s.want(200, "PUT", "/api/v1/files/app", given, &done, "Content-Type", ofTar)
	if done.Name != "app" || done.Files != 4 || done.Digest == "" {
		t.Errorf("pushed is %+v", done)
	}
	first := done.Digest
	for kind, body := range map[string]string{"application/gzip": zipped(t, given), ofTar: given} {
		s.want(200, "PUT", "/api/v1/files/app", body, &done, "Content-Type", kind)
		if done.Digest != first || done.Sent != 0 {
			t.Errorf("the same again is %+v", done)
		}
	}
	got := s.want(200, "GET", "/api/v1/files/app/content", "", nil)
	names := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(got.body)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		names[h.Name] = string(text) + h.Linkname
		if h.Name == "bin/run" && h.Mode&0o111 == 0 {
			t.Error("what can be executed cannot any more")
		}
	}
	if len(names) != 4 || names["bin/run"] != "content of ./bin/run" || names["bin/again"] != "run" || names["a b.txt"] != "content of a b.txt" {
		t.Errorf("there come %v", names)
	}
	got = s.want(200, "GET", "/api/v1/files/app/content?path=bin/run", "", nil)
	if string(got.body) != "content of ./bin/run" {
		t.Errorf("the file is %q", got.body)
	}
	s.want(304, "GET", "/api/v1/files/app/content?path=bin/run", "", nil, "If-None-Match", got.header.Get("ETag"))
	s.refused(404, "no-file", "GET", "/api/v1/files/app/content?path=nobody", "")
	s.refused(404, "no-file", "GET", "/api/v1/files/app/content?path=empty", "")
	s.refused(400, "bad-request", "GET", "/api/v1/files/app/content?what=ever", "")
	s.refused(404, "no-files", "GET", "/api/v1/files/nobody/content", "")
}

// An upload that is not an archive, or that holds what a bundle cannot, is refused, and none of it
// stored.
func TestBadArchives(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	whole := tarOf(t, tar.Header{Name: "a"}, tar.Header{Name: "b"})
	for name, body := range map[string]string{
		"no archive":      strings.Repeat("no archive ", 100),
		"half of one":     whole[:600],
		"a path upwards":  tarOf(t, tar.Header{Name: "../a"}),
		"a path of root":  tarOf(t, tar.Header{Name: "/etc/a"}),
		"a link outwards": tarOf(t, tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "../../etc/passwd"}),
		"below a link":    tarOf(t, tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: ".."}, tar.Header{Name: "a/b"}),
		"twice":           tarOf(t, tar.Header{Name: "a"}, tar.Header{Name: "a"}),
		"a file as dir":   tarOf(t, tar.Header{Name: "a"}, tar.Header{Name: "a/b"}),
		"a device":        tarOf(t, tar.Header{Name: "a", Typeflag: tar.TypeChar}),
		"a long name":     tarOf(t, tar.Header{Name: strings.Repeat("x", 300), Format: tar.FormatPAX}),
		"control":         tarOf(t, tar.Header{Name: "a\nb", Format: tar.FormatPAX}),
	} {
		got := s.send("PUT", "/api/v1/files/app", body, "Content-Type", ofTar)
		if got.status != 400 || !strings.Contains(string(got.body), "bad-request") {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	s.refused(400, "bad-request", "PUT", "/api/v1/files/a*b", whole, "Content-Type", ofTar)
	s.refused(400, "bad-request", "PUT", "/api/v1/files/app", whole, "Content-Type", "application/gzip")
	s.refused(415, "no-archive", "PUT", "/api/v1/files/app", whole, "Content-Type", "application/json")
	viewer := s.token("viewer", rights.Viewer, time.Time{}, false)
	s.comes(200, viewer)
	s.refused(403, "role", "PUT", "/api/v1/files/app", whole, "Content-Type", ofTar, "Authorization", viewer)
	s.refused(404, "no-files", "GET", "/api/v1/files/app", "")
}

// Bundles are looked at, compared, held against their digests, and their names removed.
func TestFiles(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	dir := t.TempDir()
	push := func(files ...string) string {
		for _, name := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		done, err := client.New(s.store, "ada").PushFiles(t.Context(), client.FilesPush{Dir: dir, Name: "app"})
		if err != nil {
			t.Fatal(err)
		}
		return string(done.Digest)
	}
	first := push("a", "b")
	second := push("c")
	var list struct{ Bundles []definitions.NamedVersion }
	s.want(200, "GET", "/api/v1/files", "", &list)
	if len(list.Bundles) != 1 || string(list.Bundles[0].Digest) != second {
		t.Errorf("there are %+v", list)
	}
	s.want(200, "GET", "/api/v1/files?name=app", "", &list)
	if len(list.Bundles) != 2 || string(list.Bundles[1].Digest) != first {
		t.Errorf("its versions are %+v", list)
	}
	var v struct {
		Digest  string
		Entries []struct{ Path string }
		Next    string
	}
	s.want(200, "GET", "/api/v1/files/app?limit=2", "", &v)
	if v.Digest != second || len(v.Entries) != 2 || v.Next != "b" {
		t.Errorf("the first page is %+v", v)
	}
	v.Next = ""
	s.want(200, "GET", "/api/v1/files/app?limit=2&after=b", "", &v)
	if len(v.Entries) != 1 || v.Entries[0].Path != "c" || v.Next != "" {
		t.Errorf("the second page is %+v", v)
	}
	var diff struct {
		Changes []struct{ Kind, Path string }
		All     int
	}
	s.want(200, "GET", "/api/v1/files/app@"+first[:8]+"/diff?with=app", "", &diff)
	if diff.All != 1 || diff.Changes[0].Path != "c" || diff.Changes[0].Kind != "added" {
		t.Errorf("different is %+v", diff)
	}
	var check struct {
		Read     int64
		All      int
		Problems []client.FilesProblem
	}
	s.want(200, "GET", "/api/v1/files/app/verify", "", &check)
	if check.Read != 3 || check.All != 0 || check.Problems == nil {
		t.Errorf("it is %+v", check)
	}
	s.refused(404, "no-files", "GET", "/api/v1/files/nobody", "")
	s.refused(400, "bad-request", "GET", "/api/v1/files/a*b", "")
	s.want(200, "DELETE", "/api/v1/files/app", "", nil)
	s.refused(404, "no-files", "DELETE", "/api/v1/files/app", "")
}
