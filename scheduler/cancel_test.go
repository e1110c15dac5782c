package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/schedule"
	"millrace/task/value"
)

// cancelled is a world in which a task and its dependants meet a cancel.
type cancelled struct {
	*testWorld
	s     *Scheduler
	about task.ID
	// parent is that of a step.
	parent task.ID
	names  map[task.ID]string // the tasks whose facts count

	mu    sync.Mutex
	hints []string // guarded by mu
}

func (c *cancelled) Hint(id node.ID, about task.ID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name := c.names[about]; name != "" {
		c.hints = append(c.hints, fmt.Sprintf("%s hears of %s", id, name))
	}
	return nil
}

// newCancelled starts a scheduler with all its loops.
func newCancelled(t *testing.T) *cancelled {
	c := &cancelled{testWorld: newTestWorld(t), names: map[task.ID]string{}}
	c.rec.Hints = c
	v := newLimitView(c.Memory)
	c.s = New(c.Memory, c, c, Config{Settings: settings, Hints: c, Limits: v, Timed: c, Timers: c})
	go v.follow(t.Context(), c.s)
	go func() { _ = c.s.Run(t.Context()) }() // it returns nil
	c.join(t, "n1")
	c.join(t, "n2")
	return c
}

// cancelStage is a task's progress when it is cancelled.
type cancelStage struct {
	spec job.Spec
	due  time.Duration
	// step says that it is the only step of a parent.
	step bool
	// goes takes the task from its birth to this stage.
	goes func(t *testing.T, c *cancelled)
	// waits says that the task has not begun, or is to begin again.
	waits bool
	// follows are the consequences of the cancel beside those in always.
	follows []string
}

// onePlace is the limit of the tasks that have begun or may begin.
var onePlace = limit.Concurrencies{{Max: 1, Key: "/place"}}

// onceMore is a spec with a second attempt, much later.
var onceMore = job.Spec{Retry: job.Retry{Max: 1, Min: value.Duration(time.Hour)}}

// Consequences for a waiting task, a running one, the child that it has spawned, and its parent.
var (
	ended      = []string{"it: task.cancelled"}
	stopped    = []string{"it: task.cancel_requested", "n1 hears of it", "it: task.cancelled"}
	childEnded = []string{"spawned: task.cancelled", "spawned is cancelled/user"}
	concluded  = []string{"its parent: task.concluded", "its parent is cancelled/user"}
)

var cancelStages = map[string]cancelStage{
	"waits":         {spec: job.Spec{Concurrency: onePlace}, waits: true, follows: append(ended, "who waits for its place: task.queued")},
	"waits, a step": {step: true, waits: true, follows: slices.Concat(ended, concluded)},
	"is due later":  {due: time.Hour, waits: true, follows: ended},
	"is to be said": {spec: job.Spec{Signal: &job.Signal{}}, waits: true, follows: ended},
	"is to be tried again": {spec: onceMore, waits: true, follows: ended, goes: func(t *testing.T, c *cancelled) {
		c.fail(t, c.claim(t, c.about, "n1"))
	}},
	"runs": {
		spec: job.Spec{Concurrency: onePlace}, follows: append(stopped, "who waits for its place: task.queued"),
		goes: func(t *testing.T, c *cancelled) { c.claim(t, c.about, "n1") },
	},
	"runs, a step": {step: true, follows: slices.Concat(stopped, concluded), goes: func(t *testing.T, c *cancelled) { c.claim(t, c.about, "n1") }},
	"runs and has asked for a child": {follows: slices.Concat(stopped, childEnded), goes: func(t *testing.T, c *cancelled) {
		c.claim(t, c.about, "n1")
		c.spawn(t, c.about, "spawned", job.Spec{}, 0)
	}},
	"has asked for a child and is to be tried again": {spec: onceMore, waits: true, follows: slices.Concat(ended, childEnded), goes: func(t *testing.T, c *cancelled) {
		now := c.claim(t, c.about, "n1")
		c.spawn(t, c.about, "spawned", job.Spec{}, time.Hour)
		c.fail(t, now)
	}},
	"has children": {
		spec: job.Spec{Place: job.Place{Count: 2}},
		follows: []string{
			"it: task.cancel_requested", "one child: task.cancel_requested", "n1 hears of one child", "one child: task.cancelled", "one child is cancelled/user",
			"the other child: task.cancelled", "the other child is cancelled/user", "it: task.concluded",
		},
		goes: func(t *testing.T, c *cancelled) {
			ids := c.adopt(t, c.about)
			c.names[ids[0]], c.names[ids[1]] = "one child", "the other child"
			c.claim(t, ids[0], "n1")
		},
	},
}

// always are the consequences of any cancel: dependants go on, and nothing of the task is left.
var always = []string{
	"it is cancelled/user", "who needs its cancel: task.unheld", "who needs its cancel: task.queued", "who needs its cancel is pending/",
	"who needs its success: task.cancelled", "who needs its success is cancelled/skipped", "who waits for its place is pending/",
}

