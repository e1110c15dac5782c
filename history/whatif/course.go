package whatif

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/internal/collections"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/duties"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/value"
)

// played is a task of a course.
type played struct {
	task.Task
	counters []limit.Counter
	places   bool // it has them under its limits
	taken    int  // slots that it has on its node
	starting bool // a node fetches it
	began    time.Time
	sure     string // the lowest certainty among its attempts
}

// course is the life of a log's tasks from a moment on: actions of people and machines come as
// recorded, the rules decide how tasks and nodes react, and the model gives the durations of
// attempts.
type course struct {
	*model
	other    verify.Other
	settings duties.Settings

	now     time.Time
	seq     uint64
	order   int
	steps   collections.Of[step]
	tasks   map[task.ID]*played
	open    map[task.ID]*played // those that have not ended
	nodes   map[node.ID]node.Node
	world   *node.Fleet
	busy    map[node.ID]int
	queues  map[string]queue.Queue
	running map[string]int // by queue
	used    map[string]int // places by counter
	offered map[placement.Route][]turn
	admits  []turn
	needing map[task.ID][]task.ID
	depths  map[string]*Depth
}

// turn is a turn of a task. It is over once the task has another.
type turn struct {
	id   task.ID
	turn uint64
}

// step is a scheduled event.
type step struct {
	at     time.Time
	order  int
	task   task.ID
	epoch  uint64         // for an end, the attempt; for a start or a due time, the turn
	node   node.ID        // for a start
	ends   task.Command   // for an end
	record *events.Record // for a recorded event
	kind   byte
}

// Kinds of steps.
const (
	stepRecord = iota
	stepDue    // a waiting task is due
	stepStart  // a node has fetched it
	stepEnd    // its attempt ends
	stepDuty   // a deadline passes
)

func (s step) before(o step) bool {
	return cmp.Or(s.at.Compare(o.at), cmp.Compare(s.order, o.order)) < 0
}

// Depth is the history of a queue's length.
type Depth struct {
	// Most is the largest number waiting at once. Emptied is when it last fell to none; zero if
	// some wait.
	Most    int       `json:"most"`
	Emptied time.Time `json:"emptied,omitzero"`
	now     int
}

// beyond is how long a course continues after the end of the log.
const beyond = 30 * 24 * time.Hour

// play plays a log from a sequence on under other settings.
func play(m *model, records []events.Record, from uint64, settings duties.Settings, other verify.Other) *course {
	c := &course{
		steps:    collections.Of[step]{Before: step.before},
		model:    m,
		other:    other,
		settings: settings,
		tasks:    map[task.ID]*played{},
		open:     map[task.ID]*played{},
		nodes:    map[node.ID]node.Node{},
		busy:     map[node.ID]int{},
		queues:   map[string]queue.Queue{},
		running:  map[string]int{},
		used:     map[string]int{},
		offered:  map[placement.Route][]turn{},
		needing:  map[task.ID][]task.ID{},
		depths:   map[string]*Depth{},
	}
	last, ttls := time.Time{}, map[node.ID]time.Duration{}
	for i := range records {
		r := &records[i]
		if e, ok := r.Fact.Event.(node.Registered); ok {
			ttls[r.Fact.Node] = e.TTL.Std()
		}
		c.seq = max(c.seq, r.Seq)
		if last = value.Later(last, r.Fact.At); r.Seq >= from {
			c.push(step{at: c.recordedAt(r, records[i+1:], ttls[r.Fact.Node]), record: r, kind: stepRecord})
			continue
		}
		if c.now = value.Later(c.now, r.Fact.At); r.Fact.Task == "" {
			c.others(r)
			continue
		}
		k := c.tasks[r.Fact.Task]
		if k == nil {
			k = &played{Task: task.Task{ID: r.Fact.Task}}
			c.tasks[k.ID] = k
		}
		k.Apply(r.Task())
	}
	c.look()
	for _, id := range slices.Sorted(maps.Keys(c.tasks)) {
		c.take(c.tasks[id])
	}
	end := last.Add(beyond)
	for c.steps.Len() > 0 && !c.steps.First().at.After(end) {
		s := c.steps.Pop()
		c.now = value.Later(c.now, s.at)
		c.do(&s)
		if c.steps.Len() == 0 || c.steps.First().at.After(c.now) {
			c.dispatch()
		}
	}
	return c
}

