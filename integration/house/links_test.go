package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// anchor returns the link target of a heading, as GitHub makes it.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// dead returns the links of a page that lead to no file, or to no heading of one.
func dead(page, text string, read func(string) (string, error)) (all []string) {
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		to, at, _ := strings.Cut(m[1], "#")
		if strings.Contains(to, ":") { // of another site
			continue
		}
		there, err := text, error(nil)
		if to != "" {
			there, err = read(filepath.Join(filepath.Dir(page), to))
		}
		found := at == ""
		for _, h := range heading.FindAllStringSubmatch(there, -1) {
			found = found || anchor(h[1]) == at
		}
		if err != nil || !found {
			all = append(all, m[1])
		}
	}
	return all
}

// pages lists the README, SECURITY.md and the pages of docs.
func pages(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("../../docs/*.md")
	more, moreErr := filepath.Glob("../../docs/*/*.md")
	if err != nil || moreErr != nil || len(all) == 0 || len(more) == 0 {
		t.Fatal("no pages were found")
	}
	return append(append([]string{"../../README.md", "../../SECURITY.md"}, all...), more...)
}

// Every link of a page leads somewhere.
func TestLinks(t *testing.T) {
	read := func(path string) (string, error) {
		info, err := os.Stat(path)
		if err != nil || info.IsDir() {
			return "", err
		}
		text, err := os.ReadFile(path)
		return string(text), err
	}
	for _, page := range pages(t) {
		text, err := read(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range dead(page, text, read) {
			t.Errorf("%s: the link to %s is dead", page, to)
		}
	}
}

func TestDeadLinks(t *testing.T) {
	read := func(path string) (string, error) {
		if path == "docs/there.md" {
			return "# There\n## What it's for\n", nil
		}
		return "", os.ErrNotExist
	}
	for text, want := range map[string]int{
		"[a](there.md)": 0, "[a](there.md#what-its-for)": 0, "[a](https://example.org/x)": 0, "# Here\n[a](#here)": 0,
		"[a](gone.md)": 1, "[a](there.md#what)": 1, "[a](#here)": 1, "[a](gone.md) [b](there.md#no)": 2,
	} {
		if got := dead("docs/page.md", text, read); len(got) != want {
			t.Errorf("%q: dead are %q, want %d", text, got, want)
		}
	}
}
