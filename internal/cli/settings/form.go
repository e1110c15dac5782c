package settings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Output is the requested output format of a command.
type Output struct {
	Form Choice
	flag bool // --json
}

// Flags adds -o and --json. Without forms, these are table (the default) and json.
func (o *Output) Flags(c *cobra.Command, forms ...string) {
	if len(forms) == 0 {
		forms = []string{"table", "json"}
	}
	o.Form = Choice{Value: forms[0], Of: forms}
	c.Flags().VarP(&o.Form, "output", "o", "form of the output: "+strings.Join(forms, ", "))
	c.Flags().BoolVar(&o.flag, "json", false, "the same as -o json")
}

// JSON tells whether JSON was asked for.
func (o *Output) JSON() bool { return o.flag || o.Form.Value == "json" }

// Choice is a flag that takes one of a few words.
type Choice struct {
	Value string
	Of    []string
}

func (c *Choice) String() string { return c.Value }

func (c *Choice) Type() string { return strings.Join(c.Of, "|") }

func (c *Choice) Set(s string) error {
	if !slices.Contains(c.Of, s) {
		return fmt.Errorf("want %s", strings.Join(c.Of, " or "))
	}
	c.Value = s
	return nil
}
