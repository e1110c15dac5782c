package integration

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

	"millrace/client"
	"millrace/events"
	"millrace/jet"
	"millrace/node"
	"millrace/task"
)

// nodeFacts are the types of a node's facts.
func (p *place) nodeFacts(c *client.Client, id node.ID) []events.Type {
	p.Helper()
	records, err := c.Store().Node(p.Context(), id, 0)
	if err != nil {
		p.Fatal(err)
	}
	return types(records)
}

// A drain takes the work away and leaves the worker up; an undrain brings it back.
func TestOperatorsDrain(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 2*time.Second)
	p.server()
	c := p.connect()
	first := p.worker("first")
	ends := p.submit("until [ -e go ]; do sleep 0.02; done", "--dir", p.dir)
	stays := p.submit(stayUntilGo+"; [ \"$MILLRACE_ATTEMPT\" != 1 ] || sleep 600", "--dir", p.dir)
	p.await(c, ends, task.Running)
	p.await(c, stays, task.Running)

	p.run("node", "drain", "first", "--no-wait", "--grace", "1h", "--reason", "new disk")
	waits := p.submit("true")
	p.write("go", "")
	p.await(c, ends, task.Finished)
	if now := p.state(c, stays); now.State != task.Running || now.Attempt != 1 {
		t.Errorf("within the grace of the drain it is %s", now.State)
	}
	if n := p.node(c, "first"); n.State != node.Draining || !strings.Contains(n.Reason, "new disk") || !n.Alive() {
		t.Errorf("the node is %s (%s)", n.State, n.Reason)
	}
	if now := p.state(c, waits); now.State != task.Pending {
		t.Errorf("a drained node took a task: it is %s", now.State)
	}
	// The second word shortens the grace, and waits until nothing is left.
	if out := p.run("node", "drain", "first", "--grace", "1ms"); !strings.Contains(out, "first drained, 0 tasks left") {
		t.Errorf("drain says %q", out)
	}
	if left := survivors("MILLRACE_TASK=" + string(stays)); len(left) > 0 {
		t.Errorf("its processes live: %v", left)
	}
	select {
	case <-first.ended:
		t.Error("the worker has ended")
	default:
	}
	p.run("node", "undrain", "first")
	p.run("node", "wait", "first", "--ready", "--timeout", "30s")
	p.await(c, waits, task.Finished)
	if ended := p.await(c, stays, task.Finished); ended.Attempt != 2 || ended.Failures != 0 {
		t.Errorf("what was given back ended on attempt %d with %d failures", ended.Attempt, ended.Failures)
	}
	p.judge(c, map[task.ID]task.State{ends: task.Finished, stays: task.Finished, waits: task.Finished})
	first.stop()
}

// A cordon outlasts the worker; what runs is left alone.
func TestCordonSurvivesRestart(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 2*time.Second)
	p.server()
	c := p.connect()
	first := p.worker("first")
	runs := p.submit("until [ -e go ]; do sleep 0.02; done", "--dir", p.dir)
	p.await(c, runs, task.Running)
	p.run("node", "cordon", "first", "--reason", "odd noises")
	waits := p.submit("true")
	p.write("go", "")
	p.await(c, runs, task.Finished)
	first.stop()

	first = p.worker("first")
	p.run("node", "wait", "first", "--ready", "--timeout", "30s") // it is; it only gets no work
	if out := p.run("node", "ls"); !strings.Contains(out, "ready,cordoned") || !strings.Contains(out, "odd noises") {
		t.Errorf("node ls says\n%s", out)
	}
	if now := p.state(c, waits); now.State != task.Pending {
		t.Errorf("a cordoned node took a task: it is %s", now.State)
	}
	p.run("node", "uncordon", "first")
	p.await(c, waits, task.Finished)
	if out := p.run("node", "events", "first"); !strings.Contains(out, "node.changed") || !strings.Contains(out, "odd noises") {
		t.Errorf("node events says\n%s", out)
	}
	first.stop()
}

