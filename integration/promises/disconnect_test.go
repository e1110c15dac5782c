package promises

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/integration/harness"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

// A server that is away for many leases does not stop what can go on without one: the output and
// the result are there when the server is back.
func TestContinueWithoutServer(t *testing.T) {
	t.Parallel()
	const ackWait = time.Second
	p := harness.New(t, ackWait)
	server := p.Server()
	c := p.Connect()
	worker := p.Worker("only", "--slots", "1", "--spool", "kept", "--spool-limit", "64MiB")
	id := p.SubmitAs(c, birth.Submission{Spec: &job.Spec{
		Run: &job.Run{Dir: p.Dir, Shell: `n=0; until [ -e go ]; do n=$((n+1)); echo "line $n"; sleep 0.05; done; echo "$n" > "said.$MILLRACE_ATTEMPT"; echo last`},

		OnDisconnect: job.DisconnectContinue,
	}})
	p.Await(c, id, task.Running)
	// The worker must also know that the task is its own.
	p.Until("the process runs", func() bool { return len(harness.Survivors("MILLRACE_TASK="+string(id))) > 0 })

	server.Kill()
	away := time.Now()
	p.Until("the server is away for many leases", func() bool { return time.Since(away) > 6*ackWait })
	if n := len(harness.Survivors("MILLRACE_TASK=" + string(id))); n == 0 {
		t.Error("the process was stopped while the server was away")
	}
	if spooled, err := filepath.Glob(p.Path("kept/*/*/*" + string(id) + "*")); err != nil || len(spooled) != 1 {
		t.Errorf("spooled as %v, %v", spooled, err)
	}
	p.Write("go", "")
	p.Until("the process has ended", func() bool { return len(harness.Survivors("MILLRACE_TASK="+string(id))) == 0 })
	at, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	p.Server("--port", at.Port())
	c = p.Connect()
	ended := p.Await(c, id, task.Finished)
	records := p.History(c, id)
	if finished := harness.Count(records, events.AttemptFinished); finished != 1 {
		t.Errorf("it finished %d times: %v", finished, harness.Types(records))
	}
	p.Until("the first attempt has had its say", func() bool {
		records = p.History(c, id)
		return ended.Attempt == 1 || harness.Count(records, events.AttemptLate) == 1
	})
	out := p.Run("task", "logs", string(id), "--attempt", "1")
	var said int
	text, err := os.ReadFile(p.Path("said.1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(text), &said); err != nil {
		t.Fatal(err)
	}
	// A batch is there twice if the server was killed after it had stored it and before it said so.
	var got []string
	for _, line := range strings.Split(out, "\n") {
		if !slices.Contains(got, line) {
			got = append(got, line)
		}
	}
	if len(got) != said+1 || got[len(got)-1] != "last" {
		t.Errorf("%d lines were kept of %d, the last one is %q", len(got), said+1, got[len(got)-1])
	}
	for i, line := range got[:len(got)-1] {
		if want := fmt.Sprintf("line %d", i+1); line != want {
			t.Fatalf("line %d is %q, want %q", i+1, line, want)
		}
	}
	p.Judge(c, map[task.ID]task.State{id: task.Finished})
	worker.Stop()
}
