package events

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"millrace/task"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/queue"
)

// Memory is a complete log in memory, for tests and experiments. Time comes from a function, so it
// runs as fast as its caller likes: leases expire and timers fire by that clock.
type Memory struct {
	now     func() time.Time
	ackWait time.Duration

	mu      sync.Mutex
	records []Record                // guarded by mu; without gaps, the sequence is the index + [Memory.trimmed] + 1
	trimmed uint64                  // guarded by mu; how many messages were removed from the front
	tasks   map[task.ID][]uint64    // guarded by mu; births, offers and chain
	nodes   map[node.ID][]uint64    // guarded by mu
	asked   map[string][]uint64     // guarded by mu; of queues
	heads   map[chain]uint64        // guarded by mu; last sequence of a chain
	offers  []*memoryOffer          // guarded by mu; not yet acked, in order
	acked   []*memoryOffer          // guarded by mu; the others, in the order of their acks
	timers  map[task.ID]memoryTimer // guarded by mu
	soon    time.Time               // guarded by mu; no timer is due before
	changed chan struct{}           // guarded by mu; closed at every change

	queues map[string]queue.Queue // guarded by mu; their settings

	declared []placement.Declaration             // guarded by mu
	watchers map[int]func(placement.Declaration) // guarded by mu; of declarations
	watched  int                                 // guarded by mu; how many watchers there were in total
	waiting  []*memoryWait                       // guarded by mu; callers waiting for offers, the longest wait first

	beats map[node.ID]memoryBeat // guarded by mu
	// beaten are the processes whose last heartbeat was stored and not withdrawn. Guarded by mu.
	beaten map[string]bool
}

// memoryWait is a call of [MemoryOffers.Next].
type memoryWait struct{ offers *MemoryOffers }

type memoryOffer struct {
	seq        uint64
	queue      string
	deliveries int
	until      time.Time // leased until then
	acked      uint64    // the last sequence when it was acked
}

type memoryTimer struct {
	task.Due
	raw []byte
}

// chain names a chain: of a task, a node, a queue, a definition, the breaker of a job, the ticks of
// a schedule, a unique key, a message, the admissions of a scope, or the copies. The other fields
// are empty.
type chain struct {
	task  task.ID
	node  node.ID
	def   task.Def
	job   string
	key   string
	queue string
	// schedule has two chains: its fires, and the decisions on its ticks.
	schedule string
	fires    bool
	message  uint64
	// copies says that the chain is the one about copies of definitions.
	copies bool
	scope  limit.Scope
	// beside is the kind of a chain that has its subject with another one: what is carried, tallies, and
	// the horizon.
	beside Kind
}

// NewMemory returns an empty log whose leases last ackWait by the clock now.
func NewMemory(now func() time.Time, ackWait time.Duration) *Memory {
	return &Memory{
		now: now, ackWait: ackWait,
		tasks: map[task.ID][]uint64{}, nodes: map[node.ID][]uint64{}, asked: map[string][]uint64{}, heads: map[chain]uint64{},
		timers: map[task.ID]memoryTimer{}, queues: map[string]queue.Queue{}, changed: make(chan struct{}),
		beats:  map[node.ID]memoryBeat{},
		beaten: map[string]bool{},
	}
}

var (
	_ Log      = (*Memory)(nil)
	_ Timers   = (*Memory)(nil)
	_ Follower = (*Memory)(nil)
	_ Offerer  = (*Memory)(nil)
	_ Trimmer  = (*Memory)(nil)
)

// Append implements [Appender].
func (m *Memory) Append(ctx context.Context, f *Fact, last uint64) (uint64, error) {
	return m.AppendAll(ctx, []*Fact{f}, []uint64{last})
}

