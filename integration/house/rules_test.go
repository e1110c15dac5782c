package house

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"millrace/task/job"
)

// Every rule of the table stands on the page about rules, beside its question. One that postpones
// tasks stands beside the fact, its decision and its metric, too.
func TestRulesAreDocumented(t *testing.T) {
	for _, r := range job.Rules {
		mentioned(t, "rules.md", "| "+string(r.Question)+":", r.Name)
		if r.Then != "" {
			mentioned(t, "wire.md", "| `task.postponed`", r.Name)
			mentioned(t, "decisions.md", "| `task.postponed`", r.Name)
			mentioned(t, "metrics.md", "| `millrace_tasks_postponed_total{rule}`", r.Name)
		}
	}
}

// mentioned wants a rule on a line of a page that begins with a text.
func mentioned(t *testing.T, page, begin, rule string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, begin) && strings.Contains(line, "`"+rule+"`") {
			return
		}
	}
	t.Errorf("docs/%s does not have the rule `%s` on a line that begins with %s", page, rule, begin)
}
