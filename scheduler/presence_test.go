package scheduler

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/value"
)

func (w *testWorld) node(t *testing.T, id node.ID) node.Node {
	t.Helper()
	n, err := w.rec.LoadNode(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The scheduler acts on an expired heartbeat when the log reports it, not at a later check.
func TestSilenceIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		w.join(t, "n2")
		w.run(t, 1)
		pass(7 * time.Second) // settled, and between two checks
		w.setBeat("n1", node.Heartbeat{})
		began := time.Now()
		w.ranOut <- lastBeat{node: "n1"}
		w.ranOut <- lastBeat{node: "n2"} // it has beaten again since
		synctest.Wait()
		if n := w.node(t, "n1"); n.State != node.Offline || !n.Since.Equal(began) {
			t.Errorf("n1 is %s since %v", n.State, n.Since.Sub(began))
		}
		if n := w.node(t, "n2"); n.State != node.Online {
			t.Errorf("n2 is %s", n.State)
		}
	})
}

// beating registers a node that says how long its heartbeat lasts: 15 s.
func (w *testWorld) beating(t *testing.T, id node.ID) {
	t.Helper()
	w.setBeat(id, node.Heartbeat{Session: "s"})
	for _, c := range []node.Command{
		node.Register{Session: "s", Profile: node.Profile{Queues: []string{"default"}, TTL: value.Duration(15 * time.Second)}}, node.Beat{Session: "s"},
	} {
		if _, _, err := w.rec.DoNode(t.Context(), id, c); err != nil {
			t.Fatal(err)
		}
	}
}

// The bucket of heartbeats is emptied: a node that beats again was never lost. One that does not is
// lost as soon as its heartbeat would have expired.
func TestHeartbeatsWithoutATrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		for _, id := range []node.ID{"lives", "dead"} {
			w.beating(t, id)
		}
		w.run(t, 2)
		pass(7 * time.Second)
		w.setBeat("lives", node.Heartbeat{})
		w.setBeat("dead", node.Heartbeat{})
		pass(10 * time.Second) // two looks at least
		for _, id := range []node.ID{"lives", "dead"} {
			if n := w.node(t, id); n.State != node.Online {
				t.Errorf("%s is %s though nothing says that its heartbeat ran out", id, n.State)
			}
		}
		w.setBeat("lives", node.Heartbeat{Session: "s"})
		pass(15 * time.Second)
		if n := w.node(t, "lives"); n.State != node.Online {
			t.Errorf("the one that beats again is %s", n.State)
		}
		if n := w.node(t, "dead"); n.State != node.Offline {
			t.Errorf("the one that does not is %s", n.State)
		}
		pass(time.Minute)
		w.setBeat("lives", node.Heartbeat{}) // once more
		pass(10 * time.Second)
		if n := w.node(t, "lives"); n.State != node.Online {
			t.Errorf("the second time it is %s at once", n.State)
		}
	})
}

// The bucket of heartbeats was away for longer than a heartbeat lasts, and is made again. The watcher
// still counts from the last one before, but no node could beat.
func TestHeartbeatsHadNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.beating(t, "n1")
		w.run(t, 1)
		pass(7 * time.Second)
		last := time.Now()
		pass(time.Minute)
		w.setBeat("n1", node.Heartbeat{})
		w.mu.Lock()
		w.beatsMade = time.Now()
		w.mu.Unlock()
		w.ranOut <- lastBeat{"n1", last}
		synctest.Wait()
		if n := w.node(t, "n1"); n.State != node.Online {
			t.Errorf("n1 is %s", n.State)
		}
		pass(time.Minute)
		if n := w.node(t, "n1"); n.State != node.Offline {
			t.Errorf("n1 is %s, and has not come back", n.State)
		}
	})
}

