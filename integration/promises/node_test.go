package promises

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	jetnames "millrace/events/jet/names"
	"millrace/integration/harness"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/placement"
)

// nodeFacts are the types of a node's facts.
func nodeFacts(p *harness.Place, c *client.Client, id node.ID) []events.Type {
	p.Helper()
	records, err := c.Store().Node(p.Context(), id, 0)
	if err != nil {
		p.Fatal(err)
	}
	return harness.Types(records)
}

// A drain takes the work away and leaves the worker up; an undrain brings it back.
func TestOperatorsDrain(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.Server()
	c := p.Connect()
	first := p.Worker("first")
	ends := p.Submit("until [ -e go ]; do sleep 0.2; done", "--dir", p.Dir)
	stays := p.Submit(harness.StayUntilGo+"; [ \"$MILLRACE_ATTEMPT\" != 1 ] || sleep 600", "--dir", p.Dir)
	p.Await(c, ends, task.Running)
	p.Await(c, stays, task.Running)

	p.Run("node", "drain", "first", "--no-wait", "--grace", "1h", "--reason", "new disk")
	waits := p.Submit("true")
	p.Write("go", "")
	p.Await(c, ends, task.Finished)
	if now := p.State(c, stays); now.State != task.Running || now.Attempt != 1 {
		t.Errorf("within the grace of the drain it is %s", now.State)
	}
	if n := p.Node(c, "first"); n.State != node.Draining || !strings.Contains(n.Reason, "new disk") || !n.Alive() {
		t.Errorf("the node is %s (%s)", n.State, n.Reason)
	}
	if now := p.State(c, waits); now.State != task.Pending {
		t.Errorf("a drained node took a task: it is %s", now.State)
	}
	// The second drain shortens the grace, and waits until nothing is left.
	if out := p.Run("node", "drain", "first", "--grace", "1ms"); !strings.Contains(out, "first drained, 0 tasks left") {
		t.Errorf("drain says %q", out)
	}
	if left := harness.Survivors("MILLRACE_TASK=" + string(stays)); len(left) > 0 {
		t.Errorf("its processes live: %v", left)
	}
	select {
	case <-first.Ended:
		t.Error("the worker has ended")
	default:
	}
	p.Run("node", "undrain", "first")
	p.Run("node", "wait", "first", "--ready", "--timeout", "30s")
	p.Await(c, waits, task.Finished)
	if ended := p.Await(c, stays, task.Finished); ended.Attempt != 2 || ended.Failures != 0 {
		t.Errorf("what was given back ended on attempt %d with %d failures", ended.Attempt, ended.Failures)
	}
	p.Judge(c, map[task.ID]task.State{ends: task.Finished, stays: task.Finished, waits: task.Finished})
	first.Stop()
}

// A cordon outlasts the worker; running tasks are left alone.
func TestCordonSurvivesRestart(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.Server()
	c := p.Connect()
	first := p.Worker("first")
	runs := p.Submit("until [ -e go ]; do sleep 0.2; done", "--dir", p.Dir)
	p.Await(c, runs, task.Running)
	p.Run("node", "cordon", "first", "--reason", "odd noises")
	waits := p.Submit("true")
	p.Write("go", "")
	p.Await(c, runs, task.Finished)
	first.Stop()

	first = p.Worker("first")
	p.Run("node", "wait", "first", "--ready", "--timeout", "30s") // it is; it only gets no work
	if out := p.Run("node", "ls"); !strings.Contains(out, "ready,cordoned") || !strings.Contains(out, "odd noises") {
		t.Errorf("node ls says\n%s", out)
	}
	if now := p.State(c, waits); now.State != task.Pending {
		t.Errorf("a cordoned node took a task: it is %s", now.State)
	}
	p.Run("node", "uncordon", "first")
	p.Await(c, waits, task.Finished)
	if out := p.Run("node", "events", "first"); !strings.Contains(out, "node.changed") || !strings.Contains(out, "odd noises") {
		t.Errorf("node events says\n%s", out)
	}
	first.Stop()
}

