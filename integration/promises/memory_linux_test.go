package promises

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"millrace/integration/harness"
	"millrace/internal/testkit"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

// resident is the resident memory of a process, in MiB, the program itself included.
func resident(s *harness.Process) int {
	s.Place.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Cmd.Process.Pid))
	if err != nil {
		s.Place.Fatal(err)
	}
	_, after, _ := bytes.Cut(text, []byte("VmRSS:"))
	kib, err := strconv.Atoi(string(bytes.Fields(after)[0]))
	if err != nil {
		s.Place.Fatalf("VmRSS: %v", err)
	}
	return kib >> 10
}

// A server that has run thousands of tasks, ten with -long, keeps little of the memory that they took.
func TestServerMemory(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 10*time.Second)
	const most = 150
	tasks := testkit.Size(3000, 10_000)
	server := p.Server()
	c := p.Connect()
	stop := goProgram(p, "program", "noop")
	if err := c.SubmitMany(t.Context(), birth.Submission{Spec: &job.Spec{Handler: "noop"}}, tasks, nil); err != nil {
		t.Fatal(err)
	}
	ended, since := 0, time.Now()
	over := func() bool { // on a busy machine they are many: it is over when none has ended for long
		page, err := c.List(t.Context(), client.ListRequest{Filter: view.Filter{Limit: 1}, Counts: true})
		if n := page.Counts[task.Finished.String()]; err == nil && n > ended {
			ended, since = n, time.Now()
		}
		return ended == tasks || time.Since(since) > harness.Patience
	}
	if harness.Poll(time.Hour, over); ended < tasks {
		t.Fatalf("%d of %d tasks have ended", ended, tasks)
	}
	stop()
	t.Logf("%d MiB when all have ended", resident(server))
	server.Until(fmt.Sprintf("the server has at most %d MiB", most), func() bool { return resident(server) <= most })
}