// recordedAt is when a recorded event comes: a node is found lost when its heartbeat has expired.
func (c *course) recordedAt(r *events.Record, behind []events.Record, ttl time.Duration) time.Time {
	e, ok := r.Fact.Event.(node.WentOffline)
	if ok && e.Lost && c.other.NodeTTL > 0 && ttl > 0 {
		at := r.Fact.At.Add(c.other.NodeTTL - ttl)
		for i := range behind {
			if b := &behind[i]; b.Fact.Node == r.Fact.Node && b.Kind == events.KindNode {
				if at.After(b.Fact.At) {
					return time.Time{} // it was back before
				}
				break
			}
		}
		return at
	}
	return r.Fact.At
}

func (c *course) push(s step) {
	if s.at.IsZero() {
		return
	}
	c.order++
	s.order = c.order
	c.steps.Push(s)
}

// take begins with a task in its state in the log at that moment.
func (c *course) take(k *played) {
	if k.State == task.Unknown {
		return
	}
	k.sure = Recorded
	c.born(k)
	if k.Live() && k.Epoch > 0 {
		k.began = k.StartedAt
		c.seize(k, node.ID(k.Node))
		c.willEnd(k)
	}
	if k.State == task.Pending {
		c.depth(k, 1)
	}
	if len(k.counters) > 0 && (k.State == task.Pending || k.Live()) {
		c.place(k, 1)
	}
	c.follows(k)
}

// born registers the dependencies of a task, and applies the other settings to it.
func (c *course) born(k *played) {
	if c.other.Spec != nil && k.Spec != nil {
		k.Task = k.Otherwise(c.other.Spec(k.Job, k.Spec))
	}
	if all, err := k.Counters(); err == nil {
		for _, of := range all {
			if of.Max > 0 {
				k.counters = append(k.counters, of)
			}
		}
	}
	if k.Needs != nil {
		for _, n := range k.Needs.Of {
			c.needing[n.Task] = append(c.needing[n.Task], k.ID)
		}
	}
}

// do does a step.
func (c *course) do(s *step) {
	k := c.tasks[s.task]
	switch s.kind {
	case stepRecord:
		c.recorded(s.record)
	case stepDue:
		if k.Turn == s.epoch && k.Waiting() && !k.Offered {
			c.offer(k)
		}
	case stepStart:
		c.starts(k, s)
	case stepEnd:
		if k.Live() && k.Epoch == s.epoch {
			c.decide(k, s.ends)
		}
	case stepDuty:
		c.owes(k)
	}
}

// recorded replays a recorded event, if it comes from outside.
func (c *course) recorded(r *events.Record) {
	if r.Fact.Task == "" {
		c.others(r)
		return
	}
	k := c.tasks[r.Fact.Task]
	if e, ok := r.Fact.Event.(task.Submitted); ok {
		if k == nil {
			k = &played{Task: task.Task{ID: r.Fact.Task}, sure: Recorded}
			c.tasks[k.ID] = k
			c.add(&k.Task, e, r.Kind == events.KindChain)
			c.born(k)
			if k.State == task.Pending {
				c.depth(k, 1)
			}
			c.follows(k)
		}
		return
	}
	if k == nil {
		return
	}
	same := k.Live() && k.Epoch > 0
	switch e := r.Fact.Event.(type) {
	case task.AttemptReleased:
		if same && k.Attempt == e.Attempt && k.Node == c.nodeOf(k.ID, e.Attempt) {
			c.decide(k, task.Release{Epoch: k.Epoch, Reason: e.Reason})
		}
	case task.AttemptExtended:
		if same && k.Attempt == e.Attempt {
			c.decide(k, task.Extend{Epoch: k.Epoch, Until: e.Until})
		}
	case task.CancelRequested:
		c.decide(k, task.Cancel{Reason: e.Reason})
	case task.CancelConfirmed:
		if e.Epoch == 0 && e.Code == "" {
			c.decide(k, task.Cancel{Reason: e.Reason})
		}
	case task.Unheld:
		if e.Hold != task.HoldNeeds {
			c.decide(k, task.Unhold{Hold: e.Hold, Reason: e.Reason})
		}
	case task.Reopened:
		c.decide(k, task.Reopen{Reason: e.Reason, Again: e.Again})
	case task.Expanded:
		c.happen(k, e)
	case task.Reassigned:
		if k.Waiting() && k.Route == e.From {
			c.happen(k, e)
		}
	case task.Postponed:
		if k.Waiting() && e.Due.After(c.now) {
			c.happen(k, e)
		}
	}
}

