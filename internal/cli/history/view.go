package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"millrace/history/replay"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
)

// The smallest screen, and the widths from which on panes are side by side.
const (
	leastWidth, leastHeight = 60, 18
	twoColumns              = 110
	threeColumns            = 160
	allKeys                 = 140
)

// row is a line of a pane; line is one of the screen: rows side by side.
type (
	row struct {
		text string
		tint term.Colour
		// seq is the fact to which a click leads; 0 for none.
		seq uint64
	}
	line []row
)

// pane is a part of the screen below a title.
type pane struct {
	title string
	rows  func(width, most int) (rows []row, all int) // at most most of all rows
	// window tells that there is always more than is shown.
	window bool
}

// View draws the screen in that many columns and lines.
func View(m Model, width, height int) string {
	if width < leastWidth || height < leastHeight {
		small := fmt.Sprintf("This takes %d columns and %d lines; here are %d and %d. q ends.", leastWidth, leastHeight, width, height)
		return m.paint(lines(wrap(small, max(width, 1), "")), width, height)
	}
	return m.paint(m.drawn(width, height), width, height)
}

// drawn returns the lines of a screen of sufficient size.
func (m Model) drawn(width, height int) []line {
	below := slices.Concat(m.bar(width), m.foot(width), []row{keys(width)})
	return slices.Concat(lines([]row{m.head(width)}), m.body(width, height-1-len(below)), lines(below))
}

// factAt returns the sequence of the fact that a screen shows in a cell; 0 if there is none.
func (m Model) factAt(x, y, width, height int) uint64 {
	if width < leastWidth || height < leastHeight {
		return 0
	}
	all := m.drawn(width, height)
	if x < 0 || y < 0 || y >= len(all) {
		return 0
	}
	for _, r := range all[y] {
		if x -= ansi.StringWidth(r.text); x < 0 {
			return r.seq
		}
	}
	return 0
}

// lines are rows over the whole width.
func lines(rows []row) []line {
	all := make([]line, len(rows))
	for i, r := range rows {
		all[i] = line{r}
	}
	return all
}

// paint makes a text of lines, as many as fit.
func (m Model) paint(all []line, width, height int) string {
	texts := make([]string, 0, len(all))
	for _, l := range all[:min(len(all), max(height, 0))] {
		var text strings.Builder
		left := width
		for _, r := range l {
			part := ansi.Truncate(term.Printable(r.text), left, "…")
			left -= ansi.StringWidth(part)
			text.WriteString(term.Paint(term.Tinted(part, r.tint), m.Colours && strings.TrimSpace(part) != ""))
		}
		texts = append(texts, strings.TrimRight(text.String(), " "))
	}
	return strings.Join(texts, "\n")
}

// wrap breaks a text between words, or within one that is too long.
func wrap(text string, width int, tint term.Colour) (rows []row) {
	for i, part := range strings.Split(ansi.Wrap(term.Printable(text), width, ""), "\n") {
		if i > 0 {
			part = strings.TrimLeft(part, " ")
		}
		rows = append(rows, row{text: part, tint: tint})
	}
	return rows
}

// head describes the point.
func (m Model) head(width int) row {
	f := m.scene.Frame
	text := m.Name + "  " + wording.PointFact(f, m.clock())
	if f.Seq > 0 {
		at := ""
		if f.Time.After(f.Stored) {
			at = "after "
		}
		text = fmt.Sprintf("%s  %s#%d of %d  ", m.Name, at, f.Seq, f.To) + wording.PointTime(f.Time) + f.Time.Local().Format(" MST")
	}
	if f.Focus == "" {
		return row{text: ansi.Truncate(text, width, "…"), tint: term.Bold}
	}
	nth := fmt.Sprintf(" (%d of %d)", f.Nth, f.Of)
	focus := "  " + short(f.Focus)
	if ansi.StringWidth(text+focus+nth) > width {
		nth = "" // it stands in the pane of the point as well
	}
	return row{text: ansi.Truncate(text+focus+nth, width, "…"), tint: term.Bold}
}

// short names something in a list: a task by the end of its id.
func short(about string) string {
	if kind, id, _ := strings.Cut(about, " "); kind == "task" && len(id) > 7 {
		return "task …" + id[len(id)-7:]
	}
	return about
}