// Nodes get time to come back after the scheduler or its connection came up.
func TestSettling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "returns")
		w.join(t, "stays away")
		w.setBeat("returns", node.Heartbeat{})
		w.setBeat("stays away", node.Heartbeat{})
		w.run(t, 2)
		w.ranOut <- lastBeat{node: "returns"}
		w.ranOut <- lastBeat{node: "stays away"}
		pass(4 * time.Second)
		for _, id := range []node.ID{"returns", "stays away"} {
			if n := w.node(t, id); n.State != node.Online {
				t.Errorf("%s is %s before it could come back", id, n.State)
			}
		}
		w.setBeat("returns", node.Heartbeat{Session: "s-returns"})
		pass(2 * time.Second)
		if n := w.node(t, "returns"); n.State != node.Online {
			t.Errorf("the one that came back is %s", n.State)
		}
		if n := w.node(t, "stays away"); n.State != node.Offline || !n.Since.Equal(n.OnlineSince) && n.Short != 1 {
			t.Errorf("the other one is %s", n.State)
		}
	})
}

// Every scheduler judges nodes that come and go too often, and several together act once. A node
// without which its queue would be unserved is released as soon as it has stayed for a while.
func TestSchedulersQuarantine(t *testing.T) {
	for _, alone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newTestWorld(t)
			w.join(t, "n1")
			if !alone {
				w.join(t, "n2")
			}
			for i := range 13 {
				pass(time.Second)
				if _, _, err := w.rec.DoNode(t.Context(), "n1", node.Beat{Session: "s-n1", Connection: uint64(i + 1)}); err != nil {
					t.Fatal(err)
				}
			}
			w.run(t, 3)
			pass(6 * time.Second)
			n := w.node(t, "n1")
			if n.State != node.Quarantined {
				t.Fatalf("alone %v: it is %s", alone, n.State)
			}
			until := n.Quarantine.Until
			if alone {
				until = n.OnlineSince.Add(node.ShortSession)
			}
			pass(time.Until(until) - 6*time.Second)
			if n := w.node(t, "n1"); n.State != node.Quarantined {
				t.Errorf("alone %v: it is %s too early", alone, n.State)
			}
			pass(12 * time.Second)
			if n := w.node(t, "n1"); n.State != node.Online {
				t.Errorf("alone %v: it is %s when it has been calm", alone, n.State)
			}
			records, err := w.Node(t.Context(), "n1", 0)
			if err != nil || len(records) != 1+14+2 {
				t.Errorf("alone %v: %d facts, %v; want one of each step", alone, len(records), err)
			}
		})
	}
}

// routes is what the log holds for nodes.
type routes struct {
	mu      sync.Mutex
	ids     []node.ID // guarded by mu
	fail    int       // guarded by mu
	dropped int       // guarded by mu; how often a removal was requested
}

func (r *routes) DropNode(_ context.Context, id node.ID, _ time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropped++
	if r.fail--; r.fail >= 0 {
		return errors.New("not now")
	}
	r.ids = slices.DeleteFunc(r.ids, func(other node.ID) bool { return other == id })
	return nil
}

// The remains of retired nodes are removed at the start, with retries, for a day. By then the log
// has removed them itself, and those of unknown nodes as well (package jet's TestForgottenRoute).
func TestReaper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		for _, id := range []node.ID{"stays", "away", "retired"} {
			w.join(t, id)
		}
		for _, step := range []struct {
			id node.ID
			c  node.Command
		}{{"away", silent("s-away")}, {"retired", silent("s-retired")}, {"retired", node.Retire{}}} {
			if _, _, err := w.rec.DoNode(t.Context(), step.id, step.c); err != nil {
				t.Fatal(err)
			}
		}
		left := &routes{ids: []node.ID{"stays", "away", "retired"}, fail: 1}
		ctx, stop := context.WithCancel(context.Background())
		defer func() { stop(); synctest.Wait() }()
		for range 2 {
			s := New(w.Memory, w, w, Config{Settings: settings, Sweep: time.Minute, Presence: time.Minute, React: time.Minute, Routes: left})
			go func() { _ = s.Run(ctx) }() // it returns nil
		}
		look := func() ([]node.ID, int) {
			left.mu.Lock()
			defer left.mu.Unlock()
			return slices.Clone(left.ids), left.dropped
		}
		pass(2 * time.Minute)
		if ids, _ := look(); !slices.Equal(ids, []node.ID{"stays", "away"}) {
			t.Errorf("what is left belongs to %v", ids)
		}
		pass(26 * time.Hour)
		_, before := look()
		pass(26 * time.Hour)
		if ids, after := look(); after != before || !slices.Equal(ids, []node.ID{"stays", "away"}) {
			t.Errorf("%d removals more on the third day, and what is left belongs to %v", after-before, ids)
		}
	})
}

