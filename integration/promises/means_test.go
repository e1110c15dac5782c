package promises

import (
	"context"
	"strings"
	"testing"
	"time"

	"millrace/integration/harness"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/value"
	"millrace/worker"
)

// goProgram runs the worker of a Go program in this process, with handlers that do nothing, until
// the test ends.
func goProgram(p *harness.Place, name node.ID, handlers ...string) (stop func()) {
	p.Helper()
	s := p.Connect().Store()
	w, err := worker.New(worker.Ports{Log: s, Offers: s, Nodes: s, Outputs: s}, worker.Config{
		Node: name, Queues: []string{"default"}, Slots: 4, Beat: 500 * time.Millisecond, NodeTTL: 5 * time.Second, Spool: p.TempDir(),
	})
	if err != nil {
		p.Fatal(err)
	}
	for _, h := range handlers {
		w.Handle(h, func(context.Context, task.Task) error { return nil })
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.Context()))
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			p.Error(err)
		}
	}
	p.Cleanup(stop)
	return stop
}

// Programs with different handlers, and a worker for commands, serve one queue: each task runs
// where it can, also while one version of a program takes the place of another.
func TestTasksGoWhereTheirHandlerIs(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.Server()
	c := p.Connect()
	commands := p.Worker("commands", "--slots", "4")
	stopOld := goProgram(p, "old", "resize")
	p.Until("handlers are offered at the tab key", func() bool { return strings.Contains(p.Run("__complete", "run", "--handler", ""), "resize\n") })

	want := map[task.ID]task.State{}
	submit := func(spec job.Spec, n int) (ids []task.ID) {
		for range n {
			id := p.SubmitAs(c, birth.Submission{Spec: &spec})
			ids, want[id] = append(ids, id), task.Finished
		}
		return ids
	}
	ran := func(on string, ids []task.ID) {
		t.Helper()
		for _, id := range ids {
			if ended := p.Await(c, id, task.Finished); ended.Node != on || ended.Attempt != 1 {
				t.Errorf("%s ran on %s, attempt %d; want it on %s", ended.Spec.Text(), ended.Node, ended.Attempt, on)
			}
		}
	}
	ran("old", submit(job.Spec{Handler: "resize"}, 30))
	ran("commands", submit(job.Spec{Run: &job.Run{Shell: "true"}}, 30))

	// Tasks of the next version come before that does.
	early := submit(job.Spec{Handler: "crop"}, 5)
	p.Until("it is said why it waits", func() bool {
		why := p.Run("task", "why", string(early[0]))
		return strings.Contains(why, `start a worker that serves queue "default" and has the handler "crop"; waiting since`) && strings.Contains(why, `has no handler "crop"`)
	})
	plan := p.Run("plan", string(early[0]))
	for _, name := range []string{"commands", "old"} {
		if !strings.Contains(plan, name) || !strings.Contains(plan, "handler") {
			t.Errorf("the plan does not say why %s is excluded:\n%s", name, plan)
		}
	}
	goProgram(p, "new", "resize", "crop")
	ran("new", early)
	ran("new", submit(job.Spec{Handler: "crop"}, 20))
	stopOld()
	ran("new", submit(job.Spec{Handler: "resize"}, 20))

	// A task that no node can run ends as its policy says.
	nobody := p.SubmitAs(c, birth.Submission{Spec: &job.Spec{Handler: "nobody"}, Nodes: []string{"new"}, NoNode: job.NoNodeFail})
	want[nobody] = p.Await(c, nobody, task.Abnormal).State
	if ended := p.State(c, nobody); ended.Reason != value.Unplaced {
		t.Errorf("it ended as %s: %s", ended.Reason, ended.Message)
	}
	commands.Stop()
	p.Judge(c, want)
}

// A task for one of several nodes does not wait for a busy one: it goes to the first that is free.
func TestOneOfTheNamedNodesThatIsFree(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.Server()
	c := p.Connect()
	for _, n := range []string{"n1", "n2", "n3"} {
		p.Worker(n, "--slots", "1", "--queue", "of-"+n) // which queue it serves does not matter
	}
	want := map[task.ID]task.State{}
	run := func(line string, nodes ...string) task.ID {
		id := p.SubmitAs(c, birth.Submission{Spec: &job.Spec{Run: &job.Run{Shell: line, Dir: p.Dir}}, Nodes: nodes, NoNode: job.NoNodeWait})
		want[id] = task.Finished
		return id
	}
	ran := func(nodes ...string) string { return p.Await(c, run("true", nodes...), task.Finished).Node }

	ran("n1", "n2", "n3") // the route is new to them
	first := map[string]int{}
	for range 20 {
		first[ran("n2", "n1", "n3")]++
	}
	if first["n2"] < 15 { // a slot may be about to be free
		t.Errorf("of 20 tasks for n2, else n1 or n3, so many ran on each: %v", first)
	}
	busy := run(harness.StayUntilGo, "n1")
	p.Await(c, busy, task.Running)
	for range 5 {
		if on := ran("n1", "n2"); on != "n2" {
			t.Errorf("it ran on %s", on)
		}
	}
	p.Write("go", "")
	p.Await(c, busy, task.Finished)
	p.Judge(c, want)
}
