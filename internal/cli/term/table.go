// Package term lays out what a terminal shows: tables, colours, a progress line.
//
// It converts lines that a program has coloured for a terminal to HTML.
//
// It decides what of a text may be sent to a terminal. Most of what users read was
// written by remote programs, or named by submitters. A terminal obeys control sequences: it moves
// the cursor over other lines, sets its title, fills the clipboard. So only text and colours pass.
//
// It has the exit codes of commands, and the hints that are printed with them: see [Fault].
//
// It writes JSON records as lines of JSON, as an array or as CSV, and continues a
// partial file. It does not know where records come from.
//
// It draws graphs and timelines of tasks in formats of other programs: Mermaid and the language of
// Graphviz. It places the boxes of a graph for a page. Names in them are foreign, so every text is escaped.
package term

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"millrace/task/value"
)

// Colour is the parameter of an ANSI escape; "" for none.
type Colour string

const (
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
	Blue   Colour = "34"
	Purple Colour = "35"
	Bold   Colour = "1"
	Faint  Colour = "2"
)

// Cell is a piece of a table.
type Cell struct {
	Text   string
	Colour Colour
}

// Plain is a text as it is, and Dim a less important one.
func Plain(s string) Cell { return Cell{Text: s} }
func Dim(s string) Cell   { return Cell{s, Faint} }

// Tinted is a text in a colour.
func Tinted(s string, c Colour) Cell { return Cell{s, c} }

// Table is rows of cells below a header; without a header it is a list of names and values.
type Table struct {
	Title  string
	Header []string
	// Spare are the columns that a narrow terminal drops, the least needed first.
	Spare []string
	// Whole are the columns that are cut last.
	Whole []string
	Rows  [][]Cell
	// Foot are lines below the rows.
	Foot []string
}

// Column is a column of a list of things, declared once for terminals, files and pages.
type Column[R any] struct {
	// Title is its heading: in capitals at a terminal, in small letters on a page. Name is what files and
	// addresses call it. Default: the heading in small letters.
	Title, Name string
	// Spare says when a narrow terminal drops it: the columns with the smallest numbers first, one with 0
	// never, and one below 0 is cut last.
	Spare int
	// Cell is nil for a column that a page alone fills. File is the text in files, where that is another.
	Cell func(*R) Cell
	File func(*R) string
	// At is the moment of which a cell tells the age; nil for other columns.
	At func(*R) time.Time
	// Number tells that pages align it on the right.
	Number bool
}

// Text is a column of texts, Number one of numbers, and Tints one of texts with colours.
func Text[R any](title string, spare int, text func(*R) string) Column[R] {
	return Column[R]{Title: title, Spare: spare, Cell: func(r *R) Cell { return Plain(text(r)) }}
}

func Number[R any](title string, spare int, text func(*R) string) Column[R] {
	c := Text(title, spare, text)
	c.Number = true
	return c
}

func Tints[R any](title string, spare int, cell func(*R) Cell) Column[R] {
	return Column[R]{Title: title, Spare: spare, Cell: cell}
}

// Called returns the name of a column, and Filed what a row has in it in a file, where moments are whole.
func (c *Column[R]) Called() string { return cmp.Or(c.Name, strings.ToLower(c.Title)) }

func (c *Column[R]) Filed(r *R) string {
	switch {
	case c.File != nil:
		return c.File(r)
	case c.At == nil:
		return c.Cell(r).Text
	case c.At(r).IsZero():
		return ""
	}
	return c.At(r).UTC().Format(time.RFC3339Nano)
}

// Choose returns the columns of some names, in that order. One that there is not has no cells.
func Choose[R any](of []Column[R], names ...string) (some []Column[R]) {
	for _, name := range names {
		is := Column[R]{Title: strings.ToUpper(name)}
		if i := slices.IndexFunc(of, func(c Column[R]) bool { return c.Called() == name }); i >= 0 {
			is = of[i]
		}
		some = append(some, is)
	}
	return some
}

// List lays out things, a row each.
func List[R any](things []R, columns ...Column[R]) (t Table) {
	for _, c := range columns {
		if t.Header = append(t.Header, c.Title); c.Spare < 0 {
			t.Whole = append(t.Whole, c.Title)
		}
	}
	for i := range things {
		row := make([]Cell, len(columns))
		for j, c := range columns {
			row[j] = c.Cell(&things[i])
		}
		t.Add(row...)
	}
	spare := slices.DeleteFunc(slices.Clone(columns), func(c Column[R]) bool { return c.Spare <= 0 })
	slices.SortFunc(spare, func(a, b Column[R]) int { return a.Spare - b.Spare })
	for _, c := range spare {
		t.Spare = append(t.Spare, c.Title)
	}
	return t
}

// Add adds a row.
func (t *Table) Add(cells ...Cell) { t.Rows = append(t.Rows, cells) }

// Field adds a name and its value, unless that is empty.
func (t *Table) Field(name, value string) {
	if value != "" {
		t.Add(Dim(name), Plain(value))
	}
}

// Print writes a table to stdout, formatted for its terminal if it is one.
func (s *Streams) Print(t Table) error { return t.Write(s.Out, Width(s.Out), Colourful(s.Out)) }

// Write writes the table. If bound is above 0, no line is wider than that: see [Table.fit].
func (t *Table) Write(w io.Writer, bound int, colours bool) error {
	b := bufio.NewWriter(w)
	if t.Title != "" {
		fmt.Fprintln(b, Paint(Cell{t.Title, Bold}, colours))
	}
	rows, widths := t.fit(bound)
	for _, row := range rows {
		writeRow(b, row, widths, colours)
	}
	for _, line := range t.Foot {
		for _, part := range wrap(line, bound, 0) {
			fmt.Fprintln(b, Paint(Dim(part), colours))
		}
	}
	return b.Flush()
}

// writeRow writes a row whose last cell may have several lines.
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
			line.WriteString(Paint(Cell{text, c.colour}, colours && text != ""))
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+gap))
			}
		}
		fmt.Fprintln(b, strings.TrimRight(line.String(), " "))
	}
}

// Paint returns the text of a cell, coloured if there are colours.
func Paint(c Cell, colours bool) string {
	if !colours || c.Colour == "" {
		return c.Text
	}
	return "\x1b[" + string(c.Colour) + "m" + c.Text + "\x1b[0m"
}

// Printable is [value.Printable].
func Printable(s string) string { return value.Printable(s) }

// Message is [Printable] for a text of several lines, such as an error, that may quote a file, a
// program or a server.
func Message(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = Printable(line)
	}
	return strings.Join(lines, "\n")
}

// Cut shortens s to n characters; the last one marks the cut.
func Cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}
