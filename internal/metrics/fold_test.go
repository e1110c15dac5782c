package metrics

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/value"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// story is a growing log, as a projector sees it.
type story struct {
	fold  *Fold
	tasks map[task.ID]*task.Task
	now   time.Time
	seq   uint64
}

func newStory(after uint64, known ...node.Node) *story {
	return &story{fold: NewFold(after, known, nil, NewQueues()), tasks: map[task.ID]*task.Task{}, now: noon}
}

func (s *story) pass(d time.Duration) *story { s.now = s.now.Add(d); return s }

func (s *story) add(r events.Record) uint64 {
	s.seq++
	r.Seq, r.Stored, r.Fact.At = s.seq, s.now, s.now
	r.Fact.Type = events.TypeOf(r.Fact.Event)
	step := events.Step{Record: &r}
	if r.Fact.Task != "" {
		k, ok := s.tasks[r.Fact.Task]
		if !ok {
			k = &task.Task{ID: r.Fact.Task}
			s.tasks[r.Fact.Task] = k
		}
		step.Was = events.GlanceAt(k)
		*k = task.Evolve(*k, r.Task())
		step.Is = events.GlanceAt(k)
	}
	s.fold.Observe([]events.Step{step})
	return s.seq
}

func (s *story) birth(id task.ID, queue string) {
	s.add(events.Record{Kind: events.KindOffer, Fact: events.Fact{Task: id, Event: task.Submitted{Work: task.Work{Route: placement.QueueRoute(queue, 5)}}}})
}

func (s *story) chain(id task.ID, e task.Event) uint64 {
	return s.add(events.Record{Kind: events.KindChain, Fact: events.Fact{Task: id, Event: e}})
}

func (s *story) node(id node.ID, actor string, e node.Event) {
	s.add(events.Record{Kind: events.KindNode, Fact: events.Fact{Node: id, Actor: actor, Event: e}})
}

func (s *story) start(id task.ID, n string) uint64 {
	return s.chain(id, task.AttemptStarted{Attempt: 1, Node: n, Session: "s-" + n, Offer: 1})
}

// series returns the figures of a source, by name and labels; for a histogram the count and the
// sum.
func series(t *testing.T, source Source) map[string]string {
	t.Helper()
	all := map[string]string{}
	source.Collect(func(f *Family, value float64, h *Histogram, labels ...string) {
		if len(labels) != len(f.Labels) {
			t.Errorf("%s has the labels %v, want values of %v", f.Name, labels, f.Labels)
		}
		key := strings.TrimSuffix(f.Name+"{"+strings.Join(labels, ",")+"}", "{}")
		if _, twice := all[key]; twice {
			t.Errorf("%s is given twice", key)
		}
		if all[key] = fmt.Sprint(value); h != nil {
			all[key] = fmt.Sprintf("%d in %gs", h.Count(), h.Sum)
		}
		if h != nil != (f.Kind == Distribution) {
			t.Errorf("%s is of the wrong kind", key)
		}
	})
	return all
}

// wants compares the non-zero series with text, one line each.
func wants(t *testing.T, source Source, want string) {
	t.Helper()
	var got []string
	all := series(t, source)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if v := all[key]; v != "0" && !strings.HasPrefix(v, "0 in ") && !strings.HasPrefix(key, Facts.Name) {
			got = append(got, strings.TrimPrefix(key, "millrace_")+" "+v)
		}
	}
	if text := strings.Join(got, "\n"); text != strings.TrimSpace(want) {
		t.Errorf("the figures are\n%s\nwant\n%s", text, strings.TrimSpace(want))
	}
}

func TestFoldCountsTasks(t *testing.T) {
	s := newStory(0)
	s.birth("a", "bulk")
	s.pass(2 * time.Second)
	epoch := s.start("a", "n1")
	s.start("a", "n2") // refused by Evolve: another node holds it
	s.pass(3 * time.Second)
	s.chain("a", task.AttemptFailed{Epoch: epoch, Class: value.Exit, Retry: &task.RetryPlan{Attempt: 2, Due: s.now.Add(time.Second)}})
	s.pass(time.Second)
	s.add(events.Record{Kind: events.KindOffer, Fact: events.Fact{Task: "a", Event: task.Queued{Attempt: 2, After: s.seq, Due: s.now}}})
	s.pass(time.Second)
	epoch = s.start("a", "n1")
	s.pass(time.Second)
	s.chain("a", task.AttemptFinished{Epoch: epoch})
	s.chain("a", task.AttemptFinished{Epoch: epoch}) // again, and too late
	s.chain("a", task.AttemptLate{Epoch: 2})

	s.birth("b", "gpu")
	s.pass(300 * time.Second)
	s.chain("b", task.GivenUp{Reason: value.Expired})
	s.chain("b", task.Reopened{})

	s.birth("c", "bulk")
	s.chain("c", task.CancelConfirmed{})
	s.add(events.Record{Kind: events.KindChain, Err: errors.New("not JSON"), Fact: events.Fact{Task: "c"}})
	wants(t, s.fold, `
log_unreadable_total 1
results_late_total 1
start_deadline_expired_latency_seconds 1 in 300s
start_deadline_expired_total{gpu} 1
task_attempt_failures_total{exit} 1
task_attempts_started_total{bulk} 2
task_attempts_total{failed} 1
task_attempts_total{finished} 1
task_pending_age_seconds{bulk} 2 in 3s
task_run_seconds{bulk} 2 in 4s
tasks_ended_total{bulk,cancelled,user} 1
tasks_ended_total{bulk,finished,none} 1
tasks_ended_total{gpu,abnormal,expired} 1
tasks_reopened_total 1
tasks_submitted_total{bulk} 2
tasks_submitted_total{gpu} 1`)
}

