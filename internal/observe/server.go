package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/internal/metrics"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/schedule"
)

// Model is a monitor's port to the read model.
type Model interface {
	Counts(ctx context.Context) (map[string]map[task.State]int, uint64, error)
	Nodes(ctx context.Context) ([]node.Node, uint64, error)
	// Oldest is since when the longest waiting task of each queue has been pending.
	Oldest(ctx context.Context) (map[string]time.Time, error)
	// Overdue counts tasks whose own deadline passed before a time.
	Overdue(ctx context.Context, before time.Time) (map[task.State]int, error)
	// Waiting lists tasks of a queue that have been pending since before a time.
	Waiting(ctx context.Context, queue string, before time.Time, after task.ID, limit int) ([]task.ID, error)
	// PendingRoutes returns the routes on which tasks are pending.
	PendingRoutes(ctx context.Context) ([]node.Route, error)
	// Routes returns the routes on which tasks of a queue wait.
	Routes(ctx context.Context, queue string) ([]string, error)
	// OnNode lists the tasks that run on a node.
	OnNode(ctx context.Context, id node.ID) ([]task.ID, error)
	// Dead counts the dead letters.
	Dead(ctx context.Context) (tasks map[task.Letter]int, messages int, err error)
	// SaidOfQueues returns the queues that have facts.
	SaidOfQueues(ctx context.Context) ([]queue.Queue, error)
	// Reached is the sequence that all answers reflect.
	Reached() uint64
}

// maxStuck bounds how many tasks of a kind are counted.
const maxStuck = 1000

// lookTimeout bounds the reads of one scrape.
const lookTimeout = 10 * time.Second

// Server emits the present figures of a server process. It is a [metrics.Source].
type Server struct {
	Model Model
	// Settings are the bounds that the scheduler enforces. Patience is how long after such a bound
	// it may take to act: a few sweeps.
	Settings duties.Settings
	Patience time.Duration
	// Repairs counts the repairs of the scheduler's sweep, by kind.
	Repairs func() map[string]int64
	// Definition reads definitions: the calendars of queues' windows.
	Definition func(context.Context, task.Def) (task.Definition, error)
	// Names are the names under which queues are shown.
	Names *metrics.Queues
	// Now is the clock for stuck tasks. Default [time.Now].
	Now func() time.Time
	// Failed is called with the source of a failed read.
	Failed func(source string)
}