// fail makes an attempt fail, after which there is another.
func (c *cancelled) fail(t *testing.T, now task.Task) {
	t.Helper()
	c.do(t, now, task.Fail{Epoch: now.Epoch, Class: value.Task})
	now = c.task(t, now.ID)
	if err := c.rec.Settle(t.Context(), &now); err != nil {
		t.Fatal(err)
	}
}

// spawn makes the child that a running task asks for.
func (c *cancelled) spawn(t *testing.T, parent task.ID, name string, spec job.Spec, due time.Duration) task.ID {
	t.Helper()
	spec.Handler = "x"
	made, err := birth.Of(birth.Submission{Spec: &spec, Parent: parent, Delay: value.Duration(due)}, nil, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	id := birth.ChildID(parent, name)
	if _, err := c.rec.Submit(t.Context(), id, made); err != nil {
		t.Fatal(err)
	}
	c.names[id] = name
	c.lists(id)
	return id
}

// bear makes the task as a source of cancels needs it.
func (c *cancelled) bear(t *testing.T, at *cancelStage) {
	spec := at.spec
	spec.Handler = "x"
	if at.step {
		c.parent = c.asked(t, job.Spec{Steps: []job.Step{{Name: "it", Spec: spec}}})
		c.names[c.parent] = "its parent"
		pass(time.Second)
		c.about = c.adopt(t, c.parent)[0]
		return
	}
	spec.Unique = job.Unique{Key: "/the-key"}
	made, err := birth.Of(birth.Submission{Spec: &spec, Delay: value.Duration(at.due)}, nil, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c.about = c.born(t, made)
}

// cancelSource is a source of cancels.
type cancelSource struct {
	// bear makes the task; a plain one if it is nil.
	bear func(t *testing.T, c *cancelled, at *cancelStage)
	// cancel asks for the task's end.
	cancel func(t *testing.T, c *cancelled)
	// stops is a node's report about an attempt that it had to stop; [task.Stopped] if nil.
	stops func(epoch uint64) task.Command
	// cancels tells which stages this source can cancel; all if nil.
	cancels func(stage string, at *cancelStage) bool
	// of tells which consequences are the same for this source; all if nil.
	of func(consequence string) bool
}

func byAPerson(t *testing.T, c *cancelled) { c.do(t, c.task(t, c.about), task.Cancel{}) }

func runsAlready(stage string, _ *cancelStage) bool { return strings.HasPrefix(stage, "runs") }

var cancelSources = map[string]cancelSource{
	"a person": {cancel: byAPerson},
	"a person whose node is drained": {
		cancel:  byAPerson,
		stops:   func(epoch uint64) task.Command { return task.Release{Epoch: epoch, Reason: "drain"} },
		cancels: runsAlready,
	},
	"its deadline": { // after the deadline the task has not been cancelled, but run out of time
		bear: func(t *testing.T, c *cancelled, at *cancelStage) {
			at.spec.Timeout.Total = value.Duration(time.Minute)
			c.bear(t, at)
		},
		cancel:  func(*testing.T, *cancelled) { pass(time.Minute + 10*time.Second) },
		cancels: func(stage string, _ *cancelStage) bool { return stage == "has children" },
		of:      func(of string) bool { return strings.Contains(of, "child") },
	},
	"a purge": {
		cancel:  func(t *testing.T, c *cancelled) { c.do(t, c.task(t, c.about), task.CancelWaiting{}) },
		cancels: func(_ string, at *cancelStage) bool { return at.waits },
	},
	"the overlap of a schedule": {cancel: func(t *testing.T, c *cancelled) {
		plan, err := schedule.Compile("nightly", job.Schedule{Every: value.Duration(time.Hour), Overlap: job.OverlapCancelOld}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		k := &decider{s: c.s, stored: &schedule.Stored{}, plan: plan}
		if err := k.follow(t.Context(), task.ScheduleQueued{Ledger: task.Ledger{Open: []task.ID{c.about}}}); err != nil {
			t.Fatal(err)
		}
	}},
	"the end of who has asked for it": {
		bear: func(t *testing.T, c *cancelled, at *cancelStage) {
			parent := c.submit(t, job.Spec{})
			c.claim(t, parent, "n1")
			spec := at.spec
			spec.Unique = job.Unique{Key: "/the-key"}
			c.about = c.spawn(t, parent, "it", spec, at.due)
		},
		cancel: func(t *testing.T, c *cancelled) {
			parent := c.task(t, c.task(t, c.about).Parent)
			c.do(t, parent, task.Cancel{})
			c.do(t, c.task(t, parent.ID), task.Stopped{Epoch: parent.Epoch})
		},
		cancels: func(_ string, at *cancelStage) bool { return !at.step },
	},
	"its parent": {
		bear: func(t *testing.T, c *cancelled, at *cancelStage) {
			at.step = true
			c.bear(t, at)
			delete(c.names, c.parent)
		},
		cancel:  func(t *testing.T, c *cancelled) { c.do(t, c.task(t, c.parent), task.Cancel{}) },
		cancels: func(_ string, at *cancelStage) bool { return at.due == 0 && at.spec.Place.Count == 0 && !at.step },
	},
	"a limit": {
		bear: func(t *testing.T, c *cancelled, at *cancelStage) {
			at.spec.Concurrency = slices.Concat(at.spec.Concurrency, limit.Concurrencies{{Max: 1, Key: "/limit", OnLimit: limit.CancelOld}})
			c.bear(t, at)
			pass(time.Second)
		},
		cancel: func(t *testing.T, c *cancelled) {
			c.asked(t, job.Spec{Handler: "x", Concurrency: limit.Concurrencies{{Max: 1, Key: "/limit", OnLimit: limit.CancelOld}}})
		},
		cancels: func(stage string, at *cancelStage) bool {
			return strings.HasPrefix(stage, "waits") || runsAlready(stage, at)
		},
	},
}

// consequences cancels a task and returns the consequences: the facts of each task, and the hints
// to nodes.
func consequences(t *testing.T, at cancelStage, from cancelSource) (all []string) {
	synctest.Test(t, func(t *testing.T) {
		c := newCancelled(t)
		stops := from.stops
		if stops == nil {
			stops = func(epoch uint64) task.Command { return task.Stopped{Epoch: epoch} }
		}
		if from.bear == nil {
			c.bear(t, &at)
		} else {
			from.bear(t, c, &at)
		}
		c.names[c.about] = "it"
		pass(time.Second)
		c.names[c.asked(t, job.Spec{Handler: "x", Concurrency: onePlace})] = "who waits for its place"
		pass(time.Second)
		if at.goes != nil {
			at.goes(t, c)
		}
		c.names[c.need(t, "", job.WhenCancel, c.about)] = "who needs its cancel"
		c.names[c.need(t, "", job.WhenSuccess, c.about)] = "who needs its success"
		pass(time.Second)
		before := len(c.All())
		from.cancel(t, c)
		pass(time.Second)
		for id := range c.names { // nodes follow their orders
			if now := c.task(t, id); now.State == task.Cancelling && now.Epoch > 0 {
				c.do(t, now, stops(now.Epoch))
			}
		}
		pass(time.Second)
		for _, r := range c.All()[before:] {
			if name := c.names[r.Fact.Task]; name != "" {
				all = append(all, name+": "+string(r.Fact.Type))
			}
		}
		for id, name := range c.names {
			now := c.task(t, id)
			all = append(all, fmt.Sprintf("%s is %s/%s", name, now.State, now.Reason))
			if armed, err := c.Armed(t.Context(), []task.ID{id}); err != nil || len(armed) > 0 {
				all = append(all, fmt.Sprintf("%s has a timer: %v", name, err))
			}
		}
		another := task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "x", Unique: job.Unique{Key: "/the-key"}}, Route: "default.5"}}
		if _, err := c.rec.Submit(t.Context(), task.ID(events.NewID(time.Now())), another); err != nil {
			all = append(all, fmt.Sprintf("its key is not free: %v", err))
		}
		all = append(all, c.hints...)
		noRepairs(t, []*Scheduler{c.s})
		slices.Sort(all)
	})
	return all
}

