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

// NodeColumns are those of lists of nodes, at a moment; past tells that it is over.
func NodeColumns(now time.Time, past bool) []term.Column[client.NodeView] {
	type row = *client.NodeView
	return []term.Column[client.NodeView]{
		term.Text("NODE", 0, func(n row) string { return string(n.ID) }),
		term.Tints("STATE", 0, SeenState),
		ages("SINCE", 0, now, func(n row) time.Time { return n.Since }),
		term.Text("BUSY", 0, func(n row) string { return fmt.Sprintf("%d/%d", n.Running, n.Slots) }),
		term.Text("QUEUES", 9, func(n row) string { return strings.Join(n.Queues, ",") }),
		term.Text("BEAT", 8, func(n row) string { return beat(n, now, past) }),
		ages("ONLINE", 4, now, func(n row) time.Time { return n.OnlineSince }),
		ages("READY", 5, now, func(n row) time.Time { return n.ReadySince }),
		term.Number("PROCESSOR", 2, func(n row) string { return Busy(&n.Machine) }),
		term.Number("MEMORY", 2, func(n row) string { return Filled(&n.Machine) }),
		term.Number("SESSIONS", 3, func(n row) string { return fmt.Sprint(n.Sessions) }),
		term.Text("MEAN", 1, func(n row) string { return unlessZero(n.MeanSession.Std(), Span) }),
		term.Number("FLAP", 2, func(n row) string {
			return unlessZero(n.Score, func(s float64) string { return fmt.Sprintf("%.1f", s) })
		}),
		term.Text("VERSION", 6, func(n row) string { return n.Version }),
		term.Text("LABELS", 7, func(n row) string { return Pairs(n.Labels) }),
		term.Text("REASON", 0, func(n row) string { return reason(n, now) }),
	}
}

// Busy says how busy the processors of a machine are; "" if that is not known.
func Busy(m *node.Machine) string {
	if m.Processors == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f%% of %d", 100*m.Busy, m.Processors)
}

// Filled says how much memory of a machine is used; "" if that is not known.
func Filled(m *node.Machine) string {
	if m.Memory == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f%% of %s", 100*float64(m.MemoryUsed)/float64(m.Memory), ByteCount(m.Memory))
}

// beat says when a node last said that it is there.
func beat(n *client.NodeView, now time.Time, past bool) string {
	switch {
	case past:
		return "not recorded"
	case n.LastBeat.IsZero():
		return "none"
	}
	return Age(n.LastBeat, now) + " ago"
}

// reason says why a node is in its state, and what keeps or ends it.
func reason(n *client.NodeView, now time.Time) string {
	why := n.Reason
	if n.Standing.Order == node.OrderCordon {
		why = Words(n.Standing.Words(), why)
	}
	switch at := n.Next.By; {
	case n.KeptBy != "":
		why = Words(why, "stays while task "+n.KeptBy.Short()+" names it")
	case n.State == node.Offline && n.Next.Who == node.Operator && !at.IsZero():
		why = Words(why, "retires by itself "+Moment(at, now))
	}
	return why
}