// others adds a record that is not about a task.
func (c *course) others(r *events.Record) {
	switch r.Kind {
	case events.KindNode:
		n := c.nodes[r.Fact.Node]
		n.ID = r.Fact.Node
		is := r.Node()
		if c.world != nil {
			is.At = c.now // it may come at another time than recorded
		}
		c.nodes[n.ID] = node.Evolve(n, is)
		if c.world != nil {
			c.look()
			for _, id := range slices.Sorted(maps.Keys(c.open)) {
				if k := c.open[id]; k != nil && (k.State == task.Pending || k.Live() && k.Node == string(n.ID)) {
					c.owes(k)
				}
			}
		}
	case events.KindQueue:
		if e, ok := r.Fact.Event.(queue.Event); ok {
			q := c.queues[r.Fact.Queue]
			q.Name = r.Fact.Queue
			q = queue.Evolve(q, r.Seq, r.Fact.At, r.Fact.Actor, e)
			c.queues[q.Name] = q
			if q.Paused != nil {
				c.push(step{at: q.Paused.Until, kind: stepRecord, record: &events.Record{}})
			}
		}
	}
}

// look sees the nodes anew.
func (c *course) look() {
	var all []node.Node
	for _, n := range c.nodes {
		all = append(all, n)
	}
	c.world = node.NewFleet(all, c.seq, c.now)
}

func (c *course) around(k *played) duties.Surroundings {
	w := c.world.Again(c.now)
	for _, q := range c.queues {
		w.Tell(q)
	}
	return w.Around(&k.Task)
}

// add adds an event to a task, like the next message of the log.
func (c *course) add(t *task.Task, e task.Event, chain bool) {
	c.seq++
	t.Apply(task.Recorded{Seq: c.seq, Chain: chain, At: c.now, Event: e})
}

// decide applies a command to a task. A refused one has no effect.
func (c *course) decide(k *played, command task.Command) {
	if e, err := k.Decide(command, c.now); err == nil && e != nil {
		c.happen(k, e)
	}
}

// happen adds an event to the chain of a task.
func (c *course) happen(k *played, e task.Event) {
	c.change(k, func() { c.add(&k.Task, e, true) })
}

// change changes a task, and triggers the consequences.
func (c *course) change(k *played, do func()) {
	was, epoch, held, on := k.State, k.Epoch, k.taken, node.ID(k.Node)
	do()
	if was == task.Pending && k.State != task.Pending {
		c.depth(k, -1)
	} else if was != task.Pending && k.State == task.Pending {
		c.depth(k, 1)
	}
	if held > 0 && (!k.Live() || k.Epoch != epoch) {
		c.busy[on] -= held
		c.running[k.QueueName()]--
		k.taken = 0
	}
	if k.places && (k.State.Terminal() || k.Admissible()) {
		c.place(k, -1)
	}
	c.follows(k)
}

// follows schedules the next step of a task.
func (c *course) follows(k *played) {
	if k.State.Terminal() {
		delete(c.open, k.ID)
		c.ended(k)
		return
	}
	c.open[k.ID] = k
	switch {
	case k.Admissible():
		c.admits = append(c.admits, turn{k.ID, k.Turn})
	case k.Waiting() && len(k.Holds) == 0 && !k.Offered:
		if k.Due.After(c.now) {
			c.push(step{at: k.Due, task: k.ID, epoch: k.Turn, kind: stepDue})
		} else {
			c.offer(k)
			return
		}
	case k.State == task.Pending && k.Offered:
		c.offered[k.Route] = append(c.offered[k.Route], turn{k.ID, k.Turn})
	case k.State == task.Held && k.Needs != nil:
		c.needs(k)
	case k.State == task.Cancelling && k.Epoch > 0:
		c.push(step{at: c.now, task: k.ID, epoch: k.Epoch, ends: task.Stopped{Epoch: k.Epoch}, kind: stepEnd})
	case k.Spec.Parental() && k.Live():
		c.parent(k)
		if k.State.Terminal() {
			return
		}
	}
	c.owes(k)
}

