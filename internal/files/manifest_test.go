package files_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"millrace/internal/files"
)

func TestEncodeIsOneSpelling(t *testing.T) {
	a := files.Manifest{Entries: []files.Entry{{Path: "b", Size: 1, Chunks: []files.Digest{files.DigestOf([]byte("b"))}}, {Path: "a/<x>", Exec: true}, {Path: "d", Dir: true}, {Path: "l", Link: "a/<x>"}}}
	b := files.Manifest{Entries: []files.Entry{a.Entries[3], a.Entries[2], a.Entries[1], a.Entries[0]}}
	textA, digestA, err := files.Encode(&a)
	if err != nil {
		t.Fatal(err)
	}
	textB, digestB, err := files.Encode(&b)
	if err != nil || digestA != digestB || string(textA) != string(textB) {
		t.Fatalf("%s %s\n%s %s: %v", digestA, textA, digestB, textB, err)
	}
	// The digest is a promise to all stores there are: it can never change.
	if want := "ee615511f16d"; digestA.Short() != want {
		t.Errorf("the version is %s, was %s", digestA.Short(), want)
	}
	m, err := files.Parse(textA)
	if err != nil || len(m.Entries) != 4 {
		t.Fatalf("%v: %v", m, err)
	}
	for _, other := range []string{string(textA) + " ", strings.Replace(string(textA), `"entries"`, `"Entries"`, 1), strings.Replace(string(textA), "{", `{"x":1,`, 1), "{}", "null", "[]", ""} {
		if _, err := files.Parse([]byte(other)); err == nil {
			t.Errorf("%q was read", other)
		}
	}
}

// TestHostileManifests holds manifests that must never be written anywhere.
func TestHostileManifests(t *testing.T) {
	one := []files.Digest{files.DigestOf(nil)}
	file := func(paths ...string) (all []files.Entry) {
		for _, p := range paths {
			all = append(all, files.Entry{Path: p})
		}
		return all
	}
	for name, entries := range map[string][]files.Entry{
		"up":                     file("../a"),
		"up in the middle":       file("a/../../b"),
		"itself":                 file("."),
		"nothing":                file(""),
		"a dot":                  file("./a"),
		"absolute":               file("/etc/passwd"),
		"two slashes":            file("a//b"),
		"a slash at the end":     file("a/"),
		"newline":                file("a\nb"),
		"zero byte":              file("a\x00b"),
		"escape sequence":        file("\x1b[2J"),
		"not UTF-8":              file("\xff"),
		"a long name":            file(strings.Repeat("x", 256)),
		"a long path":            file(strings.Repeat("x/", 2000) + "x"),
		"twice":                  file("a", "a"),
		"below a file":           file("a", "a/b"),
		"below a file, far":      file("a", "a.b", "a/b/c"),
		"below a link":           {{Path: "a", Link: "b"}, {Path: "a/passwd"}},
		"below an empty dir":     {{Path: "a", Dir: true}, {Path: "a/b"}},
		"link out":               {{Path: "a", Link: ".."}},
		"link far out":           {{Path: "a/b", Link: "../../x"}},
		"link to the root":       {{Path: "a", Link: "/etc/passwd"}},
		"link down, then up":     {{Path: "a", Link: "b/../../x"}},
		"up behind another link": {{Path: "a/b/s", Link: "../.."}, {Path: "a/b/t", Link: "s/../x"}},
		"link with a zero byte":  {{Path: "a", Link: "b\x00"}},
		"link and content":       {{Path: "a", Link: "b", Size: 1, Chunks: one}},
		"directory and content":  {{Path: "a", Dir: true, Exec: true}},
		"no chunks":              {{Path: "a", Size: 5}},
		"too many chunks":        {{Path: "a", Size: 5, Chunks: append(one, one...)}},
		"below zero":             {{Path: "a", Size: -5}},
		"no digest":              {{Path: "a", Size: 5, Chunks: []files.Digest{"../../x"}}},
	} {
		m := files.Manifest{Entries: entries}
		if _, _, err := files.Encode(&m); err == nil {
			t.Errorf("%s: %v is a manifest", name, entries)
		}
	}
	good := files.Manifest{Entries: append(file("..a", "a b", "ä", "b.", "c\\d", "sub/x"), files.Entry{Path: "sub/up", Link: "../a b"}, files.Entry{Path: "sub/here", Link: "./x"}, files.Entry{Path: "top", Link: "sub/"})}
	if _, _, err := files.Encode(&good); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"entries":[{"path":"a","size":1,"chunks":["x"]}]}`))
	f.Add([]byte(`{"entries":[{"path":"a","link":"b"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := files.Parse(text)
		if err != nil {
			return
		}
		again, _, err := files.Encode(m)
		if err != nil || string(again) != string(text) {
			t.Errorf("%q became %q: %v", text, again, err)
		}
	})
}

