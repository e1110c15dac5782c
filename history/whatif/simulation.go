package whatif

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"millrace/events"
	"millrace/scheduler"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/duties"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/value"
)

// SimulationConfig is what a simulation cannot know by itself.
type SimulationConfig struct {
	// Settings are the bounds for all tasks.
	Settings duties.Settings
	// Handover is how long a node takes to claim a task that is offered, once it has a slot for it.
	Handover time.Duration
	// Runs says how long an attempt runs that has just started, and how it ends by itself.
	Runs func(t *task.Task) (took time.Duration, ends task.Command)
	// On is the node on which the next attempt of a task starts if it has a slot there; "" for the
	// one with the most free slots.
	On func(t *task.Task) node.ID
	// Stepped is called for each record that comes after the past, with its effect.
	Stepped func(step *events.Step)
}

// Simulation is a scheduler and nodes with a log, in simulated time. It is for one goroutine.
type Simulation struct {
	cfg   SimulationConfig
	model *ReadModel
	log   *events.Memory
	feed  events.Feed
	seen  uint64 // the last record that the model has
	rec   *events.Recorder
	sched *scheduler.Scheduler

	now   time.Time
	steps value.Heap[step]
	order int
	done  int // how many steps
	wakes map[time.Time]bool

	world   *node.Fleet            // nil until the past is over
	queues  map[string]queue.Queue // what operators say of them
	running map[string]int         // attempts by queue
	nodes   map[node.ID]*worker
	tasks   map[task.ID]*followed
	lanes   map[placement.Route][]*offer
	parents map[task.ID]bool // that go on soon
}

// followed is a task that has not ended.
type followed struct {
	*task.Task
	offered  *events.Record // the latest offer
	lane     *offer         // the one that a node may fetch; nil for none
	attempt  *attempt       // the one that runs; nil for none
	starting bool           // a node fetches it
}

// step is something that happens at a time.
type step struct {
	at    time.Time
	order int
	do    func()
}

func (s step) before(o step) bool {
	return cmp.Or(s.at.Compare(o.at), cmp.Compare(s.order, o.order)) < 0
}

// atOnce is how many records of the past the scheduler observes together.
const atOnce = 1000

// background is the context of everything: nothing ends a simulation.
var background = context.Background()

// NewSimulation returns a simulation of a log that began at a time, with its past: the records in order, of
// which those that decide nothing may be missing. The time is then that of the last one. Attempts that
// run go on, with the duration that [SimulationConfig.Runs] says.
func NewSimulation(began time.Time, past []events.Record, cfg SimulationConfig) *Simulation {
	s := &Simulation{
		now:     began,
		cfg:     cfg,
		model:   NewReadModel(),
		steps:   value.Heap[step]{Before: step.before},
		wakes:   map[time.Time]bool{},
		queues:  map[string]queue.Queue{},
		running: map[string]int{},
		nodes:   map[node.ID]*worker{},
		tasks:   map[task.ID]*followed{},
		lanes:   map[placement.Route][]*offer{},
		parents: map[task.ID]bool{},
	}
	s.log = events.NewMemory(s.Now, cfg.Settings.AckWait)
	ids := 0
	s.rec = &events.Recorder{Log: s.log, Now: s.Now, NewID: func(time.Time) string {
		ids++
		return fmt.Sprintf("01JNAF%020d", ids)
	}}
	s.sched = scheduler.New(s.log, s.model, beats{s: s}, scheduler.Config{
		Settings: cfg.Settings,
		Limits:   s.model,
		Refusing: 1,
		Flap:     node.FlapPolicy{Limit: -1},
		Now:      s.Now,
	})
	_ = s.sched.Sweep(background)           // of nothing: it has watched since then
	s.feed, _ = s.log.Follow(background, 1) // a log in memory can always be followed
	for some := range slices.Chunk(past, atOnce) {
		for i := range some {
			s.now = value.Later(s.now, some[i].Fact.At)
		}
		s.log.Import(some)
		s.observe()
	}
	s.look()
	for t := range s.model.All() {
		if k := s.tasks[t.ID]; k != nil {
			s.take(k)
		}
	}
	return s
}

// Now is the simulated time.
func (s *Simulation) Now() time.Time { return s.now }

// Task is a task as it is now, not to be modified; nil if there is none.
func (s *Simulation) Task(id task.ID) *task.Task { return s.model.Task(id) }

// ReadModel is the read model of the log.
func (s *Simulation) Model() *ReadModel { return s.model }