// offer offers a task that is due.
func (c *course) offer(k *played) {
	c.change(k, func() {
		c.add(&k.Task, task.Due{After: k.Turn, Route: k.Route, Due: k.Due}, false)
		if e, ok := task.NextOffer(&k.Task); ok && !k.Offered {
			c.add(&k.Task, e, false)
		}
	})
}

// owes makes a deadline pass, or schedules it.
func (c *course) owes(k *played) {
	d := duties.Owes(k.Task, c.around(k), c.settings)
	switch {
	case d.Command == nil || d.Look || d.By.IsZero() || k.starting:
	case d.By.After(c.now):
		c.push(step{at: d.By, task: k.ID, kind: stepDuty})
	default:
		c.decide(k, d.Command)
	}
}

// needs opens the hold of a task if all its needs have ended as required, or ends the task.
func (c *course) needs(k *played) {
	if !slices.Contains(k.Holds, task.HoldNeeds) {
		return
	}
	known := make([]task.Input, len(k.Needs.Of))
	for i, n := range k.Needs.Of {
		if of := c.tasks[n.Task]; of != nil && of.State.Terminal() {
			known[i] = task.InputOf(&of.Task)
		}
	}
	if command, err := k.Needs.Follow(known); err == nil && command != nil {
		c.decide(k, command)
	}
}

// parent ends a parent if its children have ended.
func (c *course) parent(k *played) {
	if k.Children == nil {
		return
	}
	ends := map[task.ID]task.End{}
	for _, name := range k.Children.Names {
		id := birth.ChildID(k.ID, name)
		if child := c.tasks[id]; child != nil {
			ends[id] = task.EndOf(&child.Task)
		}
	}
	if command, ok := birth.Follow(&k.Task, ends); ok {
		c.decide(k, command)
	}
}

// ended triggers the steps that wait for the end of a task.
func (c *course) ended(k *played) {
	for _, id := range c.needing[k.ID] {
		if n := c.tasks[id]; n.Waiting() {
			c.needs(n)
		}
	}
	if p := c.tasks[k.Parent]; p != nil && p.Live() {
		c.parent(p)
	}
}

// dispatch admits tasks for which limits have places, and makes nodes fetch tasks for their free
// slots.
func (c *course) dispatch() {
	waits := c.admits[:0:0]
	for _, a := range c.admits {
		k := c.tasks[a.id]
		switch {
		case !k.Admissible() || k.Turn != a.turn:
		case k.Due.After(c.now):
			c.push(step{at: k.Due, kind: stepRecord, record: &events.Record{}})
			waits = append(waits, a)
		case slices.ContainsFunc(k.counters, func(of limit.Counter) bool { return c.used[of.Name] >= of.Max }):
			waits = append(waits, a)
		default:
			c.place(k, 1)
			c.change(k, func() { c.add(&k.Task, task.AdmittedOffer(k.Task, 0), false) })
		}
	}
	c.admits = append(waits, c.admits[len(c.admits):]...)
	routes := slices.SortedFunc(maps.Keys(c.offered), func(a, b placement.Route) int {
		return cmp.Or(b.Priority()-a.Priority(), cmp.Compare(a, b))
	})
	for _, route := range routes {
		c.fetch(route)
	}
}

// tried is how many tasks of a route are examined that no node with a free slot may run.
const tried = 64