func TestCollisions(t *testing.T) {
	m := files.Manifest{Entries: []files.Entry{{Path: "Makefile"}, {Path: "a"}, {Path: "makefile"}}}
	if got := m.Collisions(); len(got) != 1 || got[0] != [2]string{"Makefile", "makefile"} {
		t.Error(got)
	}
}

func TestDiff(t *testing.T) {
	x, y := files.DigestOf([]byte("x")), files.DigestOf([]byte("y"))
	a := files.Manifest{Entries: []files.Entry{{Path: "gone", Size: 1, Chunks: []files.Digest{x}}, {Path: "mode", Size: 1, Chunks: []files.Digest{x}}, {Path: "same", Link: "x"}}}
	b := files.Manifest{Entries: []files.Entry{{Path: "mode", Exec: true, Size: 1, Chunks: []files.Digest{x}}, {Path: "new", Size: 1, Chunks: []files.Digest{y}}, {Path: "same", Link: "x"}}}
	want := []files.Change{
		{Kind: files.Removed, Path: "gone", Before: 1},
		{Kind: files.Changed, Path: "mode", Before: 1, After: 1},
		{Kind: files.Added, Path: "new", After: 1, New: 1},
	}
	got := files.Diff(&a, &b)
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}

func TestIgnore(t *testing.T) {
	ig, err := files.ParseIgnore("# no comment", "*.log", "!keep.log", "/build", "tmp/", "docs/**/x", `\#odd`, "")
	if err != nil {
		t.Fatal(err)
	}
	for path, out := range map[string]bool{
		"a.log": true, "d/e/a.log": true, "keep.log": false, "d/keep.log": false, "build": true, "d/build": false,
		"tmp/": true, "d/tmp/": true, "tmp": false, "docs/x": true, "docs/a/b/x": true, "x": false, "#odd": true,
	} {
		name, dir := strings.CutSuffix(path, "/")
		if ig.Match(name, dir) != out {
			t.Errorf("%s: left out is %v, want %v", path, !out, out)
		}
	}
	for _, bad := range []string{"[", "a/[", "!", "/"} {
		if _, err := files.ParseIgnore(bad); err == nil {
			t.Errorf("%q was understood", bad)
		}
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{{"out", "out/a/b", true}, {"out/", "out/a", true}, {"./out/*.csv", "out/a.csv", true}, {"out/*.csv", "out/b/a.csv", false}, {"**/*.csv", "a.csv", true}, {"*.csv", "b/a.csv", false}, {"outer", "out/a", false}} {
		if got := files.Glob([]string{c.pattern}, c.path); got != c.want {
			t.Errorf("%s matches %s: %v", c.pattern, c.path, got)
		}
	}
}

func TestParseRef(t *testing.T) {
	d := string(files.DigestOf(nil))
	for text, want := range map[string]files.Ref{
		"app": {Name: "app"}, d: {Digest: files.Digest(d)}, d[:8]: {Digest: files.Digest(d[:8])},
		"app@" + d: {Name: "app", Digest: files.Digest(d)}, "cafe": {Name: "cafe"},
	} {
		if got, err := files.ParseRef(text); err != nil || got != want || got.String() != text {
			t.Errorf("%s is %+v: %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "a b", "a.b", "app@", "app@xyz", "app@12", "@" + d, "../app", strings.Repeat("x", 65)} {
		if got, err := files.ParseRef(bad); err == nil {
			t.Errorf("%q is %+v", bad, got)
		}
	}
}

// TestVersionsAreBounded: contents may be there many times, so a list of bounded size could name
// any number of bytes.
func TestVersionsAreBounded(t *testing.T) {
	d := files.DigestOf([]byte("x"))
	var m files.Manifest
	for i := range 256 {
		m.Entries = append(m.Entries, files.Entry{Path: fmt.Sprintf("%03d", i), Size: 2048 * files.ChunkSize, Chunks: slices.Repeat([]files.Digest{d}, 2048)})
	}
	if err := m.Validate(); err != nil {
		t.Errorf("256 GiB: %v", err)
	}
	m.Entries = append(m.Entries, files.Entry{Path: "more", Size: 1, Chunks: []files.Digest{d}})
	if err := m.Validate(); err == nil || !strings.Contains(err.Error(), "together") {
		t.Errorf("a byte more: %v", err)
	}
}
