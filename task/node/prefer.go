package node

import (
	"cmp"
	"slices"

	"millrace/task/job"
)

// Prefer adds a task's preferences to the verdicts, and puts the better nodes first. Ran is the
// node to which the task sticks, "" if there is none.
func Prefer(all []Verdict, nodes []Node, place *job.Place, ran string) {
	if !place.Prefers() {
		return
	}
	labels := make(map[ID]map[string]string, len(nodes))
	for i := range nodes {
		labels[nodes[i].ID] = nodes[i].Selectable()
	}
	for i := range all {
		v := &all[i]
		v.Score, _ = place.Score(labels[v.Node])
		v.Ran = place.Sticky != "" && string(v.Node) == ran
	}
	slices.SortStableFunc(all, func(a, b Verdict) int {
		return cmp.Or(cmp.Compare(min(len(a.Rule), 1), min(len(b.Rule), 1)), compareBool(b.Ran, a.Ran), cmp.Compare(b.Score, a.Score))
	})
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