// Readiness is waited for, not slept for: also over a restart of the server, which
// takes the memory of consumers along. A task aimed at a node comes to it again.
func TestReadyAfterServerRestart(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 20*time.Second)
	// No scheduler gives the node up, however long the server takes to start.
	p.Let("MILLRACE_NODE_TTL", "20s")
	server := p.Server()
	c := p.Connect()
	worker := p.Worker("only", "--slots", "1")
	r := p.Try("node", "wait", "nobody", "--timeout", "300ms")
	if r.Code != 6 || !strings.Contains(r.Errs, "no worker has registered under this name") {
		t.Errorf("waiting in vain ends with %d: %s", r.Code, r.Errs)
	}
	r = p.Try("node", "wait", "only", "--stable", "1h", "--timeout", "300ms")
	if r.Code != 6 || !strings.Contains(r.Errs, "less than 1h0m0s without a drop") {
		t.Errorf("waiting in vain ends with %d: %s", r.Code, r.Errs)
	}
	// The only slot is taken by a task that no other node may run.
	aimed, err := c.Store().Place(p.Context(), aim(p, "01JNA0AMED0000000000000000", "only", "touch began; until [ -e go ]; do sleep 0.2; done"))
	if err != nil {
		t.Fatal(err)
	}
	id := task.ID("01JNA0AMED0000000000000000")
	if running := p.Await(c, id, task.Running); running.Offer != aimed {
		t.Errorf("it runs under offer %d, want %d", running.Offer, aimed)
	}
	p.Until("its worker knows that it runs", func() bool { return p.Exists("began") })
	before := p.Node(c, "only").Connection
	server.Kill()
	at, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	p.Server("--port", at.Port())
	c = p.Connect()
	p.Until("the node has come back", func() bool { return p.Node(c, "only").Connection > before })
	p.Run("node", "wait", "only", "--ready", "--timeout", "30s")
	p.Run("node", "wait", "only", "--stable", "200ms", "--timeout", "30s")
	n := p.Node(c, "only")
	if n.Kept != 1 || n.Stopped != 0 || n.Took <= 0 {
		t.Errorf("it came back in %v, %d attempts kept, %d stopped; want one kept", n.Took, n.Kept, n.Stopped)
	}
	t.Logf("ready %v after the connection came back", n.Took)
	p.Write("go", "")
	if ended := p.Await(c, id, task.Finished); ended.Attempt != 1 {
		t.Errorf("it ended on attempt %d", ended.Attempt)
	}
	p.Judge(c, map[task.ID]task.State{id: task.Finished})
	worker.Stop()
}

// aim is the birth of a task that only one node may run.
func aim(p *harness.Place, id task.ID, n node.ID, line string) *events.Fact {
	e := task.Submitted{Work: task.Work{Spec: &job.Spec{Run: &job.Run{Shell: line, Dir: p.Dir}}, Route: placement.NodeRoute(string(n), placement.DefaultPriority)}}
	now := time.Now()
	return &events.Fact{ID: events.NewID(now), At: now, Type: events.TypeOf(e), Task: id, Actor: "test", Event: e}
}

// The scheduler finds that a killed node is gone within a second after its heartbeat has expired.
func TestDetection(t *testing.T) {
	t.Parallel()
	const ttl, rounds = 2 * time.Second, 6
	p := harness.New(t, 2*time.Second)
	p.Let("MILLRACE_NODE_TTL", ttl.String())
	p.Let("MILLRACE_BEAT", "500ms")
	p.Let("MILLRACE_SWEEP", "1h") // the watch alone must do it
	p.Server()
	c := p.Connect()
	p.Until("the scheduler has looked around", func() bool { return p.Try("node", "ls").Code == 0 })
	settled := time.After(1500 * time.Millisecond) // it gives nodes two beats to come back first
	var workers []*harness.Process
	for i := range rounds {
		workers = append(workers, p.Worker(fmt.Sprintf("n%d", i)))
	}
	<-settled
	var took []time.Duration
	killed := map[node.ID]time.Time{}
	for i, w := range workers {
		w.Kill()
		killed[node.ID(fmt.Sprintf("n%d", i))] = time.Now()
	}
	for id, at := range killed {
		p.Until("the node is offline", func() bool { return p.Node(c, id).State == node.Offline })
		n := p.Node(c, id)
		took = append(took, n.Since.Sub(at))
		if n.Reason != "its heartbeat ran out" {
			t.Errorf("node %s is offline because %s", id, n.Reason)
		}
	}
	slices.Sort(took)
	t.Logf("killed until offline, with a TTL of %v: median %v, worst %v", ttl, took[len(took)/2], took[len(took)-1])
	if worst := took[len(took)-1]; worst > ttl+time.Second {
		t.Errorf("it took %v to find a node gone, want at most %v", worst, ttl+time.Second)
	}
}

// The tasks of a worker that is killed and restarted at once, again and again, are found as lost as
// soon as if no worker had taken its place, whatever their lease.
func TestRestartsAreNoRefuge(t *testing.T) {
	t.Parallel()
	p := harness.New(t, harness.Patience/2) // an offer that dies with one of them comes again after that
	p.Let("MILLRACE_FLAP_LIMIT", "0")
	p.Server()
	c := p.Connect()
	worker := p.Worker("again")
	id := p.Submit(harness.FirstAttemptStays, "--dir", p.Dir)
	p.Await(c, id, task.Running)
	killed := time.Now()
	for range 3 {
		worker.Kill()
		worker = p.Worker("again")
	}
	p.Await(c, id, task.Finished)
	records := p.History(c, id)
	first := slices.IndexFunc(records, func(r events.Record) bool { return r.Fact.Type == events.AttemptLost }) // a slow start may be killed with another attempt
	if first < 0 {
		t.Fatalf("no attempt was lost: %v", harness.Types(records))
	}
	if took := records[first].Stored.Sub(killed); took > harness.PlaceTTL+time.Second {
		t.Errorf("its loss was found after %v, want %v at most", took, harness.PlaceTTL+time.Second)
	}
	worker.Stop()
}

