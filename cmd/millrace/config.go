package main

import (
	"github.com/spf13/cobra"

	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
)

// shownSetting is a setting as `millrace config` shows it.
type shownSetting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
	Usage  string `json:"description"`
}

func (a *app) configCommand() *cobra.Command {
	var o settings.Output
	c := &cobra.Command{
		Use:     "config",
		Aliases: []string{"settings"},
		Short:   "Print every setting and where its value comes from",
		Long: `Prints every setting with its value and its origin.

A value comes from, in rising order: the defaults of the profile (dev or prod);
the settings file, which is --config, $MILLRACE_CONFIG or millrace/config.yaml
in the user's configuration folder, in YAML; the environment; a flag.

"millrace dev" takes the profile dev and every other process prod, unless told otherwise.`,
		Example: `  millrace config
  millrace config --profile dev
  MILLRACE_BEAT=1s millrace config -o json`,
		Args: settings.Takes(0, 0, ""),
	}
	flags := settings.AddFlags(c.Flags(), settings.Prod, settings.Staying)
	o.Flags(c)
	c.RunE = func(*cobra.Command, []string) error {
		s, origins, err := a.LoadSettings(flags, settings.Prod)
		if err != nil {
			return err
		}
		shown := []shownSetting{{"profile", s.Profile, origins["profile"], "which defaults hold"}}
		for _, d := range settings.All {
			shown = append(shown, shownSetting{d.Name, d.Text(&s), origins[d.Name], d.Usage})
		}
		if o.JSON() {
			return a.WriteJSON(shown)
		}
		t := term.Table{Header: []string{"SETTING", "VALUE", "ORIGIN", "DESCRIPTION"}, Spare: []string{"ORIGIN"}}
		for _, s := range shown {
			t.Add(term.Plain(s.Name), term.Plain(s.Value), term.Plain(s.Origin), term.Dim(s.Usage))
		}
		return a.Print(t)
	}
	return c
}
