package promises

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	jetnames "millrace/events/jet/names"
	"millrace/integration/harness"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/placement"
)

// All but the log and the output of tasks can be lost while tasks arrive and run: definitions,
// orders, labels and bounds come back from the log, every task ends, and each tick gets one task.
func TestAllThatFollowsFromTheLogIsLost(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.MayRepair("what the server kept beside the log is deleted")
	p.NATS()
	serve := func() *harness.Process {
		server := p.Start("server", "--data", harness.Data)
		server.Until("it serves", func() bool { return strings.Contains(server.Said.String(), "Millrace serves ") })
		return server
	}
	server := serve()
	p.Worker("a", "--queue", "default", "--queue", "narrow")
	c := p.Connect()
	p.Write("job.yaml", "name: j\nrun: \"true\"\nlabels: {n: \"1\"}\n")
	p.Run("job", "apply", "-f", "job.yaml")
	p.Write("job.yaml", "name: j\nrun: \"true\"\nlabels: {n: \"2\"}\n")
	p.Run("job", "apply", "-f", "job.yaml")
	if err := os.Mkdir(p.Path("site"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.Write("site/index.html", "hello")
	p.Run("files", "push", "site", "--name", "site")
	p.Run("schedule", "add", "pulse", "--every", "1s", "--catchup", "all", "j")
	p.Run("schedule", "add", "quiet", "--every", "1h", "--", "true")
	p.Run("schedule", "pause", "quiet", "--reason", "noise")
	p.Run("node", "label", "a", "zone=eu", "--reason", "moved")
	p.Run("queue", "limit", "narrow", "3")
	p.Run("queue", "pause", "closed", "--reason", "shut")
	// said returns what commands show of definitions, orders and bounds.
	said := func() string {
		var all []string
		for _, command := range []string{"job show j", "job show j --revision 1", "job history j", "job ls --names", "schedule ls --names", "files ls site --names", "schedule show quiet -o json"} {
			all = append(all, p.Run(strings.Fields(command)...))
		}
		quiet := all[len(all)-1]
		all[len(all)-1], _, _ = strings.Cut(quiet, `"next"`) // which goes on with time
		n := p.Node(c, "a")
		all = append(all, n.Labels["zone"])
		queues := p.Run("queue", "ls")
		for _, line := range strings.Split(queues, "\n") {
			if strings.HasPrefix(line, "closed") {
				all = append(all, strings.Join(strings.Fields(line)[:2], " "))
			}
		}
		return strings.Join(all, "\n")
	}
	before := said()

	europe, err := placement.ParseSelector("zone=eu")
	if err != nil {
		t.Fatal(err)
	}
	var load sync.WaitGroup
	stop := make(chan struct{})
	var mu sync.Mutex
	var accepted []task.ID // guarded by mu
	load.Go(func() {
		next := time.NewTicker(20 * time.Millisecond) // leaves the processors to what comes back
		defer next.Stop()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-next.C:
			}
			s := birth.Submission{Spec: &job.Spec{Run: &job.Run{Argv: []string{"true"}}}}
			if n%5 == 0 {
				s.Spec.Place = job.Place{Labels: europe}
			}
			if r, err := c.Submit(p.Context(), s); err == nil {
				mu.Lock()
				accepted = append(accepted, r.ID)
				mu.Unlock()
			}
		}
	})
	submitted := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(accepted)
	}
	p.Until("there is load", func() bool { return submitted() >= 20 })
	js := p.JetStream()
	for name := range js.StreamNames(t.Context()).Name() {
		if strings.HasPrefix(name, "KV_") {
			if err := js.DeleteStream(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	copied := func() bool {
		kv, err := js.KeyValue(t.Context(), jetnames.DefsBucket)
		if err != nil {
			return false
		}
		keys, err := kv.Keys(t.Context())
		return err == nil && len(keys) == 4
	}
	p.Until("the copies are there again", copied)
	if got := said(); got != before {
		t.Errorf("without the buckets it is said\n%s\nand before\n%s", got, before)
	}

	server.Kill()
	views, err := filepath.Glob(p.Path("data/view.db*"))
	if err != nil || len(views) == 0 {
		t.Fatalf("there is no read model: %v, %v", views, err)
	}
	for _, name := range views {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	serve()
	more := submitted() + 20
	p.Until("there is load again", func() bool { return submitted() >= more })
	close(stop)
	load.Wait()
	for _, id := range accepted {
		p.Await(c, id, task.Finished)
	}
	p.Until("the node is ready", func() bool { return strings.Contains(p.Run("node", "ls"), " ready ") })
	if got := said(); got != before {
		t.Errorf("with a read model that was made again it is said\n%s\nand before\n%s", got, before)
	}
	wantEachTick(p, c, "pulse", 8)
	if r := p.Try("verify"); r.Code != 0 {
		t.Errorf("verify: exit code %d\n%s%s", r.Code, r.Out, r.Errs)
	}
}

// wantEachTick waits until a schedule has fired so often, and checks that each of its ticks has a
// task.
func wantEachTick(p *harness.Place, c *client.Client, name string, least int) {
	p.Helper()
	var reports []client.TickReport
	p.Until("it fires", func() bool {
		stored, err := c.Schedule(p.Context(), name)
		if err == nil {
			reports, err = c.Ticks(p.Context(), &stored, stored.Since, 1000)
		}
		return err == nil && len(reports) > least && !strings.Contains(outcomes(reports[:len(reports)-2]), client.TickHole)
	})
	for _, r := range reports[:len(reports)-2] { // the last ones may be on their way
		if r.Outcome != client.TickTask {
			p.Errorf("the tick %s became %s: %s", r.Tick, r.Outcome, r.Why)
		}
	}
}

func outcomes(reports []client.TickReport) string {
	var all []string
	for i := range reports {
		all = append(all, reports[i].Outcome)
	}
	return strings.Join(all, " ")
}
