package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"millrace/client"
	"millrace/node"
	"millrace/task"
)

// colour is the parameter of an ANSI escape; "" for none.
type colour string

const (
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
	blue   colour = "34"
	purple colour = "35"
	bold   colour = "1"
	faint  colour = "2"
)

// cell is a piece of a table.
type cell struct {
	text   string
	colour colour
}

func plain(s string) cell { return cell{text: s} }
func dim(s string) cell   { return cell{s, faint} }

func stateCell(s task.State) cell {
	return cell{s.String(), map[task.State]colour{
		task.Running: blue, task.Retrying: yellow, task.Cancelling: yellow, task.Cancelled: yellow,
		task.Finished: green, task.Error: red, task.Abnormal: purple,
	}[s]}
}

// nodeCell is a node's state, and that it is cordoned or drained, which are no states.
func nodeCell(n *client.NodeView) cell {
	c := cell{n.State.String(), map[node.State]colour{
		node.Online: yellow, node.Ready: green, node.Draining: yellow, node.Quarantined: purple, node.Offline: red, node.Retired: faint,
	}[n.State]}
	if n.Drained {
		c = cell{"drained", yellow}
	}
	if n.Standing.Order == node.OrderCordon {
		c = cell{c.text + ",cordoned", yellow}
	}
	return c
}

// stateOf is the state of a node as a server sees it: one that has fallen silent is not what the log
// last said of it.
func stateOf(n *client.NodeView) cell {
	if n.Silent {
		return cell{"silent", red}
	}
	return nodeCell(n)
}

// table is rows of cells below a header; a table without one is a list of
// names and values.
type table struct {
	title  string
	header []string
	// spare are the columns that a narrow terminal does without, the least needed first.
	spare []string
	rows  [][]cell
	// foot are lines below the rows.
	foot []string
}

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

// field adds a name and its value, unless that is empty.
func (t *table) field(name, value string) {
	if value != "" {
		t.add(dim(name), plain(value))
	}
}

// print writes a table to stdout as its terminal, if it is one, wants it.
func (a *app) print(t table) error { return t.write(a.out, width(a.out), colourful(a.out)) }

// write writes the table. If bound is above 0, no line is wider than that: see [table.fit].
func (t *table) write(w io.Writer, bound int, colours bool) error {
	b := bufio.NewWriter(w)
	if t.title != "" {
		fmt.Fprintln(b, paint(cell{t.title, bold}, colours))
	}
	rows, widths := t.fit(bound)
	for _, row := range rows {
		writeRow(b, row, widths, colours)
	}
	for _, line := range t.foot {
		for _, part := range wrap(line, bound, 0) {
			fmt.Fprintln(b, paint(dim(part), colours))
		}
	}
	return b.Flush()
}

// writeRow writes a row of which the last cell may have several lines.
func writeRow(b *bufio.Writer, row []wrapped, widths []int, colours bool) {
	lines := 1
	for _, c := range row {
		lines = max(lines, len(c.lines))
	}
	for n := range lines {
		var line strings.Builder
		for i, c := range row {
			text := ""
			if n < len(c.lines) {
				text = c.lines[n]
			}
			line.WriteString(paint(cell{text, c.colour}, colours && text != ""))
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+gap))
			}
		}
		fmt.Fprintln(b, strings.TrimRight(line.String(), " "))
	}
}

func paint(c cell, colours bool) string {
	if !colours || c.colour == "" {
		return c.text
	}
	return "\x1b[" + string(c.colour) + "m" + c.text + "\x1b[0m"
}

// printable replaces what could move the cursor or worse: much of what is shown
// was written by the programs that ran.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case !unicode.IsPrint(r):
			return '·'
		}
		return r
	}, s)
}

// cut shortens s to n characters, the last of which then says so.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}
