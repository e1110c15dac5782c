package integration

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/events"
	"millrace/node"
	"millrace/task"
)

// firstAttemptStays is a task of which the first attempt starts a process that
// starts another, and stays; the second one ends at once.
const firstAttemptStays = `
if [ "$MILLRACE_ATTEMPT" != 1 ]; then echo again; exit 0; fi
sh -c 'sleep 600 & wait' &
echo started
wait`

// A worker that is killed takes its processes with it, whatever their depth,
// and its task goes on with somebody else.
func TestKilledWorker(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 2*time.Second)
	p.server()
	c := p.connect()
	first := p.worker("first")
	id := p.submit(firstAttemptStays, "--dir", p.dir)
	claimed := p.await(c, id, task.Running)
	attempt := "MILLRACE_TASK=" + string(id)
	p.until("child and grandchild have started", func() bool { return len(survivors(attempt)) == 3 })

	p.worker("second")
	first.kill()
	p.until("child and grandchild are gone", func() bool { return len(survivors(attempt)) == 0 })

	if ended := p.await(c, id, task.Finished); ended.Node != "second" || ended.Attempt != 2 {
		t.Errorf("attempt %d on %s has finished it, want 2 on second", ended.Attempt, ended.Node)
	}
	records := p.history(c, id)
	if count(records, events.AttemptStarted) != 2 || count(records, events.AttemptFinished) != 1 {
		t.Fatalf("want two attempts and one result: %v", types(records))
	}
	p.wantTookOver(records, claimed.Epoch)
	if out := p.run("task", "logs", string(id), "--attempt", "2"); out != "again" {
		t.Errorf("the second attempt has printed %q", out)
	}
	if out := p.run("task", "events", string(id)); !strings.Contains(out, "what attempt 1 printed") {
		t.Errorf("the timeline does not say that output may be missing: %q", out)
	}
	p.judge(c, map[task.ID]task.State{id: task.Finished})
}

// wantTookOver checks that one attempt has taken over from the one with epoch,
// unless the scheduler was faster to declare that one lost.
func (p *place) wantTookOver(records []events.Record, epoch uint64) {
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
	p.Errorf("nobody took over from epoch %d: %v", epoch, types(records))
}

// A worker that was suspended for longer than its lease, and does not know, can
// neither have its result accepted nor let its processes go on.
func TestSuspendedWorker(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 2*time.Second)
	p.server()
	c := p.connect()
	first := p.worker("first")
	stays := p.submit(firstAttemptStays, "--dir", p.dir)
	ends := p.submit(`[ "$MILLRACE_ATTEMPT" != 1 ] || until [ -e go ]; do sleep 0.02; done; echo mine`, "--dir", p.dir)
	epochs := map[task.ID]uint64{}
	for _, id := range []task.ID{stays, ends} {
		epochs[id] = p.await(c, id, task.Running).Epoch
	}
	p.until("its children run", func() bool { return len(survivors("MILLRACE_TASK="+string(stays))) == 3 })

	first.signal(syscall.SIGSTOP)
	second := p.worker("second")
	for id := range epochs {
		if ended := p.await(c, id, task.Finished); ended.Node != "second" {
			t.Errorf("%s has finished task %s, want second", ended.Node, id)
		}
	}
	leaving := survivors("MILLRACE_TASK=" + string(ends))
	p.write("go", "") // one of the two has a result when its worker wakes up
	p.until("the first attempt has ended", func() bool {
		return !slices.ContainsFunc(leaving, func(s survivor) bool { return !reapable(s.pid) })
	})
	first.signal(syscall.SIGCONT)

	for id, epoch := range epochs {
		p.until("what the fenced attempt had to say is kept", func() bool {
			return p.state(c, id).Late > 0
		})
		records := p.history(c, id)
		if late := p.find(records, events.AttemptLate).Fact.Event.(task.AttemptLate); late.Epoch != epoch || late.Node != "first" {
			t.Errorf("late: %+v, want what first said of epoch %d", late, epoch)
		}
		p.wantTookOver(records, epoch)
	}
	if said := p.find(p.history(c, ends), events.AttemptLate); !strings.Contains(string(said.Raw), "attempt.finished") {
		t.Errorf("the refused result is not kept: %s", said.Raw)
	}
	p.until("its processes are gone", func() bool { return len(survivors("MILLRACE_TASK="+string(stays))) == 0 })
	p.judge(c, map[task.ID]task.State{stays: task.Finished, ends: task.Finished})

	// It goes on as a worker.
	second.stop()
	next := p.submit("true")
	if ended := p.await(c, next, task.Finished); ended.Node != "first" {
		t.Errorf("%s ran the next task, want first", ended.Node)
	}
	first.stop()
}

// Of two workers with one name the younger stays: the older one was replaced,
// or forgotten.
func TestTwoWorkersOfOneName(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 2*time.Second)
	p.server()
	c := p.connect()
	older := p.worker("twin", "--grace", "1m")
	stays := p.submit(`trap "" TERM; `+stayUntilGo, "--dir", p.dir)
	p.await(c, stays, task.Running)
	younger := p.worker("twin")
	if code := older.wait(); code != 1 {
		t.Errorf("the older one ended with exit code %d, want 1", code)
	}
	for _, word := range []string{"another session has registered under this node id", "give one of the two another name"} {
		if !strings.Contains(older.said.String(), word) {
			t.Errorf("the older one does not say %q:\n%s", word, older.said.String())
		}
	}
	// What it ran ended with it, before it could start elsewhere.
	p.until("it has started again", func() bool { return count(p.history(c, stays), events.AttemptStarted) == 2 })
	records := p.history(c, stays)
	if n := count(records, events.AttemptLost); n > 0 {
		t.Errorf("it was given up before the older one had ended it: %v", types(records))
	}
	p.write("go", "")
	id := p.submit("true")
	for _, id := range []task.ID{id, stays} {
		p.await(c, id, task.Finished)
	}
	if n := p.node(c, "twin"); n.State != node.Ready || n.PID != younger.cmd.Process.Pid {
		t.Errorf("the node is %s with process %d, want ready with that of the younger one", n.State, n.PID)
	}
	younger.stop()
}
