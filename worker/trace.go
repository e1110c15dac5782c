package worker

import "bytes"

// A program that fails with a stack trace names the failure in the first line of the trace, and its
// last line is a frame. trace finds that line while lines come, whatever the trace's length.

// language is whose traces look like one.
type language byte

const (
	noTrace language = iota
	goPanic          // a panic of Go, of which the goroutines are still to come
	goTrace
	javaTrace // frames that begin with "at": also those of Node and .NET
	pythonTrace
	rustTrace // also that of PHP
)

// maxBetween is how many lines may be between the line of an exception and its first frame: its
// message may have several.
const maxBetween = 20

// trace is the stack trace to which the latest lines of a stream belong.
type trace struct {
	of    language
	head  []byte // the line that names the failure; empty until it has come
	cause []byte // what Java names as the cause
	last  []byte // the last non-blank line
	// candidate is the latest line that looks like an exception, so many lines ago.
	candidate []byte
	ago       int
}

// headline returns the line that names the failure: that of the trace that has just come, else the last line.
func (t *trace) headline() []byte {
	switch {
	case len(t.head) == 0 || t.of == noTrace:
		return t.last
	case len(t.cause) > 0:
		return append(append(bytes.Clone(t.head), "; "...), t.cause...)
	}
	return t.head
}

// hear takes a whole line.
func (t *trace) hear(line []byte) {
	text := bytes.TrimSpace(line)
	if len(text) == 0 {
		return
	}
	if t.opens(line, text) {
		return
	}
	if t.of != noTrace && t.goesOn(line, text) {
		return
	}
	if passing(text) {
		return
	}
	t.of, t.cause = noTrace, t.cause[:0]
	t.last = append(t.last[:0], text...)
	if t.ago++; exception(line) {
		t.candidate, t.ago = append(t.candidate[:0], text...), 0
	}
}

// opens tells whether a line begins a trace, or is the first from which one can be recognised.
func (t *trace) opens(line, text []byte) bool {
	begin := func(of language, head []byte) bool {
		t.of, t.head, t.cause = of, append(t.head[:0], head...), t.cause[:0]
		return true
	}
	switch {
	case bytes.HasPrefix(line, []byte("panic: ")) || bytes.HasPrefix(line, []byte("fatal error: ")) ||
		t.of == goPanic && bytes.HasPrefix(text, []byte("panic: ")): // a panic while another one unwinds
		t.last = append(t.last[:0], text...)
		return begin(goPanic, text)
	case t.of == goPanic || t.of == goTrace:
		return false
	case bytes.HasPrefix(text, []byte("goroutine ")) && bytes.HasSuffix(text, []byte("]:")) && len(t.last) > 0:
		return begin(goTrace, t.last)
	case t.of != javaTrace && frame(line) && len(t.last) > 0:
		if len(t.candidate) > 0 && t.ago < maxBetween {
			return begin(javaTrace, bytes.TrimSuffix(t.candidate, []byte(" {")))
		}
		return begin(javaTrace, t.last)
	case t.of != javaTrace && line[0] != ' ' && bytes.HasSuffix(text, []byte(" {")) && exception(line): // Node shows fields of an error
		return begin(javaTrace, bytes.TrimSuffix(text, []byte(" {")))
	case t.of != pythonTrace && bytes.HasSuffix(text, []byte("Traceback (most recent call last):")),
		line[0] == 'T' && bytes.HasPrefix(line, []byte("Traceback (most recent call last):")):
		return begin(pythonTrace, nil)
	case (bytes.Equal(text, []byte("stack backtrace:")) || bytes.Equal(text, []byte("Stack trace:"))) && len(t.last) > 0:
		return begin(rustTrace, t.last)
	}
	return false
}

// goesOn tells whether a line belongs to the trace.
func (t *trace) goesOn(line, text []byte) bool {
	indented := line[0] == ' ' || line[0] == '\t'
	switch t.of {
	case goPanic:
		if bytes.HasPrefix(text, []byte("goroutine ")) {
			t.of = goTrace
			return true
		}
		return indented || text[0] == '[' || ofGo(text)
	case goTrace:
		return indented || bytes.HasPrefix(text, []byte("goroutine ")) || ofGo(text)
	case javaTrace:
		for _, words := range []string{"Caused by: ", "[cause]: "} {
			if cause, is := bytes.CutPrefix(text, []byte(words)); is {
				t.cause = append(append(t.cause[:0], "caused by "...), bytes.TrimSuffix(cause, []byte(" {"))...)
				return true
			}
		}
		return indented || text[0] == '}'
	case pythonTrace: // a group of exceptions is a tree of lines that begin with | and +
		if is := bytes.TrimPrefix(text, []byte("| ")); len(t.head) == 0 && is[0] != ' ' && (!indented || len(is) < len(text)) {
			t.head = append(t.head, is...)
			return true
		}
		return indented
	case rustTrace:
		return indented || text[0] == '#'
	}
	return false
}

// ofGo tells whether a line may stand in a trace of Go apart from files and goroutines: a call, and what the
// runtime says.
func ofGo(text []byte) bool {
	if call, _, is := bytes.Cut(text, []byte("(")); is && text[len(text)-1] == ')' && !bytes.Contains(call, []byte(" ")) {
		return true
	}
	for _, words := range []string{"created by ", "...", "runtime stack:", "runtime.", "PC=", "exit status "} {
		if bytes.HasPrefix(text, []byte(words)) {
			return true
		}
	}
	// A register: rax    0x0.
	name, rest, found := bytes.Cut(text, []byte(" "))
	return found && len(name) <= 6 && bytes.HasPrefix(bytes.TrimLeft(rest, " "), []byte("0x"))
}

// frame tells whether a line is a frame of Java, Node, .NET or Ruby.
func frame(line []byte) bool {
	if line[0] != ' ' && line[0] != '\t' {
		return false
	}
	text := bytes.TrimLeft(line, " \t")
	place := bytes.ContainsAny(text, "(") || bytes.ContainsAny(text, "/\\") && bytes.ContainsAny(text[len(text)-1:], "0123456789")
	return place && bytes.HasPrefix(text, []byte("at ")) || line[0] == '\t' && bytes.HasPrefix(text, []byte("from "))
}

// exception tells whether a line looks like one that names an exception.
func exception(line []byte) bool {
	if line[0] == ' ' || line[0] == '\t' {
		return false
	}
	name, _, _ := bytes.Cut(line, []byte(": "))
	return bytes.Contains(name, []byte("Error")) || bytes.Contains(name, []byte("Exception")) || bytes.Contains(name, []byte("Rejection"))
}

// passing tells whether a line says nothing about a failure: how to see more, and who says so.
func passing(text []byte) bool {
	return bytes.HasPrefix(text, []byte("Node.js v")) || bytes.HasPrefix(text, []byte("note: run with `RUST_BACKTRACE")) ||
		bytes.HasPrefix(text, []byte("(Use `node --trace-"))
}
