package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/task/job"
)

func TestOverlaps(t *testing.T) {
	all, err := ReadStints("begins a n1 1.7 10.00\nbegins b n1 1.8 10.00\nruns a n1 1.7 10.25\nends b n1 1.8 10.20\nbegins a n2 2.9 10.25\nbegins b n2 2.3 10.19\nends a n2 2.9 10.30\n")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range Overlaps(all) {
		got = append(got, o.String())
	}
	if want := []string{"task b: attempt 2.3 began on n2 while 1.8 still ran on n1, for 0.01s at least"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, wrong := range []string{"begins a n1 1.7 10.0", "begins a n1 1.7\n", "ends a n1 1.7 10.00\n", "begins a n1 1.7 now\n"} {
		if _, err := ReadStints(wrong); err == nil {
			t.Errorf("%q is taken for a word of a witness", wrong)
		}
	}
}

// A witness runs its command, exits as the command does, and records when. Overlapping runs break a
// promise, unless the worker of the first run was suspended and could not stop it.
func TestWitness(t *testing.T) {
	w, err := newWitnesses(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &job.Run{Shell: "echo said; exit 3"}
	w.attend(r)
	cmd := exec.CommandContext(t.Context(), r.Argv[0], r.Argv[1:]...)
	cmd.Env = append(os.Environ(), "MILLRACE_TASK=x", "MILLRACE_NODE=n1", "MILLRACE_ATTEMPT=1")
	out, _ := cmd.Output()
	if string(out) != "said\n" || cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("it printed %q and ended with %v", out, cmd.ProcessState)
	}
	text, err := os.ReadFile(w.file())
	if err != nil || strings.Count(string(text), "\n") != 2 || !strings.HasPrefix(string(text), "begins x n1 1.") {
		t.Fatalf("it wrote %q, %v", text, err)
	}
	up, err := uptime()
	if err != nil {
		t.Fatal(err)
	}
	at := up.Seconds()
	words := fmt.Sprintf("begins y n1 1.1 %.2f\nbegins y n2 2.2 %.2f\nends y n1 1.1 %.2f\n", at-9, at-8, at-7)
	if err := os.WriteFile(w.file(), []byte(words), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		faults []Injected
		broken int
	}{
		{nil, 1},
		{[]Injected{{Fault: Pause, Target: "n1", Began: time.Now().Add(-10 * time.Second), Ended: time.Now()}}, 0},
		{[]Injected{{Fault: Pause, Target: "n2", Began: time.Now().Add(-10 * time.Second), Ended: time.Now()}}, 1},
		{[]Injected{{Fault: Kill, Target: "n1", Began: time.Now().Add(-10 * time.Second), Ended: time.Now()}}, 1},
		{[]Injected{{Fault: Pause, Target: "n1", Began: time.Now().Add(-2 * time.Second), Ended: time.Now()}}, 1},
	} {
		seen, err := w.judge(c.faults, nil)
		if err != nil || seen.runs != 2 || len(seen.overlapping) != c.broken {
			t.Errorf("with %v: %d runs, %q, %v; want %d broken", c.faults, seen.runs, seen.overlapping, err, c.broken)
		}
	}
}
