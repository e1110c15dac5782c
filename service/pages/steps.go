package pages

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/events/jet/rights"
	"millrace/history/replay"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/inspect"
)

// stepsPage steps through an incident file: the position is in the URL, and each step is a link.
var stepsPage = page{name: "steps", path: "/steps", entry: "Steps", verb: rights.EventList, show: showSteps, inFiles: true, onlyInFiles: true}

// settleMargin is how long after a deadline its fact may come, for files that do not say how often
// a scheduler looks.
const settleMargin = 15 * time.Second

type stepsData struct {
	*inspect.Seen
	Of         string
	BreakTexts []breakLink
	Moves      []stepLink
	Fact       factRow
	Stops      []string
	Counts     []string
	Changes    []view.Change
	Head       string
	Below      []string
	By         string
	Owed       []owedRow
	Lines      []lineRow
	Led        []lineRow
	Damaged    []string
}

type stepLink struct{ Label, Title, Link string }

// breakLink is a breakpoint, and the page without it.
type breakLink struct {
	Text, Hits, Without string
}

// lineRow is a fact near the point.
type lineRow struct {
	factRow
	Why  string
	Here bool
	Go   string
}

// owedRow is a duty: before the fact, after it, or both.
type owedRow struct {
	When string
	replay.Duty
	Of string
}

// steps are the commands without arguments.
var steps = []struct{ Do, Label, Title string }{
	{"S", "← back", "the fact before"}, {"s", "next →", "the next fact, whatever it is about"},
	{"N", "← of this", "the fact before about what is looked at"}, {"n", "of this →", "the next fact about what is looked at"},
	{"F", "← state", "back to what began the state of the task"}, {"f", "state →", "to the end of the state that the task is in"},
	{"C", "← breakpoint", "back to the last place of a breakpoint"}, {"c", "breakpoint →", "to the next place of a breakpoint"},
}

func showSteps(ctx context.Context, l *look) (any, error) {
	w := inspect.Where{At: l.Point.Seq, Of: strings.TrimSpace(l.Asked("of")), Breaks: l.query["b"], Do: l.query["do"]}
	if l.At == "" && len(w.Do) == 0 {
		w.At = l.file.From.Seq
	}
	seen, err := l.file.Step(ctx, w, l.Rules, settleMargin)
	if err != nil {
		return nil, err
	}
	l.Title = "Steps"
	d := &stepsData{Seen: seen, Of: w.Of, Fact: factRowOf(&seen.Record)}
	// The page is at the new position, so that all its other links are, too.
	from, did := strconv.FormatUint(max(seen.Seq, l.file.From.Seq), 10), []string(nil)
	if seen.Between {
		from, did = strconv.FormatUint(w.At, 10), w.Do
	}
	l.At, l.Point = strconv.FormatUint(max(seen.Seq, l.file.From.Seq), 10), view.Point{Seq: seen.Seq, At: seen.Time}
	l.query = url.Values{"at": {l.At}}
	if w.Of != "" {
		l.query.Set("of", w.Of)
	}
	if len(w.Breaks) > 0 {
		l.query["b"] = w.Breaks
	}
	to := func(at string, did []string, more ...string) string {
		q := url.Values{"at": {at}, "do": append(slices.Clone(did), more...)}
		for _, name := range []string{"of", "b"} {
			if l.query.Has(name) {
				q[name] = l.query[name]
			}
		}
		if len(q["do"]) == 0 {
			q.Del("do")
		}
		return l.Self() + "?" + q.Encode()
	}
	for _, s := range steps {
		switch {
		case (s.Do == "c" || s.Do == "C") && len(seen.Breaks) == 0, (s.Do == "n" || s.Do == "N") && w.Of == "", (s.Do == "f" || s.Do == "F") && !strings.HasPrefix(w.Of, "task "):
			continue
		}
		d.Moves = append(d.Moves, stepLink{s.Label, s.Title, to(from, did, s.Do)})
	}
	for i, b := range seen.Breaks {
		q := url.Values{"at": {l.At}, "b": slices.Delete(texts(seen.Breaks), i, i+1)}
		if w.Of != "" {
			q.Set("of", w.Of)
		}
		d.BreakTexts = append(d.BreakTexts, breakLink{b.Text, wording.Breaks(seen.Breaks[i : i+1])[0], l.Self() + "?" + q.Encode()})
	}
	row := func(line replay.Line) lineRow {
		return lineRow{factRowOf(&line.Record), line.Why, line.Here, to(strconv.FormatUint(line.Seq, 10), nil)}
	}
	for _, line := range seen.Around {
		d.Lines = append(d.Lines, row(line))
	}
	for _, line := range seen.Causes {
		d.Led = append(d.Led, row(line))
	}
	d.Stops = wording.Stopped(seen.Stop)
	for _, c := range seen.Changed {
		d.Changes = append(d.Changes, c.Change)
	}
	d.Counts = wording.Changes(&replay.Frame{Queues: seen.Queues, Nodes: seen.Nodes}, wording.PointTime)
	d.Head, d.Below = wording.Decided(seen.Decision)
	if seen.Decision != nil && seen.Decision.By != nil {
		d.By = pretty(seen.Decision.By)
	}
	d.Owed = owedRows(seen.Owed)
	for _, g := range seen.Gaps {
		d.Damaged = append(d.Damaged, fmt.Sprintf("something is missing between #%d and #%d: %s", g.After, g.Before, g.Why))
	}
	return d, nil
}

func texts(breaks []*replay.Breakpoint) (all []string) {
	for _, b := range breaks {
		all = append(all, b.Text)
	}
	return all
}

// owedRows returns the duties before a fact and after it, one if they are the same.
func owedRows(o *replay.Owed) (rows []owedRow) {
	switch {
	case o == nil:
		return nil
	case o.Before != nil && o.After != nil && *o.Before == *o.After:
		return []owedRow{{"before and after", *o.After, o.Of}}
	}
	for _, is := range []struct {
		when string
		duty *replay.Duty
	}{{"before", o.Before}, {"after", o.After}} {
		if is.duty != nil {
			rows = append(rows, owedRow{is.when, *is.duty, o.Of})
		}
	}
	return rows
}

// Looked returns a focus for following this fact: its task, node, queue or schedule; "" for none.
func (d *stepsData) Looked() string {
	f := &d.Seen.Record.Fact
	switch {
	case f.Task != "":
		return "task " + string(f.Task)
	case f.Node != "":
		return "node " + string(f.Node)
	case f.Queue != "":
		return "queue " + f.Queue
	case f.Schedule != "":
		return "schedule " + f.Schedule
	}
	return ""
}
