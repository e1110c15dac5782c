package pages

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"millrace/events/jet/rights"
	"millrace/internal/cli/term"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/output"
	"millrace/task/value"
)

// outputPanel is a part of what a task has printed. The query chooses it: line is the number of the
// target line, and from that of the first one; find and level choose lines, go=next and go=previous
// search for one, and only=1 shows no others.
type outputPanel struct {
	panel
	output.Match
	Lines []line
	Total int
	// Line is the number of the target line, 0 for none.
	Line int
	Only bool
	// Missed is what was searched for and not found; More is the line from which the search can
	// continue, 0 for none.
	Missed string
	More   int
	// Earlier and Later are where the pages before and after begin; 0 for none.
	Earlier, Later int
	// Last is the sequence of the last batch: a follower goes on after it.
	Last uint64
	// Follow tells whether more may come.
	Follow bool
	// Of is whose output it is; nothing if the lines of several tasks are interleaved, of which Several tells how many.
	Of      task.Task
	Several int
}

// line is a line of output as it is shown.
type line struct {
	client.NumberedLine
	HTML template.HTML
	// Over is what a terminal would no longer show of the line; see [output.Shown].
	Over template.HTML
	Mark bool
	// Step is the task that printed it, if there are several.
	Step string
}

// To is the number of the last line shown.
func (p *outputPanel) To() int { return p.Lines[len(p.Lines)-1].Number }

// Levels are the levels by which lines may be chosen.
func (p *outputPanel) Levels() []string { return output.Levels() }

func (p *outputPanel) find(ctx context.Context, l *look, t *task.Task) error {
	p.Of = *t
	if !l.caller.Role.May(rights.TaskOutput) {
		p.fail(answers.ErrRole)
		return nil
	}
	p.Match, p.Only, p.Line = matchOf(l.query), l.Asked("only") != "", numberIn(l.query, "line")
	if p.Validate() != nil {
		p.Level = ""
	}
	printout, err := l.Printout(ctx, t.ID)
	if err != nil {
		p.fail(err)
		return nil
	}
	p.Total, p.Last, p.Follow = printout.Lines, printout.Last, !l.Past && !t.State.Terminal()
	if l.Asked("go") == "error" { // the first error; what is searched next is any line
		first := *p
		first.Match, first.Line = output.Match{Level: "error"}, 0
		hit, err := first.seek(ctx, l, &printout, "next")
		if p.Missed, p.More = first.Missed, first.More; err != nil || hit > 0 {
			return hitAt(l, hit, err)
		}
	} else if at := l.Asked("go"); at != "" && p.Match != (output.Match{}) && !p.Only {
		hit, err := p.seek(ctx, l, &printout, at)
		if err != nil || hit > 0 {
			return hitAt(l, hit, err)
		}
	}
	from := numberIn(l.query, "from")
	if p.Only && p.Match != (output.Match{}) {
		p.fail(p.choose(ctx, l, &printout, max(from, 1)))
		return nil
	}
	p.Only = false
	switch {
	case from > 0:
	case p.Line > 0:
		from = min(p.Line-shownLines/4, p.Total-shownLines+1)
	default:
		from = p.Total - shownLines + 1
	}
	from = max(min(from, p.Total), 1)
	lead, lines, err := printout.Window(ctx, from, shownLines)
	p.fail(err)
	p.Lines = p.drawn(lead, lines)
	if from > 1 {
		p.Earlier = max(from-shownLines, 1)
	}
	if n := len(lines); n > 0 && lines[n-1].Number < p.Total {
		p.Later = lines[n-1].Number + 1
	}
	return nil
}

// allSteps asks for the interleaved output of all steps.
const allSteps = "all"

