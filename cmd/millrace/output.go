package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"millrace/cmd/millrace/screen"
)

// output is the form that a command was asked to print.
type output struct {
	form choice
	flag bool // --json
}

// flags adds -o and --json. Without forms, those are table (the default) and json.
func (o *output) flags(c *cobra.Command, forms ...string) {
	if len(forms) == 0 {
		forms = []string{"table", "json"}
	}
	o.form = choice{value: forms[0], of: forms}
	c.Flags().VarP(&o.form, "output", "o", "form of the output: "+strings.Join(forms, ", "))
	c.Flags().BoolVar(&o.flag, "json", false, "the same as -o json")
}

func (o *output) json() bool { return o.flag || o.form.value == "json" }

// choice is a flag that takes one of a few words.
type choice struct {
	value string
	of    []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.of, "|") }
func (c *choice) Set(s string) error {
	if !slices.Contains(c.of, s) {
		return fmt.Errorf("want %s", strings.Join(c.of, " or "))
	}
	c.value = s
	return nil
}

// writeJSON prints one value, laid out for people and machines alike.
func (a *app) writeJSON(v any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// writeLine prints one value of a stream of them, each on a line of its own.
func (a *app) writeLine(v any) error {
	e := json.NewEncoder(a.out)
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
	if f, ok := w.(*os.File); ok && terminal(f) {
		return &screenWriter{file: f, filter: screen.Filter{Colours: colourful(f)}}
	}
	return w
}

// unfiltered is the terminal itself, for what this program alone says to it; w, if that is none.
func unfiltered(w io.Writer) io.Writer {
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

// terminal tells whether a person looks at w.
func terminal(w any) bool {
	if _, ok := w.(*screenWriter); ok {
		return true
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// colourful tells whether w takes colours and is wanted to.
func colourful(w any) bool {
	return terminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// width is how many columns w shows: those of its terminal, else what COLUMNS says, or 0 if there is no bound.
func width(w io.Writer) int {
	if f, ok := unfiltered(w).(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	columns, _ := strconv.Atoi(os.Getenv("COLUMNS")) // what is no number is no bound
	return max(columns, 0)
}