// clock formats times relative to the day of the point.
func (m Model) clock() wording.Clocked {
	if at := m.scene.Frame.Time; !at.IsZero() {
		return wording.PointClock(at)
	}
	return wording.PointClock(m.scene.Span.From)
}

// body returns the panes, or the list over them.
func (m Model) body(width, height int) []line {
	if m.list != nil {
		return lines(stack([]pane{whole(m.what+"; Esc closes", m.list[m.top:]...)}, width, height))
	}
	f := m.scene.Frame
	facts := pane{m.factsTitle(), m.facts, true}
	here := texts("point", append([]string{wording.PointFact(f, m.clock())}, signed("! ", wording.Stopped(f.Stop))...)...)
	if f.Seq == 0 {
		here = texts("point")
	}
	changed := texts("changed", weighed(wording.Changes(f, m.clock()))...)
	head, below := wording.Decided(f.Decision)
	if from := wording.Inputs(f.Decision); from != "" {
		below = append(below, from)
	}
	decided := texts(head, below...)
	duties := wording.Owed(briefly(f.Owed), m.clock())
	if f.Limit != nil {
		duties = append(duties, wording.Counter(f.Limit, f.Time))
	}
	owed := texts("owed", duties...)
	notes := texts("breakpoints and marks", append(signed("b ", wording.Breaks(m.scene.Breaks)), signed("m ", wording.Marks(m.scene.Marks, m.clock()))...)...)
	switch {
	case width < twoColumns:
		changed = flow("changed", weighed(wording.Changes(f, m.clock())))
		return lines(stack([]pane{facts, here, changed, decided, owed, notes}, width, height))
	case width < threeColumns:
		return beside(height, width, []pane{facts, notes}, []pane{here, changed, decided, owed, message(f)})
	}
	return beside(height, width, []pane{facts, notes}, []pane{here, changed}, []pane{decided, owed, message(f)})
}

// message is the fact as it was written.
func message(f *replay.Frame) pane {
	var text bytes.Buffer
	if json.Indent(&text, f.Fact, "", "  ") != nil {
		return texts("message")
	}
	return texts("message", strings.Split(text.String(), "\n")...)
}

// point is everything about the point, and the message as it was written: a small screen has no room
// for it in its panes.
func (m Model) point() []string {
	f := m.scene.Frame
	lines := wording.Point(f, m.clock())
	var text bytes.Buffer
	if json.Indent(&text, f.Fact, "  ", "  ") == nil {
		lines = append(append(lines, ""), strings.Split("  "+text.String(), "\n")...)
	}
	return lines
}

// weighed puts the state first among the changes, then the counts: there may not be room for all.
func weighed(changes []string) []string {
	weight := func(line string) int {
		switch {
		case strings.HasPrefix(line, "~ state:"):
			return 0
		case strings.HasPrefix(line, "~ queue ") || strings.HasPrefix(line, "~ node "):
			return 1
		}
		return 2
	}
	slices.SortStableFunc(changes, func(a, b string) int { return weight(a) - weight(b) })
	return changes
}

// briefly names tasks by the end of their ids.
func briefly(o *replay.Owed) *replay.Owed {
	if o == nil {
		return nil
	}
	brief := *o
	brief.Of = short(o.Of)
	return &brief
}

func signed(sign string, lines []string) []string {
	for i := range lines {
		lines[i] = sign + lines[i]
	}
	return lines
}

// hang is the indent of a line's further rows.
const hang = 4

// texts is a pane of lines, each on as many rows as it needs. Without enough room, each shows its
// beginning.
func texts(title string, lines ...string) pane {
	return pane{title: title, rows: func(width, most int) ([]row, int) {
		parts, all := broken(lines, width)
		parts = parts[:min(len(parts), most)]
		wants := make([]int, len(parts))
		for i := range parts {
			wants[i] = len(parts[i])
		}
		var rows []row
		for i, n := range inTurns(wants, most) {
			rows = append(rows, parts[i][:n]...)
			if n < len(parts[i]) {
				rows[len(rows)-1].text += " …"
			}
		}
		return rows, all
	}}
}

// whole is a pane of lines that people scroll: it shows each line in full.
func whole(title string, lines ...string) pane {
	return pane{title: title, rows: func(width, most int) ([]row, int) {
		parts, all := broken(lines, width)
		rows := slices.Concat(parts...)
		return rows[:min(len(rows), most)], all
	}}
}