// AppendAll implements [Appender].
func (m *Memory) AppendAll(ctx context.Context, facts []*Fact, last []uint64) (uint64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	raws := make([][]byte, len(facts))
	for i, f := range facts {
		raw, err := Encode(nil, f)
		if err != nil {
			return 0, err
		}
		raws[i] = raw
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fireTimers()
	for i, f := range facts {
		if c, _ := chainOf(f); m.heads[c] != last[i] {
			return 0, fmt.Errorf("append %s at %d: %w: it is at %d", f.Type, last[i], ErrConflict, m.heads[c])
		}
	}
	first := m.last() + 1
	for i, f := range facts {
		c, kind := chainOf(f)
		m.heads[c] = m.store(kind, c, raws[i])
		if e, ok := f.Event.(queue.Event); ok {
			q := m.queues[f.Queue]
			q.Name = f.Queue
			m.queues[f.Queue] = queue.Evolve(q, m.heads[c], f.At, f.Actor, e)
		}
	}
	return first, nil
}

// chainOf is the chain on which a fact lies, and the kind of its records.
func chainOf(f *Fact) (chain, Kind) {
	c := chain{
		task:     f.Task,
		node:     f.Node,
		def:      f.Def,
		job:      f.Job,
		queue:    f.Queue,
		schedule: f.Schedule,
		key:      f.Key,
		message:  f.Message,
		scope:    f.Scope,
	}
	switch f.Event.(type) {
	case task.ScheduleFired:
		c.fires = true
		return c, KindFire
	case task.CopyEvent:
		c.copies = true
		return c, KindCopies
	case task.HorizonEvent:
		c.beside = KindHorizon
	case task.TallyEvent:
		c.beside = KindTally
	case task.Carried, task.CarriedEvent:
		c.beside = KindCarried
	}
	if c.beside > 0 {
		return c, c.beside
	}
	switch {
	case f.Schedule != "":
		return c, KindTick
	case f.Def != "":
		return c, KindDefinition
	case f.Node != "":
		return c, KindNode
	case f.Job != "":
		return c, KindBreaker
	case f.Queue != "":
		return c, KindQueue
	case f.Key != "":
		return c, KindKey
	case f.Message != 0:
		return c, KindDead
	case f.Scope != "":
		return c, KindLimit
	}
	return c, KindChain
}

// queueOf returns the queue whose rate and window apply to a route.
func (m *Memory) queueOf(route string) queue.Queue {
	if len(m.queues) == 0 {
		return queue.Queue{}
	}
	if placement.IsSelectorQueue(route) {
		for _, d := range m.declared {
			if d.Route() == route {
				route = d.Queue
				break
			}
		}
	}
	return m.queues[route]
}

// AppendRaw stores a message that need not be a fact on the chain of facts with the same subject as
// about, as a faulty writer could.
func (m *Memory) AppendRaw(about Fact, raw []byte) uint64 {
	c, kind := chainOf(&about)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fireTimers()
	m.heads[c] = m.store(kind, c, raw)
	return m.heads[c]
}

// Place implements [Placer].
func (m *Memory) Place(ctx context.Context, f *Fact) (uint64, error) { return m.write(ctx, f, m.place) }

// PlaceAll implements [Placer].
func (m *Memory) PlaceAll(ctx context.Context, facts []*Fact, first bool, done func(i int, seq uint64, err error)) {
	place := m.place
	if first {
		place = m.placeFirst
	}
	for i, f := range facts {
		seq, err := m.write(ctx, f, place)
		done(i, seq, err)
	}
}

// write encodes and stores a fact, with mu held.
func (m *Memory) write(ctx context.Context, f *Fact, store func(f *Fact, raw []byte) (uint64, error)) (uint64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	raw, err := Encode(nil, f)
	if err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fireTimers()
	return store(f, raw)
}

func (m *Memory) placeFirst(f *Fact, raw []byte) (uint64, error) {
	at := placement.Route("")
	switch e := f.Event.(type) {
	case task.Submitted:
		if e.OnChain() {
			return m.place(f, raw)
		}
		at = e.Route
	case task.Queued:
		at = e.Route
	case task.Due:
		at = e.Route
	}
	for _, seq := range m.tasks[f.Task] {
		r := m.at(seq)
		if r.Kind == KindOffer && r.Route() == at {
			return 0, fmt.Errorf("place the first %s of %s: %w: there is one at %d", f.Type, f.Task, ErrConflict, seq)
		}
	}
	return m.place(f, raw)
}

// PlaceClaimed implements [Placer].
func (m *Memory) PlaceClaimed(ctx context.Context, f *Fact, key string, claim uint64, onChain bool) (uint64, error) {
	return m.write(ctx, f, func(f *Fact, raw []byte) (uint64, error) {
		if head := m.heads[chain{key: key}]; head != claim {
			return 0, fmt.Errorf("record %s under claim %d: %w: the key was claimed at %d", f.Type, claim, ErrConflict, head)
		}
		if !onChain {
			return m.place(f, raw)
		}
		c := chain{task: f.Task}
		m.heads[c] = m.store(KindChain, c, raw)
		return m.heads[c], nil
	})
}

func (m *Memory) place(f *Fact, raw []byte) (uint64, error) {
	switch e := f.Event.(type) {
	case task.Submitted:
		if c := (chain{task: f.Task}); e.OnChain() {
			if m.heads[c] != 0 {
				return 0, fmt.Errorf("place %s of %s: %w: its chain is at %d", f.Type, f.Task, ErrConflict, m.heads[c])
			}
			m.heads[c] = m.store(KindChain, c, raw)
			return m.heads[c], nil
		}
		return m.offer(f.Task, raw, e.Route), nil
	case task.Queued:
		return m.offer(f.Task, raw, e.Route), nil
	case task.Due:
		return m.offer(f.Task, raw, e.Route), nil
	}
	return 0, fmt.Errorf("place: %s is no offer", f.Type)
}

// Task implements [Reader].
func (m *Memory) Task(ctx context.Context, id task.ID) ([]Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fireTimers()
	return m.pick(m.tasks[id]), nil
}

// Beginning implements [Beginner].
func (m *Memory) Beginning(ctx context.Context, id task.ID, to uint64) ([]Record, error) {
	records, err := m.Task(ctx, id)
	records = slices.DeleteFunc(records, func(r Record) bool { return r.Kind != KindChain || r.Seq > to })
	if n := len(records); n == 0 || records[n-1].Seq != to {
		return nil, err
	}
	return records, nil
}

// Rest implements [Resumer].
func (m *Memory) Rest(ctx context.Context, id task.ID, from uint64) ([]Record, error) {
	records, err := m.Task(ctx, id)
	at := slices.IndexFunc(records, func(r Record) bool { return r.Seq == from && r.Kind == KindChain })
	if at < 0 || CarriedIn(records[at:]) {
		return nil, err
	}
	return records[at:], err
}

// Node implements [Reader].
func (m *Memory) Node(ctx context.Context, id node.ID, from uint64) ([]Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seqs := m.nodes[id]
	at, found := slices.BinarySearch(seqs, from)
	if !found && from > 0 && at < len(seqs) && m.carries(seqs[at:], from) {
		return m.pick(seqs[at:]), nil
	}
	if !found && from > 0 {
		return nil, fmt.Errorf("node %s has no fact at %d any more: %w", id, from, node.ErrUnknown)
	}
	return m.pick(seqs[at:]), nil
}

// Queue implements [Reader].
func (m *Memory) Queue(ctx context.Context, name string) ([]Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pick(m.asked[name]), nil
}

// Definition implements [Reader].
func (m *Memory) Definition(ctx context.Context, def task.Def) (task.Definition, error) {
	if err := def.Validate(); err != nil {
		return task.Definition{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	head := m.heads[chain{def: def}]
	if head == 0 {
		return task.Definition{}, nil
	}
	return FoldDefinition([]Record{*m.at(head)}), nil
}

// Latest implements [Reader].
func (m *Memory) Latest(ctx context.Context, about Fact) (last Record, end uint64, err error) {
	c, kind := chainOf(&about)
	m.mu.Lock()
	defer m.mu.Unlock()
	end = m.heads[c]
	for _, r := range slices.Backward(m.records[:m.index(end+1)]) {
		if at, _ := chainOf(&r.Fact); at == c && r.Kind == kind && r.Readable() {
			return r, end, nil
		}
	}
	return Record{}, end, nil
}

// Last implements [Follower].
func (m *Memory) Last(ctx context.Context) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fireTimers()
	return m.last(), nil
}

// Lose drops the last n messages, as a server that has lost power, or whose store was replaced by an
// older copy. Their sequences are given to others. Offers that were acknowledged since are handed out
// again.
func (m *Memory) Lose(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records = m.records[:max(len(m.records)-n, 0)]
	end := m.last()
	lost := func(seq uint64) bool { return seq > end }
	for id, seqs := range m.tasks {
		m.tasks[id] = slices.DeleteFunc(seqs, lost)
	}
	for id, seqs := range m.nodes {
		m.nodes[id] = slices.DeleteFunc(seqs, lost)
	}
	for name, seqs := range m.asked {
		m.asked[name] = slices.DeleteFunc(seqs, lost)
	}
	for _, o := range slices.Backward(m.acked) {
		if o.acked <= end { // by when it was acked, this and all before
			break
		}
		m.offers, m.acked = append(m.offers, o), m.acked[:len(m.acked)-1]
		o.redeliver(m.now(), true)
	}
	m.offers = slices.DeleteFunc(m.offers, func(o *memoryOffer) bool { return lost(o.seq) })
	slices.SortFunc(m.offers, func(a, b *memoryOffer) int { return cmp.Compare(a.seq, b.seq) })
	clear(m.heads)
	clear(m.queues)
	for i := range m.records {
		m.head(&m.records[i])
	}
	m.wake()
}

// head makes a record the head of its chain, if it lies on one.
func (m *Memory) head(r *Record) {
	c, kind := chainOf(&r.Fact)
	if kind != r.Kind {
		return
	}
	m.heads[c] = r.Seq
	if e, ok := r.Fact.Event.(queue.Event); ok {
		q := m.queues[r.Fact.Queue]
		q.Name = r.Fact.Queue
		m.queues[r.Fact.Queue] = queue.Evolve(q, r.Seq, r.Fact.At, r.Fact.Actor, e)
	}
}

// Import adds records of another log behind those that are there, in order, with their sequences and
// times. Some may be missing. None of their offers is handed out, and no timer is armed.
func (m *Memory) Import(records []Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range records {
		about, _ := chainOf(&records[i].Fact)
		m.keep(about, records[i])
		m.head(&records[i])
	}
}

// Restore makes the log hold these records, as [Memory.Import] adds them, and nothing else.
func (m *Memory) Restore(records []Record) {
	m.mu.Lock()
	is := NewMemory(m.now, m.ackWait)
	m.records, m.trimmed, m.tasks, m.nodes, m.asked, m.heads = nil, 0, is.tasks, is.nodes, is.asked, is.heads
	m.offers, m.acked, m.timers, m.queues = nil, nil, is.timers, is.queues
	m.mu.Unlock()
	m.Import(records)
}

// All returns the whole log.
func (m *Memory) All() []Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.records)
}

