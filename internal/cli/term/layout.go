package term

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// How tables are made to fit.
const (
	gap = 2 // columns of the terminal between two of the table
	// lastColumn is the least width of a table's last column, if its text is that long, and
	// lastLines on how many lines it may be.
	lastColumn = 24
	lastLines  = 3
	// leastColumn is the least width of others when nothing is left to be dropped.
	leastColumn = 8
	// widestColumn is how much of another column is shown before spare ones are dropped.
	widestColumn = 26
)

// wrapped is a cell on one line or several.
type wrapped struct {
	lines  []string
	colour Colour
}

// fit lays out the rows, the header first, and returns the width of each column. If bound is above
// 0, empty columns are dropped, long texts cut, and spare columns dropped until the rest fits; if
// that is not enough, the widest are cut further. The last column is wrapped.
func (t *Table) fit(bound int) ([][]wrapped, []int) {
	rows := t.cells()
	widths := columnWidths(rows)
	if bound > 0 && len(t.Header) > 0 {
		rows, widths = t.narrow(rows, widths, bound)
	}
	all := make([][]wrapped, len(rows))
	for i, row := range rows {
		used := 0
		for j, c := range row {
			lines := []string{c.Text}
			switch last := j == len(row)-1; {
			case bound > 0 && last && len(t.Header) > 0:
				lines = wrap(c.Text, max(bound-used, leastColumn), lastLines)
			case bound > 0 && last:
				lines = wrap(c.Text, max(bound-used, leastColumn), 0)
			case bound > 0:
				lines[0] = Cut(c.Text, widths[j])
			}
			used += widths[j] + gap
			all[i] = append(all[i], wrapped{lines, c.Colour})
		}
	}
	return all, widths
}

// cells returns the rows, the header first, in printable form.
func (t *Table) cells() [][]Cell {
	rows := make([][]Cell, 0, len(t.Rows)+1)
	if len(t.Header) > 0 {
		head := make([]Cell, len(t.Header))
		for i, h := range t.Header {
			head[i] = Cell{h, Bold}
		}
		rows = append(rows, head)
	}
	for _, row := range t.Rows {
		row = slices.Clone(row)
		for i := range row {
			row[i].Text = Printable(row[i].Text)
		}
		rows = append(rows, row)
	}
	return rows
}

// narrow drops and cuts columns of rows with a header until they fit.
func (t *Table) narrow(rows [][]Cell, widths []int, bound int) ([][]Cell, []int) {
	for i := len(rows[0]) - 1; i > 0 && len(rows) > 1; i-- {
		if !slices.ContainsFunc(rows[1:], func(row []Cell) bool { return i < len(row) && row[i].Text != "" }) {
			rows, widths = without(rows, widths, i)
		}
	}
	widths = slices.Clone(widths)
	if needed(widths) > bound {
		for i := range widths[:len(widths)-1] {
			if !slices.Contains(t.Whole, rows[0][i].Text) {
				widths[i] = min(widths[i], widestColumn)
			}
		}
	}
	for _, name := range t.Spare {
		if needed(widths) <= bound {
			break
		}
		if i := slices.IndexFunc(rows[0], func(c Cell) bool { return c.Text == name }); i >= 0 {
			rows, widths = without(rows, widths, i)
		}
	}
	for needed(widths) > bound {
		widest := 0
		weight := func(i int) int {
			if slices.Contains(t.Whole, rows[0][i].Text) {
				return min(widths[i], leastColumn+1)
			}
			return widths[i]
		}
		for i := range widths[:len(widths)-1] {
			if weight(i) > weight(widest) {
				widest = i
			}
		}
		if len(widths) == 1 || widths[widest] <= leastColumn {
			break
		}
		widths[widest]--
	}
	return rows, widths
}

// needed returns the least width of a table.
func needed(widths []int) int {
	sum := 0
	for _, w := range widths[:len(widths)-1] {
		sum += w + gap
	}
	return sum + min(widths[len(widths)-1], lastColumn)
}

// without removes a column from rows and widths.
func without(rows [][]Cell, widths []int, column int) ([][]Cell, []int) {
	less := make([][]Cell, len(rows))
	for i, row := range rows {
		if less[i] = row; column < len(row) {
			less[i] = slices.Delete(slices.Clone(row), column, column+1)
		}
	}
	return less, slices.Delete(slices.Clone(widths), column, column+1)
}

func columnWidths(rows [][]Cell) []int {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.Text))
		}
	}
	return widths
}

// wrap breaks s between words into lines of at most n characters; 0 is no bound. If most is above 0
// there are at most that many lines, and the last one ends with a sign if text is left out.
func wrap(s string, n, most int) []string {
	if n <= 0 || utf8.RuneCountInString(s) <= n {
		return []string{s}
	}
	var lines []string
	for rest := []rune(s); len(rest) > 0; {
		if len(rest) <= n {
			return append(lines, string(rest))
		}
		if len(lines)+1 == most {
			return append(lines, string(rest[:wordEnd(rest, n-1)])+"…")
		}
		end := wordEnd(rest, n)
		lines = append(lines, strings.TrimRight(string(rest[:end]), " "))
		for rest = rest[end:]; len(rest) > 0 && rest[0] == ' '; {
			rest = rest[1:]
		}
	}
	return lines
}

// wordEnd returns where the last word that fits into n characters ends; n if the first one does not
// fit.
func wordEnd(text []rune, n int) int {
	for end := n; end > 0; end-- {
		if text[end] == ' ' {
			for end > 1 && text[end-1] == ' ' {
				end--
			}
			return end
		}
	}
	return n
}
