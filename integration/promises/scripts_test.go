package promises

import (
	"millrace/integration/harness"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts types what stands in testdata. Besides the commands of testscript a script has
//
//	exits CODE COMMAND ARG...     run a command that ends with this code
//	until PATTERN COMMAND ARG...  run it again and again until its output matches
//	let NAME COMMAND ARG...       keep what it prints in a variable
//	repairs WHY...                say why a sweep may have to repair something here
//
// and $LOGS, the folder of the logs that break each promise. A repair by a process that the script
// leaves in the background fails the script, unless the script says why.
//
// Without -long only the quick scripts run, one for each kind of thing that people handle first;
// the task test:promises types all. The tests of packages prove the rules of the others.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in testdata: %v", err)
	}
	harness.Play(t, harness.Cases(t, files, quickScripts...), func(e *testscript.Env) error {
		return harness.Settle(e, harness.NewAt(e.T().(harness.Scripts).T, e.WorkDir))
	})
}

// quickScripts run without -long, in this order: those that take longest begin first.
var quickScripts = []string{
	"whole.txt", "cancel.txt", "dev.txt", "explain.txt", "job.txt", "nodes.txt", "retry.txt", "run.txt", "schedule.txt",
}