// Attempts that a node's end cuts short are counted apart from those that ran too long.
func TestFoldCountsImpact(t *testing.T) {
	s := newStory(0)
	for _, n := range []node.ID{"n1", "n2"} {
		s.node(n, "", node.Registered{Session: "s-" + string(n)})
		s.node(n, "", node.WentOnline{Session: "s-" + string(n)})
	}
	for _, id := range []task.ID{"released", "taken", "lost", "slow", "poison", "stopped"} {
		s.birth(id, "default")
	}
	s.chain("released", task.AttemptReleased{Epoch: s.start("released", "n1")})
	old := s.start("taken", "n1")
	s.pass(time.Second)
	s.chain("taken", task.AttemptStarted{Attempt: 2, Node: "n2", Session: "s-n2", TookOver: &task.TookOver{Epoch: old, Reason: "the lease of n1 ran out"}})
	lost, slow := s.start("lost", "n1"), s.start("slow", "n2")
	s.pass(9 * time.Second)
	s.node("n1", "scheduler", node.WentOffline{Session: "s-n1"})
	s.chain("lost", task.AttemptLost{Epoch: lost})
	s.chain("slow", task.AttemptLost{Epoch: slow})
	s.start("poison", "n2")
	s.chain("poison", task.GivenUp{Reason: value.Poison})
	stopped := s.start("stopped", "n2")
	s.chain("stopped", task.CancelRequested{})
	s.chain("stopped", task.CancelConfirmed{Epoch: stopped})
	wants(t, s.fold, `
node_connections_total{n1,start} 1
node_connections_total{n2,start} 1
node_offline_total{n1,silent} 1
node_reconnect_to_ready_seconds{online} 2 in 0s
node_session_seconds 1 in 10s
restart_impact_tasks_total{lost} 1
restart_impact_tasks_total{released} 1
restart_impact_tasks_total{taken_over} 1
takeovers_total{lease_ran_out} 1
task_attempts_started_total{default} 7
task_attempts_total{abnormal} 1
task_attempts_total{cancelled} 1
task_attempts_total{lost} 2
task_attempts_total{released} 1
task_attempts_total{taken_over} 1
task_pending_age_seconds{default} 6 in 22s
task_run_seconds{default} 6 in 19s
tasks_ended_total{default,abnormal,poison} 1
tasks_ended_total{default,cancelled,user} 1
tasks_submitted_total{default} 6`)
}

func TestFoldCountsNodes(t *testing.T) {
	s := newStory(0, node.Node{ID: "old", State: node.Offline, Session: "s0", Since: noon.Add(-time.Minute)},
		node.Node{ID: "cut", State: node.Online, Session: "s1", Started: noon.Add(-time.Hour)})
	ready := func(id node.ID) { // as read by a version that does not know the type
		s.seq++
		s.fold.Observe([]events.Step{{Record: &events.Record{Seq: s.seq, Kind: events.KindNode, Fact: events.Fact{Node: id, Type: nodeReady, At: s.now}}}})
	}
	s.node("old", "", node.WentOnline{Session: "s0"}) // a minute later
	s.pass(2 * time.Second)
	ready("old")
	ready("old") // no news
	s.node("old", "", node.WentOnline{Session: "gone"})
	s.pass(8 * time.Second)
	s.node("old", "", node.WentOffline{Session: "s0"})
	s.node("old", "", node.WentOffline{Session: "s0"})

	s.node("cut", "", node.Registered{Session: "s2"}) // killed and started again
	s.pass(3 * time.Second)
	s.node("cut", "", node.WentOnline{Session: "s2"})
	s.pass(time.Second)
	ready("cut")
	s.pass(time.Second)
	s.node("cut", "", node.WentOnline{Session: "s2"}) // its connection was lost for a moment
	wants(t, s.fold, `
node_connections_total{cut,return} 1
node_connections_total{cut,start} 1
node_connections_total{old,return} 1
node_offline_total{cut,restarted} 1
node_offline_total{cut,silent} 1
node_offline_total{old,goodbye} 1
node_outage_seconds 3 in 63s
node_reconnect_to_ready_seconds{online} 3 in 3s
node_reconnect_to_ready_seconds{ready} 2 in 6s
node_session_seconds 3 in 3622s`)
}

