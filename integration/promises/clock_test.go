package promises

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/integration/harness"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/node"
)

// clockError bounds the distance between a time in the log and the time at which the server stored
// it: the round trip of a clock reading on a busy machine, and the time between deciding and
// storing.
const clockError = 5 * time.Second

// Every part has another time on its clock, and none of them the log's. A task begins and expires
// by the log's time all the same, and each time in the log is the log's.
func TestWrongClocks(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 3*time.Second)
	p.NATS()
	clockOf(p, "server", -10*time.Minute)
	server := p.Start("server", "--data", "server")
	server.Until("the server is ready", func() bool { return strings.Contains(server.Said.String(), "Millrace serves ") })
	server.Until("the server says how wrong its clock is", func() bool { return (ahead(server.Said.String()) + 10*time.Minute).Abs() < clockError })
	setWorker := clockOf(p, "worker", 10*time.Minute)
	worker := p.Worker("w1", "--slots", "16")

	c := p.Connect()
	for _, ahead := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		clockOf(p, "caller", ahead)
		tryCaller(p, c, fmt.Sprintf("the caller is %v ahead", ahead))
	}

	nc := p.Dial()
	r := harness.Ask[client.Receipt](p, nc, rights.TaskSubmit.For("ada"), `{"spec":{"run":{"argv":["true"]}},"delay":"1s"}`)
	wantDelayed(p, c, r.ID, time.Second)
	r = harness.Ask[client.Receipt](p, nc, rights.TaskSubmit.For("ada"), `{"spec":{"run":{"argv":["true"]}},"queue":"nobody","pending_timeout":"2s"}`)
	wantExpired(p, c, r.ID, 2*time.Second)

	setCaller := clockOf(p, "caller", 0)
	waiting := p.Start("run", "--timeout", "10m", "--wait", "--shell", "while ! [ -e jumped ]; do sleep 0.1; done", "--dir", p.Dir)
	p.Until("a task runs", func() bool { return p.Run("task", "ls", "--state", "running", "--names") != "" })
	setWorker(-10 * time.Minute)
	setCaller(10 * time.Minute)
	tryCaller(p, c, "clocks jump under way")
	p.Write("jumped", "")
	if code := waiting.Wait(); code != 0 {
		t.Errorf("a task during which clocks jump: exit code %d, want 0", code)
	}
	judgeTimes(p, c, "w1")
	worker.Stop()
	server.Stop()
}

// ahead is by how much a process said that its clock is ahead of the server's, 0 before it says so.
func ahead(said string) time.Duration {
	_, after, _ := strings.Cut(said, `"ahead":"`)
	figure, _, _ := strings.Cut(after, `"`)
	d, _ := time.ParseDuration(figure)
	return d
}

// tryCaller tries the commands that depend on the time, with the clock that commands have now.
func tryCaller(p *harness.Place, c *client.Client, what string) {
	p.Helper()
	p.Logf("%s", what)
	id := func(out string) task.ID { return task.ID(strings.TrimSpace(out)) }

	expires := id(p.Run("run", "--queue", "nobody", "--pending-timeout", "2s", "--", "true"))
	patient := id(p.Run("run", "--queue", "nobody", "--pending-timeout", "5m", "--", "true"))
	later := id(p.Run("run", "--delay", "1h", "--", "true"))
	delayed := id(p.Run("run", "--delay", "1s", "--", "true"))
	retried := id(p.Run("run", "--retries", "1", "--shell", `[ "$MILLRACE_ATTEMPT" = 2 ]`))
	long := id(p.Run("run", "--shell", `trap "sleep 1; exit 0" TERM; echo begun; while :; do sleep 0.05; done`))
	ticking := "ticks-" + strings.ToLower(string(long[len(long)-8:]))
	p.Run("schedule", "add", ticking, "--every", "1s", "--", "true")

	wantDelayed(p, c, delayed, time.Second)
	wantExpired(p, c, expires, 2*time.Second)
	if got := p.Run("task", "show", string(later)); !strings.Contains(got, "(in 59m") && !strings.Contains(got, "(in 1h00m") {
		p.Errorf("a task that is due in an hour:\n%s", got)
	}
	if got := p.Run("task", "ls", "--since", "3m", "--limit", "1000", "--names"); !strings.Contains(got, string(patient)) {
		p.Errorf("what was submitted just now is not among what was submitted in the last 3 minutes:\n%s", got)
	}

	p.Until("the task prints", func() bool { return strings.Contains(p.Run("task", "logs", string(long)), "begun") })
	p.Run("task", "cancel", string(long))
	if got := ends(p, c, long); got.State != task.Cancelled {
		p.Errorf("a task that was cancelled while it ran, and ends a second later, is %s: %s", got.State, got.Message)
	}
	if got := ends(p, c, retried); got.State != task.Finished || got.Attempt != 2 {
		p.Errorf("a task that fails once is %s after attempt %d: %s", got.State, got.Attempt, got.Message)
	}
	p.Until("the schedule has had two ticks", func() bool {
		return strings.Count(p.Run("task", "ls", "--schedule", ticking, "--names"), "\n") >= 1
	})
	if got := p.Run("schedule", "show", ticking); !strings.Contains(got, " 0 holes") {
		p.Errorf("a schedule of which every tick should have a task:\n%s", got)
	}
	p.Run("schedule", "rm", "--yes", ticking)
	if got, err := c.Task(p.Context(), patient); err != nil || got.State != task.Pending {
		p.Errorf("a task that may wait for 5 minutes is %s: %s (%v)", got.State, got.Message, err)
	}
	p.Run("task", "cancel", string(patient), string(later))
}

