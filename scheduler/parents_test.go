package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/queue"
	reason "millrace/task/value"
)

// observed shows schedulers the facts of the log since the last call.
func (w *testWorld) observed(t *testing.T, from int, all ...*Scheduler) int {
	t.Helper()
	records := w.All()
	was := map[task.ID]task.Task{}
	var steps []events.Step
	for i := range records {
		r := &records[i]
		step := events.Step{Record: r}
		if id := r.Fact.Task; id != "" {
			before := was[id]
			after := task.Evolve(before, r.Task())
			after.ID = id
			was[id] = after
			step.Was, step.Is = events.GlanceAt(&before), events.GlanceAt(&after)
		}
		if i >= from {
			steps = append(steps, step)
		}
	}
	for _, s := range all {
		s.Observe(steps)
	}
	pass(10 * gather)
	return len(records)
}

// adopt adds children to the view, which lists the tasks that a test submitted.
func (w *testWorld) adopt(t *testing.T, parent task.ID) []task.ID {
	t.Helper()
	now := w.task(t, parent)
	var ids []task.ID
	for _, name := range now.Children.Names {
		ids = append(ids, birth.ChildID(parent, name))
	}
	w.lists(ids...)
	return ids
}

func (w *testWorld) finish(t *testing.T, id task.ID, n node.ID) {
	t.Helper()
	now := w.claim(t, id, n)
	if _, _, err := w.rec.Do(t.Context(), now, task.Finish{Epoch: now.Epoch}); err != nil {
		t.Fatal(err)
	}
}

// A parent ends with its last child, by the facts of the log alone: without a sweep, and once, with
// any number of schedulers.
func TestParentEndsWithItsChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		w.join(t, "n2")
		all := w.run(t, 3)
		id := w.asked(t, job.Spec{Handler: "x", Place: job.Place{Mode: job.PlaceAll}})
		at := w.observed(t, 0, all...)
		now := w.task(t, id)
		if now.Children == nil || len(now.Children.Names) != 2 || now.State != task.Running {
			t.Fatalf("it is %s with %+v", now.State, now.Children)
		}
		ids := w.adopt(t, id)
		w.finish(t, ids[0], "n1")
		at = w.observed(t, at, all...)
		if now := w.task(t, id); now.State != task.Running {
			t.Fatalf("with one of two children ended it is %s", now.State)
		}
		w.finish(t, ids[1], "n2")
		w.observed(t, at, all...)
		if now := w.task(t, id); now.State != task.Finished || string(now.Result) != `{"finished":2}` {
			t.Errorf("it is %s with %s", now.State, now.Result)
		}
		records, err := w.Task(t.Context(), id)
		if err != nil || len(records) != 3 { // birth, expanded, concluded
			t.Errorf("it has %d records, %v", len(records), err)
		}
		for _, s := range all {
			if len(s.Repairs()) > 0 {
				t.Errorf("repairs: %v", s.Repairs())
			}
		}
	})
}

// A submitter that dies between the parent's expansion and its children leaves them to the sweep,
// which counts a repair. A scheduler that observes nothing finds the end by itself.
func TestChildrenThatNobodyMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		s := w.run(t, 1)[0]
		id := w.asked(t, job.Spec{Handler: "x", Place: job.Place{Nodes: []string{"n1", "n2"}, Each: true, NoNode: job.NoNodeWait}})
		now := w.task(t, id)
		if _, _, err := w.rec.Do(t.Context(), now, task.Expand{Children: task.Children{AtSeq: 1, Names: []string{"n1", "n2"}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.rec.Submit(t.Context(), birth.ChildID(id, "n1"), birth.Births(ptr(w.task(t, id)))("n1")); err != nil {
			t.Fatal(err)
		}
		pass(15 * time.Second)
		if n := s.Repairs()[RepairChild]; n != 1 {
			t.Errorf("%d children were made, want the one that was missing", n)
		}
		ids := w.adopt(t, id)
		w.finish(t, ids[0], "n1")
		if _, _, err := w.rec.Do(t.Context(), w.task(t, ids[1]), task.Cancel{}); err != nil {
			t.Fatal(err)
		}
		pass(6 * time.Second)
		if now := w.task(t, id); now.State != task.Cancelled {
			t.Errorf("it is %s", now.State)
		}
	})
}

func ptr[T any](v T) *T { return &v }

// The cancel of a parent reaches its children even if the process that asked for it has died.
func TestCancelCascades(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		w.join(t, "n2")
		all := w.run(t, 2)
		id := w.asked(t, job.Spec{Handler: "x", Place: job.Place{Count: 2}})
		at := w.observed(t, 0, all...)
		ids := w.adopt(t, id)
		runs := w.claim(t, ids[0], "n1")
		if _, _, err := w.rec.Do(t.Context(), w.task(t, id), task.Cancel{Reason: "no"}); err != nil {
			t.Fatal(err)
		}
		at = w.observed(t, at, all...)
		if a, b := w.task(t, ids[0]), w.task(t, ids[1]); a.State != task.Cancelling || b.State != task.Cancelled {
			t.Errorf("its children are %s and %s", a.State, b.State)
		}
		if now := w.task(t, id); now.State != task.Cancelling {
			t.Errorf("while a child runs it is %s", now.State)
		}
		if _, _, err := w.rec.Do(t.Context(), w.task(t, ids[0]), task.Stopped{Epoch: runs.Epoch}); err != nil {
			t.Fatal(err)
		}
		w.observed(t, at, all...)
		if now := w.task(t, id); now.State != task.Cancelled {
			t.Errorf("it is %s", now.State)
		}
	})
}