// At makes something happen at a time, or now if that is over, behind what was to happen then
// before.
func (s *Simulation) At(at time.Time, do func()) {
	s.order++
	s.steps.Push(step{at, s.order, do})
}

// wake makes the simulation look at a time whether anything can go on.
func (s *Simulation) wake(at time.Time) {
	if at.After(s.now) && !s.wakes[at] {
		s.wakes[at] = true
		s.At(at, func() { delete(s.wakes, at) })
	}
}

// mostSteps bounds how much happens: where two parts answer each other for ever, that ends.
const mostSteps = 10_000_000

// Run lets everything happen up to a time. It fails if that is more than ten million steps.
func (s *Simulation) Run(until time.Time) error {
	for s.settle(); s.steps.Len() > 0 && !s.steps.First().at.After(until); s.settle() {
		for now := s.steps.First().at; s.steps.Len() > 0 && !s.steps.First().at.After(now); {
			if s.done++; s.done > mostSteps {
				return fmt.Errorf("the simulation does not get beyond %s: after %d steps its tasks still answer each other", s.now.Format(time.RFC3339), mostSteps)
			}
			is := s.steps.Pop()
			s.now = value.Later(s.now, is.at)
			is.do()
			s.observe()
		}
	}
	return nil
}

// settle lets the scheduler and the nodes do what they can do now.
func (s *Simulation) settle() {
	for again := true; again; again = s.observe() {
		next, _ := s.sched.Look(background) // a log in memory always answers
		s.wake(next)
	}
	s.dispatch()
}

// Record writes a fact: a birth as of now, or any other as it is on its chain, wherever that ends.
// What follows from a fact about a task is made durable. One that the log cannot hold has no effect.
func (s *Simulation) Record(f *events.Fact) {
	if e, born := f.Event.(task.Submitted); born {
		_, _ = s.rec.SubmitOnce(background, f.Task, e) // that its unique key was free is in the script
		return
	}
	raw, err := events.Encode(nil, f)
	if err != nil {
		return
	}
	s.log.AppendRaw(*f, raw)
	if f.Task == "" {
		return
	}
	if t, err := s.rec.Load(background, f.Task); err == nil {
		_ = s.rec.Settle(background, &t)
	}
}

// Do decides a command on a task, and makes durable what follows. A command that is refused has no
// effect.
func (s *Simulation) Do(id task.ID, c task.Command) {
	t := s.Task(id)
	if t == nil {
		return
	}
	if is, _, err := s.rec.Do(background, *t, c); err == nil {
		_ = s.rec.Settle(background, &is)
	}
}

// End makes the running attempt of a task end with a command, as its worker would report it. What the
// rules refuse has no effect.
func (s *Simulation) End(id task.ID, c task.Command) {
	if k := s.tasks[id]; k != nil && k.attempt != nil {
		a := k.attempt
		_ = a.on.Report(background, &a.task, a.offer, c)
	}
}

// observe tells the model and the scheduler what is new in the log, and follows that up. It is false
// if nothing is.
func (s *Simulation) observe() bool {
	if last, _ := s.log.Last(background); last == s.seen {
		return false
	}
	records, _ := s.feed.Next(background) // there is one
	s.seen = records[len(records)-1].Seq
	steps := make([]events.Step, len(records))
	for i := range records {
		r := &records[i]
		steps[i] = s.model.Step(r)
		s.note(r, steps[i].Task)
		if s.cfg.Stepped != nil && s.world != nil {
			s.cfg.Stepped(&steps[i])
		}
	}
	s.sched.Observe(steps)
	if s.world == nil {
		return true
	}
	looks := false
	for i := range records {
		switch is := &steps[i]; {
		case is.Task != nil:
			s.follow(is)
		case is.Record.Kind == events.KindNode, is.Record.Kind == events.KindQueue:
			looks = true
		}
	}
	if looks {
		s.look()
		for t := range s.model.All() {
			if k := s.tasks[t.ID]; k != nil && (k.State == task.Pending || k.Live()) {
				s.owe(k, 0)
			}
		}
	}
	return true
}

// note keeps what a record says of a task, until that has ended.
func (s *Simulation) note(r *events.Record, t *task.Task) {
	switch {
	case t == nil:
	case t.State.Terminal():
		if k := s.tasks[t.ID]; k != nil && k.attempt == nil {
			delete(s.tasks, t.ID)
		}
	case t.State != task.Unknown:
		if s.tasks[t.ID] == nil {
			s.tasks[t.ID] = &followed{Task: t}
		}
		if r.Kind == events.KindOffer {
			is := *r
			s.tasks[t.ID].offered = &is
		}
	}
}

