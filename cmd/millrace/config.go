package main

import (
	"github.com/spf13/cobra"
)

// shownSetting is a setting as `millrace config` shows it.
type shownSetting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
	Usage  string `json:"description"`
}

func (a *app) configCommand() *cobra.Command {
	var o output
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
		Args: takes(0, 0, ""),
	}
	flags := addSettingFlags(c.Flags(), profileProd, staying)
	o.flags(c)
	c.RunE = func(*cobra.Command, []string) error {
		s, origins, err := a.loadSettings(flags, profileProd)
		if err != nil {
			return err
		}
		shown := []shownSetting{{"profile", s.Profile, origins["profile"], "which defaults hold"}}
		for _, d := range settings {
			shown = append(shown, shownSetting{d.name, d.text(&s), origins[d.name], d.usage})
		}
		if o.json() {
			return a.writeJSON(shown)
		}
		t := table{header: []string{"SETTING", "VALUE", "ORIGIN", "DESCRIPTION"}, spare: []string{"ORIGIN"}}
		for _, s := range shown {
			t.add(plain(s.Name), plain(s.Value), plain(s.Origin), dim(s.Usage))
		}
		return a.print(t)
	}
	return c
}
