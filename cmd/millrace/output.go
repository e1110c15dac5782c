package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
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
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(forms, cobra.ShellCompDirectiveNoFileComp))
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

// terminal tells whether a person looks at w.
func terminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// colourful tells whether w takes colours and is wanted to.
func colourful(w any) bool {
	return terminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// width is how many columns w shows, or 0 if there is no bound.
func width(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}
