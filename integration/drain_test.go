package integration

import (
	"syscall"
	"testing"
	"time"

	"millrace/events"
	"millrace/node"
	"millrace/task"
)

// stayUntilGo is a task whose first attempt waits for a file.
const stayUntilGo = `[ "$MILLRACE_ATTEMPT" != 1 ] || until [ -e go ]; do sleep 0.05; done`

// What runs when a dev is asked to end may end by itself.
func TestDrain(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 2*time.Second)
	dev := p.dev("--name", "here", "--grace", patience.String())
	c := p.connect()
	id := p.submit(stayUntilGo, "--dir", p.dir)
	p.await(c, id, task.Running)
	dev.signal(syscall.SIGTERM)
	dev.signal(syscall.SIGTERM) // at the same time, as timeout(1) does it: that is one
	p.until("the node is draining", func() bool { return p.node(c, "here").State == node.Draining })
	waits := p.submit("true") // nobody takes it
	p.write("go", "")
	if code := dev.wait(); code != 0 {
		t.Errorf("exit code %d after a clean end", code)
	}
	if p.exists(data + "/nats.url") {
		t.Error("nats.url is left")
	}

	dev = p.dev("--name", "here")
	c = p.connect()
	p.await(c, waits, task.Finished)
	if ended := p.state(c, id); ended.State != task.Finished || ended.Attempt != 1 {
		t.Errorf("it is %s on attempt %d, want finished on the first", ended.State, ended.Attempt)
	}
	p.judge(c, map[task.ID]task.State{id: task.Finished, waits: task.Finished})
	dev.stop()
}

// What does not end within the grace time is given back and runs again later.
func TestDrainTooShort(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 2*time.Second)
	dev := p.dev("--grace", "200ms")
	c := p.connect()
	id := p.submit(stayUntilGo, "--dir", p.dir)
	p.await(c, id, task.Running)
	dev.stop()
	if left := survivors("MILLRACE_TASK=" + string(id)); len(left) > 0 {
		t.Errorf("its processes live: %v", left)
	}

	dev = p.dev()
	c = p.connect()
	ended := p.await(c, id, task.Finished)
	records := p.history(c, id)
	if ended.Attempt != 2 || ended.Failures != 0 || count(records, events.AttemptReleased) != 1 {
		t.Errorf("attempt %d, %d failures, want it given back once without a failure: %v", ended.Attempt, ended.Failures, types(records))
	}
	p.judge(c, map[task.ID]task.State{id: task.Finished})
	dev.stop()
}

// Who asks twice does not want to wait.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 2*time.Second)
	dev := p.dev("--name", "here", "--grace", "1h")
	c := p.connect()
	id := p.submit(stayUntilGo, "--dir", p.dir)
	p.await(c, id, task.Running)
	dev.signal(syscall.SIGTERM)
	p.until("the node is draining", func() bool { return p.node(c, "here").State == node.Draining })
	asked := time.Now()
	p.until("it has ended", func() bool {
		// Again and again, for two that come close together count as one.
		_ = dev.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-dev.ended:
			return true
		default:
			return false
		}
	})
	if took := time.Since(asked); took > 5*time.Second {
		t.Errorf("it took %v to end at once", took)
	}
	p.until("its processes are gone", func() bool { return len(survivors("MILLRACE_TASK="+string(id))) == 0 })

	dev = p.dev("--name", "here")
	c = p.connect()
	p.await(c, id, task.Finished)
	p.judge(c, map[task.ID]task.State{id: task.Finished})
	dev.stop()
}

// A worker says goodbye: nobody has to find out that it is gone.
func TestGoodbye(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 2*time.Second)
	p.setenv("MILLRACE_NODE_TTL", "60s") // silence alone would not be noticed here
	server := p.server()
	c := p.connect()
	worker := p.worker("guest")
	worker.stop()
	if n := p.node(c, "guest"); n.State != node.Offline || n.Reason != "the worker has ended" {
		t.Errorf("the node is %s (%s), want offline by its own word", n.State, n.Reason)
	}
	server.stop()
}

// A worker that is killed says nothing; its node is found to be gone.
func TestNoGoodbye(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 2*time.Second)
	server := p.server()
	c := p.connect()
	p.worker("guest").kill()
	p.until("the node is offline", func() bool { return p.node(c, "guest").State == node.Offline })
	if n := p.node(c, "guest"); n.Reason != "its heartbeat ran out" {
		t.Errorf("reason %q", n.Reason)
	}
	server.stop()
}
