package worker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/worker"
)

func able(names ...string) map[string]worker.Handler {
	all := map[string]worker.Handler{}
	for _, name := range names {
		all[name] = func(context.Context, task.Task) error { return nil }
	}
	return all
}

// A task runs only on a node that has its handler, whichever node is offered it first: old and new
// programs serve one queue side by side, with different handlers, and no attempt is used up.
func TestTasksGoWhereTheirHandlerIs(t *testing.T) {
	inBubble(t, func(w *world) {
		w.start(worker.Config{Node: "old", Slots: 4}, able("h", "gone"))
		w.start(worker.Config{Node: "new", Slots: 2}, able("h", "new", "email:deliver", "sort.strings"))
		for range 20 {
			for handler, want := range map[string]string{"h": "", "gone": "old", "new": "new", "email:deliver": "new", "sort.strings": "new"} {
				got := w.ended(w.submit(job.Spec{Handler: handler}))
				w.wantState(got, task.Finished, "")
				if want != "" && got.Node != want || got.Attempt != 1 {
					t.Errorf("a task for %q ran on %s, attempt %d", handler, got.Node, got.Attempt)
				}
			}
		}
	})
}

// If no node has the handler, the task waits for one that has, after one message, and no offer goes
// round. It waits in the same queue as before, of whatever name, and by the same rules.
func TestTasksWaitForTheirHandler(t *testing.T) {
	for name, c := range map[string]struct {
		spec  job.Spec
		queue string
	}{
		"handler":        {job.Spec{Handler: "new"}, "crawl"},
		"command":        {job.Spec{Run: &job.Run{Shell: "true"}}, "crawl"},
		"labels":         {job.Spec{Handler: "new", Place: job.Place{Labels: placement.Selector{{Key: "gpu", Op: placement.OpExists}}}}, "crawl"},
		"a node":         {job.Spec{Handler: "new", Place: job.Place{Nodes: []string{"a"}, NoNode: job.NoNodeWait}}, ""},
		"several slots":  {job.Spec{Handler: "new", Slots: 2}, "crawl"},
		"another follow": {job.Spec{Handler: "new", Retry: job.Retry{Max: 1}}, "crawl"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				cfg := worker.Config{Node: "a", Queues: []string{"crawl"}, Slots: 2, Labels: map[string]string{"gpu": ""}}
				old := w.start(cfg, able("h"))
				birth, err := birth.Of(birth.Submission{Spec: &c.spec, Queue: "crawl"}, nil, 0, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				id := task.ID(events.NewID(time.Now()))
				if _, err := w.rec.Submit(w.Context(), id, birth); err != nil {
					t.Fatal(err)
				}
				pass(10 * time.Minute)
				waits := w.task(id)
				w.wantState(waits, task.Pending, "")
				w.wantFacts(id, events.TaskReassigned, events.TaskQueued)
				if queue, needs := waits.Asks(); queue != c.queue || waits.QueueName() != "crawl" {
					t.Errorf("it waits in queue %q (%q) for %q", queue, waits.QueueName(), needs)
				}
				old.stop()
				<-old.done
				cfg.Commands = runner(func(context.Context, *worker.Attempt) worker.Outcome { return worker.Outcome{} })
				w.start(cfg, able("h", "new"))
				w.wantState(w.ended(id), task.Finished, "")
			})
		})
	}
}

// runner runs commands.
type runner func(context.Context, *worker.Attempt) worker.Outcome

func (r runner) Run(ctx context.Context, a *worker.Attempt) worker.Outcome { return r(ctx, a) }

// A node without the handler does not take over an attempt whose lease has expired.
func TestNobodyTakesOverWithoutTheHandler(t *testing.T) {
	inBubble(t, func(w *world) {
		block := map[string]worker.Handler{"h": func(ctx context.Context, _ task.Task) error { <-ctx.Done(); return ctx.Err() }}
		first := newStore(w.log)
		w.startOn(first, worker.Config{Node: "a"}, block)
		id := w.submit(job.Spec{})
		w.wantState(w.task(id), task.Running, "")
		w.start(worker.Config{Node: "b"}, able("other"))
		set(first, &first.cut, true)
		pass(2 * ackWait)
		if now := w.task(id); now.Node != "a" || now.Losses > 0 || now.Attempt != 1 {
			t.Errorf("it is %s on %s, attempt %d, lost %d times", now.State, now.Node, now.Attempt, now.Losses)
		}
	})
}

// A task for one of several nodes runs on the first that is free, and on the preferred one if
// several are.
func TestOneOfTheNamedNodesThatIsFree(t *testing.T) {
	inBubble(t, func(w *world) {
		go1, release := make(chan struct{}), job.Spec{Handler: "blocks", Place: job.Place{Nodes: []string{"b"}}}
		handlers := able("h")
		handlers["blocks"] = func(ctx context.Context, _ task.Task) error {
			select {
			case <-go1:
			case <-ctx.Done():
			}
			return nil
		}
		for _, n := range []node.ID{"a", "b", "c"} {
			w.start(worker.Config{Node: n, Queues: []string{"of-" + string(n)}}, handlers)
		}
		ran := func(nodes ...string) string {
			pass(time.Second) // the task before has given its slot back
			began := time.Now()
			got := w.ended(w.submit(job.Spec{Place: job.Place{Nodes: nodes}}))
			if took := time.Since(began); took > time.Second || got.State != task.Finished {
				t.Errorf("for %v: %s after %v", nodes, got.State, took)
			}
			return got.Node
		}
		for i := range 20 {
			for _, nodes := range [][]string{{"a", "b", "c"}, {"b", "a"}, {"c", "nowhere", "a"}, {"b", "c", "a"}} {
				if on := ran(nodes...); i > 0 && on != nodes[0] { // at first they are yet to hear of the route
					t.Errorf("of %v it ran on %s, and all were free", nodes, on)
				}
			}
		}
		blocker := w.submit(release)
		w.wantState(w.task(blocker), task.Running, "")
		for range 20 {
			if on := ran("b", "c"); on != "c" {
				t.Errorf("it ran on %s", on)
			}
		}
		close(go1)
		w.ended(blocker)
	})
}

// A worker whose handlers are wrong says so before it takes any work, and a handler always gets an
// object of parameters.
func TestHandlers(t *testing.T) {
	inBubble(t, func(w *world) {
		k, err := worker.New(newStore(w.log).ports(), worker.Config{Node: "wrong", Slots: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"email:deliver", "email:deliver", "a b", ".x"} {
			k.Handle(name, func(context.Context, task.Task) error { return nil })
		}
		k.Handle("none", nil)
		err = k.Run(w.Context())
		for _, want := range []string{`two handlers are called "email:deliver"`, `handler name "a b"`, `handler name ".x"`, `handler "none" is nil`} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Run returns %v, want %q", err, want)
			}
		}
		if _, err := worker.New(newStore(w.log).ports(), worker.Config{Node: "a", Slots: 1, Labels: map[string]string{"zone": "us,gpu"}}); err == nil || !strings.Contains(err.Error(), "commas") {
			t.Errorf("a label with a comma: %v", err)
		}
		got := make(chan string, 1)
		w.start(worker.Config{Node: "a"}, map[string]worker.Handler{"h": func(_ context.Context, t task.Task) error { got <- string(t.Params); return nil }})
		w.wantState(w.ended(w.submit(job.Spec{Handler: "h"})), task.Finished, "")
		if params := <-got; params != "{}" {
			t.Errorf("without parameters a handler gets %q", params)
		}
	})
}