// New nodes get a child of a parent that includes them, and of no other.
func TestLateNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		all := w.run(t, 2)
		includes := w.asked(t, job.Spec{Handler: "x", Place: job.Place{Mode: job.PlaceAll, Late: job.LateInclude}})
		ignores := w.asked(t, job.Spec{Handler: "x", Place: job.Place{Mode: job.PlaceAll}})
		w.observed(t, 0, all...)
		pass(10 * time.Second)
		w.join(t, "n2")
		pass(time.Second)
		if names := w.task(t, includes).Children.Names; len(names) != 2 || names[1] != "n2" {
			t.Errorf("the one that includes late nodes has %v", names)
		}
		if names := w.task(t, ignores).Children.Names; len(names) != 1 {
			t.Errorf("the other one has %v", names)
		}
		if late := w.task(t, birth.ChildID(includes, "n2")); late.State != task.Pending || late.Route != "@n2.5" {
			t.Errorf("the late child is %s on %s", late.State, late.Route)
		}
		// A pause, after which nothing starts, withholds the parts of nodes that come, and of a parent that has
		// none yet; they get them when it ends.
		set := func(c queue.Command) {
			t.Helper()
			if _, _, err := w.rec.DoQueue(t.Context(), placement.DefaultQueue, c); err != nil {
				t.Fatal(err)
			}
		}
		set(queue.PauseFor{})
		whole := w.asked(t, job.Spec{Handler: "x", Place: job.Place{Mode: job.PlaceAll}})
		w.join(t, "n3")
		pass(20 * time.Second)
		if a, b := w.task(t, includes), w.task(t, whole); len(a.Children.Names) != 2 || b.Children != nil || b.State != task.Running {
			t.Errorf("while its queue is paused one has %v, the other %v and is %s", a.Children.Names, b.Children, b.State)
		}
		set(queue.Resume{})
		pass(10 * time.Second)
		if a, b := w.task(t, includes), w.task(t, whole); len(a.Children.Names) != 3 || b.Children == nil || len(b.Children.Names) != 3 {
			t.Errorf("after the pause one has %v, the other %v", a.Children.Names, b.Children)
		}
	})
}

// Tasks that wait for labels move or end as their rules say, when no node matches.
func TestSelectorsWithoutNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		w.run(t, 2)
		gpu := placement.Selector{{Key: "gpu", Op: placement.OpExists}}
		submit := func(noNode string) task.ID {
			return w.asked(t, job.Spec{Handler: "x", Place: job.Place{Labels: gpu, NoNode: noNode}})
		}
		value := ""
		if _, _, err := w.rec.DoNode(t.Context(), "n1", node.Label{Labels: map[string]*string{"gpu": &value}}); err != nil {
			t.Fatal(err)
		}
		falls, fails, waits, expires := submit(job.NoNodeFallback), submit(job.NoNodeFail), submit(job.NoNodeWait), submit("")
		pass(settings.StartDeadline * 3)
		for _, id := range []task.ID{falls, fails, waits, expires} {
			if now := w.task(t, id); now.State != task.Pending || !now.Route.Selected() {
				t.Errorf("while a node matches it is %s on %s", now.State, now.Route)
			}
		}
		if _, _, err := w.rec.DoNode(t.Context(), "n1", node.Label{Labels: map[string]*string{"gpu": nil}}); err != nil {
			t.Fatal(err)
		}
		pass(20 * time.Second)
		if now := w.task(t, falls); now.Route != "default.5" || !now.Offered {
			t.Errorf("what falls back is on %s", now.Route)
		}
		if now := w.task(t, fails); now.State != task.Abnormal || now.Reason != reason.Unplaced {
			t.Errorf("what fails is %s/%s", now.State, now.Reason)
		}
		if now := w.task(t, expires); now.State != task.Pending {
			t.Errorf("before its start deadline, counted from the loss of the last node, it is %s: %s", now.State, now.Message)
		}
		pass(settings.StartDeadline + 10*time.Second)
		if now := w.task(t, expires); now.State != task.Abnormal || now.Reason != reason.Expired {
			t.Errorf("what expires is %s/%s", now.State, now.Reason)
		}
		if now := w.task(t, waits); now.State != task.Pending {
			t.Errorf("what waits is %s", now.State)
		}
	})
}

