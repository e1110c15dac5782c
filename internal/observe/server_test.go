package observe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/internal/metrics"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/node"
	"millrace/task/queue"
)

// model is a read model with canned answers.
type model struct {
	counts  map[string]map[task.State]int
	nodes   []node.Node
	oldest  map[string]time.Time
	overdue map[task.State]int
	waiting map[string]int
	routes  map[string][]string
	onNode  map[node.ID]int
	dead    [3]int // tasks, messages
	said    []queue.Queue
	pending []node.Route
	err     error
	asked   []time.Time // the times of its questions
}

func (v *model) Counts(context.Context) (map[string]map[task.State]int, uint64, error) {
	return v.counts, 7, v.err
}
func (v *model) Nodes(context.Context) ([]node.Node, uint64, error)   { return v.nodes, 7, v.err }
func (v *model) Oldest(context.Context) (map[string]time.Time, error) { return v.oldest, v.err }
func (v *model) Dead(context.Context) (map[task.Letter]int, int, error) {
	return map[task.Letter]int{task.LetterGivenUp: v.dead[0], task.LetterUsedUp: v.dead[2]}, v.dead[1], v.err
}
func (v *model) SaidOfQueues(context.Context) ([]queue.Queue, error) { return v.said, v.err }
func (v *model) Reached() uint64                                     { return 7 }
func (v *model) OnNode(_ context.Context, id node.ID) ([]task.ID, error) {
	return make([]task.ID, v.onNode[id]), v.err
}
func (v *model) Overdue(_ context.Context, before time.Time) (map[task.State]int, error) {
	v.asked = append(v.asked, before)
	return v.overdue, v.err
}
func (v *model) Waiting(_ context.Context, queue string, before time.Time, _ task.ID, limit int) ([]task.ID, error) {
	v.asked = append(v.asked, before)
	return make([]task.ID, min(v.waiting[queue], limit)), v.err
}

func (v *model) PendingRoutes(context.Context) ([]node.Route, error) { return v.pending, v.err }

func (v *model) Routes(_ context.Context, queue string) ([]string, error) {
	return append([]string{queue}, v.routes[queue]...), v.err
}

