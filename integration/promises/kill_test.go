package promises

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/events"
	"millrace/integration/harness"
	"millrace/task"
	"millrace/task/node"
)

// A killed worker takes its processes with it, whatever their depth, and another worker continues
// its task.
func TestKilledWorker(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	server := p.Server()
	c := p.Connect()
	first := p.Worker("first")
	id := p.Submit(harness.FirstAttemptStays, "--dir", p.Dir)
	claimed := p.Await(c, id, task.Running)
	attempt := "MILLRACE_TASK=" + string(id)
	p.Until("child and grandchild have started", func() bool { return len(harness.Survivors(attempt)) == 3 })

	p.Worker("second")
	first.Kill()
	p.Until("child and grandchild are gone", func() bool { return len(harness.Survivors(attempt)) == 0 })

	if ended := p.Await(c, id, task.Finished); ended.Node != "second" || ended.Attempt != 2 {
		t.Errorf("attempt %d on %s has finished it, want 2 on second", ended.Attempt, ended.Node)
	}
	records := p.History(c, id)
	if harness.Count(records, events.AttemptStarted) != 2 || harness.Count(records, events.AttemptFinished) != 1 {
		t.Fatalf("want two attempts and one result: %v", harness.Types(records))
	}
	wantTookOver(p, records, claimed.Epoch)
	// What was lost is also a line of the process that declares it.
	p.Until("the server says that the node is offline", func() bool {
		return strings.Contains(server.Said.String(), `"level":"warn","node":"first"`)
	})
	if said := server.Said.String(); harness.Count(records, events.AttemptLost) > 0 && !strings.Contains(said, `"level":"info","task":"`+string(id)+`","fact":"attempt.lost"`) {
		t.Errorf("the server does not say that the attempt is lost:\n%s", said)
	}
	if out := p.Run("task", "logs", string(id), "--attempt", "2"); out != "again" {
		t.Errorf("the second attempt has printed %q", out)
	}
	if out := p.Run("task", "events", string(id)); !strings.Contains(out, "what attempt 1 printed") {
		t.Errorf("the timeline does not say that output may be missing: %q", out)
	}
	p.Judge(c, map[task.ID]task.State{id: task.Finished})
}

// wantTookOver checks that one attempt has taken over from the one with epoch,
// unless the scheduler was faster to declare that one lost.
func wantTookOver(p *harness.Place, records []events.Record, epoch uint64) {
	p.Helper()
	for _, r := range records {
		switch e := r.Fact.Event.(type) {
		case task.AttemptStarted:
			if e.TookOver != nil && e.TookOver.Epoch == epoch {
				return
			}
		case task.AttemptLost:
			if e.Epoch == epoch {
				return
			}
		}
	}
	p.Errorf("nobody took over from epoch %d: %v", epoch, harness.Types(records))
}

// A worker that was suspended for longer than its lease, and does not know, can
// neither have its result accepted nor let its processes go on.
func TestSuspendedWorker(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.Server()
	c := p.Connect()
	first := p.Worker("first")
	stays := p.Submit(harness.FirstAttemptStays, "--dir", p.Dir)
	ends := p.Submit(`[ "$MILLRACE_ATTEMPT" != 1 ] || until [ -e go ]; do sleep 0.2; done; echo mine`, "--dir", p.Dir)
	epochs := map[task.ID]uint64{}
	for _, id := range []task.ID{stays, ends} {
		epochs[id] = p.Await(c, id, task.Running).Epoch
	}
	p.Until("its children run", func() bool { return len(harness.Survivors("MILLRACE_TASK="+string(stays))) == 3 })

	first.Signal(syscall.SIGSTOP)
	second := p.Worker("second")
	for id := range epochs {
		if ended := p.Await(c, id, task.Finished); ended.Node != "second" {
			t.Errorf("%s has finished task %s, want second", ended.Node, id)
		}
	}
	leaving := harness.Survivors("MILLRACE_TASK=" + string(ends))
	p.Write("go", "") // one of the two has a result when its worker wakes up
	p.Until("the first attempt has ended", func() bool {
		return !slices.ContainsFunc(leaving, func(s harness.Survivor) bool { return !harness.Reapable(s.PID) })
	})
	first.Signal(syscall.SIGCONT)

	for id, epoch := range epochs {
		p.Until("what the fenced attempt had to say is kept", func() bool {
			return p.State(c, id).Late > 0
		})
		records := p.History(c, id)
		if late := p.Find(records, events.AttemptLate).Fact.Event.(task.AttemptLate); late.Epoch != epoch || late.Node != "first" {
			t.Errorf("late: %+v, want what first said of epoch %d", late, epoch)
		}
		wantTookOver(p, records, epoch)
	}
	if said := p.Find(p.History(c, ends), events.AttemptLate); !strings.Contains(string(said.Raw), "attempt.finished") {
		t.Errorf("the refused result is not kept: %s", said.Raw)
	}
	p.Until("its processes are gone", func() bool { return len(harness.Survivors("MILLRACE_TASK="+string(stays))) == 0 })
	p.Judge(c, map[task.ID]task.State{stays: task.Finished, ends: task.Finished})

	// It goes on as a worker.
	second.Stop()
	next := p.Submit("true")
	if ended := p.Await(c, next, task.Finished); ended.Node != "first" {
		t.Errorf("%s ran the next task, want first", ended.Node)
	}
	first.Stop()
}

// Of two workers with one name the younger stays: the older one was replaced,
// or forgotten.
func TestTwoWorkersOfOneName(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.Server()
	c := p.Connect()
	older := p.Worker("twin", "--grace", "1m")
	stays := p.Submit(`trap "" TERM; `+harness.StayUntilGo, "--dir", p.Dir)
	p.Await(c, stays, task.Running)
	younger := p.Worker("twin")
	if code := older.Wait(); code != 1 {
		t.Errorf("the older one ended with exit code %d, want 1", code)
	}
	for _, word := range []string{"another session has registered under this node id", "give one of the two another name"} {
		if !strings.Contains(older.Said.String(), word) {
			t.Errorf("the older one does not say %q:\n%s", word, older.Said.String())
		}
	}
	// The worker's processes ended with it, before the task could start elsewhere.
	p.Until("it has started again", func() bool { return harness.Count(p.History(c, stays), events.AttemptStarted) == 2 })
	records := p.History(c, stays)
	if n := harness.Count(records, events.AttemptLost); n > 0 {
		t.Errorf("it was given up before the older one had ended it: %v", harness.Types(records))
	}
	p.Write("go", "")
	id := p.Submit("true")
	for _, id := range []task.ID{id, stays} {
		p.Await(c, id, task.Finished)
	}
	if n := p.Node(c, "twin"); n.State != node.Ready || n.PID != younger.Cmd.Process.Pid {
		t.Errorf("the node is %s with process %d, want ready with that of the younger one", n.State, n.PID)
	}
	younger.Stop()
}
