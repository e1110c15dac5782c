package wording

import (
	"fmt"
	"strings"

	"millrace/internal/cli/term"
	"millrace/task/node"
)

// maxVerdicts is how many nodes an explanation names; a plan names all.
const maxVerdicts = 20

// VerdictLines adds a line for each node: whether it may claim the task, or the rule that excludes
// it.
func VerdictLines(t *term.Table, all []node.Verdict) {
	for i, v := range all {
		name := ""
		if i == 0 {
			name = "nodes"
		}
		line := term.Plain(string(v.Node) + " may claim it" + preferenceText(v))
		if v.Rule != "" {
			line = term.Tinted(fmt.Sprintf("%s is excluded by %s: %s", v.Node, v.Rule, v.Why), term.Yellow)
		}
		t.Add(term.Dim(name), line)
	}
}

// preferenceText says why a node is preferred.
func preferenceText(v node.Verdict) string {
	switch {
	case v.Ran && v.Score > 0:
		return fmt.Sprintf("; it ran there last, and is preferred with weight %d", v.Score)
	case v.Ran:
		return "; it ran there last"
	case v.Score > 0:
		return fmt.Sprintf("; it is preferred with weight %d", v.Score)
	}
	return ""
}

// Verdicts adds the lines of an explanation, at most maxVerdicts.
func Verdicts(t *term.Table, all []node.Verdict, id string) {
	VerdictLines(t, all[:min(len(all), maxVerdicts)])
	if more := len(all) - maxVerdicts; more > 0 {
		t.Add(term.Dim(""), term.Plain(fmt.Sprintf("and %d more: `millrace plan %s` names them", more, id)))
	}
}

// Join joins names.
func Join(names []string) string { return strings.Join(names, ", ") }
