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
	failing = regexp.MustCompile(`\b[lL]og\w*\.Error\(("[^"]*")`)
	quoted  = regexp.MustCompile("`([^`]+)`")
)

// The page about lines of logs quotes lines that processes write, and has all that are errors.
func TestLogLinesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/loglines.md")
	if err != nil {
		t.Fatal(err)
	}
	source := productSource(t)
	page := strings.Join(strings.Fields(string(text)), " ")
	for _, m := range failing.FindAllStringSubmatch(source, -1) {
		line, _, _ := strings.Cut(strings.Trim(m[1], `"`), "; ")
		head, _, _ := strings.Cut(line, ": ")
		if !strings.Contains(page, line) && !strings.Contains(page, head+": …") {
			t.Errorf("docs/loglines.md does not have the error %q", line)
		}
	}
	for line := range strings.Lines(string(text)) {
		cell := line
		if strings.HasPrefix(line, "|") {
			cell, _, _ = strings.Cut(line[1:], "|")
		} else if !strings.HasPrefix(line, "`") {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
			line, _, _ := strings.Cut(m[1], "…")
			if line = strings.TrimRight(line, ":; ,"); strings.Contains(line, " ") && !strings.Contains(source, line) {
				t.Errorf("docs/loglines.md quotes %q, which no process writes", line)
			}
		}
	}
}

// productSource is the Go of the product without its tests.
func productSource(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "integration" || d.Name() == "examples"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