// fetch makes nodes fetch from a route.
func (c *course) fetch(route placement.Route) {
	lane := c.offered[route]
	var left []turn
	for len(lane) > 0 && len(left) < tried {
		k := c.tasks[lane[0].id]
		switch {
		case k.State != task.Pending || !k.Offered || k.Turn != lane[0].turn || k.Route != route || k.starting:
		case c.shut(k):
			left = append(left, lane[0])
		default:
			if on, ok := c.choose(k); ok {
				k.starting = true
				c.seize(k, on)
				c.push(step{at: c.now.Add(c.handover), task: k.ID, epoch: k.Turn, node: on, kind: stepStart})
			} else {
				left = append(left, lane[0])
			}
		}
		lane = lane[1:]
	}
	if c.offered[route] = append(left, lane...); len(c.offered[route]) == 0 {
		delete(c.offered, route)
	}
}

// shut tells whether the queue of a task lets none start.
func (c *course) shut(k *played) bool {
	q, known := c.queues[k.QueueName()]
	return known && (q.PausedAt(c.now) != nil || q.Limit > 0 && c.running[k.QueueName()] >= q.Limit)
}

// choose chooses a node with free slots: the recorded one of the attempt, else the one with the
// most free slots.
func (c *course) choose(k *played) (best node.ID, ok bool) {
	had := node.ID(c.nodeOf(k.ID, k.Attempt+1))
	most := 0
	want := node.WantOfTask(&k.Task)
	for id, n := range c.nodes {
		free := n.Slots - c.busy[id]
		if free < k.Spec.Cost() {
			continue
		}
		if own, is := k.Route.Node(); is && own != string(id) {
			continue
		}
		if rule, _ := n.Excluded(want); rule != "" {
			continue
		}
		if id == had {
			return id, true
		}
		if free > most || free == most && id < best {
			best, most, ok = id, free, true
		}
	}
	return best, ok
}

// seize takes the slots for a task.
func (c *course) seize(k *played, on node.ID) {
	k.taken = k.Spec.Cost()
	c.busy[on] += k.taken
	c.running[k.QueueName()]++
}

// starts makes a node start a fetched task.
func (c *course) starts(k *played, s *step) {
	k.starting = false
	cost := k.taken
	k.taken = 0
	c.busy[s.node] -= cost
	c.running[k.QueueName()]--
	n := c.nodes[s.node]
	if k.State != task.Pending || k.Turn != s.epoch {
		return
	}
	if !n.Takes() {
		c.offered[k.Route] = append([]turn{{k.ID, k.Turn}}, c.offered[k.Route]...)
		return
	}
	e, err := k.Decide(task.Claim{
		Node:    string(n.ID),
		Session: n.Session,
		Offer:   k.Seq,
		After:   k.Turn,
		Labels:  n.Selectable(),
		At:      n.Head,
	}, c.now)
	if err != nil {
		return
	}
	_, runs := e.(task.AttemptStarted)
	c.happen(k, e)
	if runs {
		if k.began.IsZero() {
			k.began = c.now
		}
		c.seize(k, s.node)
		c.willEnd(k)
	}
}

// willEnd schedules the end of an attempt.
func (c *course) willEnd(k *played) {
	took, ends, sure := c.run(&k.Task)
	if k.sure == Recorded || sure == Guessed {
		k.sure = sure
	}
	at := k.StartedAt.Add(took)
	if until := k.RunUntil(); !until.IsZero() && at.After(until) {
		at, ends = until, task.Fail{Class: value.Timeout, Message: "its run timeout has passed"}
	}
	switch e := ends.(type) {
	case task.Finish:
		e.Epoch = k.Epoch
		ends = e
	case task.Fail:
		e.Epoch = k.Epoch
		ends = e
	}
	c.push(step{at: at, task: k.ID, epoch: k.Epoch, ends: ends, kind: stepEnd})
}

// place gives a task its places under its limits, or takes them back.
func (c *course) place(k *played, n int) {
	k.places = n > 0
	for _, of := range k.counters {
		c.used[of.Name] += n
	}
}

func (c *course) depth(k *played, n int) {
	d := c.depths[k.QueueName()]
	if d == nil {
		d = &Depth{}
		c.depths[k.QueueName()] = d
	}
	d.now += n
	d.Most = max(d.Most, d.now)
	if d.Emptied = (time.Time{}); d.now == 0 {
		d.Emptied = c.now
	}
}