// Follow implements [Follower].
func (m *Memory) Follow(ctx context.Context, from uint64) (Feed, error) {
	return &memoryFeed{m: m, next: max(from, 1)}, nil
}

// Offers implements [Offerer].
func (m *Memory) Offers(ctx context.Context, queues []string) (Offers, error) {
	return &MemoryOffers{m: m, queues: queues}, nil
}

// index is the place of the first record from a sequence on.
func (m *Memory) index(seq uint64) int {
	if n := len(m.records); n == 0 || m.records[n-1].Seq == m.trimmed+uint64(n) { // without gaps
		return min(int(max(seq, m.trimmed+1)-m.trimmed)-1, n)
	}
	i, _ := slices.BinarySearchFunc(m.records, seq, func(r Record, seq uint64) int { return cmp.Compare(r.Seq, seq) })
	return i
}

func (m *Memory) at(seq uint64) *Record { return &m.records[m.index(seq)] }

// last is the sequence of the last record; 0 for none.
func (m *Memory) last() uint64 {
	if len(m.records) == 0 {
		return m.trimmed
	}
	return m.records[len(m.records)-1].Seq
}

func (m *Memory) pick(seqs []uint64) []Record {
	picked := make([]Record, len(seqs))
	for i, seq := range seqs {
		picked[i] = *m.at(seq)
	}
	return picked
}