// Readiness is waited for, not slept for: also over a restart of the server, which
// takes the memory of consumers along. A task aimed at a node comes to it again.
func TestReadyAfterServerRestart(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 20*time.Second)
	p.setenv("MILLRACE_NODE_TTL", "20s") // however long the server takes to start, nobody gives the node up
	server := p.server()
	c := p.connect()
	worker := p.worker("only", "--slots", "1")
	r := p.try("node", "wait", "nobody", "--timeout", "300ms")
	if r.code != 6 || !strings.Contains(r.errs, "nobody has registered under this name") {
		t.Errorf("waiting in vain ends with %d: %s", r.code, r.errs)
	}
	r = p.try("node", "wait", "only", "--stable", "1h", "--timeout", "300ms")
	if r.code != 6 || !strings.Contains(r.errs, "less than 1h0m0s without a drop") {
		t.Errorf("waiting in vain ends with %d: %s", r.code, r.errs)
	}
	// Its only place is taken by a task that nobody else may run.
	aimed, err := c.Store().Place(p.Context(), p.aim("01JNA0AMED0000000000000000", "only", "touch began; until [ -e go ]; do sleep 0.02; done"))
	if err != nil {
		t.Fatal(err)
	}
	id := task.ID("01JNA0AMED0000000000000000")
	if running := p.await(c, id, task.Running); running.Offer != aimed {
		t.Errorf("it runs under offer %d, want %d", running.Offer, aimed)
	}
	p.until("its worker knows that it runs", func() bool { return p.exists("began") })
	before := p.node(c, "only").Connection
	server.kill()
	at, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	p.server("--port", at.Port())
	c = p.connect()
	p.until("the node has come back", func() bool { return p.node(c, "only").Connection > before })
	p.run("node", "wait", "only", "--ready", "--timeout", "30s")
	p.run("node", "wait", "only", "--stable", "200ms", "--timeout", "30s")
	n := p.node(c, "only")
	if n.Kept != 1 || n.Stopped != 0 || n.Took <= 0 {
		t.Errorf("it came back in %v, %d attempts kept, %d stopped; want one kept", n.Took, n.Kept, n.Stopped)
	}
	t.Logf("ready %v after the connection came back", n.Took)
	p.write("go", "")
	if ended := p.await(c, id, task.Finished); ended.Attempt != 1 {
		t.Errorf("it ended on attempt %d", ended.Attempt)
	}
	p.judge(c, map[task.ID]task.State{id: task.Finished})
	worker.stop()
}

// aim is the birth of a task that only one node may run.
func (p *place) aim(id task.ID, n node.ID, line string) *events.Fact {
	e := task.Submitted{Work: task.Work{Spec: &task.Spec{Run: &task.Run{Shell: line, Dir: p.dir}}, Route: task.NodeRoute(string(n), task.DefaultPriority)}}
	now := time.Now()
	return &events.Fact{ID: events.NewID(now), At: now, Type: events.TypeOf(e), Task: id, Actor: "test", Event: e}
}

