package house

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// placeOfPage is a file, or a package with names that stand in it.
	placeOfPage = regexp.MustCompile("`([\\w/]+\\.go)`(?: \\(([^()]*)\\))?|`([\\w/]+)` \\((`[A-Z][^()]*)\\)")
	nameOfPage  = regexp.MustCompile("`(?:\\w+\\.)?(\\w+)`")
)

// displaced returns the files that a page names and that are not there, and the names that are not
// in the file or package to which the page gives them.
func displaced(page string, sources map[string]string) (all []string) {
	for _, m := range placeOfPage.FindAllStringSubmatch(page, -1) {
		place, names := m[1]+m[3], m[2]+m[4]
		if place == "NAME.go" { // any file
			continue
		}
		var texts []string
		for file, text := range sources {
			if file == place || strings.HasSuffix(file, "/"+place) || path.Dir(file) == place {
				texts = append(texts, text)
			}
		}
		if len(texts) == 0 {
			all = append(all, place)
			continue
		}
		for _, n := range nameOfPage.FindAllStringSubmatch(names, -1) {
			is := regexp.MustCompile(`\b` + n[1] + `\b`)
			if !slices.ContainsFunc(texts, is.MatchString) {
				all = append(all, place+": "+n[1])
			}
		}
	}
	return all
}

// The files and names by which pages say where something lives are there.
func TestPagesNamePlaces(t *testing.T) {
	sources := map[string]string{}
	err := fs.WalkDir(os.DirFS(root(t)), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") {
			return err
		}
		text, err := os.ReadFile(filepath.Join(root(t), file))
		sources[file] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, what := range displaced(string(text), sources) {
			t.Errorf("%s names %s, which is not there", page, what)
		}
	}
}

func TestDisplaced(t *testing.T) {
	sources := map[string]string{"a/b.go": "func Is() { other() }", "a/c.go": "type T int"}
	page := "`a/b.go` (`Is`, `T`), `b.go`, `gone.go`; `a` (`T.Is`, `Gone`), `c.go` (a table), `word` (x), `NAME.go`"
	if got := displaced(page, sources); strings.Join(got, "; ") != "a/b.go: T; gone.go; a: Gone" {
		t.Errorf("displaced: %q", got)
	}
}
