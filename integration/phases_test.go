package integration

import (
	"strings"
	"testing"
	"time"

	"millrace/task"
)

// Setup, run and stop can be seen while they last, and have their times in the fact that ends the attempt.
func TestPhases(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 20*time.Second)
	p.server()
	c := p.connect()
	p.worker("only", "--slots", "2")
	wait := func(file string) string { return "until [ -e " + p.path(file) + " ]; do sleep 0.02; done" }
	id := p.submitAs(c, task.Submission{Spec: &task.Spec{
		Setup: []string{wait("ready")},
		Run:   &task.Run{Shell: "trap '" + wait("stop") + "; exit 0' TERM; while :; do sleep 0.02; done"},
	}})
	phase := func(want string) {
		t.Helper()
		p.until("it is in phase "+want, func() bool {
			for _, line := range strings.Split(p.run("task", "show", string(id)), "\n") {
				if f := strings.Fields(line); len(f) > 2 && f[0] == "phase" {
					return f[1] == want
				}
			}
			return false
		})
	}
	phase(task.PhaseSetup)
	p.write("ready", "")
	phase(task.PhaseRun)
	p.run("task", "cancel", string(id))
	phase(task.PhaseStop)
	p.write("stop", "")
	ended := p.await(c, id, task.Cancelled)
	if u := ended.Usage; u == nil || u.Setup == 0 || u.Run == 0 || u.Stop == 0 {
		t.Errorf("it used %+v", u)
	}
	if out := p.run("task", "events", string(id)); !strings.Contains(out, "setup ") || !strings.Contains(out, ", stop ") {
		t.Errorf("the timeline is\n%s", out)
	}
	if out := p.run("task", "show", string(id)); strings.Contains(out, "\nphase") {
		t.Errorf("it has ended, and is shown as\n%s", out)
	}

	failed := p.submitAs(c, task.Submission{Spec: &task.Spec{
		Setup: []string{"sleep 0.1; false"}, Run: &task.Run{Shell: "true"},
	}})
	if ended := p.await(c, failed, task.Error); ended.Usage == nil || ended.Usage.Setup.Std() < 100*time.Millisecond {
		t.Errorf("a setup that failed used %+v", ended.Usage)
	}
}
