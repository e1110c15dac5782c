package pages

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/events/jet/rights"
	"millrace/task"
	"millrace/task/output"
)

// A page shows, searches and downloads any part of the output, and all of it can be had.
func TestOutput(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := p.submit(command("date"))
	for i := range 3 {
		b := output.Lines{Task: id, Attempt: 1, Epoch: 5}
		for n := range 300 {
			l := output.Line{N: i*300 + n + 1, Stream: output.Stdout, At: time.Now(), Text: fmt.Sprintf("line %d <b>", i*300+n+1)}
			if l.N%333 == 0 {
				l.Level = "error"
			}
			if l.N == 550 {
				l.Text = "\x1b[31m" + l.Text // and so on
			}
			if l.N == 640 {
				l.Text = "\r1%\r2%\r" + l.Text + "\r"
			}
			b.Lines = append(b.Lines, l)
		}
		if err := p.store.Print(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	of := "/tasks/" + string(id)
	has := func(path string, from, upto, all int, more ...string) {
		t.Helper()
		page, _ := p.get(200, path)
		if n := strings.Count(page, `class="line`); n != all {
			t.Errorf("%s has %d lines, want %d", path, n, all)
		}
		for _, want := range append(more, fmt.Sprintf("line %d &lt;b&gt;", from), fmt.Sprintf("line %d &lt;b&gt;", upto)) {
			if !strings.Contains(page, want) {
				t.Errorf("%s has no %s", path, want)
			}
		}
	}
	has(of, 701, 900, shownLines, `href="./`+string(id)+`?from=501#printed" rel="prev"`, "lines 701 to 900 of 900")
	has(of+"?from=1", 1, 200, shownLines, `from=201#printed" rel="next"`)
	has(of+"?line=450", 400, 599, shownLines, `found" data-n="450"`)
	has(of+"?find=line+7&only=1", 7, 799, 111, "111 of the lines 1 to 900")
	has(of+"?level=warn&only=1", 333, 666, 2)
	has(of+"?find=line+77&line=779&go=next", 701, 900, shownLines, "No line from 780 on has that")
	for query, want := range map[string]string{"go=next&level=error&at=": "at=&level=error&line=333", "go=next&find=LINE+77&line=80": "find=LINE+77&line=770", "go=previous&find=line+77&line=770": "find=line+77&line=77", "go=previous&find=line": "find=line&line=900"} {
		_, h := p.get(303, of+"?"+query)
		if to := h.Get("Location"); to != "../tasks/"+string(id)+"?"+want && to != "./tasks/"+string(id)+"?"+want {
			t.Errorf("%s leads to %s", query, to)
		}
	}
	has(of+"/lines?from=560", 560, 759, shownLines, `data-total="900"`, `<span class="sgr-1">line 560 &lt;b&gt;</span>`)
	has(of+"/lines", 701, 900, shownLines)
	has(of+"?line=640", 590, 789, shownLines, `>line 640 &lt;b&gt;</span> <details><summary>written over</summary><span class="sgr-1">`)
	if answer, _ := p.get(200, of+"/hit?find=line+33&from=40"); answer != `{"line":330,"reached":330,"total":900}` {
		t.Errorf("it is found at %s", answer)
	}
	if answer, _ := p.get(200, of+"/hit?level=error&from=332&back=1"); answer != `{"line":0,"reached":1,"total":900}` {
		t.Errorf("it is found at %s", answer)
	}
	p.get(400, of+"/hit?level=warm")
	p.get(400, "/tasks/none/lines")
	all, h := p.get(200, of+"/output")
	if lines := strings.Split(all, "\n"); len(lines) != 901 || lines[639] != "\r1%\r2%\rline 640 <b>\r" || lines[899] != "line 900 <b>" || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") {
		t.Errorf("all of it has %d lines", len(lines))
	}
	p.as(rights.Submitter)
	for _, path := range []string{"/output", "/lines", "/hit"} {
		p.get(403, of+path)
	}
	if page, _ := p.get(200, of); strings.Contains(page, "line 900") {
		t.Error("a submitter reads what was printed")
	}
}

// Two tasks are compared by what they have printed, too: marked are lines that only one has, whatever their numbers.
func TestOutputsSideBySide(t *testing.T) {
	t.Parallel()
	p := open(t)
	print := func(texts ...string) task.ID {
		id := p.submit(command("date"))
		b := output.Lines{Task: id, Attempt: 1, Epoch: 5}
		for i, text := range texts {
			b.Lines = append(b.Lines, output.Line{N: i + 1, Stream: output.Stdout, At: time.Now(), Text: text})
		}
		if err := p.store.Print(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		return id
	}
	a, b := print("read 7 rows", "disk <full>"), print("read 12 rows", "done")
	page, _ := p.get(200, "/tasks/"+string(a)+"/compare?with="+string(b))
	p.says(page, "2 of 2 lines", "disk &lt;full&gt;", "done")
	if n := strings.Count(page, " found"); n != 2 || strings.Contains(page, `found" data-n="1"`) {
		t.Errorf("%d lines are marked", n)
	}
	p.as(rights.Submitter)
	p.get(403, "/tasks/"+string(a)+"/compare?with="+string(b))
}
