package house

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"millrace/task/job"
)

// Every rule of the table stands on the page about rules, beside its question.
func TestRulesAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "rules.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(page), "\n")
	for _, r := range job.Rules {
		found := false
		for _, line := range lines {
			found = found || strings.HasPrefix(line, "| "+string(r.Question)+":") && strings.Contains(line, "`"+r.Name+"`")
		}
		if !found {
			t.Errorf("docs/rules.md does not have the %s `%s`", r.Question, r.Name)
		}
	}
}