// broken breaks lines into rows, and returns how many rows there are in all.
func broken(lines []string, width int) (parts [][]row, all int) {
	for _, line := range lines {
		rows := wrap(line, max(width-hang, 1), tint(line))
		for i := range rows[1:] {
			rows[1+i].text = strings.Repeat(" ", hang) + rows[1+i].text
		}
		parts, all = append(parts, rows), all+len(rows)
	}
	return parts, all
}

// inTurns gives each what it wants, as far as there is enough: one to each, then one more.
func inTurns(wants []int, left int) []int {
	has := make([]int, len(wants))
	for given := true; given; {
		given = false
		for i := range wants {
			if left > 0 && has[i] < wants[i] {
				has[i], left, given = has[i]+1, left-1, true
			}
		}
	}
	return has
}

// flow is a pane of short lines, as many per row as fit.
func flow(title string, lines []string) pane {
	return pane{title: title, rows: func(width, most int) ([]row, int) {
		var joined []string
		for _, line := range lines {
			if n := len(joined) - 1; n >= 0 && ansi.StringWidth(joined[n]+"  "+line) <= width {
				joined[n] += "  " + line
				continue
			}
			joined = append(joined, line)
		}
		return texts("", joined...).rows(width+hang, most)
	}}
}

// tint returns the colour of a line by its sign: without colours the sign says the same.
func tint(line string) term.Colour {
	if strings.Contains(line, ", overdue") {
		return term.Red
	}
	sign, _, _ := strings.Cut(line, " ")
	return map[string]term.Colour{"~": term.Yellow, "+": term.Green, "-": term.Purple, "!": term.Red, "b": term.Blue, "m": term.Blue}[sign]
}

// stack draws panes one below the other, in that many lines. Each non-empty pane gets two rows, if
// there is room, and the rest is divided.
func stack(panes []pane, width, height int) []row {
	var shown []pane
	var wants, least []int
	left := height
	for _, p := range panes {
		_, all := p.rows(width, 0)
		if n := min(all, leastRows); all > 0 && left > n {
			shown, wants, least = append(shown, p), append(wants, all-n), append(least, n)
			left -= n + 1
		}
	}
	var rows []row
	for i, more := range inTurns(wants, left) {
		p := shown[i]
		has, all := p.rows(width, least[i]+more)
		if title := p.title; len(has) < all && !p.window {
			rows = append(rows, rule(fmt.Sprintf("%s, %s more", title, wording.Plural(all-len(has), "line")), width))
		} else {
			rows = append(rows, rule(title, width))
		}
		rows = append(rows, has...)
	}
	return append(rows, make([]row, height-len(rows))...)
}

// leastRows is how many rows each pane gets before any gets more.
const leastRows = 2

// rule is a line with a title in it.
func rule(title string, width int) row {
	text := ansi.Truncate("--"+term.Printable(title), width, "…")
	return row{text: text + strings.Repeat("-", width-ansi.StringWidth(text)), tint: term.Faint}
}

// beside draws stacks of panes side by side.
func beside(height, width int, columns ...[]pane) []line {
	each := (width - len(columns) + 1) / len(columns)
	all := make([]line, height)
	for i, panes := range columns {
		wide := each
		if i == 0 {
			wide = width - (each+1)*(len(columns)-1)
		}
		for j, r := range stack(panes, wide, height) {
			if i > 0 {
				all[j] = append(all[j], row{text: " "})
			}
			r.text = ansi.Truncate(term.Printable(r.text), wide, "…")
			all[j] = append(all[j], r, row{text: strings.Repeat(" ", wide-ansi.StringWidth(r.text))})
		}
	}
	return all
}

func (m Model) factsTitle() string {
	f := m.scene.Frame
	switch {
	case f.Focus == "":
		return "events"
	case m.along:
		return fmt.Sprintf("events of %s; a shows all", short(f.Focus))
	}
	return fmt.Sprintf("events, * of %s; a shows those alone", short(f.Focus))
}

