package pages

import (
	"bytes"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"millrace/api"
	"millrace/client"
	"millrace/httpapi"
	"millrace/jet"
	"millrace/task"
	"millrace/task/output"
)

// outputPanel is the end of what a task has printed.
type outputPanel struct {
	panel
	Lines []line
	// Last is the sequence of the last batch: who follows goes on behind it.
	Last uint64
	More bool
	// Follow is whether more may come.
	Follow bool
}

// line is a line of output as it is shown.
type line struct {
	output.Line
	Attempt int
	Epoch   uint64
	HTML    template.HTML
}

func (p *outputPanel) find(ctx context.Context, l *look, t *task.Task) {
	if !l.caller.Role.May(jet.TaskOutput) {
		p.fail(api.ErrRole)
		return
	}
	batches, last, more, err := l.Tail(ctx, t.ID, shownLines)
	p.fail(err)
	p.Last, p.More, p.Follow = last, more, !l.Past && !t.State.Terminal()
	for i := range batches {
		p.Lines = append(p.Lines, linesOf(&batches[i])...)
	}
	if cut := len(p.Lines) - shownLines; cut > 0 {
		p.Lines, p.More = p.Lines[cut:], true
	}
}

// linesOf are the lines of a batch as they are shown.
func linesOf(b *output.Lines) (lines []line) {
	b.OneByOne()
	var pen pen
	for _, l := range b.Lines {
		lines = append(lines, line{l, b.Attempt, b.Epoch, pen.draw(l.Text)})
	}
	return lines
}

// output sends what a task has printed: to who follows, batch by batch, as the page has lines; else all of it as a text.
func (s *Site) output(w http.ResponseWriter, r *http.Request, c httpapi.Caller) {
	id, err := task.ParseID(strings.ToUpper(r.PathValue("id")))
	if err != nil {
		s.refuse(w, r, c, fmt.Errorf("%w: %w", client.ErrInvalid, err))
		return
	}
	if !c.Role.May(jet.TaskOutput) {
		s.refuse(w, r, c, api.ErrRole)
		return
	}
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		after, _ := strconv.ParseUint(r.URL.Query().Get("after"), 10, 64) // what is no number is the beginning
		s.server.FollowOutput(w, r, c, id, after, s.drawLines)
		return
	}
	s.download(w, r, c, id)
}

// drawLines are lines as the page of a task has them, as a string of JSON.
func (s *Site) drawLines(b *output.Lines) ([]byte, error) {
	var text bytes.Buffer
	if err := s.shapes["task"].set.ExecuteTemplate(&text, "lines", linesOf(b)); err != nil {
		return nil, err
	}
	return jsonString(visible(text.Bytes()))
}

// download sends all that a task has printed.
func (s *Site) download(w http.ResponseWriter, r *http.Request, c httpapi.Caller, id task.ID) {
	begun := false
	for after := uint64(0); ; {
		var page struct {
			Batches []struct{ Of output.Lines }
			Next    uint64
		}
		err := s.server.Desk.Ask(r.Context(), c.Name, jet.TaskOutput, map[string]any{"id": id, "after": after, "limit": 1000}, &page)
		if err != nil && !begun {
			s.refuse(w, r, c, err)
			return
		}
		if !begun {
			begun = true
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("Content-Disposition", `attachment; filename="`+url.PathEscape(string(id))+`.log"`)
		}
		var text strings.Builder
		for i := range page.Batches {
			for _, l := range page.Batches[i].Of.Lines {
				text.WriteString(l.Text + "\n")
			}
		}
		if _, bad := w.Write([]byte(text.String())); bad != nil || err != nil || page.Next == 0 {
			return
		}
		after = page.Next
	}
}
