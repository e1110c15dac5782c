package promises

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/output"
)

// A value that is too long for a variable comes in a file that every reader of the value finds, and
// the file goes with the attempt.
func (w *programs) large(t *testing.T) {
	const length = 400_000
	params := map[string]json.RawMessage{"text": json.RawMessage(`"` + strings.Repeat("ü", length/2) + `"`)}
	shell := `test -z "$MILLRACE_PARAMS" && test "$(millrace ipc param text | wc -c)" = ` + fmt.Sprint(length+1) +
		` && test "$(stat -c %a "$MILLRACE_PARAMS_FILE")" = 600 && echo "$MILLRACE_PARAMS_FILE"`
	env := map[string]string{"PYTHONPATH": library(t, "python"), "PYTHONDONTWRITEBYTECODE": "1", "LIBRARY": library(t, "node/millrace.js")}
	runs := map[string]*job.Spec{
		"shell":            {Run: &job.Run{Shell: shell}},
		"folder":           {Run: &job.Run{Shell: shell, Dir: w.p.Dir}},
		"kept":             {Run: &job.Run{Shell: shell}, OnRestart: job.RestartAdopt},
		"kept in a folder": {Run: &job.Run{Shell: shell, Dir: w.p.Dir}, OnRestart: job.RestartAdopt},
	}
	if python := interpreter(t, "python3"); python != "" {
		runs["python"] = &job.Spec{Run: &job.Run{Env: env, Stdin: job.StdinOpen, Argv: []string{python, "-c", fmt.Sprintf(`
import millrace, os
assert len(millrace.params()["text"]) == %d
assert millrace.init()["params"] == millrace.params()
print(os.environ["MILLRACE_PARAMS_FILE"])`, length/2)}}}
	}
	if node := interpreter(t, "node"); node != "" {
		runs["node"] = &job.Spec{Run: &job.Run{Env: env, Argv: []string{node, "-e", fmt.Sprintf(`
require('assert').strictEqual(require(process.env.LIBRARY).params().text.length, %d)
console.log(process.env.MILLRACE_PARAMS_FILE)`, length/2)}}}
	}
	for name, spec := range runs {
		ended := w.end(t, birth.Submission{Spec: spec, Params: params})
		lines := w.lines(t, ended.ID, output.Stdout)
		if ended.State != task.Finished || len(lines) != 1 {
			t.Errorf("%s: %s: %s; it printed %q and %q", name, ended.State, ended.Message, lines, w.lines(t, ended.ID, output.Stderr))
			continue
		}
		if _, err := os.Stat(lines[0]); !os.IsNotExist(err) {
			t.Errorf("%s: %s is left: %v", name, lines[0], err)
		}
	}
}
