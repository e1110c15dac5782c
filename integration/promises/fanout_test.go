package promises

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/integration/harness"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
)

// enrol registers nodes that beat in the log and have no process.
func enrol(p *harness.Place, c *client.Client, n int) {
	p.Helper()
	rec := &events.Recorder{Log: c.Store(), Now: time.Now, NewID: events.NewID}
	var g errgroup.Group
	g.SetLimit(16)
	for i := range n {
		g.Go(func() error {
			id, session := node.ID(fmt.Sprintf("n%03d", i)), fmt.Sprintf("s%d", i)
			if err := c.Store().Beat(p.Context(), id, node.Heartbeat{Session: session, At: time.Now()}, 10*time.Minute); err != nil {
				return err
			}
			for _, command := range []node.Command{
				node.Register{Session: session, Profile: node.Profile{Queues: []string{"default"}, Slots: 1, Probes: true, Labels: map[string]string{"rack": fmt.Sprint(i % 7)}}},
				node.Beat{Session: session, Connection: 1}, node.Prove{Session: session, Connection: 1},
			} {
				if _, _, err := rec.DoNode(p.Context(), id, command); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		p.Fatal(err)
	}
}

// A task for all nodes has a child on each of them within a second after it was
// submitted, even on 500, and its cancel reaches all of them.
func TestFanOut(t *testing.T) {
	t.Parallel()
	nodes := 60
	if *harness.Long {
		nodes = 500
	}
	p := harness.New(t, 2*time.Second)
	p.Server()
	c := p.Connect()
	enrol(p, c, nodes)
	p.Until("the read model knows all nodes", func() bool {
		known, err := c.View().List(p.Context(), view.Query{Kind: view.Nodes})
		ready := 0
		for i := range known.Nodes {
			if known.Nodes[i].Takes() {
				ready++
			}
		}
		return err == nil && ready == nodes
	})
	plainly := func() time.Duration {
		began := time.Now()
		if err := c.SubmitMany(p.Context(), birth.Submission{Spec: &job.Spec{Handler: "x"}, Queue: "nobody"}, nodes, nil); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	before := plainly()
	began := time.Now()
	receipt, err := c.Submit(p.Context(), birth.Submission{Spec: &job.Spec{Handler: "x", Place: job.Place{Mode: job.PlaceAll, NoNode: job.NoNodeWait}}})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	plain := max(before, plainly())
	t.Logf("%d children in %v; so many plain tasks take %v", nodes, took, plain)
	if took > max(time.Second, 20*plain) { // the machine may be busy with something else
		t.Errorf("%d children took %v, want at most 1s; so many plain tasks take %v", nodes, took, plain)
	}
	parent := p.State(c, receipt.ID)
	if parent.Children == nil || len(parent.Children.Names) != nodes || parent.Children.AtSeq == 0 {
		t.Fatalf("its children are %+v", parent.Children)
	}
	children, err := view.Children(p.Context(), c.View(), &parent)
	states := map[task.ID]task.End{}
	for i := range children {
		states[children[i].ID] = task.EndOf(&children[i])
	}
	if err != nil || birth.ProgressOf(&parent, states).States[task.Pending] != nodes {
		t.Errorf("%s, %v", birth.ProgressOf(&parent, states), err)
	}
	began = time.Now()
	if _, err := c.Cancel(p.Context(), receipt.ID, "enough"); err != nil {
		t.Fatal(err)
	}
	t.Logf("cancelled in %v", time.Since(began))
	if end := p.Await(c, receipt.ID, task.Cancelled); string(end.Result) != fmt.Sprintf(`{"cancelled":%d}`, nodes) {
		t.Errorf("it ended with %s", end.Result)
	}
	t.Logf("the parent has ended after %v", time.Since(began))
}
