package promises

import (
	"net/url"
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/integration/chaos"
	"millrace/integration/harness"
	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
)

// startsWithin is how long a task may wait for a node that has just come back, on a machine that is
// free.
const startsWithin = 2 * time.Second

// within returns how long a start may take on this machine: an offer, the claim and its answer pass
// through some twenty goroutines of three processes, each of which may have to wait for a
// processor.
func within(t testing.TB) func() time.Duration { return byHands(t, 20) }

// fromReturn is within for a start that waits for the return of the link. Before it the worker
// connects, stores a heartbeat, reads its node, says that it is online, sends its probe and says that
// it is ready: six requests and answers of some ten hands each.
func fromReturn(t testing.TB) func() time.Duration { return byHands(t, 20+6*10) }

func byHands(t testing.TB, hands time.Duration) func() time.Duration {
	starved := testkit.Starvation(t)
	return func() time.Duration { return startsWithin + hands*starved() }
}

// A task for a node that has just come back starts there at once, however soon it is submitted, and
// after a second drop too. A task submitted while the node was away starts as soon as it is back.
func TestAimedAtANodeThatHasJustComeBack(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.Let("MILLRACE_FLAP_LIMIT", "0") // it comes and goes more often than any node should
	p.Server()
	c := p.Connect()
	target, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	link, err := chaos.Listen(target.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	target.Host = link.Addr()
	direct := p.URL
	p.URL = target.String()
	worker := p.Worker("n1")
	p.URL = direct
	set := func(m chaos.Mode) {
		if err := link.Set(m); err != nil {
			t.Fatal(err)
		}
	}
	most, fromReturn := within(t), fromReturn(t)
	aimed := birth.Submission{Spec: &job.Spec{Run: &job.Run{Argv: []string{"true"}}}, Nodes: []string{"n1"}, NoNode: job.NoNodeWait}
	started := func(id task.ID, since time.Time, most time.Duration, what string) {
		done := p.Await(c, id, task.Finished)
		// An offer that was still under way may be claimed before the node counts as back; then the
		// attempt is taken for lost and the task started once more.
		records := p.History(c, id)
		first := slices.IndexFunc(records, func(r events.Record) bool { return r.Fact.Type == events.AttemptStarted })
		if took := records[first].Fact.At.Sub(since); took > most || done.Node != "n1" {
			t.Errorf("%s: it started after %v on node %s, want %v at most", what, took, done.Node, most)
		}
	}
	offsets := []time.Duration{0, 20 * time.Millisecond, 300 * time.Millisecond, time.Second}
	if *harness.Long {
		offsets = []time.Duration{0, 100 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second}
	}
	for i, offset := range offsets {
		mode := []chaos.Kind{chaos.LinkCut, chaos.LinkBlackhole, chaos.LinkHalfOpen}[i%3]
		for drops := range 1 + i%2 { // every second time it drops twice
			set(chaos.Mode{Kind: mode})
			p.Until("the node is offline", func() bool { return p.Node(c, "n1").State == node.Offline })
			if drops > 0 || i%2 == 0 {
				continue
			}
			set(chaos.Mode{})
			p.Until("the node is ready again", func() bool { return p.Node(c, "n1").State == node.Ready })
		}
		early := p.SubmitAs(c, aimed)
		set(chaos.Mode{})
		back := time.Now()
		<-time.After(offset)
		asked := time.Now()
		urgent := aimed
		urgent.Priority = 5 + i%3 // each priority has a consumer of its own
		late := p.SubmitAs(c, urgent)
		started(early, back, fromReturn(), mode.String()+": submitted while it was away")
		started(late, asked, most(), mode.String()+": submitted "+offset.String()+" after its return")
	}
	worker.Stop()
}
