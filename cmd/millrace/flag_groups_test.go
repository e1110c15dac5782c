package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"millrace/integration/harness"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
)

func testRoot() *cobra.Command {
	return product().Root(connect.NewProgram(&bytes.Buffer{}, &bytes.Buffer{}, &bytes.Buffer{}))
}

func TestHelpOfFlags(t *testing.T) { harness.Flags(t, testRoot(), settings.GroupNote, settings.Groups) }

func TestHelpOfSettings(t *testing.T) {
	root := testRoot()
	for name, want := range map[string]struct{ has, lacks []string }{
		"server": {
			[]string{"\nThe NATS server in this process:\n", "--sweep", "--start-deadline", "default always, with --profile dev 1s", "--metrics"},
			[]string{"--grace", "--spool", "--beat", "--task-output", "The worker:"},
		},
		"worker": {
			[]string{"\nThe worker:\n", "\nSettings:\n", "--grace", "default 5s, with --profile dev 2s", "--metrics", "--flap-limit"},
			[]string{"--sweep", "--store", "--sync", "--log-keep-done", "NATS server in this process"},
		},
		"dev": {[]string{"--sweep", "--grace", "default 2s, with --profile prod 5s"}, nil},
		"run": {[]string{"Flags:\n", "\nWhere it waits and runs:\n", "--labels chooses nodes", "--signal name "}, []string{"`"}},
	} {
		c, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		help := settings.FlagsHelp(c, &bytes.Buffer{})
		for _, text := range want.has {
			if !strings.Contains(help, text) {
				t.Errorf("%s: no %q in\n%s", name, text, help)
			}
		}
		for _, text := range want.lacks {
			if strings.Contains(help, text) {
				t.Errorf("%s: there is %q in\n%s", name, text, help)
			}
		}
	}
	// One command line may be given to all processes, whichever of them uses a setting.
	for _, s := range settings.All {
		for _, name := range []string{"server", "worker", "dev"} {
			if c, _, _ := root.Find([]string{name}); c.Flags().Lookup(s.Flag()) == nil {
				t.Errorf("%s takes no --%s", name, s.Flag())
			}
		}
	}
}