// A node that is killed is known to be gone a second after its heartbeat ran out.
func TestDetection(t *testing.T) {
	t.Parallel()
	const ttl, rounds = 2 * time.Second, 6
	p := newPlace(t, 2*time.Second)
	p.setenv("MILLRACE_NODE_TTL", ttl.String())
	p.setenv("MILLRACE_BEAT", "500ms")
	p.setenv("MILLRACE_SWEEP", "1h") // the watch alone must do it
	p.server()
	c := p.connect()
	p.until("the scheduler has looked around", func() bool { return p.try("node", "ls").code == 0 })
	settled := time.After(1500 * time.Millisecond) // it gives nodes two beats to come back first
	var workers []*process
	for i := range rounds {
		workers = append(workers, p.worker(fmt.Sprintf("n%d", i)))
	}
	<-settled
	var took []time.Duration
	killed := map[node.ID]time.Time{}
	for i, w := range workers {
		w.kill()
		killed[node.ID(fmt.Sprintf("n%d", i))] = time.Now()
	}
	for id, at := range killed {
		p.until("the node is offline", func() bool { return p.node(c, id).State == node.Offline })
		n := p.node(c, id)
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

// What a worker ran that is killed and started again at once, and once more and again, is
// found as soon as if nobody had come in its place, whatever its lease would be.
func TestRestartsAreNoRefuge(t *testing.T) {
	t.Parallel()
	p := newPlace(t, patience/2) // an offer that dies with one of them comes again after that
	p.setenv("MILLRACE_FLAP_LIMIT", "0")
	p.server()
	c := p.connect()
	worker := p.worker("again")
	id := p.submit(firstAttemptStays, "--dir", p.dir)
	p.await(c, id, task.Running)
	killed := time.Now()
	for range 3 {
		worker.kill()
		worker = p.worker("again")
	}
	p.await(c, id, task.Finished)
	lost := p.find(p.history(c, id), events.AttemptLost)
	if took := lost.Stored.Sub(killed); took > placeTTL+time.Second {
		t.Errorf("its loss was found after %v, want %v at most", took, placeTTL+time.Second)
	}
	worker.stop()
}

// A worker that is asked twice gives back what it runs before it goes.
func TestSecondSignalReleases(t *testing.T) {
	t.Parallel()
	p := newPlace(t, time.Minute) // only a release can be quicker than that
	p.server()
	c := p.connect()
	first := p.worker("first", "--grace", "1h")
	id := p.submit("trap '' TERM; "+stayUntilGo, "--dir", p.dir)
	p.await(c, id, task.Running)
	first.signal(syscall.SIGTERM)
	p.until("the node is draining", func() bool { return p.node(c, "first").State == node.Draining })
	again := time.NewTimer(300 * time.Millisecond) // sooner it would be the first one's echo
	<-again.C
	asked := time.Now()
	first.signal(syscall.SIGTERM)
	first.wait()
	if took := time.Since(asked); took > 3*time.Second {
		t.Errorf("it took %v to end at once", took)
	}
	if left := survivors("MILLRACE_TASK=" + string(id)); len(left) > 0 {
		t.Errorf("its processes live: %v", left)
	}
	if n := p.node(c, "first"); n.State != node.Offline || n.Reason != "the worker has ended" {
		t.Errorf("the node is %s (%s)", n.State, n.Reason)
	}
	second := p.worker("second")
	if ended := p.await(c, id, task.Finished); ended.Node != "second" || ended.Losses != 0 || ended.Failures != 0 {
		t.Errorf("it ended on %s after %d losses and %d failures", ended.Node, ended.Losses, ended.Failures)
	}
	if records := p.history(c, id); count(records, events.AttemptReleased) != 1 {
		t.Errorf("want it given back: %v", types(records))
	}
	p.judge(c, map[task.ID]task.State{id: task.Finished})
	second.stop()
}

// hasRoute tells whether the NATS server has a consumer for a node.
func (p *place) hasRoute(id node.ID) bool {
	p.Helper()
	js, err := jetstream.New(p.dial())
	if err != nil {
		p.Fatal(err)
	}
	_, err = js.Consumer(p.Context(), jet.LogStream, "MR_NODE_"+string(id))
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		p.Fatal(err)
	}
	return err == nil
}

// A node that will not come back leaves nothing in the server; one that does begins anew.
func TestRetire(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 2*time.Second)
	p.server()
	c := p.connect()
	worker := p.worker("old")
	if r := p.try("node", "retire", "old"); r.code != 5 || !strings.Contains(r.errs, "alive") {
		t.Errorf("retiring a node that is alive ends with %d: %s", r.code, r.errs)
	}
	worker.stop()
	if !p.hasRoute("old") {
		t.Error("a node that may come back has no route")
	}
	p.run("node", "retire", "old", "--reason", "sold")
	p.run("node", "retire", "old")
	if p.hasRoute("old") {
		t.Error("the route is left")
	}
	if r := p.try("node", "drain", "old"); r.code != 5 {
		t.Errorf("draining a retired node ends with %d: %s", r.code, r.errs)
	}
	if out := p.run("node", "show", "old"); !strings.Contains(out, "retired") || !strings.Contains(out, "sold") {
		t.Errorf("node show says\n%s", out)
	}
	worker = p.worker("old")
	if n := p.node(c, "old"); n.State != node.Ready || n.Sessions != 1 {
		t.Errorf("in its new life it is %s after %d sessions", n.State, n.Sessions)
	}
	worker.stop()
}

// A worker that crashes again and again gets no work until somebody has looked, and says why.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 2*time.Second)
	p.server("--flap-limit", "3", "--flap-release", "1")
	c := p.connect()
	for range 4 {
		p.worker("shaky", "--flap-limit", "3", "--flap-release", "1").kill()
	}
	shaky := p.worker("shaky", "--flap-limit", "3", "--flap-release", "1")
	p.until("the node is quarantined", func() bool { return p.node(c, "shaky").State == node.Quarantined })
	id := p.submit("true")
	if r := p.try("node", "wait", "shaky", "--timeout", "500ms"); r.code != 6 || !strings.Contains(r.errs, "came and went too often") || !strings.Contains(r.errs, "node release shaky") {
		t.Errorf("node wait ends with %d: %s", r.code, r.errs)
	}
	if now := p.state(c, id); now.State != task.Pending {
		t.Errorf("a quarantined node took a task: it is %s", now.State)
	}
	p.run("node", "release", "shaky", "--reason", "new cable")
	p.await(c, id, task.Finished)
	if got := p.nodeFacts(c, "shaky"); !slices.Contains(got, events.NodeQuarantined) || !slices.Contains(got, events.NodeReleased) {
		t.Errorf("its facts are %v", got)
	}
	shaky.stop()
}
