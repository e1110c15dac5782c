package task

import (
	"io"
	"strings"

	"millrace/internal/cli/term"
	"millrace/task"
	"millrace/task/output"
)

// outputLine is a line of a task's output in JSON.
type outputLine struct {
	Task task.ID `json:"task"`
	// Step is its step of the whole; "" for a single task.
	Step    string `json:"step,omitempty"`
	Attempt int    `json:"attempt"`
	Epoch   uint64 `json:"epoch"`
	output.Line
}

// lineWriter prints lines as the program did: to out what it wrote to stdout, to errs the rest. It
// joins the pieces of a long line, unless another line comes between them.
type lineWriter struct {
	out, errs io.Writer
	// outBrief and errsBrief say of which of them only shows what a terminal would still show of a
	// line; see [output.Shown].
	outBrief, errsBrief bool

	open   map[io.Writer]openLine // by where it is printed
	before string                 // what each line begins with
	colour term.Colour            // of the next one
}

// openLine identifies an incomplete line.
type openLine struct {
	epoch  uint64
	stream string
}

// write prints one line, or piece, and tells whether it is complete.
func (w *lineWriter) write(epoch uint64, l output.Line) (complete bool, err error) {
	to, brief := w.errs, w.errsBrief
	if l.Stream == output.Stdout {
		to, brief = w.out, w.outBrief
	}
	less := false
	if brief {
		l.Text, less = output.Shown(l.Text)
	}
	if w.open == nil {
		w.open = map[io.Writer]openLine{}
	}
	text, whose := term.Paint(term.Tinted(lineText(&l), w.colour), w.colour != ""), openLine{epoch, l.Stream}
	before, goesOn := w.open[to]
	if before != whose {
		text = w.before + text
		if goesOn {
			text = "\n" + text
		}
	} else if less { // it also replaces the pieces above
		text = "\n" + w.before + text
	}
	if l.More {
		w.open[to] = whose
	} else {
		delete(w.open, to)
		text += "\n"
	}
	_, err = io.WriteString(to, text)
	return !l.More, err
}

// mark prints a line that separates what follows from what is above, to where errors go.
func (w *lineWriter) mark(text string) error {
	if _, goesOn := w.open[w.errs]; goesOn {
		delete(w.open, w.errs)
		text = "\n" + text
	}
	_, err := io.WriteString(w.errs, w.before+text+"\n")
	return err
}

// lineText is a line for people: an entry of a log begins with its level.
func lineText(l *output.Line) string {
	if l.Stream != output.Log {
		return l.Text
	}
	text := strings.ToUpper(l.Level) + " " + l.Text
	if len(l.Fields) > 0 {
		text += " " + string(l.Fields)
	}
	return text
}