// interleave reads the last lines of all that the tasks have printed, or with from the first ones, in the order of
// time.
func (p *outputPanel) interleave(ctx context.Context, l *look, tasks []*graphRow) {
	if !l.caller.Role.May(rights.TaskOutput) {
		p.fail(answers.ErrRole)
		return
	}
	first := l.Asked("from") != ""
	if left := len(tasks) - mostPrinted; left > 0 {
		p.Missed = fmt.Sprintf("Of %s tasks the first %d are shown.", count(len(tasks)), mostPrinted)
		tasks = tasks[:mostPrinted]
	}
	p.Several = len(tasks)
	each := make([]outputPanel, len(tasks))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(outputsAtOnce)
	for i, t := range tasks {
		g.Go(func() error {
			printout, err := l.Printout(ctx, t.ID)
			if err != nil {
				return err
			}
			from := 1
			if !first {
				from = max(printout.Lines-shownLines+1, 1)
			}
			lead, lines, err := printout.Window(ctx, from, shownLines)
			each[i].Total, each[i].Lines = printout.Lines, p.drawn(lead, lines)
			return err
		})
	}
	p.fail(g.Wait())
	for i := range each {
		p.Total += each[i].Total
		for j := range each[i].Lines {
			each[i].Lines[j].Step = tasks[i].Path
		}
		p.Lines = append(p.Lines, each[i].Lines...)
		p.Follow = p.Follow || !l.Past && !tasks[i].State.Terminal()
	}
	slices.SortStableFunc(p.Lines, func(a, b line) int { return a.At.Compare(b.At) })
	if n := len(p.Lines); first {
		p.Lines = p.Lines[:min(n, shownLines)]
	} else {
		p.Lines = p.Lines[max(n-shownLines, 0):]
	}
}

func matchOf(query url.Values) output.Match {
	return output.Match{Text: query.Get("find"), Level: query.Get("level")}
}

