package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testOfPage   = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w*)")
	scriptOfPage = regexp.MustCompile("`testdata/(\\w+\\.txt)`")
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z]\w*)\(`)
)

// absent returns the tests and scripts that a page names and that are not there.
func absent(page string, tests, scripts map[string]bool) (all []string) {
	for _, m := range testOfPage.FindAllStringSubmatch(page, -1) {
		if !tests[m[1]] {
			all = append(all, m[1])
		}
	}
	for _, m := range scriptOfPage.FindAllStringSubmatch(page, -1) {
		if !scripts[m[1]] && m[1] != "x.txt" { // x stands for any name
			all = append(all, m[1])
		}
	}
	return all
}

// Every test and script that a page names exists, in this module or in another of this tree.
func TestPagesNameTests(t *testing.T) {
	tests, scripts := map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir(root(t), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
		case strings.HasSuffix(path, "_test.go"):
			var text []byte
			if text, err = os.ReadFile(path); err == nil {
				for _, m := range testFunction.FindAllSubmatch(text, -1) {
					tests[string(m[1])] = true
				}
			}
		case filepath.Base(filepath.Dir(path)) == "testdata":
			scripts[filepath.Base(path)] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(tests) == 0 || len(scripts) == 0 {
		t.Fatalf("%d tests and %d scripts were found", len(tests), len(scripts))
	}
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range absent(string(text), tests, scripts) {
			t.Errorf("%s names %s, which does not exist", page, name)
		}
	}
}

func TestAbsent(t *testing.T) {
	page := "`TestThere`, `TestThere/part`, `TestGone`, `FuzzGone` (jet), `testdata/there.txt`, `testdata/gone.txt`, `testdata/x.txt`"
	got := absent(page, map[string]bool{"TestThere": true}, map[string]bool{"there.txt": true})
	if strings.Join(got, " ") != "TestGone FuzzGone gone.txt" {
		t.Errorf("these are absent: %v", got)
	}
}
