package wording

import (
	"fmt"
	"strings"
	"time"

	"millrace/internal/cli/term"
	"millrace/service/client"
)

// plannedMarks distinguish what became of planned runs without colours. Common fonts have all of them.
var plannedMarks = map[string]term.Cell{
	client.PlannedRan: term.Tinted("✓", term.Green), client.PlannedFailed: term.Tinted("✗", term.Red), client.PlannedMissed: term.Tinted("!", term.Purple),
	client.PlannedCancelled: term.Tinted("⊘", term.Yellow), client.PlannedSkipped: term.Dim("–"), client.PlannedRunning: term.Tinted("▶", term.Blue),
	client.PlannedWaiting: term.Tinted("…", term.Blue), client.PlannedDue: term.Plain("◌"), client.PlannedNext: term.Dim("◷"), client.PlannedForgot: term.Dim("·"),
}

// PlannedMark is the mark of what became of a planned run; "" of none.
func PlannedMark(word string) string { return plannedMarks[word].Text }

// manyMark stands for planned runs that nobody has looked up.
const manyMark = "∙∙"

// GridCell shows the worst of what became of planned runs, with the number of those if there are several.
func GridCell(c *client.GridCell) term.Cell {
	is := plannedMarks[c.Worst()]
	switch n := c.N[c.Worst()]; {
	case n == 0 && c.Many:
		return term.Dim(manyMark)
	case n > 1:
		is.Text += fmt.Sprint(n)
	}
	return is
}

// GridText says in words what became of planned runs, the worst first: "1 failed, 23 ran", and of a single one
// when and why.
func GridText(c *client.GridCell, zone *time.Location) string {
	var said []string
	if len(c.Runs) == 1 {
		r := &c.Runs[0]
		said = append(said, r.Tick.In(zone).Format("15:04")+" "+r.Word())
		if late := r.Late.Std(); late >= time.Minute {
			said = append(said, "late by "+Span(late.Truncate(time.Second)))
		}
		if r.Why != "" {
			said = append(said, r.Why)
		}
		return strings.Join(said, ", ")
	}
	for _, word := range client.PlannedWords {
		if n := c.N[word]; n > 0 {
			said = append(said, fmt.Sprintf("%d %s", n, word))
		}
	}
	if c.Many {
		said = append(said, "others not counted")
	}
	return strings.Join(said, ", ")
}

// GridColumn names the column that begins at a time.
func GridColumn(g *client.Grid, begins time.Time) string {
	if g.By == "hour" {
		return begins.Format("15")
	}
	return begins.Format("02")
}

// GridLegend says what the marks of a grid mean, those that it has.
func GridLegend(g *client.Grid) (lines []string) {
	there, partly := map[string]bool{}, false
	for i := range g.Rows {
		partly = partly || g.Rows[i].Partly
		for j := range g.Rows[i].Cells {
			there[g.Rows[i].Cells[j].Worst()] = true
		}
	}
	var said []string
	for _, word := range client.PlannedWords {
		if there[word] {
			said = append(said, PlannedMark(word)+" "+word)
		}
	}
	if partly {
		said = append(said, manyMark+" too many to look up: only failed and skipped ones are counted")
	}
	if len(said) == 0 {
		return nil
	}
	return []string{strings.Join(said, "  ")}
}
