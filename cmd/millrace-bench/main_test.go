package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"millrace/integration/harness"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/serve"
	"millrace/internal/cli/settings"
	"millrace/internal/testkit"
)

// TestMain makes the test program a millrace that can be measured, too.
func TestMain(m *testing.M) {
	testscript.Main(testkit.Thrifty(m), map[string]func(){"millrace-bench": main, "millrace": func() {
		connect.Program{Commands: func(a *connect.App, root *cobra.Command, _ []string) {
			root.AddCommand(serve.Of(a).Server(), serve.GuardCommand())
		}}.Main(os.Args[1:])
	}})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:  filepath.Join("testdata", "script"),
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": harness.Exits},
	})
}

func TestHelpOfFlags(t *testing.T) {
	harness.Flags(t, connect.Bench.Program(commands).Root(connect.NewProgram(&bytes.Buffer{}, &bytes.Buffer{}, &bytes.Buffer{})), settings.GroupNote, settings.Groups)
}