// Collect reads the read model.
func (s *Server) Collect(emit metrics.Emit) {
	for kind, n := range s.Repairs() {
		emit(metrics.SweepRepairs, float64(n), nil, kind)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	counts, _, err := s.Model.Counts(ctx)
	if s.failed("tasks", err) {
		return
	}
	nodes, _, err := s.Model.Nodes(ctx)
	if s.failed("nodes", err) {
		return
	}
	depth := s.tasks(emit, counts)
	s.nodes(emit, nodes, depth)
	said, err := s.Model.SaidOfQueues(ctx)
	if err == nil {
		err = s.closed(ctx, emit, said)
	}
	s.failed("queues", err)
	routes, err := s.Model.PendingRoutes(ctx)
	if !s.failed("routes", err) {
		s.unserved(emit, node.UnservedOf(routes, nodes, said, s.now()), depth)
	}
	oldest, err := s.Model.Oldest(ctx)
	if !s.failed("oldest", err) {
		s.oldest(emit, oldest, depth)
	}
	tasks, messages, err := s.Model.Dead(ctx)
	if !s.failed("dead", err) {
		emit(metrics.DeadLetters, float64(tasks[task.LetterGivenUp]), nil, "task")
		emit(metrics.DeadLetters, float64(tasks[task.LetterUsedUp]), nil, "used_up")
		emit(metrics.DeadLetters, float64(messages), nil, "message")
	}
	stuck, err := s.stuck(ctx, s.now(), nodes, counts)
	if !s.failed("stuck", err) {
		for _, kind := range stuckKinds {
			emit(metrics.TasksStuck, float64(stuck[kind]), nil, kind)
		}
	}
}

func (s *Server) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

func (s *Server) failed(source string, err error) bool {
	if err != nil {
		s.Failed(source)
	}
	return err != nil
}

// tasks emits the counts, and returns the depth of each queue by the queue's own name.
func (s *Server) tasks(emit metrics.Emit, counts map[string]map[task.State]int) map[string]int {
	type key struct {
		queue string
		state task.State
	}
	sums, depths, depth := map[key]int{}, map[string]int{}, map[string]int{}
	for queue, states := range counts {
		shown := s.Names.Of(queue)
		depth[queue] = states[task.Pending]
		depths[shown] += states[task.Pending]
		for state, n := range states {
			sums[key{shown, state}] += n
		}
	}
	for k, n := range sums {
		emit(metrics.Tasks, float64(n), nil, k.queue, k.state.String())
	}
	for queue, n := range depths {
		emit(metrics.QueueDepth, float64(n), nil, queue)
	}
	return depth
}

func (s *Server) nodes(emit metrics.Emit, nodes []node.Node, depth map[string]int) {
	states := map[string]int{}
	for st := node.Online; !strings.HasPrefix(st.String(), "state("); st++ {
		states[st.String()] = 0
	}
	serving := map[string]int{}
	for queue := range depth {
		serving[queue] = 0
	}
	for i := range nodes {
		n := &nodes[i]
		states[n.State.String()]++
		for _, q := range n.Queues {
			serving[q] += 0
		}
	}
	for queue := range serving {
		for i := range nodes {
			if serves(nodes[i], queue) {
				serving[queue]++
			}
		}
	}
	for state, n := range states {
		emit(metrics.Nodes, float64(n), nil, state)
	}
	// Of queues that share a name, the one with the fewest nodes is shown.
	shown := map[string]int{}
	for queue, n := range serving {
		name := s.Names.Of(queue)
		if have, ok := shown[name]; !ok || n < have {
			shown[name] = n
		}
	}
	for name, n := range shown {
		emit(metrics.QueueNodes, float64(n), nil, name)
	}
}

// serves tells whether a node takes work from a queue, which may be its own route.
func serves(n node.Node, queue string) bool {
	if id, own := placement.NodeOf(queue); own {
		n.Queues = []string{queue}
		return string(n.ID) == id && n.Serves(queue)
	}
	return n.Serves(queue)
}

// Why a queue is closed.
const (
	byPause  = "paused"
	byWindow = "window"
)

// closed emits whether the queues with facts are closed, and why. Of queues that share a name, a
// closed one is shown.
func (s *Server) closed(ctx context.Context, emit metrics.Emit, said []queue.Queue) error {
	type key struct{ queue, why string }
	shown, now := map[key]float64{}, s.now()
	for i := range said {
		q := &said[i]
		why := map[string]bool{byPause: q.PausedAt(now) != nil, byWindow: false}
		shut, _, err := schedule.Flow(q.Valve, now, func(calendar string) (task.Definition, error) {
			return s.Definition(ctx, task.Named(task.DefCalendar, calendar))
		})
		if err != nil {
			return err
		}
		why[byWindow] = shut != nil
		for why, closed := range why {
			k := key{s.Names.Of(q.Name), why}
			if shown[k] += 0; closed {
				shown[k] = 1
			}
		}
	}
	for k, closed := range shown {
		emit(metrics.QueueClosed, closed, nil, k.queue, k.why)
	}
	return nil
}

// unserved emits how many tasks of each queue no node takes, and for how long.
func (s *Server) unserved(emit metrics.Emit, unserved map[string]*node.Unserved, depth map[string]int) {
	now := s.now()
	tasks, ages := map[string]int{}, map[string]float64{}
	for queue := range depth {
		name := s.Names.Of(queue)
		if tasks[name] += 0; unserved[queue] != nil {
			tasks[name] += unserved[queue].Tasks
			ages[name] = max(ages[name], now.Sub(unserved[queue].Since).Seconds())
		}
	}
	for name, n := range tasks {
		emit(metrics.UnservedTasks, float64(n), nil, name)
		emit(metrics.UnservedFor, ages[name], nil, name)
	}
}

func (s *Server) oldest(emit metrics.Emit, oldest map[string]time.Time, depth map[string]int) {
	now := s.now()
	shown := map[string]float64{}
	for queue := range depth {
		age := 0.0
		if since, ok := oldest[queue]; ok {
			age = max(now.Sub(since), 0).Seconds()
		}
		name := s.Names.Of(queue)
		shown[name] = max(shown[name], age)
	}
	for name, age := range shown {
		emit(metrics.OldestPending, age, nil, name)
	}
}

// Kinds of stuck tasks, beside the states whose own deadline has passed.
const (
	// unserved tasks have waited in a queue without nodes for longer than the start deadline.
	unserved = "unserved"
	// orphaned tasks run on a node that has been offline for longer than a lease.
	orphaned = "orphaned"
)

var stuckKinds = []string{
	task.Scheduled.String(), task.Retrying.String(), task.Pending.String(), task.Running.String(), task.Cancelling.String(), unserved, orphaned,
}

// stuck counts, by kind, the tasks for which an action is overdue.
func (s *Server) stuck(ctx context.Context, now time.Time, nodes []node.Node, counts map[string]map[task.State]int) (map[string]int, error) {
	stuck := map[string]int{}
	patience := s.Settings.Slack + s.Patience
	overdue, err := s.Model.Overdue(ctx, now.Add(-patience))
	if err != nil {
		return nil, err
	}
	for state, n := range overdue {
		stuck[state.String()] = n
	}
	for queue, states := range counts {
		if s.Settings.StartDeadline == 0 { // nothing ends them, so nothing is overdue
			break
		}
		if states[task.Pending] == 0 || slices.ContainsFunc(nodes, func(n node.Node) bool { return serves(n, queue) }) {
			continue
		}
		routes, err := s.Model.Routes(ctx, queue)
		if err != nil {
			return nil, err
		}
		for _, route := range routes {
			ids, err := s.Model.Waiting(ctx, route, now.Add(-s.Settings.StartDeadline-patience), "", maxStuck)
			if err != nil {
				return nil, err
			}
			stuck[unserved] = min(stuck[unserved]+len(ids), maxStuck)
		}
	}
	for i := range nodes {
		n := &nodes[i]
		if n.State != node.Offline || now.Sub(n.Since) < s.Settings.AckWait+patience {
			continue
		}
		ids, err := s.Model.OnNode(ctx, n.ID)
		if err != nil {
			return nil, err
		}
		stuck[orphaned] = min(stuck[orphaned]+len(ids), maxStuck)
	}
	return stuck, nil
}

// LoopCheck returns the [Check] that a loop of the scheduler has completed a round without an error
// within a time.
func LoopCheck(loops *metrics.Loops, name string, within time.Duration) Check {
	return Check{Name: "scheduler's " + name, Ask: func(now time.Time) error {
		last := loops.Last(name)
		switch {
		case last.IsZero():
			return errors.New("it has not looked yet")
		case now.Sub(last) > within:
			return fmt.Errorf("it last looked %v ago", now.Sub(last).Round(time.Second))
		}
		return nil
	}}
}