// A retry of a parent is one fact: schedulers reopen the children that did not finish, each once, and
// the parent does not end before.
func TestRetryOfAParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		w.join(t, "n2")
		all := w.run(t, 2)
		id := w.asked(t, job.Spec{Handler: "x", Place: job.Place{Mode: job.PlaceAll}})
		at := w.observed(t, 0, all...)
		children := w.adopt(t, id)
		end := func(child task.ID, on node.ID, fails bool) {
			t.Helper()
			now := w.claim(t, child, on)
			if command := task.Command(task.Finish{Epoch: now.Epoch}); fails {
				w.do(t, now, task.Fail{Epoch: now.Epoch, Class: reason.Task, Final: true})
			} else {
				w.do(t, now, command)
			}
			at = w.observed(t, at, all...)
		}
		end(children[0], "n1", false)
		end(children[1], "n2", true)
		w.wants(t, "it", id, task.Error, reason.Task)

		w.rec.Corr = "B1" // a part of a bulk command
		w.do(t, w.task(t, id), task.Reopen{Again: task.AllAgain, Reason: "more disk"})
		w.rec.Corr = ""
		at = w.observed(t, at, all...)
		w.wants(t, "with another life it", id, task.Running, "")
		w.wants(t, "its child that finished", children[0], task.Finished, "")
		w.wants(t, "its child that failed", children[1], task.Pending, "its parent has another life (test: more disk)")
		if again := w.task(t, children[1]); !again.Offered || again.Batch != "B1" {
			t.Errorf("offered: %v, of batch %q", again.Offered, again.Batch)
		}
		pass(settings.Slack * 2)
		end(children[1], "n2", true)
		w.wants(t, "after a second failure it", id, task.Error, reason.Task)

		w.do(t, w.task(t, id), task.Reopen{Again: task.AllAgain})
		w.do(t, w.task(t, id), task.Cancel{})
		at = w.observed(t, at, all...)
		w.wants(t, "cancelled before any scheduler saw the retry, it", id, task.Cancelled, reason.User)
		w.wants(t, "its child", children[1], task.Error, reason.Task)

		w.do(t, w.task(t, id), task.Reopen{Again: "n1"})
		at = w.observed(t, at, all...)
		w.wants(t, "with the child that was meant it", id, task.Running, "")
		w.wants(t, "the child that was meant", children[0], task.Pending, "its parent has another life (test)")
		w.wants(t, "the other one", children[1], task.Error, reason.Task)
		end(children[0], "n1", false)
		w.wants(t, "at last it", id, task.Error, reason.Task)

		// It lives by the child that another process has reopened on its own.
		w.do(t, w.task(t, children[1]), task.Reopen{})
		at = w.observed(t, at, all...)
		w.wants(t, "it", id, task.Running, "")
		end(children[1], "n2", false)
		w.wants(t, "with its child it", id, task.Finished, "")
		noRepairs(t, all)
	})
}

// A retry that no scheduler has seen, or that one has left half done, is found by the sweep.
func TestRetryIsFinishedByTheSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		all := w.run(t, 2)
		id := w.asked(t, job.Spec{Steps: []job.Step{handled("a"), handled("b"), handled("c", job.StepNeed{Step: "a"})}, On: &job.Handlers{Exit: &job.Step{Spec: job.Spec{Handler: "x"}}}})
		step := func(name string) task.ID { return birth.ChildID(id, name) }
		at := w.observed(t, 0, all...)
		w.adopt(t, id)
		settle := func() {
			for range 6 {
				at = w.observed(t, at, all...)
			}
		}
		settle()
		for _, name := range []string{"a", "b"} {
			now := w.claim(t, step(name), "n1")
			w.do(t, now, task.Fail{Epoch: now.Epoch, Class: reason.Task, Final: true})
		}
		settle()
		w.finish(t, step(job.OnExit), "n1")
		settle()
		w.wants(t, "it", id, task.Error, reason.Task)

		w.do(t, w.task(t, id), task.Reopen{Again: task.AllAgain})
		// One scheduler has died after it reopened b.
		w.do(t, w.task(t, step("b")), task.Reopen{Reason: "its parent has another life"})
		pass(20 * time.Second)
		for name, want := range map[string]task.State{"a": task.Pending, "b": task.Pending, "c": task.Held, job.OnExit: task.Held} {
			if now := w.task(t, step(name)); now.State != want || now.Life == 0 {
				t.Errorf("%s is %s in the life of %d, want %s in another life", name, now.State, now.Life, want)
			}
		}
		for _, name := range []string{"b", "a", "c", job.OnExit} {
			w.finish(t, step(name), "n1")
			settle()
		}
		w.wants(t, "all is well: it", id, task.Finished, "")
		for _, name := range []string{"a", "b", "c", job.OnExit} {
			records, err := w.Task(t.Context(), step(name))
			if err != nil {
				t.Fatal(err)
			}
			lives := 0
			for _, r := range records {
				if _, again := r.Fact.Event.(task.Reopened); again {
					lives++
				}
			}
			if lives != 1 {
				t.Errorf("%s was reopened %d times", name, lives)
			}
		}
	})
}