// look sees the nodes and queues anew.
func (s *Simulation) look() {
	nodes, at, _ := s.model.Nodes(background) // a model in memory always answers
	queues, _ := s.model.SaidOfQueues(background)
	s.world = node.NewFleet(nodes, at, s.now)
	for _, n := range nodes {
		s.worker(n.ID).Node = n
	}
	for _, q := range queues {
		if s.queues[q.Name] = q; q.Paused != nil {
			s.wake(q.Paused.Until)
		}
	}
}

// Waits of a scheduler.
const (
	// gather is how long the ends of children are collected before their parent goes on.
	gather = 20 * time.Millisecond
	// bears is how long it leaves births of children to the script.
	bears = 200 * time.Millisecond
)

// followParent lets a parent go on soon.
func (s *Simulation) followParent(id task.ID) {
	t := s.Task(id)
	if t == nil || s.parents[id] {
		return
	}
	wait := gather
	if t.Children == nil {
		wait = bears
	}
	for _, child := range birth.ChildIDs(t) {
		if s.Task(child) == nil {
			wait = bears
		}
	}
	s.parents[id] = true
	s.At(s.now.Add(wait), func() {
		delete(s.parents, id)
		_ = s.sched.Follow(background, id) // a log in memory always answers
	})
}

// follow takes the next step of a task after a fact.
func (s *Simulation) follow(is *events.Step) {
	k := s.tasks[is.Task.ID]
	if is.Is.State != is.Was.State {
		s.followParent(is.Is.Parent)
		if is.Task.Spec.Parental() || birth.Deserted(is.Is.State, is.Is.Reason) {
			s.followParent(is.Task.ID)
		}
	}
	if k == nil {
		return
	}
	if a := k.attempt; a != nil && (!k.Live() || k.Epoch != a.task.Epoch) {
		a.on.Vacate(&a.task)
		s.free(a.on, &a.task)
		k.attempt = nil
	}
	if k.State.Terminal() {
		delete(s.tasks, k.ID)
		return
	}
	s.goOn(k)
}

// take begins with a task as the past leaves it.
func (s *Simulation) take(k *followed) {
	if k.Live() && k.Epoch > 0 {
		on := s.worker(node.ID(k.Node)) // a part of a log may have its attempts alone
		offer := &events.Offer{Lease: lease{s: s}}
		on.Occupy(k.Task)
		s.run(k, on, offer)
	}
	if k.Waiting() {
		t := *k.Task
		_ = s.rec.Settle(background, &t)
	}
	if k.Spec.Parental() {
		s.followParent(k.ID)
	}
	s.goOn(k)
}

// goOn does what a task needs in its present state.
func (s *Simulation) goOn(k *followed) {
	switch {
	case k.State == task.Pending && k.Offered:
		if k.offered != nil && (k.lane == nil || k.lane.turn != k.Turn || k.lane.route != k.Route) {
			k.lane = &offer{task: k, record: *k.offered, turn: k.Turn, route: k.Route}
			s.lanes[k.Route] = append(s.lanes[k.Route], k.lane)
		}
	case k.Waiting() && !k.Offered:
		s.wake(k.Due) // by then its timer has fired
	case k.State == task.Cancelling && k.attempt != nil:
		s.At(s.now, func() { s.End(k.ID, task.Stopped{Epoch: k.Epoch}) })
	}
	s.owe(k, 0)
}

// owe makes the scheduler see to the duty of a task when that is overdue. If it does nothing then, it
// is asked again and again, after a wait that grows.
func (s *Simulation) owe(k *followed, wait time.Duration) {
	if k.starting {
		return
	}
	w := s.world.Again(s.now)
	for _, q := range s.queues {
		w.Tell(q)
	}
	d := duties.Owes(*k.Task, w.Around(k.Task), s.cfg.Settings)
	if d.Command == nil || d.Look || d.By.IsZero() {
		return
	}
	seq := k.Seq
	s.At(value.Later(d.By.Add(1), s.now.Add(wait)), func() { // overdue is what its time is over
		if k.Seq != seq || k.starting {
			return
		}
		_ = s.sched.Enforce(background, k.ID) // a log in memory always answers
		if last, _ := s.log.Last(background); last == s.seen {
			s.owe(k, max(2*wait, time.Second))
		}
	})
}