func figures(s metrics.Source) string {
	var lines []string
	s.Collect(func(f *metrics.Family, value float64, _ *metrics.Histogram, labels ...string) {
		if value != 0 {
			lines = append(lines, fmt.Sprintf("%s{%s} %.0f", strings.TrimPrefix(f.Name, "millrace_"), strings.Join(labels, ","), value))
		}
	})
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func TestServerFigures(t *testing.T) {
	now := time.Now()
	v := &model{
		counts: map[string]map[task.State]int{
			"default": {task.Pending: 3, task.Finished: 9}, "gpu": {task.Pending: 5}, "idle": {task.Finished: 1},
		},
		nodes: []node.Node{
			{ID: "n1", State: node.Online, Profile: node.Profile{Queues: []string{"default", "spare"}}},
			{ID: "n2", State: node.Draining, Since: now.Add(-time.Hour), Profile: node.Profile{Queues: []string{"gpu"}}},
			{ID: "gone", State: node.Offline, Since: now.Add(-time.Hour)},
			{ID: "leaving", State: node.Offline, Since: now},
		},
		oldest:  map[string]time.Time{"default": now.Add(-100 * time.Second), "gpu": now.Add(time.Hour)},
		overdue: map[task.State]int{task.Retrying: 2},
		waiting: map[string]int{"gpu": 3, "~9f86d0": 1, "default": 1},
		routes:  map[string][]string{"gpu": {"~9f86d0"}},
		pending: []node.Route{
			{Home: "default", Tasks: 3, Oldest: now.Add(-100 * time.Second), First: task.Task{State: task.Pending, Work: task.Work{Route: "default.5"}}},
			{Home: "gpu", Tasks: 5, Oldest: now.Add(-50 * time.Second), First: task.Task{State: task.Pending, Work: task.Work{Route: "gpu.5"}}},
		},
		dead:   [3]int{3, 2, 1},
		onNode: map[node.ID]int{"gone": 6, "leaving": 1, "n1": 1},
	}
	var failed []string
	s := &Server{
		Model: v, Settings: duties.Settings{StartDeadline: time.Minute, AckWait: 6 * time.Second, Slack: 2 * time.Second}, Patience: 25 * time.Second,
		Repairs: func() map[string]int64 { return map[string]int64{"offer": 1} }, Names: metrics.NewQueues(),
		Failed: func(source string) { failed = append(failed, source) },
	}
	want := `dead_letters{message} 2
dead_letters{task} 3
dead_letters{used_up} 1
nodes{draining} 1
nodes{offline} 2
nodes{online} 1
queue_depth{default} 3
queue_depth{gpu} 5
queue_nodes{default} 1
queue_nodes{spare} 1
queue_unserved_seconds{gpu} 50
queue_unserved_tasks{gpu} 5
sweep_repairs_total{offer} 1
task_oldest_pending_seconds{default} 100
tasks_stuck{orphaned} 6
tasks_stuck{retrying} 2
tasks_stuck{unserved} 4
tasks{default,finished} 9
tasks{default,pending} 3
tasks{gpu,pending} 5
tasks{idle,finished} 1`
	if got := figures(s); got != want {
		t.Errorf("the figures are\n%s\nwant\n%s", got, want)
	}
	for i, back := range []time.Duration{27 * time.Second, 87 * time.Second} { // the patience; and the start deadline, too
		if d := now.Add(-back).Sub(v.asked[i]).Abs(); d > 10*time.Second {
			t.Errorf("asked for what was overdue at %v, want %v ago", v.asked[i], back)
		}
	}

	v.err = errors.New("closed")
	if got := figures(s); got != "sweep_repairs_total{offer} 1" || !slices.Equal(failed, []string{"tasks"}) {
		t.Errorf("without a read model the figures are\n%s\nand %v has failed", got, failed)
	}
}

// Queues beyond the cap are added up, and the worst of them is shown.
func TestServerFiguresAreBounded(t *testing.T) {
	v := &model{counts: map[string]map[task.State]int{}}
	names := metrics.NewQueues()
	for i := range metrics.MaxQueues {
		names.Of(fmt.Sprint("known", i))
	}
	v.nodes = []node.Node{{ID: "n1", State: node.Online, Profile: node.Profile{Queues: []string{"q1", "@n1"}}}}
	v.oldest = map[string]time.Time{"q1": time.Now().Add(-100 * time.Second), "q2": time.Now().Add(-200 * time.Second)}
	for _, q := range []string{"q1", "q2", "@n1", "@n2"} {
		v.counts[q] = map[task.State]int{task.Pending: 2}
	}
	s := &Server{Model: v, Names: names, Repairs: func() map[string]int64 { return nil }, Failed: func(string) {}}
	want := `nodes{online} 1
queue_depth{node n1} 2
queue_depth{node n2} 2
queue_depth{other} 4
queue_nodes{node n1} 1
task_oldest_pending_seconds{other} 200
tasks{node n1,pending} 2
tasks{node n2,pending} 2
tasks{other,pending} 4`
	if got := figures(s); got != want {
		t.Errorf("the figures are\n%s\nwant\n%s", got, want)
	}
}

func TestChecks(t *testing.T) {
	now := time.Now()
	lag, loops := &metrics.Lag{}, metrics.NewLoops("sweep")
	up := true
	links := &Connections{}
	links.Add("one", func() bool { return true })
	links.Add("two", func() bool { return up })
	w := Worker{Slots: 4, Busy: 1}
	worker := AskWorker(func() Worker { return w })
	checks := map[string]Check{
		"lag": LagCheck(lag), "loop": LoopCheck(loops, "sweep", 10*time.Second), "links": links.Check(), "worker": worker.Check(6 * time.Second),
	}
	failing := func() string {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(checks)) {
			if checks[name].Ask(now) != nil {
				names = append(names, name)
			}
		}
		return strings.Join(names, " ")
	}
	step := func(what, want string) {
		t.Helper()
		if got := failing(); got != want {
			t.Errorf("%s: %q fail, want %q", what, got, want)
		}
	}
	step("at first", "lag loop worker")
	lag.Look(5, 5, now)
	loops.Looked("sweep", now, now, nil)
	w.Fetching, w.LastBeat = true, now
	step("when all is up", "")
	now = now.Add(8 * time.Second)
	step("without a heartbeat", "worker")
	now = now.Add(8 * time.Second)
	step("when nothing answers", "lag loop worker")
	up, w.LastBeat, w.Fetching = false, now, false
	loops.Looked("sweep", now, now, nil)
	lag.Look(9, 5, now)
	now = now.Add(6 * time.Second)
	lag.Look(9, 5, now)
	step("when the read model stands still", "lag links worker")
	if got := figures(worker); got != "worker_slots{busy} 1\nworker_slots{free} 3" {
		t.Errorf("the worker's figures are\n%s", got)
	}
	if got := figures(links); got != "connection_up{one} 1" {
		t.Errorf("the connections' figures are\n%s", got)
	}
}

