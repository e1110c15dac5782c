package scheduler

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/events/logtest"
	"millrace/history/verify"
	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/value"
)

var settings = duties.Settings{StartDeadline: time.Minute, AckWait: 6 * time.Second, Slack: 2 * time.Second}

// testWorld is a log in memory with heartbeats, and a view of it that never lags.
type testWorld struct {
	*events.Memory
	rec *events.Recorder

	// ranOut takes what a watcher is told of; one of several schedulers hears it.
	ranOut chan lastBeat

	mu    sync.Mutex
	tasks []task.ID                  // guarded by mu
	alive map[node.ID]node.Heartbeat // guarded by mu; a heartbeat without a session has expired
	// beatsMade is when the bucket of heartbeats was made. Guarded by mu.
	beatsMade time.Time
}

func (w *testWorld) beats() map[node.ID]node.Heartbeat {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.alive)
}

func (w *testWorld) setBeat(id node.ID, h node.Heartbeat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.alive[id] = h
}

// newTestWorld returns an empty world. When the test ends, every decision in its log is made again.
func newTestWorld(t *testing.T) *testWorld {
	mem := events.NewMemory(time.Now, settings.AckWait)
	t.Cleanup(func() {
		for _, f := range verify.Decided(mem.All()) {
			t.Errorf("%s", f.What)
		}
		logtest.Alter(t, mem.All(), testkit.Size(1, 2), map[string]int{}, verify.Doubted)
	})
	return &testWorld{
		Memory: mem, alive: map[node.ID]node.Heartbeat{}, ranOut: make(chan lastBeat, 10),
		rec: &events.Recorder{Log: mem, Actor: "test", Now: time.Now, NewID: events.NewID},
	}
}

func (w *testWorld) task(t *testing.T, id task.ID) task.Task {
	t.Helper()
	now, err := w.rec.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return now
}

func (w *testWorld) pick(ctx context.Context, wanted func(*task.Task) bool) ([]task.ID, error) {
	var picked []task.ID
	w.mu.Lock()
	ids := slices.Clone(w.tasks)
	w.mu.Unlock()
	for _, id := range ids {
		now, err := w.rec.Load(ctx, id)
		if err != nil {
			return nil, err
		}
		if wanted(&now) {
			picked = append(picked, id)
		}
	}
	return picked, nil
}

func (w *testWorld) Due(ctx context.Context, now time.Time, _ int) ([]task.ID, error) {
	return w.pick(ctx, func(t *task.Task) bool {
		return duties.Owes(*t, duties.Surroundings{Serving: 1}, settings).Overdue(now)
	})
}

func (w *testWorld) Queues(ctx context.Context) ([]string, error) {
	var queues []string
	_, err := w.pick(ctx, func(t *task.Task) bool {
		if q := t.Route.Queue(); t.State == task.Pending && !slices.Contains(queues, q) {
			queues = append(queues, q)
		}
		return false
	})
	return queues, err
}

func (w *testWorld) Waiting(ctx context.Context, queue string, before time.Time, after task.ID, limit int) ([]task.ID, error) {
	ids, err := w.pick(ctx, func(t *task.Task) bool {
		return t.State == task.Pending && t.Route.Queue() == queue && t.Since.Before(before) && t.ID > after
	})
	slices.Sort(ids)
	return ids[:min(limit, len(ids))], err
}

func (w *testWorld) Unassigned(ctx context.Context, queue string, now time.Time, _ int) ([]task.ID, error) {
	return w.pick(ctx, func(t *task.Task) bool {
		by := t.AssignBy()
		return t.Route.Queue() == queue && !by.IsZero() && !by.After(now)
	})
}

func (w *testWorld) Held(ctx context.Context, after task.ID, _ int) ([]task.ID, error) {
	return w.pick(ctx, func(t *task.Task) bool { return t.State == task.Held && t.ID > after })
}

func waitsForTimer(t *task.Task) bool { return t.State == task.Scheduled || t.State == task.Retrying }

