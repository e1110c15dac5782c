package promises

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	"millrace/integration/harness"
	"millrace/task"
)

// A killed server loses nothing, whatever the states of its tasks, and its clients find it again by
// themselves.
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
			p := harness.New(t, outage.ackWait)
			p.Let("MILLRACE_NODE_TTL", outage.ackWait.String()) // the worker is as sure of its node as of its leases
			server := p.Server()
			c := p.Connect()
			worker := p.Worker("only", "--slots", "2")
			// One task in each state that is not terminal.
			const pause = 3 * time.Second
			want := map[task.ID]task.State{}
			retrying := p.SubmitAs(c, harness.FailsOnce(pause))
			due := p.Await(c, retrying, task.Retrying).Due
			delayed := p.Submit("true", "--delay", pause.String())
			p.Await(c, delayed, task.Scheduled)
			const stay = "until [ -e go ]; do sleep 0.2; done"
			for range 2 {
				id := p.Submit(stay, "--dir", p.Dir)
				p.Await(c, id, task.Running)
				want[id] = task.Finished
			}
			cancelled := p.Submit("true")
			p.Run("task", "cancel", string(cancelled))
			for range 5 {
				want[p.Submit("true")] = task.Finished
			}
			want[retrying], want[delayed], want[cancelled] = task.Finished, task.Finished, task.Cancelled

			server.Kill()
			if r := p.Try("task", "ls"); r.Code != 4 {
				t.Errorf("without a server task ls ends with %d: %s", r.Code, r.Errs)
			}
			if outage.lasts {
				p.Until("the worker has stopped what it cannot be sure of", func() bool {
					return len(harness.Survivors("MILLRACE_NODE=only")) == 0
				})
				p.Until("the retry is due", func() bool { return time.Now().After(due) })
			}
			at, err := url.Parse(p.URL)
			if err != nil {
				t.Fatal(err)
			}
			p.Server("--port", at.Port())
			p.Write("go", "")
			c = p.Connect()
			for id, state := range want {
				ended := p.Await(c, id, state)
				if outage.lasts || id == retrying {
					continue
				}
				if state == task.Finished && ended.Attempt != 1 {
					t.Errorf("task %s needed attempt %d: the outage was no reason for another one\n%s", id, ended.Attempt, harness.Story(p.History(c, id)))
				}
			}
			p.Judge(c, want)
			worker.Stop()
		})
	}
}

// Work that is under way needs no millrace server: a worker and NATS run it,
// repeat it and start it when it is due.
func TestNoScheduler(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	nats := p.NATS()
	server := p.Start("server", "--data", harness.Data)
	server.Until("it serves", func() bool { return strings.Contains(server.Said.String(), "Millrace serves "+nats.Address()) })
	p.Run("task", "ls")
	c := p.Connect()
	worker := p.Worker("only")
	server.Kill()

	want := map[task.ID]task.State{}
	want[p.SubmitAs(c, harness.FailsOnce(500*time.Millisecond))] = task.Finished
	delayed := p.Submit("true", "--delay", "1s")
	want[delayed] = task.Finished
	for range 3 {
		want[p.Submit("true")] = task.Finished
	}
	failed := p.Submit("exit 7")
	want[failed] = task.Error
	stopped := p.Submit("sleep 600", "--timeout", "1s")
	want[stopped] = task.Error
	running := p.Submit("sleep 600")
	p.Await(c, running, task.Running)
	p.Run("task", "cancel", string(running))
	want[running] = task.Cancelled

	if r := p.Try("task", "ls"); r.Code != 4 {
		t.Errorf("task ls ends with %d where nobody keeps the read model: %s", r.Code, r.Errs)
	}
	for id, state := range want {
		p.Await(c, id, state)
	}
	if late := p.State(c, delayed); late.StartedAt.Before(late.SubmittedAt.Add(time.Second)) {
		t.Errorf("delayed by 1s, it was started %v after its submission", late.StartedAt.Sub(late.SubmittedAt))
	}
	p.Judge(c, want)

	// No scheduler declares a node offline now; the task of the dead node is suspect all the same.
	doomed := p.Worker("doomed", "--queue", "apart")
	orphan := p.Submit("sleep 600", "--queue", "apart")
	p.Await(c, orphan, task.Running)
	doomed.Kill()
	p.Until("the task of the dead node is suspect", func() bool {
		return strings.Contains(p.Run("task", "show", string(orphan)), "the heartbeat of node doomed has run out")
	})

	// The read model of a restarted server catches up.
	server = p.Start("server", "--data", harness.Data)
	server.Until("it serves", func() bool { return strings.Contains(server.Said.String(), "Millrace serves") })
	if out := p.Run("task", "ls", "--consistent", "--state", "ended", "--names"); len(want) != lines(out) {
		t.Errorf("the list has\n%s\nwant %d tasks", out, len(want))
	}
	p.Await(c, orphan, task.Pending)
	if out := p.Run("task", "ls", "--suspect", "--consistent", "--names"); out != "" {
		t.Errorf("what was moved is suspect no longer: %s", out)
	}
	worker.Stop()
	server.Stop()
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
	tasks, kills := 400, 3
	if *harness.Long {
		tasks, kills = 6000, 15
	}
	p := harness.New(t, 2*time.Second)
	p.Let("MILLRACE_FLAP_LIMIT", "0") // they die more often than a node may
	p.Server()
	c := p.Connect()
	workers := []*harness.Process{p.Worker("w0"), p.Worker("w1")}
	want := map[task.ID]task.State{}
	for id := range strings.FieldsSeq(p.Run("run", "--count", fmt.Sprint(tasks), "--dir", p.Dir, "--", "sh", "-c", "sleep 0.05")) {
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
		workers[w].Kill()
		workers[w] = p.Worker(fmt.Sprintf("w%d", w))
	}
	for id := range want {
		p.Await(c, id, task.Finished)
	}
	p.Judge(c, want)
	for _, w := range workers {
		w.Stop()
	}
}

// A task whose queue no node serves is overdue once its deadline has passed, but not once schedulers are
// back: they count from their own start, for workers may be on their way back as well.
func TestADeadlineThatPassedInAnOutage(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.NATS()
	p.Let("MILLRACE_START_DEADLINE", "8s")
	start := func() *harness.Process {
		server := p.Start("server", "--data", harness.Data)
		server.Until("it serves", func() bool { return strings.Contains(server.Said.String(), "Millrace serves") })
		return server
	}
	server := start()
	id := string(p.Submit("true", "--queue", "nobody"))
	server.Kill()
	p.Until("the deadline passes", func() bool {
		return strings.Contains(p.Run("task", "why", id, "-o", "json"), `"overdue": true`)
	})
	server = start()
	out := p.Run("task", "why", id)
	if strings.Contains(out, "overdue") || !strings.Contains(out, "which the scheduler counts from its start at") && !strings.Contains(out, "expired") {
		t.Errorf("beside a scheduler that has just started, why says\n%s", out)
	}
	server.Stop()
}
