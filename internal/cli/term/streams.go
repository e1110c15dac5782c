package term

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"

	"golang.org/x/term"

	"millrace/task/value"
)

// Streams are the streams of one run of the command.
type Streams struct {
	In   io.Reader
	Out  io.Writer
	Errs io.Writer
	// Demonstrating tells whether progress is printed as lines even without a terminal.
	Demonstrating bool
}

// NewStreams returns streams whose outputs, if they are terminals, get no control sequences from
// printed text.
func NewStreams(in io.Reader, out, errs io.Writer) *Streams {
	return &Streams{In: in, Out: onScreen(out), Errs: onScreen(errs)}
}

// WriteJSON prints one value, indented.
func (s *Streams) WriteJSON(v any) error {
	return s.line(value.Indented(v))
}

// WriteLine prints one value of several, each on its own line.
func (s *Streams) WriteLine(v any) error {
	return s.line(value.JSON(v))
}

func (s *Streams) line(text []byte, err error) error {
	if err != nil {
		return err
	}
	_, err = s.Out.Write(append(text, '\n'))
	return err
}

// screenWriter is a terminal. Files and pipes are not: they get the bytes unchanged.
type screenWriter struct {
	file *os.File

	mu     sync.Mutex
	filter Filter // guarded by mu
}

// onScreen returns w with a filter before it, if it is a terminal.
func onScreen(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok && Terminal(f) {
		return &screenWriter{file: f, filter: Filter{Colours: Colourful(f)}}
	}
	return w
}

// Unfiltered returns the terminal itself, for this program's own control sequences; w, if it is not
// a terminal.
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

// Terminal tells whether w is a terminal.
func Terminal(w any) bool {
	if _, ok := w.(*screenWriter); ok {
		return true
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Colourful tells whether w can and should show colours.
func Colourful(w any) bool {
	return Terminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Fullscreen tells whether the streams are a terminal on which text can be placed.
func (s *Streams) Fullscreen() bool {
	return Terminal(s.In) && Terminal(s.Out) && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != ""
}

// Width returns how many columns w shows: its terminal's, else COLUMNS, or 0 for no bound.
func Width(w io.Writer) int {
	if f, ok := Unfiltered(w).(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	columns, _ := strconv.Atoi(os.Getenv("COLUMNS")) // not a number means no bound
	return max(columns, 0)
}

// Note tells the user something beside the result; it never goes to stdout.
func (s *Streams) Note(format string, args ...any) {
	fmt.Fprintf(s.Errs, "millrace: %s\n", Message(fmt.Sprintf(format, args...)))
}