// A rebuilt read model counts nothing again, and earlier records of the log are not counted; both
// know the resulting states.
func TestFoldCountsOnce(t *testing.T) {
	s := newStory(2)
	s.birth("a", "default")
	s.node("n1", "", node.Registered{Session: "s-n1"})
	s.pass(5 * time.Second)
	s.start("a", "n1")
	want := "task_attempts_started_total{default} 1\ntask_pending_age_seconds{default} 1 in 5s"
	wants(t, s.fold, want)

	all := *s
	again := newStory(0)
	again.fold = s.fold
	again.birth("a", "default")
	again.node("n1", "", node.Registered{Session: "s-n1"})
	again.start("a", "n1")
	wants(t, all.fold, want)
}

// Invented names of queues, nodes, types, reasons or classes make no further series.
func TestFoldIsBounded(t *testing.T) {
	s := newStory(0)
	grow := func(from, to int) {
		for i := from; i < to; i++ {
			id := task.ID(fmt.Sprint("t", i))
			s.birth(id, fmt.Sprint("q", i))
			s.chain(id, task.AttemptFailed{Epoch: s.start(id, "n"), Class: fmt.Sprint("class", i)})
			s.birth(id+"n", fmt.Sprint("@n", i))
			s.node(node.ID(fmt.Sprint("n", i)), "", node.Registered{Session: "s"})
			s.seq++
			s.fold.Observe([]events.Step{{Record: &events.Record{Seq: s.seq, Kind: events.KindChain, Fact: events.Fact{Type: events.Type(fmt.Sprint("type", i))}}}})
		}
	}
	grow(0, MaxNodes+1)
	first := len(series(t, s.fold))
	grow(MaxNodes+1, 3*MaxNodes)
	all := series(t, s.fold)
	if len(all) != first {
		t.Errorf("%d series have become %d", first, len(all))
	}
	if got, want := all[TasksSubmitted.Name+"{other}"], fmt.Sprint(3*MaxNodes-MaxQueues+1); got != want { // the default queue has its own name
		t.Errorf("%s tasks were submitted to other queues, want %s", got, want)
	}
	if got, want := all[TasksSubmitted.Name+"{other nodes}"], fmt.Sprint(2*MaxNodes); got != want {
		t.Errorf("%s tasks were submitted to other nodes, want %s", got, want)
	}
	if got := all[Facts.Name+"{unknown}"]; got != fmt.Sprint(3*MaxNodes) {
		t.Errorf("%s facts are of unknown types", got)
	}
}

// The fold is part of the projector's work, on which everything waits.
func TestFoldAllocatesNothing(t *testing.T) {
	steps := noopTask()
	f := NewFold(0, nil, nil, NewQueues())
	seq := uint64(0)
	if n := testing.AllocsPerRun(100, func() { observeNext(f, steps, &seq) }); n > 0 {
		t.Errorf("it allocates %v times for a task", n)
	}
}

// noopTask returns the steps of a task without work.
func noopTask() []events.Step {
	work := task.Work{Route: "default.5"}
	var k task.Task
	var steps []events.Step
	for i, e := range []task.Event{task.Submitted{Work: work}, task.AttemptStarted{Attempt: 1, Node: "n1", Session: "s"}, task.AttemptFinished{Attempt: 1, Epoch: 2}} {
		r := &events.Record{Seq: uint64(i + 1), Kind: events.KindChain, Fact: events.Fact{Task: "a", At: noon, Type: events.TypeOf(e), Event: e}}
		if i == 0 {
			r.Kind = events.KindOffer
		}
		s := events.Step{Record: r, Was: events.GlanceAt(&k)}
		k = task.Evolve(k, r.Task())
		s.Is = events.GlanceAt(&k)
		steps = append(steps, s)
	}
	return steps
}

func observeNext(f *Fold, steps []events.Step, seq *uint64) {
	for i := range steps {
		*seq++
		steps[i].Record.Seq = *seq
	}
	f.Observe(steps)
}

func BenchmarkFold(b *testing.B) {
	steps := noopTask()
	f := NewFold(0, nil, nil, NewQueues())
	seq := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		observeNext(f, steps, &seq)
	}
}

// What is said again, because the log forgets what said it first, does not count.
func TestRetoldFactsDoNotCount(t *testing.T) {
	s := newStory(0)
	s.birth("a", "q")
	s.chain("a", task.AttemptStarted{Attempt: 1, Node: "n"})
	counted := func() string { return fmt.Sprint(series(t, s.fold)) }
	before := counted()
	is := *s.tasks["a"]
	s.add(events.Record{Kind: events.KindCarried, Fact: events.Fact{Task: "a", Event: task.Carried{Fold: is}}})
	s.chain("a", task.Kept{})
	s.add(events.Record{Kind: events.KindDefinition, Fact: events.Fact{Def: "job.a", Repeats: 1, Event: task.DefinitionApplied{}}})
	s.add(events.Record{Kind: events.KindCarried, Fact: events.Fact{Task: "b", Event: task.Carried{Fold: task.Task{ID: "b", State: task.Running}}}})
	s.chain("b", task.Kept{}) // of which nothing else is left
	if after := counted(); after != before {
		t.Errorf("counted\n%s\nwant\n%s", after, before)
	}
}
