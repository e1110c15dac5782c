package integration

import (
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts types what stands in testdata. Besides the commands of testscript
// a script has
//
//	exits CODE COMMAND ARG...     run a command that ends with this code
//	until PATTERN COMMAND ARG...  run it again and again until its output matches
//	let NAME COMMAND ARG...       keep what it prints in a variable
//	repairs WHY...                say why a sweep may have to repair something here
//
// and $LOGS, the folder of the logs that break each promise. A repair by a process
// that the script leaves in the background fails it, unless the script says why.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in testdata: %v", err)
	}
	play(t, files, func(e *testscript.Env) error { return settle(e, newPlaceAt(e.T().(scripts).T, e.WorkDir)) })
}

// play runs each file as a test of its own. Its time begins when its turn comes: what
// waits for the scripts before it must not be killed for their slowness.
func play(t *testing.T, files []string, setup func(*testscript.Env) error) {
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			testscript.RunT(scripts{t}, testscript.Params{
				Files:               []string{file},
				Setup:               setup,
				Deadline:            time.Now().Add(3 * patience), // a command that hangs is killed
				RequireExplicitExec: true,
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"exits": exits, "until": until, "let": let, "repairs": mayRepair,
				},
			})
		})
	}
}

// settle makes a place be where a script happens.
func settle(e *testscript.Env, p *place) error {
	logs, err := filepath.Abs("../verify/testdata")
	if err != nil {
		return err
	}
	e.Vars = append(e.Vars, append(p.env, "LOGS="+logs)...)
	e.Values[placeKey{}] = p
	e.Defer(p.leave) // before its folder goes
	return nil
}

// placeKey is where a script keeps its place.
type placeKey struct{}

// placeOf is where a script happens. What runs in the background of it by now is
// remembered, for testscript forgets it when it has ended; every server is
// waited for with a command of ours, so none is missed.
func placeOf(ts *testscript.TestScript) *place {
	p := ts.Value(placeKey{}).(*place)
	for _, cmd := range ts.BackgroundCmds() {
		if !slices.Contains(p.background, cmd) {
			p.background = append(p.background, cmd)
		}
	}
	return p
}

func mayRepair(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: repairs WHY...")
	}
	placeOf(ts).mayRepair(strings.Join(args, " "))
}

// scripts gives the one script of a test that test: it is neither run nor made parallel again.
type scripts struct{ *testing.T }

func (s scripts) Run(_ string, f func(testscript.T)) { f(s) }

func (s scripts) Parallel() {}

func (s scripts) Verbose() bool { return testing.Verbose() }

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARG...")
	}
	placeOf(ts)
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		got = ended.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN COMMAND ARG...")
	}
	placeOf(ts)
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	found := poll(patience, func() bool {
		err = ts.Exec(args[1], args[2:]...)
		return err == nil && pattern.MatchString(ts.ReadFile("stdout"))
	})
	if !found {
		ts.Fatalf("waited %v in vain for %s: %v", patience, pattern, err)
	}
}

func let(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: let NAME COMMAND ARG...")
	}
	placeOf(ts)
	ts.Check(ts.Exec(args[1], args[2:]...))
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}
