package wording

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/internal/cli/term"
	"millrace/service/client"
	"millrace/task/node"
)

// labelChanges are changes of labels as they are typed.
func labelChanges(changes map[string]*string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		if value := changes[key]; value != nil {
			parts = append(parts, key+"="+*value)
		} else {
			parts = append(parts, key+"-")
		}
	}
	return strings.Join(parts, " ")
}

// Unserved says of tasks that no node takes how many they are, since when, and why.
func Unserved(u *node.Unserved, of string, now time.Time) string {
	return fmt.Sprintf("unserved: %s %s since %s: %s", Plural(u.Tasks, "task"), of, Moment(u.Since, now), Clocks(u.Why))
}

// UnservedNodes says it of those that wait for one node alone each.
func UnservedNodes(all []client.UnservedNode, now time.Time) (lines []string) {
	for i := range all {
		lines = append(lines, Unserved(&all[i].Unserved, "for node "+all[i].Node, now))
	}
	return lines
}

// NodeCell is a node's state, and whether it is cordoned or drained, which are not states.
func NodeCell(n *client.NodeView) term.Cell {
	c := term.Tinted(n.State.String(), map[node.State]term.Colour{
		node.Online: term.Yellow, node.Ready: term.Green, node.Draining: term.Yellow, node.Quarantined: term.Purple, node.Offline: term.Red, node.Retired: term.Faint,
	}[n.State])
	if n.Drained {
		c = term.Tinted("drained", term.Yellow)
	}
	if n.Standing.Order == node.OrderCordon {
		c = term.Tinted(c.Text+",cordoned", term.Yellow)
	}
	return c
}

// SeenState is the state of a node as a server sees it: for a silent node the log's last state no
// longer holds.
func SeenState(n *client.NodeView) term.Cell {
	if n.Silent {
		return term.Tinted("silent", term.Red)
	}
	return NodeCell(n)
}

// NodeLine is what commands print of a node that they have changed.
func NodeLine(n *client.NodeView) string { return fmt.Sprintf("%s %s", n.ID, NodeCell(n).Text) }