func (w *testWorld) Timed(ctx context.Context, after task.ID, limit int) ([]task.ID, error) {
	ids, err := w.pick(ctx, func(t *task.Task) bool { return waitsForTimer(t) && t.ID > after })
	slices.Sort(ids)
	return ids[:min(limit, len(ids))], err
}

func (w *testWorld) TimedCount(ctx context.Context) (int, error) {
	ids, err := w.pick(ctx, waitsForTimer)
	return len(ids), err
}

func (w *testWorld) Coming(ctx context.Context, from, until time.Time) ([]task.ID, error) {
	return w.pick(ctx, func(t *task.Task) bool { return waitsForTimer(t) && t.Due.After(from) && !t.Due.After(until) })
}

func (w *testWorld) Known(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	var known []task.Task
	_, err := w.pick(ctx, func(t *task.Task) bool {
		if slices.Contains(ids, t.ID) {
			known = append(known, *t)
		}
		return false
	})
	return known, err
}

func (w *testWorld) Astray(ctx context.Context, id node.ID, session string) ([]task.ID, error) {
	return w.pick(ctx, func(t *task.Task) bool {
		if _, known := w.beats()[node.ID(t.Node)]; id == "" {
			return t.Live() && t.Node != "" && !known
		}
		return t.Live() && t.Node == string(id) && t.Session != session
	})
}

func (w *testWorld) Parents(ctx context.Context, _ int) ([]task.ID, error) {
	return w.pick(ctx, func(t *task.Task) bool { return t.Live() && t.Epoch == 0 })
}

func (w *testWorld) Spawned(ctx context.Context, parent task.ID) ([]task.ID, error) {
	return w.pick(ctx, func(t *task.Task) bool { return t.Parent == parent && !t.State.Terminal() })
}

func (w *testWorld) Ends(ctx context.Context, ids []task.ID) (map[task.ID]task.End, uint64, error) {
	ends := map[task.ID]task.End{}
	for _, id := range ids {
		if now, err := w.rec.Load(ctx, id); err == nil {
			ends[id] = task.EndOf(&now)
		}
	}
	last, err := w.Last(ctx)
	return ends, last, err
}

func (w *testWorld) Busy(ctx context.Context, route string) (bool, error) {
	ids, err := w.pick(ctx, func(t *task.Task) bool { return t.Route.Queue() == route && !t.State.Terminal() })
	return len(ids) > 0, err
}

func (w *testWorld) Naming(ctx context.Context, id node.ID) (task.ID, error) {
	ids, err := w.pick(ctx, func(t *task.Task) bool { return t.Names(string(id)) && !t.State.Terminal() })
	return append(ids, "")[0], err
}

func (w *testWorld) Nodes(ctx context.Context) ([]node.Node, uint64, error) {
	var nodes []node.Node
	last, err := w.Last(ctx)
	if err != nil {
		return nil, 0, err
	}
	for id := range w.beats() {
		records, err := w.Node(ctx, id, 0)
		if err != nil {
			return nil, 0, err
		}
		records = slices.DeleteFunc(records, func(r events.Record) bool { return r.Seq > last })
		nodes = append(nodes, events.FoldNode(id, records))
	}
	return nodes, last, nil
}

func (w *testWorld) Alive(context.Context) (map[node.ID]node.Heartbeat, error) {
	beating := map[node.ID]node.Heartbeat{}
	for id, h := range w.beats() {
		if h.Session != "" {
			beating[id] = h
		}
	}
	return beating, nil
}

func (w *testWorld) Beating(_ context.Context, id node.ID) (node.Heartbeat, bool, error) {
	h := w.beats()[id]
	return h, h.Session != "", nil
}

// Pulse returns what [testWorld.setBeat] has set, or else the log's pulse.
func (w *testWorld) Pulse(ctx context.Context, id node.ID) (node.Pulse, error) {
	pulse, err := w.Memory.Pulse(ctx, id)
	if h, ok := w.beats()[id]; ok && pulse.Beat.Session == "" {
		pulse.Beat = h
	}
	if w.mu.Lock(); pulse.Stored.IsZero() {
		pulse.Made = w.beatsMade
	}
	w.mu.Unlock()
	return pulse, err
}