// Nodes that stay offline retire by themselves, those with a generated name sooner. Those stay that an
// operator or a task has in mind, and a scheduler that has only just come up waits.
func TestSchedulersRetire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		const made = "3f2a9c1b7d4e"
		all := []node.ID{"lives", "host", made, "cordoned", "waited-for", "picked"}
		for _, id := range all {
			w.join(t, id)
		}
		do := func(id node.ID, c node.Command) {
			if _, _, err := w.rec.DoNode(t.Context(), id, c); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range all[1:] {
			w.setBeat(id, node.Heartbeat{})
			do(id, silent("s-"+string(id)))
		}
		do("cordoned", node.Change{Order: node.OrderCordon, Reason: "a test"})
		waits := w.submit(t, job.Spec{Place: job.Place{Nodes: []string{"waited-for"}, NoNode: job.NoNodeWait}})
		picks := w.asked(t, job.Spec{Handler: "x", Place: job.Place{Labels: placement.Selector{{Key: placement.LabelNode, Op: placement.OpIn, Values: []string{"picked", "other"}}}}})
		left, patient := &routes{ids: slices.Clone(all)}, settings
		patient.StartDeadline = 0
		start := func() (stop func()) {
			ctx, cancel := context.WithCancel(context.Background())
			for range 2 {
				s := New(w.Memory, w, w, Config{Settings: patient, Sweep: time.Minute, Presence: 20 * time.Second, React: time.Minute,
					RetireAfter: 24 * time.Hour, Naming: w, Routes: left})
				go func() { _ = s.Run(ctx) }() // it returns nil
			}
			return func() { cancel(); synctest.Wait() }
		}
		retired := func(when string, want ...node.ID) {
			t.Helper()
			var is []node.ID
			for _, id := range all {
				if w.node(t, id).State == node.Retired {
					is = append(is, id)
				}
			}
			if !slices.Equal(is, want) {
				t.Errorf("%s %v are retired, want %v", when, is, want)
			}
		}
		stop := start()
		pass(59 * time.Minute)
		retired("within the hour")
		pass(3 * time.Minute)
		retired("after the hour", made)
		pass(22 * time.Hour)
		retired("before the day is over", made)
		stop()
		pass(48 * time.Hour) // no scheduler runs
		stop = start()
		pass(9 * time.Minute)
		retired("soon after a start", made)
		pass(3 * time.Minute)
		retired("a while after a start", "host", made)
		if slices.Contains(left.ids, "host") || !slices.Contains(left.ids, "picked") {
			t.Errorf("what is left belongs to %v", left.ids)
		}
		do("cordoned", node.Change{Order: node.OrderServe})
		for _, id := range []task.ID{waits, picks} {
			w.do(t, w.task(t, id), task.Cancel{Reason: "a test"})
		}
		pass(2 * time.Minute)
		retired("once no task names them", "host", made, "waited-for", "picked")
		do("host", node.Register{Session: "s-new"})
		pass(24 * time.Hour)
		retired("a day after its order ended", made, "cordoned", "waited-for", "picked")
		stop()
	})
}

// lanes are the lanes of a server, and when each was last used.
type lanes struct {
	mu   sync.Mutex
	used map[placement.Lane]time.Time // guarded by mu
	told map[placement.Lane]time.Time // guarded by mu; nil if the records of lanes are lost
	away bool                         // guarded by mu; the place for the records is missing
}

func (l *lanes) LanesTold(context.Context) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return false, events.ErrNoStream
	}
	return l.told != nil, nil
}

func (l *lanes) TellLanes(_ context.Context, used map[placement.Lane]time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = used
	return nil
}

// Lanes implements [LaneModel].
func (l *lanes) Lanes(context.Context) (map[placement.Lane]time.Time, error) {
	return map[placement.Lane]time.Time{{Queue: "q", Priority: 8}: {}}, nil
}

