package value_test

import (
	"strings"
	"testing"

	"millrace/task/value"
)

func TestWord(t *testing.T) {
	words := []string{"crawl", "backup", "max_delay", "job", "run", "dry-run"}
	for typed, want := range map[string]string{
		"crwal":                 "crawl", // neighbours have changed places
		"jbo":                   "job",
		"urn":                   "run",
		"bakup":                 "backup",
		"Max-Delya":             "max_delay",
		"dry_run":               "dry-run",
		"jobs":                  "job",
		"job-definition":        "job", // more than the word
		"max_delay_seconds":     "max_delay",
		"jobless":               "",
		"top":                   "", // two letters of three are another word
		"ui":                    "",
		"":                      "",
		"restore":               "",
		strings.Repeat("x", 40): "",
	} {
		if got := value.Word(typed, words); got != want {
			t.Errorf("Word(%q) is %q, want %q", typed, got, want)
		}
	}
}