// WatchBeats reports an expired heartbeat when the test says so.
func (w *testWorld) WatchBeats(ctx context.Context, gone func(node.ID, time.Time), lost func()) error {
	lost()
	for {
		select {
		case <-ctx.Done():
			return nil
		case beat := <-w.ranOut:
			gone(beat.node, beat.stored)
		}
	}
}

func (w *testWorld) submit(t *testing.T, spec job.Spec) task.ID {
	t.Helper()
	spec.Handler = "x"
	route := placement.Route("default.5")
	if spec.Place.Targeted() {
		route = placement.NodeRoute(spec.Place.Nodes[0], placement.DefaultPriority)
	}
	return w.born(t, task.Submitted{Work: task.Work{Spec: &spec, Route: route}})
}

// asked submits a task like a submitter.
func (w *testWorld) asked(t *testing.T, spec job.Spec) task.ID {
	t.Helper()
	e, err := birth.Of(birth.Submission{Spec: &spec}, nil, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return w.born(t, e)
}

// born records the birth of a task and tells the view of it.
func (w *testWorld) born(t *testing.T, birth task.Submitted) task.ID {
	t.Helper()
	id := task.ID(events.NewID(time.Now()))
	if _, err := w.rec.Submit(t.Context(), id, birth); err != nil {
		t.Fatal(err)
	}
	w.lists(id)
	return id
}

// lists makes the view list tasks.
func (w *testWorld) lists(ids ...task.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tasks = append(w.tasks, ids...)
}

// join brings a node online that serves the default queue.
func (w *testWorld) join(t *testing.T, id node.ID) {
	t.Helper()
	w.setBeat(id, node.Heartbeat{Session: "s-" + string(id)})
	for _, c := range []node.Command{
		node.Register{Session: "s-" + string(id), Profile: node.Profile{Queues: []string{"default"}}}, node.Beat{Session: "s-" + string(id)},
	} {
		if _, _, err := w.rec.DoNode(t.Context(), id, c); err != nil {
			t.Fatal(err)
		}
	}
}

// claim makes a node start a task.
func (w *testWorld) claim(t *testing.T, id task.ID, n node.ID) task.Task {
	t.Helper()
	now := w.task(t, id)
	started, _, err := w.rec.Do(t.Context(), now, task.Claim{Node: string(n), Session: "s-" + string(n), Offer: 1, After: now.Turn})
	if err != nil {
		t.Fatal(err)
	}
	return started
}

// run starts n schedulers, which end with the test's bubble.
func (w *testWorld) run(t *testing.T, n int) []*Scheduler { return w.runWith(t, n, nil) }

// runWith runs schedulers that know of each other.
func (w *testWorld) runWith(t *testing.T, n int, met Peers) []*Scheduler {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() { stop(); synctest.Wait() })
	all := make([]*Scheduler, n)
	for i := range all {
		all[i] = New(w.Memory, w, w, Config{Settings: settings, Peers: met, Last: w.Last, Timed: w, Timers: w})
		go func() { _ = all[i].Run(ctx) }() // it returns nil
	}
	return all
}

func pass(d time.Duration) { hold(d); synctest.Wait() }

// hold makes the caller wait while the bubble's time passes.
func hold(d time.Duration) { <-time.After(d) }

func TestUnservedQueueExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.run(t, 2)
		id := w.submit(t, job.Spec{})
		pass(settings.StartDeadline)
		if now := w.task(t, id); now.State != task.Pending {
			t.Fatalf("it is %s before its start deadline", now.State)
		}
		pass(15 * time.Second)
		now := w.task(t, id)
		if now.State != task.Abnormal || now.Reason != value.Expired {
			t.Errorf("it is %s/%s, want abnormal/expired", now.State, now.Reason)
		}
	})
}

