package integration

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	"millrace/client"
	"millrace/task"
)

// submitAs submits what no flag of `millrace run` can say.
func (p *place) submitAs(c *client.Client, s task.Submission) task.ID {
	p.Helper()
	r, err := c.Submit(p.Context(), s)
	if err != nil {
		p.Fatal(err)
	}
	return r.ID
}

// failsOnce is a task of which the second attempt, some time after the first, succeeds.
func failsOnce(pause time.Duration) task.Submission {
	return task.Submission{Spec: &task.Spec{
		Run:   &task.Run{Shell: `[ "$MILLRACE_ATTEMPT" != 1 ]`},
		Retry: task.Retry{Max: 1, Min: task.Duration(pause)},
	}}
}

// A server that is killed loses nothing, in whatever state a task is, and what
// depends on it finds it again by itself.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	for _, outage := range []struct {
		name    string
		ackWait time.Duration
		lasts   bool // longer than the worker can be sure of its leases
	}{
		{"short", 20 * time.Second, false},
		{"longer than a lease", 3 * time.Second, true},
	} {
		t.Run(outage.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, outage.ackWait)
			p.setenv("MILLRACE_NODE_TTL", outage.ackWait.String()) // the worker is as sure of its node as of its leases
			server := p.server()
			c := p.connect()
			worker := p.worker("only", "--slots", "2")
			// One task in each state that is not terminal.
			const pause = 3 * time.Second
			want := map[task.ID]task.State{}
			retrying := p.submitAs(c, failsOnce(pause))
			due := p.await(c, retrying, task.Retrying).Due
			delayed := p.submit("true", "--delay", pause.String())
			p.await(c, delayed, task.Scheduled)
			const stay = "until [ -e go ]; do sleep 0.05; done"
			for range 2 {
				id := p.submit(stay, "--dir", p.dir)
				p.await(c, id, task.Running)
				want[id] = task.Finished
			}
			cancelled := p.submit("true")
			p.run("task", "cancel", string(cancelled))
			for range 5 {
				want[p.submit("true")] = task.Finished
			}
			want[retrying], want[delayed], want[cancelled] = task.Finished, task.Finished, task.Cancelled

			server.kill()
			if r := p.try("task", "ls"); r.code != 4 {
				t.Errorf("without a server task ls ends with %d: %s", r.code, r.errs)
			}
			if outage.lasts {
				p.until("the worker has stopped what it cannot be sure of", func() bool {
					return len(survivors("MILLRACE_NODE=only")) == 0
				})
				p.until("the retry is due", func() bool { return time.Now().After(due) })
			}
			at, err := url.Parse(p.url)
			if err != nil {
				t.Fatal(err)
			}
			p.server("--port", at.Port())
			p.write("go", "")
			c = p.connect()
			for id, state := range want {
				ended := p.await(c, id, state)
				if outage.lasts || id == retrying {
					continue
				}
				if state == task.Finished && ended.Attempt != 1 {
					t.Errorf("task %s needed attempt %d: the outage was no reason for another one\n%s", id, ended.Attempt, story(p.history(c, id)))
				}
			}
			p.judge(c, want)
			worker.stop()
		})
	}
}

// Work that is under way needs no millrace server: a worker and NATS run it,
// repeat it and start it when it is due.
func TestNoScheduler(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 2*time.Second)
	nats := p.nats()
	server := p.start("server", "--data", data)
	server.until("it serves", func() bool { return strings.Contains(server.said.String(), "Millrace serves "+nats.Address()) })
	p.run("task", "ls")
	c := p.connect()
	worker := p.worker("only")
	server.kill()

	want := map[task.ID]task.State{}
	want[p.submitAs(c, failsOnce(500*time.Millisecond))] = task.Finished
	delayed := p.submit("true", "--delay", "1s")
	want[delayed] = task.Finished
	for range 3 {
		want[p.submit("true")] = task.Finished
	}
	failed := p.submit("exit 7")
	want[failed] = task.Error
	stopped := p.submit("sleep 600", "--timeout", "1s")
	want[stopped] = task.Error
	running := p.submit("sleep 600")
	p.await(c, running, task.Running)
	p.run("task", "cancel", string(running))
	want[running] = task.Cancelled

	if r := p.try("task", "ls"); r.code != 4 {
		t.Errorf("task ls ends with %d where nobody keeps the read model: %s", r.code, r.errs)
	}
	for id, state := range want {
		p.await(c, id, state)
	}
	if late := p.state(c, delayed); late.StartedAt.Before(late.SubmittedAt.Add(time.Second)) {
		t.Errorf("delayed by 1s, it was started %v after its submission", late.StartedAt.Sub(late.SubmittedAt))
	}
	p.judge(c, want)

	// Nobody declares a node offline now; that it has vanished is seen all the same.
	doomed := p.worker("doomed", "--queue", "apart")
	orphan := p.submit("sleep 600", "--queue", "apart")
	p.await(c, orphan, task.Running)
	doomed.kill()
	p.until("the task of the dead node is suspect", func() bool {
		return strings.Contains(p.run("task", "show", string(orphan)), "the heartbeat of node doomed has run out")
	})

	// Whoever comes back catches up.
	server = p.start("server", "--data", data)
	server.until("it serves", func() bool { return strings.Contains(server.said.String(), "Millrace serves") })
	if out := p.run("task", "ls", "--consistent", "--state", "ended", "--names"); len(want) != lines(out) {
		t.Errorf("the list has\n%s\nwant %d tasks", out, len(want))
	}
	p.await(c, orphan, task.Pending)
	if out := p.run("task", "ls", "--suspect", "--consistent", "--names"); out != "" {
		t.Errorf("what was moved is suspect no longer: %s", out)
	}
	worker.stop()
	server.stop()
}

// lines is how many lines a text has.
func lines(text string) int {
	n := 0
	for range strings.Lines(text) {
		n++
	}
	return n
}

// Many short tasks, and about every second one of two workers dies.
func TestChurn(t *testing.T) {
	t.Parallel()
	tasks, kills := 800, 4
	if *long {
		tasks, kills = 6000, 15
	}
	p := newPlace(t, 2*time.Second)
	p.setenv("MILLRACE_FLAP_LIMIT", "0") // they die more often than a node may
	p.server()
	c := p.connect()
	workers := []*process{p.worker("w0"), p.worker("w1")}
	want := map[task.ID]task.State{}
	for id := range strings.FieldsSeq(p.run("run", "--count", fmt.Sprint(tasks), "--dir", p.dir, "--", "sh", "-c", "sleep 0.05")) {
		want[task.ID(id)] = task.Finished
	}
	if len(want) != tasks {
		t.Fatalf("%d ids of %d tasks", len(want), tasks)
	}
	for i := range kills {
		// Not in step with the leases: a task that comes back after AckWait just
		// when the next worker dies, again and again, would rightly be given up.
		<-time.After(800*time.Millisecond + rand.N(400*time.Millisecond))
		w := i % len(workers)
		workers[w].kill()
		workers[w] = p.worker(fmt.Sprintf("w%d", w))
	}
	for id := range want {
		p.await(c, id, task.Finished)
	}
	p.judge(c, want)
	for _, w := range workers {
		w.stop()
	}
}
