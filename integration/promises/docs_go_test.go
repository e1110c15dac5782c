package promises

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Go code on a page is part of an example, line for line, and so compiled and tested. A line "..."
// leaves some out.
func TestGoInDocs(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	sources := goSources(t, "../../examples")
	found := 0
	for _, page := range append([]string{"../../README.md"}, pages...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		pieces := goPieces(string(text))
		found += len(pieces)
		for _, missing := range missingFrom(sources, pieces) {
			t.Errorf("%s: no example has\n%s", page, missing)
		}
	}
	if found < 10 {
		t.Errorf("the pages hold %d pieces of Go, want at least 10", found)
	}
}

// The job file that README and the tutorial show is the one that their commands store.
func TestJobFileInDocs(t *testing.T) {
	t.Parallel()
	stored, err := os.ReadFile("../../examples/start/report.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"../../README.md", "../../docs/start.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "```yaml\n"+string(stored)+"```\n") {
			t.Errorf("%s does not show examples/start/report.yaml as it is", page)
		}
	}
}

func TestGoInDocsFindsWhatNoExampleHas(t *testing.T) {
	t.Parallel()
	source := []string{plain("func f() {\n\ta()\n\n\tb()\n}\n")}
	for block, want := range map[string]int{
		"a()\n\nb()":               0,
		"  a()\n...\n}":            0,
		"b()\na()":                 1,
		"a()\n...\nc()\n...\nd(1)": 2,
		"a":                        1, // part of a line is no line
	} {
		page := fmt.Sprintf("Text\n```go\n%s\n```\n```sh\nc()\n```\n", block)
		if missing := missingFrom(source, goPieces(page)); len(missing) != want {
			t.Errorf("of %q %q is missing, want %d", block, missing, want)
		}
	}
}

// goSources are the Go files below a folder, plain.
func goSources(t *testing.T, dir string) (sources []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		sources = append(sources, plain(string(text)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

// plain is code without indentation, with a line break before and behind.
func plain(code string) string {
	var b strings.Builder
	b.WriteByte('\n')
	for line := range strings.Lines(code) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}

// goPieces returns the contents of the go blocks of a page, split at lines that leave something
// out.
func goPieces(page string) (pieces []string) {
	fenced, piece := false, ""
	flush := func() {
		if piece != "" {
			pieces = append(pieces, plain(piece))
		}
		piece = ""
	}
	for line := range strings.Lines(page) {
		switch text := strings.TrimSpace(line); {
		case strings.HasPrefix(text, "```"):
			flush()
			fenced = text == "```go"
		case !fenced:
		case text == "...":
			flush()
		default:
			piece += line
		}
	}
	return pieces
}

// missingFrom are the pieces that no source holds.
func missingFrom(sources, pieces []string) (missing []string) {
	for _, piece := range pieces {
		there := false
		for _, s := range sources {
			there = there || strings.Contains(s, piece)
		}
		if !there {
			missing = append(missing, piece)
		}
	}
	return missing
}