// numberIn returns a number from 1 on in a query; 0 for none.
func numberIn(query url.Values, name string) int {
	n, err := strconv.Atoi(query.Get(name))
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// seek finds the next chosen line after the target, or the one before; 0 if there is none.
func (p *outputPanel) seek(ctx context.Context, l *look, printout *answers.Printout, which string) (int, error) {
	back := which == "previous"
	from := p.Line + 1
	if back {
		from = cmp.Or(p.Line, p.Total+1) - 1
	}
	hits, reached, err := printout.Search(ctx, from, 1, back, p.Match)
	if err != nil || len(hits) > 0 {
		return first(hits), err
	}
	p.Missed = fmt.Sprintf("No line from %s on has that.", count(from))
	if back {
		p.Missed = fmt.Sprintf("No line up to %s has that.", count(from))
	} else if reached < p.Total {
		p.Missed, p.More = fmt.Sprintf("None of the lines %s to %s has that.", count(from), count(reached)), reached
	}
	return 0, nil
}

func first(hits []client.NumberedLine) int {
	if len(hits) == 0 {
		return 0
	}
	return hits[0].Number
}

// hitAt leads to a line of the page.
func hitAt(l *look, number int, err error) error {
	if err != nil {
		return err
	}
	query := maps.Clone(l.query)
	query.Del("go")
	query.Del("from")
	query.Set("line", strconv.Itoa(number))
	return elsewhere(l.path + "?" + query.Encode())
}

// choose shows only the chosen lines.
func (p *outputPanel) choose(ctx context.Context, l *look, printout *answers.Printout, from int) error {
	hits, reached, err := printout.Search(ctx, from, shownLines, false, p.Match)
	p.Lines = p.drawn(nil, hits)
	p.Follow = false
	if from > 1 {
		p.Earlier = 1
	}
	if reached < p.Total {
		p.Later = reached + 1
	}
	p.Missed = fmt.Sprintf("%s of the lines %s to %s.", count(len(hits)), count(from), count(max(reached, from)))
	return err
}

// drawn converts lines for display. What earlier lines have begun continues.
func (p *outputPanel) drawn(lead, lines []client.NumberedLine) []line {
	var pen term.Pen
	for i := range lead {
		pen.Draw(lead[i].Text)
	}
	all := make([]line, len(lines))
	for i := range lines {
		text := lines[i].Text
		shown, less := output.Shown(text)
		over := pen.Draw(text[:strings.LastIndex(text, shown)])
		if !less {
			over = ""
		}
		all[i] = line{NumberedLine: lines[i], HTML: pen.Draw(shown), Over: over, Mark: lines[i].Number == p.Line}
	}
	return all
}

// printed reads the output that a request is about.
func (l *look) printed(of func(ctx context.Context, p *answers.Printout) error) error {
	id, err := taskIn(l.r)
	if err != nil {
		return err
	}
	return l.see(l.r.Context(), func(ctx context.Context) error {
		p, err := l.Printout(ctx, id)
		if err != nil {
			return err
		}
		return of(ctx, &p)
	})
}

// taskIn parses the id in the path of a request: a whole one.
func taskIn(r *http.Request) (task.ID, error) {
	id, err := task.ParseID(strings.ToUpper(r.PathValue("id")))
	if err != nil {
		return "", client.Wrong(err)
	}
	return id, nil
}

// lines sends lines of a task's output, for a page that shows them: from a number on, or else the
// last ones.
func (l *look) lines(w http.ResponseWriter) error {
	return l.printed(func(ctx context.Context, printout *answers.Printout) error {
		p := outputPanel{Total: printout.Lines}
		from := cmp.Or(numberIn(l.query, "from"), max(p.Total-shownLines+1, 1))
		lead, lines, err := printout.Window(ctx, from, shownLines)
		if err != nil {
			return err
		}
		p.Lines = p.drawn(lead, lines)
		var text bytes.Buffer
		if err := l.site.shapes()[l.of.name].set.ExecuteTemplate(&text, "fragment", &p); err != nil {
			return err
		}
		l.site.server.Send(w, l.r, "text/html; charset=utf-8", visible(text.Bytes()))
		return nil
	})
}

// hitAnswer is the result of a search.
type hitAnswer struct {
	// Line is the number of the line found, 0 for none, and Reached that of the last one that was
	// looked at.
	Line    int `json:"line"`
	Reached int `json:"reached"`
	Total   int `json:"total"`
}

// hit searches for a line, for a page that shows them.
func (l *look) hit(w http.ResponseWriter) error {
	return l.printed(func(ctx context.Context, printout *answers.Printout) error {
		m := matchOf(l.query)
		if err := m.Validate(); err != nil {
			return client.Wrong(err)
		}
		hits, reached, err := printout.Search(ctx, numberIn(l.query, "from"), 1, l.Asked("back") != "", m)
		if err != nil {
			return err
		}
		text, err := value.JSON(hitAnswer{first(hits), reached, printout.Lines})
		l.site.server.Send(w, l.r, "application/json", text)
		return err
	})
}

// output sends a task's output: to a follower the number of new lines, batch by batch; else all of
// it as text.
func (l *look) output(w http.ResponseWriter) error {
	id, err := taskIn(l.r)
	if err != nil {
		return err
	}
	if follows(l.r) {
		// Not a number means the beginning.
		after, _ := strconv.ParseUint(l.Asked("after"), 10, 64)
		return l.site.server.FollowOutput(w, l.r, l.caller, id, after, func(b *output.Lines) ([]byte, error) { return value.JSON(len(b.Lines)) })
	}
	to := attach(w, string(id), "log")
	for after := uint64(0); ; {
		var page struct {
			Batches []struct{ Of output.Lines }
			Next    uint64
		}
		if err := l.ask(l.r.Context(), rights.TaskOutput, map[string]any{"id": id, "after": after, "limit": 1000}, &page); err != nil {
			return to.end(err)
		}
		var text strings.Builder
		for i := range page.Batches {
			for _, l := range page.Batches[i].Of.Lines {
				text.WriteString(l.Text)
				if !l.More {
					text.WriteByte('\n')
				}
			}
		}
		if _, err := to.Write([]byte(text.String())); err != nil || page.Next == 0 {
			return to.end(err)
		}
		after = page.Next
	}
}
