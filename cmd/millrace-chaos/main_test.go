package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"millrace/integration/harness"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/testkit"
)

func TestMain(m *testing.M) {
	testscript.Main(testkit.Thrifty(m), map[string]func(){"millrace-chaos": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:  filepath.Join("testdata", "script"),
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": harness.Exits},
	})
}

func TestHelpOfFlags(t *testing.T) {
	harness.Flags(t, connect.Chaos.Program(commands).Root(connect.NewProgram(&bytes.Buffer{}, &bytes.Buffer{}, &bytes.Buffer{})), settings.GroupNote, settings.Groups)
}