// A task whose deadline passed while no scheduler was there expires when the scheduler says, which
// counts from its own start.
func TestUnservedQueueExpiresAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		id := w.submit(t, job.Spec{})
		pass(10 * settings.StartDeadline)
		s := w.run(t, 1)[0]
		pass(10 * time.Second)
		s.turns.Hear("no start", true) // something else announces itself
		s.turns.Hear(events.NewID(time.Now().Add(time.Hour)), true)
		if at := s.Watched(); !at.Equal(time.Now()) {
			t.Errorf("beside one that starts in the future, it has watched since %v, want now", at)
		}
		pass(10 * time.Second)
		started := time.Now().Add(-20 * time.Second)
		if at := s.Watched(); at.Before(started) || at.After(started.Add(5*time.Second)) {
			t.Errorf("it has watched since %v, want since its start at %v", at, started)
		}
		rules := settings
		rules.Watched = s.Watched()
		now := w.task(t, id)
		by := duties.Owes(now, duties.Surroundings{}, rules).By
		pass(time.Until(by) - 1)
		if now := w.task(t, id); now.State != task.Pending {
			t.Errorf("it is %s before its deadline", now.State)
		}
		pass(15 * time.Second)
		if now := w.task(t, id); now.Reason != value.Expired {
			t.Errorf("it is %s/%s, want abnormal/expired", now.State, now.Reason)
		}
	})
}

// Without a start deadline tasks wait for a worker, whatever they want of it and however long that takes.
// A bound of their own ends them, and says why no node took them.
func TestTasksWaitForWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		patient := settings
		patient.StartDeadline = 0
		ctx, stop := context.WithCancel(context.Background())
		t.Cleanup(func() { stop(); synctest.Wait() })
		for range 2 {
			s := New(w.Memory, w, w, Config{Settings: patient, Timed: w, Timers: w})
			go func() { _ = s.Run(ctx) }() // it returns nil
		}
		pass(10 * time.Second)
		gpu := placement.Selector{{Key: "gpu", Op: placement.OpIn, Values: []string{"a100"}}}
		submit := func(why string, pending time.Duration) task.ID {
			asks := map[string]birth.Submission{
				`no node serves queue "archive" (1 looked at)`: {Queue: "archive", Spec: &job.Spec{Handler: "x"}},
				"no node has gpu=a100 (1 looked at)":           {Spec: &job.Spec{Handler: "x", Place: job.Place{Labels: gpu}}},
				"no worker has registered as node ghost":       {Spec: &job.Spec{Handler: "x", Place: job.Place{Nodes: []string{"ghost"}}}},
			}[why]
			asks.Spec.Timeout.Pending = value.Duration(pending)
			e, err := birth.Of(asks, nil, 0, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return w.born(t, e)
		}
		waits, ends := map[string]task.ID{}, map[string]task.ID{}
		for _, why := range []string{`no node serves queue "archive" (1 looked at)`, "no node has gpu=a100 (1 looked at)", "no worker has registered as node ghost"} {
			waits[why], ends[why] = submit(why, 0), submit(why, 2*time.Minute)
		}
		pass(2*time.Minute - 20*time.Second)
		for why, id := range ends {
			if now := w.task(t, id); now.State != task.Pending {
				t.Errorf("%s: before its own bound it is %s: %s", why, now.State, now.Message)
			}
		}
		pass(10 * time.Minute)
		for why, id := range ends {
			if now := w.task(t, id); now.State != task.Abnormal || now.Reason != value.Expired || !strings.HasPrefix(now.Message, "pending timeout: not started by ") || !strings.HasSuffix(now.Message, "; "+why) {
				t.Errorf("%s: behind its own bound it is %s/%s: %s", why, now.State, now.Reason, now.Message)
			}
		}
		for why, id := range waits {
			if now := w.task(t, id); now.State != task.Pending || !now.Offered || now.Turn != 0 {
				t.Errorf("%s: after ten minutes it is %s/%s: %s", why, now.State, now.Reason, now.Message)
			}
		}
	})
}