// ends waits for the end of a task.
func ends(p *harness.Place, c *client.Client, id task.ID) (last task.Task) {
	p.Helper()
	p.Until(fmt.Sprintf("task %s ends", id), func() bool {
		var err error
		last, err = c.Task(p.Context(), id)
		return err == nil && last.State.Terminal()
	})
	return last
}

// wantDelayed wants a task to start so long after its submission, by the times of the server.
func wantDelayed(p *harness.Place, c *client.Client, id task.ID, delay time.Duration) {
	p.Helper()
	ends(p, c, id)
	records, err := c.History(p.Context(), id)
	if err != nil {
		p.Fatal(err)
	}
	after := p.Find(records, events.AttemptStarted).Stored.Sub(records[0].Stored)
	if after < delay-clockError/10 || after > delay+2*clockError {
		p.Errorf("a task with a delay of %v starts %v after its submission", delay, after)
	}
}

// wantExpired checks that a task that no worker takes expires the timeout after its submission.
func wantExpired(p *harness.Place, c *client.Client, id task.ID, timeout time.Duration) {
	p.Helper()
	last := ends(p, c, id)
	records, err := c.History(p.Context(), id)
	if err != nil {
		p.Fatal(err)
	}
	// The time counts from when the submitter decided; on a busy machine the birth is stored later.
	after := records[len(records)-1].Stored.Sub(records[0].Fact.At)
	if last.State != task.Abnormal || after < timeout-clockError/10 || after > timeout+2*clockError {
		p.Errorf("a task with a pending timeout of %v is %s %v after its submission: %s", timeout, last.State, after, last.Message)
	}
}

// judgeTimes checks that each fact's own time, and the time in its id, are about the time at which
// the server stored it. The messages of the server's timers are exempt: they were written when the
// timer was set.
func judgeTimes(p *harness.Place, c *client.Client, node node.ID) {
	p.Helper()
	all := p.ReadLog(c)
	of, err := c.Store().Node(p.Context(), node, 0)
	if err != nil {
		p.Fatal(err)
	}
	all["of node "+task.ID(node)] = of
	for about, records := range all {
		for i := range records {
			r := &records[i]
			early := clockError
			if r.Fact.Type == events.TaskQueued {
				early = 2 * time.Minute
			}
			id, err := ulid.ParseStrict(r.Fact.ID)
			if err != nil {
				p.Errorf("%s of %s has the id %q: %v", r.Fact.Type, about, r.Fact.ID, err)
			}
			for what, at := range map[string]time.Time{"says that it is of": r.Fact.At, "has an id of": ulid.Time(id.Time())} {
				if away := at.Sub(r.Stored); away > clockError || away < -early {
					p.Errorf("%s of %s, stored at %v, %s %v", r.Fact.Type, about, r.Stored, what, at)
				}
			}
		}
	}
}