// facts are those around the point, which is in the middle.
func (m Model) facts(_, most int) ([]row, int) {
	lines := m.scene.Lines
	f := m.scene.Frame
	at := 0 // the index of the point among the lines
	for at < len(lines) && lines[at].Seq < f.Seq {
		at++
	}
	from := max(min(at-most/2, len(lines)-most), 0)
	shown := lines[from:min(from+most, len(lines))]
	var rows []row
	digits, types := len(fmt.Sprint(f.To)), leastTypes
	for i := range shown {
		types = max(types, len(shown[i].Type))
	}
	for i := range shown {
		l := &shown[i]
		sign := " "
		switch {
		case l.Here && f.Time.After(f.Stored):
			sign = "_" // the point is behind it
		case l.Here:
			sign = ">"
		}
		star := " "
		if l.Focus {
			star = "*"
		}
		text := fmt.Sprintf("%s%s%*d %s %-*s %s", sign, star, digits, l.Seq, clockOf(l.Stored), types, l.Type, wording.Words(short(l.About), wording.AttemptAndNode(&l.Record), wording.FactDetails(&l.Record)))
		r := row{text: text, seq: l.Seq}
		if l.Here {
			r.tint = term.Bold
		}
		rows = append(rows, r)
	}
	return rows, len(lines)
}

// leastTypes is how wide the column of types is at least. Few types have longer names.
const leastTypes = 17

func clockOf(at time.Time) string { return at.Local().Format("15:04:05.000") }

// bar draws the span as a line: its content, and the point in it.
func (m Model) bar(width int) []row {
	o := m.scene.Span
	from, to := m.clock()(o.From), m.clock()(o.To)
	cells := make([]rune, max(width-ansi.StringWidth(from+to)-2, 1))
	of := func(i int) replay.Cell {
		var sum replay.Cell
		for j := i * len(o.Cells) / len(cells); j < max((i+1)*len(o.Cells)/len(cells), i*len(o.Cells)/len(cells)+1) && j < len(o.Cells); j++ {
			c := &o.Cells[j]
			sum.Facts, sum.Hits, sum.Wrong, sum.Here = sum.Facts+c.Facts, sum.Hits+c.Hits, sum.Wrong+c.Wrong, sum.Here || c.Here
			if sum.Mark == "" {
				sum.Mark = c.Mark
			}
		}
		return sum
	}
	for i := range cells {
		switch c := of(i); {
		case c.Here:
			cells[i] = '>'
		case c.Wrong > 0:
			cells[i] = '!'
		case c.Mark != "":
			cells[i] = 'm'
		case c.Hits > 0:
			cells[i] = 'b'
		case c.Facts > 0:
			cells[i] = '.'
		default:
			cells[i] = ' '
		}
	}
	return []row{rule("span: > point, b hit, ! late or broken, m mark, . events", width), {text: from + " " + string(cells) + " " + to}}
}

// foot is what is being typed, the running command, or the last message.
func (m Model) foot(width int) []row {
	switch {
	case m.asking != nil:
		text := m.asking.key + " " + m.text
		if more := ansi.StringWidth(text) - (width - 2); more > 0 {
			text = "…" + ansi.TruncateLeft(text, more+1, "")
		}
		if text += "_"; m.text == "" {
			text += "  " + takes(m.asking.do)
		}
		return []row{{text: text}}
	case m.doing != "" && m.of > 0:
		return []row{{text: fmt.Sprintf("%s: %d of %d messages; Esc stops it", m.doing, m.seen, m.of)}}
	case m.doing != "":
		return []row{{text: m.doing + ": …"}}
	case m.wrong:
		rows := wrap("! "+m.said, width, term.Red)
		return rows[:min(len(rows), mostSaid)]
	}
	rows := wrap(m.said, width, "")
	return rows[:min(len(rows), mostSaid)]
}

// mostSaid is how many rows a message may have.
const mostSaid = 3

// takes describes a command's argument and effect.
func takes(do string) string {
	for _, c := range replay.Commands() {
		if c.Key == do {
			return c.Takes + ": " + c.Says
		}
	}
	return "any command"
}

// keys is the line of keys, as far as they fit.
func keys(width int) row {
	line := "n/N focus s/S any c/C run g goto b break w watch k cause m mark / find ? help q"
	switch {
	case width < ansi.StringWidth(line):
		line = "n/N focus s/S any c/C run g goto b break k cause ? help q"
	case width >= allKeys:
		line = "n/N focus  s/S any  f/F state  c/C run  g goto  b break  w/W watch  o look at  k/K causes  p print  m mark  ' jump  / find  ? help  q"
	}
	return row{text: ansi.Truncate(line, width, "…"), tint: term.Faint}
}