// A paused queue misses no nodes. Once it is resumed, everyone who derives the duty from the log and
// the scheduler agree until when nodes may come.
func TestUnservedQueueExpiresAfterItsPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		id := w.submit(t, job.Spec{})
		w.run(t, 1)
		pass(settings.StartDeadline / 2)
		set := func(c queue.Command) queue.Queue {
			q, _, err := w.rec.DoQueue(t.Context(), "default", c)

			if err != nil {
				t.Fatal(err)
			}
			return q
		}
		set(queue.PauseFor{})
		pass(10 * settings.StartDeadline)
		said := set(queue.Resume{})
		by := duties.Owes(w.task(t, id), duties.Surroundings{Resumed: said.OpenSince(time.Now())}, settings).By
		if want := time.Now().Add(settings.StartDeadline); !by.Equal(want) {
			t.Errorf("nodes may come until %v, want %v", by, want)
		}
		pass(time.Until(by) - 1)
		if now := w.task(t, id); now.State != task.Pending {
			t.Errorf("it is %s before its deadline", now.State)
		}
		pass(15 * time.Second)
		if now := w.task(t, id); now.Reason != value.Expired {
			t.Errorf("it is %s/%s, want abnormal/expired", now.State, now.Reason)
		}
	})
}

// Where a job bounds how long busy nodes may leave its tasks, that ends them, and nothing else does.
func TestBusyQueueExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		bounded := job.Spec{Timeout: job.Timeout{Assign: value.Duration(20 * time.Second)}}
		w.join(t, "n1")
		w.run(t, 2)
		pass(10 * time.Second)
		waits, ends := w.submit(t, job.Spec{}), w.submit(t, bounded)
		pass(15 * time.Second)
		if now := w.task(t, ends); now.State != task.Pending {
			t.Errorf("before its bound it is %s: %s", now.State, now.Message)
		}
		pass(15 * time.Second)
		if now := w.task(t, ends); now.State != task.Abnormal || now.Reason != value.Expired || now.Message != "assign timeout: no worker took it for 20s; 1 could have, and none had a free slot" {
			t.Errorf("behind its bound it is %s/%s: %s", now.State, now.Reason, now.Message)
		}
		if now := w.task(t, waits); now.State != task.Pending {
			t.Errorf("without a bound it is %s: %s", now.State, now.Message)
		}
	})
}

func TestServedQueueDoesNotExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		w.run(t, 1)
		waits := w.submit(t, job.Spec{})
		pass(10 * settings.StartDeadline)
		if now := w.task(t, waits); now.State != task.Pending {
			t.Errorf("it is %s although a node serves its queue", now.State)
		}
	})
}

func TestLostTimerIsRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		s := w.run(t, 1)[0]
		id := w.submit(t, job.Spec{Retry: job.Retry{Max: 1, Min: value.Duration(time.Second)}})
		now := w.claim(t, id, "n1")
		now, _, err := w.rec.Do(t.Context(), now, task.Fail{Epoch: now.Epoch, Class: value.Task})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.rec.Settle(t.Context(), &now); err != nil {
			t.Fatal(err)
		}
		if err := w.Disarm(t.Context(), id, math.MaxUint64); err != nil {
			t.Fatal(err)
		}
		pass(15 * time.Second)
		if now := w.task(t, id); now.State != task.Pending || !now.Offered || len(s.Repairs()) != 1 || s.Repairs()[RepairTimer] != 1 {
			t.Errorf("it is %s, offered %t, %d repairs; want pending, offered by the one repair", now.State, now.Offered, s.Repairs()[RepairTimer])
		}
	})
}

// After an outage of the server its timers fire a moment later than the scheduler checks: they are
// late, and not missing.
func TestLateTimerIsNoRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		s := w.run(t, 1)[0]
		id := w.submit(t, job.Spec{Retry: job.Retry{Max: 1, Min: value.Duration(time.Second)}})
		now := w.claim(t, id, "n1")
		now, _, err := w.rec.Do(t.Context(), now, task.Fail{Epoch: now.Epoch, Class: value.Task})
		if err != nil {
			t.Fatal(err)
		}
		pass(7 * time.Second) // overdue, as one sweep has seen
		next, missing := task.NextOffer(&now)
		if !missing {
			t.Fatal("no offer is owed")
		}
		if _, err := w.Place(t.Context(), w.rec.Fact(id, next)); err != nil {
			t.Fatal(err)
		}
		pass(15 * time.Second)
		records, err := w.Task(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		offers := 0
		for _, r := range records {
			if r.Fact.Type == events.TaskQueued {
				offers++
			}
		}
		if offers != 1 || len(s.Repairs()) > 0 {
			t.Errorf("%d offers, repairs %v; want the timer's one, and no repair", offers, s.Repairs())
		}
	})
}

func TestTasksOfASilentNodeAreOfferedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		w.run(t, 2)
		id := w.submit(t, job.Spec{})
		w.claim(t, id, "n1")
		pass(10 * time.Second)
		w.setBeat("n1", node.Heartbeat{})
		pass(5 * time.Second) // without a report: the check of all nodes finds it
		nodes, _, err := w.Nodes(t.Context())
		if err != nil || nodes[0].State != node.Offline {
			t.Fatalf("the node is %s, %v; want offline 5s after its last heartbeat ran out", nodes[0].State, err)
		}
		pass(500 * time.Millisecond)
		if now := w.task(t, id); now.State != task.Pending || !now.Offered || now.Losses != 1 {
			t.Errorf("its task is %s, offered %t, %d losses; want pending, offered, 1", now.State, now.Offered, now.Losses)
		}
	})
}

// A log that has lost its last messages, or was made anew, may have an attempt of a worker and nothing of
// the worker's node. No redelivery and no heartbeat tells of that attempt's end. It is lost when its lease
// is over, unless its session beats: then the node registers anew, and keeps it.
func TestTasksOfNodesThatTheLogDoesNotHave(t *testing.T) {
	for _, c := range []struct {
		name  string
		beats bool
		want  task.State
	}{{"a dead worker", false, task.Pending}, {"a worker that beats", true, task.Running}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTestWorld(t)
				w.join(t, "n1")
				w.run(t, 2)
				pass(10 * time.Second)
				id := w.submit(t, job.Spec{})
				w.claim(t, id, "ghost")
				if c.beats {
					w.setBeat("ghost", node.Heartbeat{Session: "s-ghost"})
				}
				pass(settings.AckWait - 1)
				if now := w.task(t, id); now.State != task.Running {
					t.Fatalf("before its lease is over it is %s", now.State)
				}
				pass(10 * time.Second)
				if now := w.task(t, id); now.State != c.want || now.Losses == 1 != (c.want == task.Pending) {
					t.Errorf("then it is %s with %d losses, want %s", now.State, now.Losses, c.want)
				}
				if !c.beats {
					return
				}
				w.join(t, "ghost")
				pass(time.Minute)
				if now := w.task(t, id); now.State != task.Running {
					t.Errorf("when its node has registered anew it is %s", now.State)
				}
			})
		})
	}
}

