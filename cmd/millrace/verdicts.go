package main

import (
	"fmt"
	"strings"

	"millrace/node"
)

// maxVerdicts is how many nodes an explanation names; a plan names all.
const maxVerdicts = 20

// verdictLines adds a line for each node: whether it may claim the task, or the rule
// that excludes it.
func (t *table) verdictLines(all []node.Verdict) {
	for i, v := range all {
		name := ""
		if i == 0 {
			name = "nodes"
		}
		line := plain(string(v.Node) + " may claim it" + preferenceText(v))
		if v.Rule != "" {
			line = cell{fmt.Sprintf("%s is excluded by %s: %s", v.Node, v.Rule, v.Why), yellow}
		}
		t.add(dim(name), line)
	}
}

// preferenceText says why a node is better than others.
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

// verdicts adds the lines of an explanation, which must not be too many.
func verdicts(t *table, all []node.Verdict, id string) {
	t.verdictLines(all[:min(len(all), maxVerdicts)])
	if more := len(all) - maxVerdicts; more > 0 {
		t.add(dim(""), plain(fmt.Sprintf("and %d more: `millrace plan %s` names them", more, id)))
	}
}

func join(names []string) string { return strings.Join(names, ", ") }
