package harness

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

// Play runs each file as a test of its own. A script's deadline counts from its turn, so that it is
// not killed for the slowness of the scripts before it.
func Play(t *testing.T, files []string, setup func(*testscript.Env) error) {
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			Binary(t) // its build counts for no script
			testscript.RunT(Scripts{t}, testscript.Params{
				Files:               []string{file},
				Setup:               setup,
				Deadline:            time.Now().Add(3 * Patience), // a command that hangs is killed
				RequireExplicitExec: true,
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"exits": exits, "until": until, "let": let, "repairs": mayRepair,
				},
			})
		})
	}
}

// Settle makes a place be where a script happens.
func Settle(e *testscript.Env, p *Place) error {
	root, err := Root()
	if err != nil {
		return err
	}
	e.Vars = append(e.Vars, append(p.Env, "LOGS="+filepath.Join(root, "history", "verify", "testdata"))...)
	e.Values[placeKey{}] = p
	e.Defer(p.leave) // before its folder goes
	return nil
}

// placeKey is where a script keeps its place.
type placeKey struct{}

// placeOf returns the place of a script. It remembers the script's background processes so far,
// because testscript forgets them when they have ended. Every script waits for its servers with a
// command of ours, so none is missed.
func placeOf(ts *testscript.TestScript) *Place {
	p := ts.Value(placeKey{}).(*Place)
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
	placeOf(ts).MayRepair(strings.Join(args, " "))
}

// Scripts gives the one script of a test that test: it is neither run nor made parallel again.
type Scripts struct{ *testing.T }

func (s Scripts) Run(_ string, f func(testscript.T)) { f(s) }

func (s Scripts) Parallel() {}

func (s Scripts) Verbose() bool { return testing.Verbose() }

func exits(ts *testscript.TestScript, neg bool, args []string) {
	placeOf(ts)
	Exits(ts, neg, args)
}

// Exits is the command of scripts that runs one which must end with a code: exits 3 millrace task show …
func Exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARG...")
	}
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
	found := Poll(Patience, func() bool {
		err = ts.Exec(args[1], args[2:]...)
		return err == nil && pattern.MatchString(ts.ReadFile("stdout"))
	})
	if !found {
		ts.Fatalf("waited %v in vain for %s: %v", Patience, pattern, err)
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