// A cancel has the same consequences, whatever its source.
func TestACancelHasOneSetOfConsequences(t *testing.T) {
	for stage, at := range cancelStages {
		for name, from := range cancelSources {
			if from.cancels != nil && !from.cancels(stage, &at) {
				continue
			}
			t.Run(name+" cancels what "+stage, func(t *testing.T) {
				got, want := consequences(t, at, from), slices.Sorted(slices.Values(slices.Concat(always, at.follows)))
				if from.of != nil {
					other := func(s string) bool { return !from.of(s) }
					got, want = slices.DeleteFunc(got, other), slices.DeleteFunc(want, other)
				}
				if !slices.Equal(got, want) {
					t.Errorf("what follows:\n%q, want\n%q", got, want)
				}
			})
		}
	}
}

// A program may have asked for a child just before it heard of its cancel: the child comes when those
// that came earlier have been stopped already, and is stopped like them.
func TestAChildThatComesAfterTheCancelIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCancelled(t)
		c.bear(t, &cancelStage{})
		pass(time.Second)
		running := c.claim(t, c.about, "n1")
		early := c.spawn(t, c.about, "early", job.Spec{}, 0)
		pass(time.Second)
		byAPerson(t, c)
		pass(time.Second)
		c.wants(t, "the child that was there", early, task.Cancelled, value.User)
		late := c.spawn(t, c.about, "late", job.Spec{}, 0)
		pass(time.Second)
		c.wants(t, "the child that came late", late, task.Cancelled, value.User)
		c.do(t, c.task(t, c.about), task.Stopped{Epoch: running.Epoch})
		noRepairs(t, []*Scheduler{c.s})
	})
}
