package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

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

// nodeCell is a node's state, and that it is cordoned, which is no state.
func nodeCell(n *node.Node) cell {
	c := cell{n.State.String(), map[node.State]colour{
		node.Online: yellow, node.Ready: green, node.Draining: yellow, node.Quarantined: purple, node.Offline: red, node.Retired: faint,
	}[n.State]}
	if n.Standing.Order == node.OrderCordon {
		c = cell{c.text + ",cordoned", yellow}
	}
	return c
}

// table is rows of cells below a header; a table without one is a list of
// names and values.
type table struct {
	title  string
	header []string
	rows   [][]cell
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
func (a *app) print(t table) error {
	bound := 0
	if len(t.header) > 0 {
		bound = width(a.out)
	}
	return t.write(a.out, bound, colourful(a.out))
}

// write writes the table. The last column is cut so that no row is wider than
// bound, if that is above 0.
func (t *table) write(w io.Writer, bound int, colours bool) error {
	b := bufio.NewWriter(w)
	rows := t.rows
	if len(t.header) > 0 {
		head := make([]cell, len(t.header))
		for i, h := range t.header {
			head[i] = cell{h, bold}
		}
		rows = append([][]cell{head}, rows...)
	}
	widths := columnWidths(rows)
	if t.title != "" {
		fmt.Fprintln(b, paint(cell{t.title, bold}, colours))
	}
	for _, row := range rows {
		var line strings.Builder
		used := 0
		for i, c := range row {
			c.text = printable(c.text)
			if i == len(row)-1 {
				if bound > 0 {
					c.text = cut(c.text, max(bound-used, 8))
				}
				line.WriteString(paint(c, colours && c.text != ""))
				break
			}
			pad := widths[i] - utf8.RuneCountInString(c.text) + 2
			used += widths[i] + 2
			line.WriteString(paint(c, colours && c.text != "") + strings.Repeat(" ", pad))
		}
		fmt.Fprintln(b, strings.TrimRight(line.String(), " "))
	}
	for _, line := range t.foot {
		fmt.Fprintln(b, paint(dim(line), colours))
	}
	return b.Flush()
}

func columnWidths(rows [][]cell) []int {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(printable(c.text)))
		}
	}
	return widths
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
