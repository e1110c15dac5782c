package settings

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"millrace/internal/cli/term"
	"millrace/task/value"
)

// Takes checks the number of arguments; what names one, most < 0 is no bound.
func Takes(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return term.Misuse(c, "%s is missing", what)
		case most == 0 && len(args) > 0:
			return term.Misuse(c, "%q is too much: %s takes no arguments", args[0], c.CommandPath())
		case most >= 0 && len(args) > most:
			return term.Misuse(c, "%q is too much: %s takes one %s", args[most], c.CommandPath(), what)
		}
		return nil
	}
}

// Noun makes a command that only holds others: alone it prints its help.
func Noun(c *cobra.Command) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return term.Misuse(c, "there is no command %q%s", c.CommandPath()+" "+args[0], DidYouMean(nearCommand(c, args[0])))
	}
	return c
}

// FlagError turns a wrong flag into a usage error.
func FlagError(c *cobra.Command, err error) error {
	if name, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
		return term.Misuse(c, "unknown flag --%s%s", name, DidYouMean(nearFlag(c, name)))
	}
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return term.Misuse(c, "--%s: %w", bad.GetFlag().Name, badValue(bad))
	}
	if _, text, ok := strings.Cut(err.Error(), " in -"); ok && strings.HasPrefix(err.Error(), "unknown shorthand flag") {
		if _, number := value.ParseNumber(text); number {
			return term.Misuse(c, "-%s reads as a flag: want no number below 0", text)
		}
		return term.Misuse(c, "unknown flag -%s", text)
	}
	return term.Misuse(c, "%w", err)
}

// mayBeEmpty are the flags whose empty value says something that leaving them out does not.
var mayBeEmpty = []string{
	"params", // no parameters
}

// NoBlanks refuses flags that are given without a value, mostly by a script in which a variable is
// not set: without its node, zone or unique key a command would do what they prevent.
func NoBlanks(c *cobra.Command, _ []string) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		empty := f.Value.String() == ""
		if list, ok := f.Value.(pflag.SliceValue); ok {
			all := list.GetSlice()
			empty = len(all) == 0 || slices.Contains(all, "")
		}
		if err == nil && empty && !slices.Contains(mayBeEmpty, f.Name) {
			err = term.Misuse(c, "--%s has an empty value: want one, or leave the flag out", f.Name)
		}
	})
	return err
}

// together matches cobra's error about flags that exclude each other.
var together = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^if any flags in the group \[.*\] are set none of the others can be; \[(.*)\] were all set$`)
})

// Together turns cobra's error about flags that exclude each other into a usage error. It returns
// other errors unchanged.
func Together(err error) error {
	if err == nil {
		return nil
	}
	if found := together().FindStringSubmatch(err.Error()); found != nil {
		return term.MisuseOf(fmt.Errorf("--%s exclude each other", strings.Join(strings.Fields(found[1]), " and --")))
	}
	return err
}

// badValue says what is wrong with the value of a flag, in words of ours where Go's are about itself.
func badValue(bad *pflag.InvalidValueError) error {
	want := map[string]string{
		"int": "a whole number", "intSlice": "whole numbers, with commas", "uint64": "a whole number of 0 or more", "uint": "a whole number of 0 or more",
		"float64": "a number", "bool": "true or false", "duration": "a duration such as 90s or 2h30m",
	}[bad.GetFlag().Value.Type()]
	cause := bad.Unwrap()
	switch {
	case errors.As(cause, new(*strconv.NumError)), strings.HasPrefix(cause.Error(), "time: "):
		return fmt.Errorf("%q is not %s", bad.GetValue(), want)
	case strings.Contains(cause.Error(), strconv.Quote(bad.GetValue())):
		return cause
	}
	return fmt.Errorf("%q: %w", bad.GetValue(), cause)
}

// nearFlag returns the flag that name is most likely a misspelling of, or "".
func nearFlag(c *cobra.Command, name string) string {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if meant := value.Word(name, names); meant != "" {
		return "--" + meant
	}
	return ""
}

// nearCommand returns the command further below c that has this name, or else the one below c that
// name is most likely a misspelling of, or the beginning of; or "".
func nearCommand(c *cobra.Command, name string) string {
	var further []string
	for _, noun := range c.Commands() {
		for _, verb := range noun.Commands() {
			if verb.IsAvailableCommand() && (verb.Name() == name || verb.HasAlias(name)) {
				if noun.Name() == "task" {
					return verb.CommandPath()
				}
				further = append(further, verb.CommandPath())
			}
		}
	}
	if len(further) == 1 {
		return further[0]
	}
	var names []string
	if !c.HasParent() {
		names = []string{"help", "completion"}
	}
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() {
			names = append(append(names, below.Name()), below.Aliases...)
		}
	}
	if meant := value.Word(name, names); meant != "" {
		return meant
	}
	for _, whole := range names {
		if strings.HasPrefix(whole, strings.ToLower(name)) {
			return whole
		}
	}
	return ""
}

// DidYouMean ends the message about an unknown word; "" if there is no suggestion.
func DidYouMean(word string) string {
	if word == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", word)
}

// SplitCommand divides the arguments into at most most names, the last one a job, and a command
// after "--". Missing names are empty.
func SplitCommand(c *cobra.Command, args []string, most int) (names, argv []string, err error) {
	if dash := c.ArgsLenAtDash(); dash >= 0 {
		args, argv = args[:dash], args[dash:]
		if len(argv) == 0 {
			return nil, nil, term.Misuse(c, "there is no command after \"--\"")
		}
	}
	if len(args) > most {
		return nil, nil, term.Misuse(c, "%q is too much: parameters are given with --param, and a command comes after \"--\"", args[most])
	}
	names = make([]string, most)
	copy(names, args)
	return names, argv, nil
}
