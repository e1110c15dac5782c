package term

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"

	"golang.org/x/term"

	"millrace/cmd/millrace/screen"
)

// Streams are those of one run of the command.
type Streams struct {
	In   io.Reader
	Out  io.Writer
	Errs io.Writer
	// Demonstrating is whether progress is worth lines even where no terminal is.
	Demonstrating bool
}

// NewStreams keeps what is printed from doing anything to a terminal but being read there.
func NewStreams(in io.Reader, out, errs io.Writer) *Streams {
	return &Streams{In: in, Out: onScreen(out), Errs: onScreen(errs)}
}

// WriteJSON prints one value, laid out for people and machines alike.
func (s *Streams) WriteJSON(v any) error {
	e := json.NewEncoder(s.Out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// WriteLine prints one value of a stream of them, each on a line of its own.
func (s *Streams) WriteLine(v any) error {
	e := json.NewEncoder(s.Out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// screenWriter is a terminal that a person looks at. Files and pipes are none: they get what there
// is, byte by byte.
type screenWriter struct {
	file *os.File

	mu     sync.Mutex
	filter screen.Filter // guarded by mu
}

// onScreen is w with a filter before it, if it is a terminal.
func onScreen(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok && Terminal(f) {
		return &screenWriter{file: f, filter: screen.Filter{Colours: Colourful(f)}}
	}
	return w
}

// Unfiltered is the terminal itself, for what this program alone says to it; w, if that is none.
func Unfiltered(w io.Writer) io.Writer {
	if s, ok := w.(*screenWriter); ok {
		return s.file
	}
	return w
}

// Write implements [io.Writer].
func (s *screenWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.file.Write(s.filter.Pass(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Terminal tells whether a person looks at w.
func Terminal(w any) bool {
	if _, ok := w.(*screenWriter); ok {
		return true
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Colourful tells whether w takes colours and is wanted to.
func Colourful(w any) bool {
	return Terminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Fullscreen tells whether a person looks at the streams, and at a terminal on which text can be placed.
func (s *Streams) Fullscreen() bool {
	return Terminal(s.In) && Terminal(s.Out) && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != ""
}

// Width is how many columns w shows: those of its terminal, else what COLUMNS says, or 0 if there is no bound.
func Width(w io.Writer) int {
	if f, ok := Unfiltered(w).(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	columns, _ := strconv.Atoi(os.Getenv("COLUMNS")) // what is no number is no bound
	return max(columns, 0)
}

// Note tells a person something beside the result; it never goes to stdout.
func (s *Streams) Note(format string, args ...any) {
	fmt.Fprintf(s.Errs, "millrace: "+format+"\n", args...)
}