func (m *Memory) offer(id task.ID, raw []byte, route placement.Route) uint64 {
	m.declare(id, raw, route)
	seq := m.store(KindOffer, chain{task: id}, raw)
	m.offers = append(m.offers, &memoryOffer{seq: seq, queue: route.Queue()})
	return seq
}

// store keeps the fact as read back from its wire form, like any other log.
func (m *Memory) store(kind Kind, about chain, raw []byte) uint64 {
	seq := m.last() + 1
	f, err := Decode(raw)
	if err != nil {
		f = Fact{
			Task:     about.task,
			Node:     about.node,
			Job:      about.job,
			Queue:    about.queue,
			Schedule: about.schedule,
			Key:      about.key,
			Scope:    about.scope,
		}
	}
	m.keep(about, Record{Seq: seq, Stored: m.now(), Kind: kind, Fact: f, Place: f.About(), Raw: raw, Err: err})
	m.wake()
	return seq
}

// keep adds a record to the log, and to the history of what it is about.
func (m *Memory) keep(about chain, r Record) {
	m.records = append(m.records, r)
	switch {
	case about.task != "":
		m.tasks[about.task] = append(m.tasks[about.task], r.Seq)
	case about.node != "":
		m.nodes[about.node] = append(m.nodes[about.node], r.Seq)
	case r.Kind == KindQueue:
		m.asked[about.queue] = append(m.asked[about.queue], r.Seq)
	}
}

func (m *Memory) wake() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// fireTimers fires the timers that are due, the earliest first.
func (m *Memory) fireTimers() {
	for len(m.timers) > 0 && !m.now().Before(m.soon) {
		var first task.ID
		for id, t := range m.timers {
			if first == "" || t.Due.Due.Before(m.timers[first].Due.Due) || t.Due.Due.Equal(m.timers[first].Due.Due) && id < first {
				first = id
			}
		}
		t := m.timers[first]
		if m.soon = t.Due.Due; m.soon.After(m.now()) {
			return
		}
		delete(m.timers, first)
		m.offer(first, t.raw, t.Route)
	}
}

// soonest is when the next lease expires or timer fires; zero for never.
func (m *Memory) soonest() time.Time {
	var at time.Time
	earlier := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	for _, t := range m.timers {
		earlier(t.Due.Due)
	}
	for _, o := range m.offers {
		if o.deliveries > 0 {
			earlier(o.until)
		}
	}
	return at
}

// wait blocks until a change, the end of a lease or a timer.
func (m *Memory) wait(ctx context.Context, changed chan struct{}, soonest time.Time) error {
	var timer <-chan time.Time
	if !soonest.IsZero() {
		t := time.NewTimer(max(soonest.Sub(m.now()), time.Microsecond))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
	case <-timer:
	}
	return nil
}
