package promises

import (
	"strings"
	"testing"
	"time"

	"millrace/integration/harness"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

// Setup, run and stop can be seen while they last, and have their times in the fact that ends the
// attempt.
func TestPhases(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 20*time.Second)
	p.Server()
	c := p.Connect()
	p.Worker("only", "--slots", "2")
	wait := func(file string) string { return "until [ -e " + p.Path(file) + " ]; do sleep 0.02; done" }
	id := p.SubmitAs(c, birth.Submission{Spec: &job.Spec{
		Setup: []string{wait("ready")},
		Run:   &job.Run{Shell: "trap '" + wait("stop") + "; exit 0' TERM; while :; do sleep 0.02; done"},
	}})
	phase := func(want string) {
		t.Helper()
		p.Until("it is in phase "+want, func() bool {
			for _, line := range strings.Split(p.Run("task", "show", string(id)), "\n") {
				if f := strings.Fields(line); len(f) > 2 && f[0] == "phase" {
					return f[1] == want
				}
			}
			return false
		})
	}
	phase(task.PhaseSetup)
	p.Write("ready", "")
	phase(task.PhaseRun)
	p.Run("task", "cancel", string(id))
	phase(task.PhaseStop)
	p.Write("stop", "")
	ended := p.Await(c, id, task.Cancelled)
	if u := ended.Usage; u == nil || u.Setup == 0 || u.Run == 0 || u.Stop == 0 {
		t.Errorf("it used %+v", u)
	}
	if out := p.Run("task", "events", string(id)); !strings.Contains(out, "setup ") || !strings.Contains(out, ", stop ") {
		t.Errorf("the timeline is\n%s", out)
	}
	if out := p.Run("task", "show", string(id)); strings.Contains(out, "\nphase") {
		t.Errorf("it has ended, and is shown as\n%s", out)
	}

	failed := p.SubmitAs(c, birth.Submission{Spec: &job.Spec{
		Setup: []string{"sleep 0.1; false"}, Run: &job.Run{Shell: "true"},
	}})
	if ended := p.Await(c, failed, task.Error); ended.Usage == nil || ended.Usage.Setup.Std() < 100*time.Millisecond {
		t.Errorf("a setup that failed used %+v", ended.Usage)
	}
}