// A worker that is asked to end twice gives back its running tasks before it goes.
func TestSecondSignalReleases(t *testing.T) {
	t.Parallel()
	p := harness.New(t, time.Minute) // only a release can be quicker than that
	p.Server()
	c := p.Connect()
	first := p.Worker("first", "--grace", "1h")
	id := p.Submit("trap '' TERM; "+harness.StayUntilGo, "--dir", p.Dir)
	p.Await(c, id, task.Running)
	first.Signal(syscall.SIGTERM)
	p.Until("the node is draining", func() bool { return p.Node(c, "first").State == node.Draining })
	again := time.NewTimer(300 * time.Millisecond) // sooner it would be the first one's echo
	<-again.C
	asked := time.Now()
	first.Signal(syscall.SIGTERM)
	first.Wait()
	if took := time.Since(asked); took > 3*time.Second {
		t.Errorf("it took %v to end at once", took)
	}
	if left := harness.Survivors("MILLRACE_TASK=" + string(id)); len(left) > 0 {
		t.Errorf("its processes live: %v", left)
	}
	if n := p.Node(c, "first"); n.State != node.Offline || n.Reason != "the worker has ended" {
		t.Errorf("the node is %s (%s)", n.State, n.Reason)
	}
	second := p.Worker("second")
	if ended := p.Await(c, id, task.Finished); ended.Node != "second" || ended.Losses != 0 || ended.Failures != 0 {
		t.Errorf("it ended on %s after %d losses and %d failures", ended.Node, ended.Losses, ended.Failures)
	}
	if records := p.History(c, id); harness.Count(records, events.AttemptReleased) != 1 {
		t.Errorf("want it given back: %v", harness.Types(records))
	}
	p.Judge(c, map[task.ID]task.State{id: task.Finished})
	second.Stop()
}

// hasRoute tells whether the NATS server has a consumer for a node.
func hasRoute(p *harness.Place, id node.ID) bool {
	p.Helper()
	_, err := p.JetStream().Consumer(p.Context(), jetnames.LogStream, "MR_NODE_"+string(id))
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		p.Fatal(err)
	}
	return err == nil
}

// A retired node leaves nothing in the server; one that comes back begins anew.
func TestRetire(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.Server()
	c := p.Connect()
	worker := p.Worker("old")
	if r := p.Try("node", "retire", "old"); r.Code != 5 || !strings.Contains(r.Errs, "alive") {
		t.Errorf("retiring a node that is alive ends with %d: %s", r.Code, r.Errs)
	}
	worker.Stop()
	if !hasRoute(p, "old") {
		t.Error("a node that may come back has no route")
	}
	p.Run("node", "retire", "old", "--reason", "sold")
	p.Run("node", "retire", "old")
	if hasRoute(p, "old") {
		t.Error("the route is left")
	}
	if r := p.Try("node", "drain", "old"); r.Code != 5 {
		t.Errorf("draining a retired node ends with %d: %s", r.Code, r.Errs)
	}
	if out := p.Run("node", "show", "old"); !strings.Contains(out, "retired") || !strings.Contains(out, "sold") {
		t.Errorf("node show says\n%s", out)
	}
	worker = p.Worker("old")
	if n := p.Node(c, "old"); n.State != node.Ready || n.Sessions != 1 {
		t.Errorf("in its new life it is %s after %d sessions", n.State, n.Sessions)
	}
	worker.Stop()
}

// A worker that crashes again and again gets no work until an operator releases it, and the node
// says why.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.Server("--flap-limit", "3", "--flap-release", "1")
	c := p.Connect()
	for range 4 {
		p.Worker("shaky", "--flap-limit", "3", "--flap-release", "1").Kill()
	}
	shaky := p.Worker("shaky", "--flap-limit", "3", "--flap-release", "1")
	p.Until("the node is quarantined", func() bool { return p.Node(c, "shaky").State == node.Quarantined })
	id := p.Submit("true")
	if r := p.Try("node", "wait", "shaky", "--timeout", "500ms"); r.Code != 6 || !strings.Contains(r.Errs, "came and went too often") || !strings.Contains(r.Errs, "node release shaky") {
		t.Errorf("node wait ends with %d: %s", r.Code, r.Errs)
	}
	if now := p.State(c, id); now.State != task.Pending {
		t.Errorf("a quarantined node took a task: it is %s", now.State)
	}
	p.Run("node", "release", "shaky", "--reason", "new cable")
	p.Await(c, id, task.Finished)
	if got := nodeFacts(p, c, "shaky"); !slices.Contains(got, events.NodeQuarantined) || !slices.Contains(got, events.NodeReleased) {
		t.Errorf("its facts are %v", got)
	}
	shaky.Stop()
}
