package promises

import (
	"syscall"
	"testing"
	"time"

	"millrace/events"
	"millrace/integration/harness"
	"millrace/task"
	"millrace/task/node"
)

// A dev that is asked to end lets its running tasks end by themselves.
func TestDrain(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	dev := p.Dev("--name", "here", "--grace", harness.Patience.String())
	c := p.Connect()
	id := p.Submit(harness.StayUntilGo, "--dir", p.Dir)
	p.Await(c, id, task.Running)
	dev.Signal(syscall.SIGTERM)
	dev.Signal(syscall.SIGTERM) // twice at once, as timeout(1) signals: that counts as one
	p.Until("the node is draining", func() bool { return p.Node(c, "here").State == node.Draining })
	waits := p.Submit("true") // no worker takes it
	p.Write("go", "")
	if code := dev.Wait(); code != 0 {
		t.Errorf("exit code %d after a clean end", code)
	}
	if p.Exists(harness.Data + "/nats.url") {
		t.Error("nats.url is left")
	}

	dev = p.Dev("--name", "here")
	c = p.Connect()
	p.Await(c, waits, task.Finished)
	if ended := p.State(c, id); ended.State != task.Finished || ended.Attempt != 1 {
		t.Errorf("it is %s on attempt %d, want finished on the first", ended.State, ended.Attempt)
	}
	p.Judge(c, map[task.ID]task.State{id: task.Finished, waits: task.Finished})
	dev.Stop()
}

// A task that does not end within the grace time is given back and runs again later.
func TestDrainTooShort(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	dev := p.Dev("--grace", "200ms")
	c := p.Connect()
	id := p.Submit(harness.StayUntilGo, "--dir", p.Dir)
	p.Await(c, id, task.Running)
	dev.Stop()
	if left := harness.Survivors("MILLRACE_TASK=" + string(id)); len(left) > 0 {
		t.Errorf("its processes live: %v", left)
	}

	dev = p.Dev()
	c = p.Connect()
	ended := p.Await(c, id, task.Finished)
	records := p.History(c, id)
	if ended.Attempt != 2 || ended.Failures != 0 || harness.Count(records, events.AttemptReleased) != 1 {
		t.Errorf("attempt %d, %d failures, want it given back once without a failure: %v", ended.Attempt, ended.Failures, harness.Types(records))
	}
	p.Judge(c, map[task.ID]task.State{id: task.Finished})
	dev.Stop()
}

// A second signal means that the operator does not want to wait.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	dev := p.Dev("--name", "here", "--grace", "1h")
	c := p.Connect()
	id := p.Submit(harness.StayUntilGo, "--dir", p.Dir)
	p.Await(c, id, task.Running)
	dev.Signal(syscall.SIGTERM)
	p.Until("the node is draining", func() bool { return p.Node(c, "here").State == node.Draining })
	asked := time.Now()
	p.Until("it has ended", func() bool {
		// Signal again and again, because two signals that come close together count as one.
		_ = dev.Cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-dev.Ended:
			return true
		default:
			return false
		}
	})
	if took := time.Since(asked); took > 5*time.Second {
		t.Errorf("it took %v to end at once", took)
	}
	p.Until("its processes are gone", func() bool { return len(harness.Survivors("MILLRACE_TASK="+string(id))) == 0 })

	dev = p.Dev("--name", "here")
	c = p.Connect()
	p.Await(c, id, task.Finished)
	p.Judge(c, map[task.ID]task.State{id: task.Finished})
	dev.Stop()
}

// A worker says goodbye, so no process has to find out that it is gone.
func TestGoodbye(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.Let("MILLRACE_NODE_TTL", "60s") // silence alone would not be noticed here
	server := p.Server()
	c := p.Connect()
	worker := p.Worker("guest")
	worker.Stop()
	if n := p.Node(c, "guest"); n.State != node.Offline || n.Reason != "the worker has ended" {
		t.Errorf("the node is %s (%s), want offline by its own word", n.State, n.Reason)
	}
	server.Stop()
}

// A worker that is killed says nothing; the scheduler finds that its node is gone.
func TestNoGoodbye(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	server := p.Server()
	c := p.Connect()
	p.Worker("guest").Kill()
	p.Until("the node is offline", func() bool { return p.Node(c, "guest").State == node.Offline })
	if n := p.Node(c, "guest"); n.Reason != "its heartbeat ran out" {
		t.Errorf("reason %q", n.Reason)
	}
	server.Stop()
}