// Lost records of lanes are written again, from the read model.
func TestLanesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		all := &lanes{away: true}
		ctx, stop := context.WithCancel(context.Background())
		defer func() { stop(); synctest.Wait() }()
		s := New(w.Memory, w, w, Config{Settings: settings, Lanes: all, Laned: all, Looked: func(loop string, _, _ time.Time, err error) {
			if err != nil {
				t.Error(loop, err)
			}
		}})
		go func() { _ = s.Run(ctx) }() // it returns nil
		pass(time.Minute)
		all.mu.Lock()
		all.away = false
		all.mu.Unlock()
		for range 2 {
			pass(time.Minute)
			all.mu.Lock()
			if len(all.told) != 1 {
				t.Errorf("it says that %v are used", all.told)
			}
			all.told = nil
			all.mu.Unlock()
		}
	})
}

func (l *lanes) UnusedLanes(_ context.Context, since time.Time) (unused []placement.Lane, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for lane, used := range l.used {
		if used.Before(since) {
			unused = append(unused, lane)
		}
	}
	return unused, nil
}

func (l *lanes) CloseLane(_ context.Context, lane placement.Lane, since time.Time) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	closed := l.used[lane].Before(since)
	if closed {
		delete(l.used, lane)
	}
	return closed, nil
}

// Only lanes that were unused for a day are removed.
func TestReapLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		old, used := placement.Lane{Queue: "old", Priority: 8}, placement.Lane{Queue: "used", Priority: 8}
		all := &lanes{used: map[placement.Lane]time.Time{old: time.Now(), used: time.Now()}}
		ctx, stop := context.WithCancel(context.Background())
		defer func() { stop(); synctest.Wait() }()
		for range 2 { // there is little to tidy up, all day long
			s := New(w.Memory, w, w, Config{Settings: settings, Sweep: time.Minute, Presence: time.Minute, React: time.Minute, Routes: &routes{}, Lanes: all})
			go func() { _ = s.Run(ctx) }() // it returns nil
		}
		there := func() int { all.mu.Lock(); defer all.mu.Unlock(); return len(all.used) }
		pass(23 * time.Hour)
		if there() != 2 {
			t.Error("a lane went before its time")
		}
		all.mu.Lock()
		all.used[used] = time.Now()
		all.mu.Unlock()
		pass(3 * time.Hour)
		if _, stays := all.used[used]; there() != 1 || !stays {
			t.Errorf("after a day there are %v", all.used)
		}
	})
}

// Retiring a node strands none of its tasks.
// A task lies with one of its nodes, which is away. It moves as soon as another one of them
// comes, and not only with the next sweep.
func TestTasksMoveToANodeThatCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		all := w.run(t, 1)
		spec := job.Spec{Handler: "x", Place: job.Place{Nodes: []string{"n1", "n2"}}}
		id := w.born(t, task.Submitted{Work: task.Work{Spec: &spec, Route: placement.NodeRoute("n1", 5)}})
		pass(6 * time.Second) // behind a sweep
		if now := w.task(t, id); now.Route != placement.NodeRoute("n1", 5) {
			t.Fatalf("it waits on %s, want n1", now.Route)
		}
		w.join(t, "n2")
		pass(time.Second)
		if now := w.task(t, id); now.Route != placement.NodeRoute("n2", 5) {
			t.Errorf("it waits on %s, want n2: %s", now.Route, now.Message)
		}
		noRepairs(t, all)
	})
}

func TestTasksOfARetiredNodeAreOfferedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		w.run(t, 1)
		id := w.submit(t, job.Spec{})
		w.claim(t, id, "n1")
		w.setBeat("n1", node.Heartbeat{})
		for _, c := range []node.Command{silent("s-n1"), node.Retire{}} {
			if _, _, err := w.rec.DoNode(t.Context(), "n1", c); err != nil {
				t.Fatal(err)
			}
		}
		pass(settings.AckWait + settings.Slack + 6*time.Second)
		if now := w.task(t, id); now.State != task.Pending || !now.Offered || now.Losses != 1 {
			t.Errorf("its task is %s, offered %t, %d losses; want pending, offered, 1", now.State, now.Offered, now.Losses)
		}
	})
}
