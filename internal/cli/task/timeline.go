package task

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
)

const (
	// phaseName is how much of the name of a phase is shown, and phaseColumn the room for it, for
	// its duration and for gaps; the axis has the rest.
	phaseName   = 26
	phaseColumn = phaseName + 11
	leastAxis   = 20
	widestAxis  = 64
	// shownLanes is how many lines a timeline has at most: the first attempts are left out.
	shownLanes = 20
)

// timeline lays out the phases of a task on one axis, and the steps of its function below them, on a terminal
// of that many columns.
func timeline(phases, steps []view.Phase, columns int) term.Table {
	if len(phases) == 0 {
		return term.Table{}
	}
	axis := min(max(columns-phaseColumn, leastAxis), widestAxis)
	from, to := phases[0].From, phases[len(phases)-1].To
	t := term.Table{Header: []string{"PHASE", "TOOK", axisText(from, to, axis)}}
	lanes := wording.Lanes(append(phases[:len(phases):len(phases)], steps...))
	if left := len(lanes) - shownLanes; left > 0 {
		t.Foot = append(t.Foot, fmt.Sprintf("and %s of earlier attempts: -o json has all", wording.Plural(left, "phase")))
		lanes = slices.DeleteFunc(lanes, func(l wording.Lane) bool {
			earlier := left > 0 && l.Phases[0].Attempt > 0
			if earlier {
				left--
			}
			return earlier
		})
	}
	for i := range lanes {
		bar := []rune(strings.Repeat(" ", axis))
		for _, p := range lanes[i].Phases {
			for n, end := marks(p.From.Sub(from), p.To.Sub(from), to.Sub(from), axis); n < end; n++ {
				bar[n] = '█'
			}
		}
		t.Add(term.Plain(term.Cut(lanes[i].Name, phaseName)), term.Plain(wording.Span(lanes[i].Took())), term.Tinted(strings.TrimRight(string(bar), " "), wording.StateCell(wording.PhaseState(lanes[i].Phases[0].Name)).Colour))
	}
	return t
}

// marks returns the columns of an axis that a part of it covers: at least one.
func marks(from, to, whole time.Duration, axis int) (first, end int) {
	if whole <= 0 {
		return 0, 1
	}
	at := func(d time.Duration) float64 { return float64(d) / float64(whole) * float64(axis) }
	first = min(int(at(from)), axis-1)
	end = min(int(at(to)), axis)
	if float64(end) < at(to) && end < axis {
		end++
	}
	return first, max(end, first+1)
}

// axisText is the header of an axis: when it begins and ends, as precisely as necessary.
func axisText(from, to time.Time, axis int) string {
	form := time.TimeOnly
	switch from, to := from.Local(), to.Local(); {
	case from.YearDay() != to.YearDay() || from.Year() != to.Year():
		form = "01-02 15:04"
	case to.Sub(from) < 10*time.Second && axis > leastAxis+len(".000"):
		form = "15:04:05.000"
	}
	begin, end := from.Local().Format(form), to.Local().Format(form)
	return begin + strings.Repeat(" ", max(axis-len(begin)-len(end), 1)) + end
}

// timelines are the formats in which phases can be drawn.
var timelines = map[string]func(string, []term.Span) string{"mermaid": term.Gantt}

// spansOf converts phases for drawing.
func spansOf(phases []view.Phase) []term.Span {
	spans := make([]term.Span, len(phases))
	for i, p := range phases {
		spans[i] = term.Span{Name: wording.Phase(&p), From: p.From, To: p.To}
	}
	return spans
}