// A task of an ended session starts elsewhere long before its lease expires, whichever scheduler is
// first, and no repair is counted.
func TestTasksMoveWithTheirNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		w.join(t, "n2")
		all := w.run(t, 3)
		nodes := func(noNode string, names ...string) job.Spec {
			return job.Spec{Place: job.Place{Nodes: names, NoNode: noNode, Queue: "shared"}}
		}
		pass(10 * time.Second)
		running := w.submit(t, job.Spec{})
		w.claim(t, running, "n1")
		moves := w.submit(t, nodes("", "n1", "n2"))
		falls := w.submit(t, nodes(job.NoNodeFallback, "n1"))
		fails := w.submit(t, nodes(job.NoNodeFail, "n1"))
		waits := w.submit(t, nodes(job.NoNodeWait, "n1"))
		expires := w.submit(t, nodes("", "n1"))
		pass(10 * time.Second)
		for _, id := range []task.ID{moves, falls, fails, waits, expires} {
			if now := w.task(t, id); now.State != task.Pending || now.Route != "@n1.5" || now.Turn != 0 {
				t.Errorf("while its node serves it is %s on %s since %d", now.State, now.Route, now.Turn)
			}
		}
		// A slow scheduler has recorded that the node is gone while it beats: no task is lost for
		// that.
		if _, _, err := w.rec.DoNode(t.Context(), "n1", silent("s-n1")); err != nil {
			t.Fatal(err)
		}
		pass(400 * time.Millisecond)
		if now := w.task(t, running); now.State != task.Running || now.Losses != 0 {
			t.Errorf("while its node beats its task is %s, %d losses", now.State, now.Losses)
		}
		w.setBeat("n1", node.Heartbeat{})
		pass(time.Second)
		if now := w.task(t, running); now.State != task.Pending || !now.Offered || now.Losses != 1 || now.Failures != 0 {
			t.Errorf("1s after the loss its task is %s, offered %t", now.State, now.Offered)
		}
		for id, want := range map[task.ID]placement.Route{moves: "@n2.5", falls: "shared.5", waits: "@n1.5", expires: "@n1.5"} {
			if now := w.task(t, id); now.State != task.Pending || now.Route != want || !now.Offered {
				t.Errorf("1s after the loss it is %s on %s (offered: %t), want %s", now.State, now.Route, now.Offered, want)
			}
		}
		pass(settings.StartDeadline + 10*time.Second)
		for id, want := range map[task.ID]string{fails: value.Unplaced, expires: value.Expired} {
			if now := w.task(t, id); now.State != task.Abnormal || now.Reason != want || want == value.Expired && !strings.Contains(now.Message, "timeout") {
				t.Errorf("it is %s/%s (%s), want abnormal/%s", now.State, now.Reason, now.Message, want)
			}
		}
		if now := w.task(t, waits); now.State != task.Pending {
			t.Errorf("what is to wait is %s", now.State)
		}
		records, err := w.Task(t.Context(), moves)
		if err != nil || len(records) < 3 || len(records) > 5 { // birth, the move, and at most one offer by each scheduler
			t.Errorf("a move took %d records, %v", len(records), err)
		}
		for _, s := range all {
			if len(s.Repairs()) > 0 {
				t.Errorf("repairs were counted: %v", s.Repairs())
			}
		}
	})
}

func TestCancelThatNobodyConfirmsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		w.run(t, 2)
		id := w.submit(t, job.Spec{Timeout: job.Timeout{Stop: value.Duration(time.Second)}})
		now := w.claim(t, id, "n1")
		if _, _, err := w.rec.Do(t.Context(), now, task.Cancel{}); err != nil {
			t.Fatal(err)
		}
		pass(time.Second + task.StopMargin + 6*time.Second)
		if now := w.task(t, id); now.State != task.Abnormal || now.Reason != value.Lost {
			t.Errorf("it is %s/%s, want abnormal/lost: its end was not seen", now.State, now.Reason)
		}
	})
}

// Looked is called after each round, also after a failed one.
func TestLooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		ctx, stop := context.WithCancel(context.Background())
		defer func() { stop(); synctest.Wait() }()
		type round struct{ well, ill int }
		var mu sync.Mutex
		rounds := map[string]round{}
		s := New(w.Memory, failing{w, errors.New("closed")}, w, Config{Settings: settings, Looked: func(loop string, began, ended time.Time, err error) {
			mu.Lock()
			defer mu.Unlock()
			r := rounds[loop]
			if err == nil {
				r.well++
			} else {
				r.ill++
			}
			rounds[loop] = r
		}})
		go func() { _ = s.Run(ctx) }()
		pass(5*time.Second + time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		if want := map[string]round{LoopSweep: {0, 1}, LoopPresence: {0, 1}, LoopReact: {0, 20}, LoopBreaker: {20, 0}}; !maps.Equal(rounds, want) {
			t.Errorf("heard of %v, want %v", rounds, want)
		}
	})
}

// failing is a view that cannot list the nodes.
type failing struct {
	Model
	err error
}

func (f failing) Nodes(context.Context) ([]node.Node, uint64, error) { return nil, 0, f.err }

// silent is the command that a session has vanished, as after a check of its heartbeat.
func silent(session string) node.Command {
	return node.Judged{Command: node.Vanish{Session: session, Reason: node.RanOut}, By: task.By{Lease: &task.LeaseBy{Beat: time.Now(), RanOut: true}}}
}