// beats are heartbeats that are readable, or not.
type beats struct {
	Heartbeats
	alive map[node.ID]node.Heartbeat
	err   error
}

func (b *beats) Alive(context.Context) (map[node.ID]node.Heartbeat, error) { return b.alive, b.err }

func TestWatched(t *testing.T) {
	b := &beats{alive: map[node.ID]node.Heartbeat{"n1": {Session: "s", At: time.Now()}}}
	w := Watched{Heartbeats: b, Beats: metrics.NewBeats()}
	if alive, err := w.Alive(t.Context()); err != nil || len(alive) != 1 {
		t.Errorf("%v, %v", alive, err)
	}
	b.alive, b.err = nil, errors.New("no answer")
	if _, err := w.Alive(t.Context()); !errors.Is(err, b.err) {
		t.Errorf("the error is %v", err)
	}
	if got := figures(w.Beats); !strings.Contains(got, "node_heartbeats{} 1") { // without an answer nothing changes
		t.Errorf("the figures are\n%s", got)
	}
}

func TestFollowLag(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	lag := &metrics.Lag{}
	failed := make(chan string, 1)
	answers := []func() (uint64, error){
		func() (uint64, error) { return 0, errors.New("no answer") },
		func() (uint64, error) { stop(); return 9, nil },
	}
	last := func(context.Context) (uint64, error) {
		a := answers[0]
		answers = answers[1:]
		return a()
	}
	if err := FollowLag(ctx, lag, last, func() uint64 { return 4 }, func(s string) { failed <- s }); err != nil {
		t.Fatal(err)
	}
	if got := <-failed; got != "log" {
		t.Errorf("%s has failed", got)
	}
	if got := figures(lag); got != "read_model_lag_sequences{} 5\nread_model_sequence{} 4" {
		t.Errorf("the figures are\n%s", got)
	}
}

// A queue is closed during a pause, and outside the hours of its window. Of queues beyond the cap,
// a closed one is shown.
func TestClosedQueues(t *testing.T) {
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	names := metrics.NewQueues()
	for i := range metrics.MaxQueues - 6 {
		names.Of(fmt.Sprint("known", i))
	}
	paused := &queue.Pause{Since: noon.Add(-time.Hour)}
	v := &model{counts: map[string]map[task.State]int{}, said: []queue.Queue{
		{Name: "limited", Limit: 3},
		{Name: "paused", Paused: paused},
		{Name: "resumed", Paused: &queue.Pause{Since: paused.Since, Until: noon.Add(-time.Minute)}},
		{Name: "nightly", Valve: queue.Valve{Window: "night"}},
		{Name: "daily", Valve: queue.Valve{Window: "day"}},
		{Name: "both", Valve: queue.Valve{Window: "night"}, Paused: paused},
		{Name: "more"}, {Name: "more-paused", Paused: paused}, {Name: "most"},
	}}
	var failed []string
	texts := map[string]string{
		"night": `{"name":"night","rules":[{"closed":"06:00-22:00"}]}`,
		"day":   `{"name":"day","rules":[{"closed":"22:00-06:00"}]}`,
	}
	s := &Server{
		Model: v, Names: names, Now: func() time.Time { return noon }, Repairs: func() map[string]int64 { return nil },
		Failed: func(source string) { failed = append(failed, source) },
		Definition: func(_ context.Context, def task.Def) (task.Definition, error) {
			text, ok := texts[def.Name()]
			if !ok {
				return task.Definition{}, errors.New("cut off")
			}
			return task.Definition{Edition: task.Edition{Revision: 1, Text: []byte(text)}}, nil
		},
	}
	want := `queue_closed{both,paused} 1
queue_closed{both,window} 1
queue_closed{nightly,window} 1
queue_closed{other,paused} 1
queue_closed{paused,paused} 1`
	if got := figures(s); got != want || failed != nil {
		t.Errorf("the figures are\n%s\nwant\n%s; %v has failed", got, want, failed)
	}
	delete(texts, "day")
	if got := figures(s); strings.Contains(got, "queue_closed") || !slices.Equal(failed, []string{"queues"}) {
		t.Errorf("without a calendar the figures are\n%s\nand %v has failed", got, failed)
	}
}
