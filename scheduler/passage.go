package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"iter"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/limit"
	"millrace/task/schedule"
	"millrace/task/value"
)

// passage is what lies in front of a horizon, and what becomes of it.
type passage struct {
	*Forget
	keeping Keeping // with what is too many now
	below   uint64
	now     time.Time
	upTo    uint64    // the log, when it was read
	since   time.Time // when it began to work, or has last rested
	needs   map[task.ID]bool
	// folds are the tasks by what the front says, those that have not ended; ended are the others.
	folds map[task.ID]*folded
	ended map[task.ID]remains
	known map[task.ID]known // as they were read
	// stay are the tasks that are to be carried, dead those that go.
	stay []task.ID
	dead map[task.ID]bool
	held Held
	// chains are the other chains, in order of their first fact; defs have all facts of a definition.
	chains  []events.Fact
	kinds   map[string]bool
	defs    map[task.Def][]events.Record
	limits  []events.Record
	ledgers map[string][]task.ID // the tasks that schedules count as open
	tallies map[string]*task.JobTallied
}

// folded is a task of which the front has been read so far.
type folded struct {
	task.Task
	first uint64
}

// remains is what must be known of a task that has ended, by the front alone.
type remains struct {
	first  uint64
	last   uint64
	over   bool // it has stayed for as long as it should
	parent task.ID
	ticks  string // its schedule
	sums
}

// sums are what the sums of a job need of a task.
type sums struct {
	job   string
	state task.State
	ran   value.Duration
	ended time.Time
}

func sumsOf(t *task.Task) sums { return sums{t.Job, t.State, t.Ran, t.EndedAt} }

// known is what remains of a task that was read.
type known struct {
	fate fate
	turn uint64
	held bool // only limits hold it
	sums
}

// survey reads the front of the log, and decides what becomes of it.
func (f *Forget) survey(ctx context.Context, below uint64, now time.Time) (*passage, error) {
	p, err := f.pass(ctx, below, now)
	if err == nil {
		err = p.judge(ctx)
	}
	return p, err
}

// pass reads the front of the log.
func (f *Forget) pass(ctx context.Context, below uint64, now time.Time) (*passage, error) {
	p := &passage{Forget: f, since: time.Now(), keeping: f.Keeping, below: below, now: now, needs: map[task.ID]bool{}, folds: map[task.ID]*folded{}, ended: map[task.ID]remains{},
		known: map[task.ID]known{}, dead: map[task.ID]bool{}, kinds: map[string]bool{}, defs: map[task.Def][]events.Record{},
		ledgers: map[string][]task.ID{}, tallies: map[string]*task.JobTallied{}}
	if f.Stirs != nil {
		f.Stirs.listen()
	}
	var err error
	if p.keeping.many, err = f.many(ctx); err != nil {
		return nil, err
	}
	if p.upTo, err = f.Log.Last(ctx); err != nil {
		return nil, err
	}
	if f.Model != nil {
		var seq uint64
		if p.needs, seq, err = waits(ctx, f.Model); err != nil {
			return nil, err
		}
		p.upTo = min(p.upTo, seq) // the rest is looked at before the front goes
	}
	return p, p.read(ctx)
}

// rest lets others work after a part of the work.
func (p *passage) rest(ctx context.Context) (err error) {
	if p.Rests > 0 && !p.hurries {
		err = rest(ctx, time.Duration(p.Rests*float64(time.Since(p.since))))
		p.since = time.Now()
	}
	return err
}

func (p *passage) read(ctx context.Context) error {
	first, err := p.Log.First(ctx)
	if err != nil || first >= p.below {
		return err
	}
	feed, err := p.Log.Follow(ctx, first)
	if err != nil {
		return err
	}
	defer feed.Close()
	for {
		records, err := feed.Next(ctx)
		if err != nil {
			return err
		}
		for i := range records {
			if records[i].Seq >= p.below {
				return nil
			}
			p.add(&records[i])
		}
		if err := p.rest(ctx); err != nil {
			return err
		}
	}
}

func (p *passage) add(r *events.Record) {
	about := events.Fact{Node: r.Fact.Node, Def: r.Fact.Def, Job: r.Fact.Job, Queue: r.Fact.Queue, Schedule: r.Fact.Schedule, Key: r.Fact.Key}
	switch events.Carries[r.Kind] {
	case events.CarryTask:
		if id := r.Fact.Task; id != "" {
			p.fold(id, r)
		} else if r.Fact.Def != "" {
			p.defs[r.Fact.Def] = append(p.defs[r.Fact.Def], *r)
		}
		return
	case events.CarryAll:
		p.defs[r.Fact.Def] = append(p.defs[r.Fact.Def], *r)
		return
	case events.CarryNothing:
		if r.Kind == events.KindLimit {
			p.limits = append(p.limits, *r)
		}
		return
	}
	switch r.Kind {
	case events.KindTally:
		about.Event = task.JobTallied{}
	case events.KindCopies:
		about.Event = task.CopiesRestored{}
	}
	if name := fmt.Sprint(r.Kind, about.About()); !p.kinds[name] {
		p.kinds[name] = true
		p.chains = append(p.chains, about)
	}
}

// fold adds a record to a task. Nearly all end within the front, and little must be known of those.
func (p *passage) fold(id task.ID, r *events.Record) {
	t := p.folds[id]
	if t == nil {
		t = &folded{Task: task.Task{ID: id}, first: r.Seq}
		if e, ok := p.ended[id]; ok { // something came later; it is read anew
			t.first = e.first
			delete(p.ended, id)
		}
		p.folds[id] = t
	}
	t.Apply(r.Task())
	if !t.State.Terminal() || t.SubmittedAt.IsZero() || t.Carry != nil || p.needs[id] || locks(&t.Task, p.now) {
		return
	}
	p.ended[id] = remains{first: t.first, last: r.Seq, over: p.keeping.over(&t.Task, p.now), parent: t.Parent, ticks: t.Schedule, sums: sumsOf(&t.Task)}
	delete(p.folds, id)
}

// unripe tells that most tasks of the front have not ended in it. To pass it would write more anew than it removes.
func (p *passage) unripe() bool {
	open := 0
	for _, t := range p.folds {
		if !t.State.Terminal() {
			open++
		}
	}
	return open > len(p.ended)
}

// nearly is which part of the front may stay, so that fewer tasks must be carried.
const nearly = 8

// narrow moves the horizon back to where the fewest tasks lie on both sides of it, if that is near.
func (p *passage) narrow(first, least uint64) {
	lo := max(p.below-(p.below-first)/nearly, first+least)
	at := newStraddled(lo, p.below)
	for _, e := range p.ended {
		at.add(e.first, e.last)
	}
	for _, t := range p.folds {
		at.add(t.first, math.MaxUint64)
	}
	p.below = at.fewest()
	maps.DeleteFunc(p.ended, func(_ task.ID, e remains) bool { return e.first >= p.below })
	maps.DeleteFunc(p.folds, func(_ task.ID, t *folded) bool { return t.first >= p.below })
	behind := func(r events.Record) bool { return r.Seq >= p.below }
	p.limits = slices.DeleteFunc(p.limits, behind)
	for def, records := range p.defs {
		if p.defs[def] = slices.DeleteFunc(records, behind); len(p.defs[def]) == 0 {
			delete(p.defs, def)
		}
	}
}

// straddled counts for each of some horizons how many tasks lie on both sides of it.
type straddled struct {
	lo    uint64
	steps []int // from each horizon to the next
}

// newStraddled counts for the horizons from lo to hi.
func newStraddled(lo, hi uint64) straddled { return straddled{lo, make([]int, hi-min(lo, hi)+1)} }

// add counts a task with a first and a last message. A horizon lies between them if the first does not
// stay and the last does.
func (s straddled) add(first, last uint64) {
	if last < s.lo {
		return
	}
	if from := max(first+1, s.lo) - s.lo; from < uint64(len(s.steps)) {
		s.steps[from]++
		if until := last - s.lo + 1; until < uint64(len(s.steps)) {
			s.steps[until]--
		}
	}
}

// fewest is the last of the horizons with the fewest tasks.
func (s straddled) fewest() uint64 {
	at, n, least := 0, 0, math.MaxInt
	for i, step := range s.steps {
		if n += step; n <= least {
			at, least = i, n
		}
	}
	return s.lo + uint64(at)
}

// laterAtOnce is how many tasks are asked for at once.
const laterAtOnce = 500

// judge decides what becomes of the tasks, and what holds the horizon back.
func (p *passage) judge(ctx context.Context) error {
	ids := inOrder(p.ended, func(e remains) uint64 { return e.first })
	for some := range slices.Chunk(ids, laterAtOnce) {
		later, err := p.later(ctx, some, p.below)
		if err != nil {
			return err
		}
		for _, id := range some {
			e := p.ended[id]
			counts, err := p.counts(ctx, e.ticks, id)
			if err != nil {
				return err
			}
			if k := (known{fate: dies}); later[id] || counts || !e.over {
				k.fate = stays
				p.known[id] = k
			} else if e.parent == "" {
				p.known[id] = k
			}
		}
		if err := p.rest(ctx); err != nil {
			return err
		}
	}
	for _, id := range ids {
		k, ok := p.known[id]
		if !ok { // it goes with its parent
			needed, err := p.lives(ctx, p.ended[id].parent)
			if err != nil {
				return err
			}
			if k.fate = dies; needed {
				k.fate = stays
			}
			p.known[id] = k
		}
		if k.fate == stays {
			p.stay = append(p.stay, id)
			continue
		}
		p.bury(id, p.ended[id].sums)
	}
	for i, id := range inOrder(p.folds, func(t *folded) uint64 { return t.first }) {
		if err := p.look(ctx, id); err != nil {
			return err
		}
		if i%laterAtOnce == laterAtOnce-1 {
			if err := p.rest(ctx); err != nil {
				return err
			}
		}
		if k := p.known[id]; k.fate == stays {
			p.stay = append(p.stay, id)
		} else if k.fate == dies {
			p.bury(id, k.sums)
		}
	}
	for i := range p.limits {
		r := &p.limits[i]
		is, err := p.outstanding(ctx, r)
		if err != nil {
			return err
		}
		if is {
			p.hold(Held{Seq: r.Seq, By: HeldByLimit, What: "an admission by limits that still counts", Since: r.Stored})
		}
	}
	return nil
}

// inOrder returns tasks in the order of their first facts.
func inOrder[T any](of map[task.ID]T, first func(T) uint64) []task.ID {
	type place struct {
		seq uint64
		id  task.ID
	}
	places := make([]place, 0, len(of))
	for id, is := range of {
		places = append(places, place{first(is), id})
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.seq, b.seq) })
	ids := make([]task.ID, len(places))
	for i := range places {
		ids[i] = places[i].id
	}
	return ids
}

func (p *passage) hold(h Held) {
	if p.held.Seq == 0 || h.Seq < p.held.Seq {
		p.held = h
	}
}

// look reads a task and decides about it.
func (p *passage) look(ctx context.Context, id task.ID) error {
	records, err := p.Rec.Log.Task(ctx, id)
	if err != nil || len(records) == 0 {
		p.known[id] = known{}
		return err
	}
	c, ok := events.CarryOf(id, records)
	t := &c.Fold
	if p.known[id] = (known{fate: stays}); !ok { // while its parents are asked
		p.known[id] = known{fate: dies}
		return nil
	}
	f := front{later: records[len(records)-1].Seq >= p.below}
	for i := range records {
		if records[i].Kind == events.KindOffer {
			f.offer = records[i].Seq
		}
	}
	switch {
	case !t.State.Terminal() || p.needs[id] || locks(t, p.now):
		f.needed = true
	case t.Parent != "":
		f.needed, err = p.lives(ctx, t.Parent)
	default:
		f.needed, err = p.counts(ctx, t.Schedule, id)
	}
	if err != nil {
		return err
	}
	k := known{turn: t.Turn, held: t.Admissible(), sums: sumsOf(t)}
	var seq uint64
	switch k.fate, seq = p.keeping.fateOf(t, f, p.below, p.now); k.fate {
	case holds:
		p.hold(Held{Seq: max(seq, records[0].Seq), By: HeldByTask, What: "a task that runs or is offered", Task: id, Since: t.Since})
	case stays:
		if _, large := events.Encode(nil, p.Rec.Fact(id, c)); large != nil && records[0].Seq < p.below {
			p.hold(Held{Seq: records[0].Seq, By: HeldBySize, What: "a task that is too large to be carried", Task: id, Since: records[0].Stored})
		}
	}
	p.known[id] = k
	return nil
}

// counts tells whether the next decision of a schedule, "" for none, depends on how a task of it has
// ended. Later decisions count no other tasks of the past.
func (p *passage) counts(ctx context.Context, name string, id task.ID) (bool, error) {
	open, ok := p.ledgers[name]
	if name == "" || ok {
		return slices.Contains(open, id), nil
	}
	def, err := p.Rec.Log.Definition(ctx, task.Named(task.DefSchedule, name))
	if err != nil {
		return false, err
	}
	if d, unread := schedule.Read(name, def.Text); unread == nil {
		if plan, unread := d.Plan(); unread == nil && plan.Watches() {
			last, _, err := p.Rec.Log.Latest(ctx, events.Fact{Schedule: name})
			if err != nil {
				return false, err
			}
			open = schedule.LedgerOf(last.Fact.Event).Open
		}
	}
	p.ledgers[name] = open
	return slices.Contains(open, id), nil
}

// lives tells whether a task is there, and stays.
func (p *passage) lives(ctx context.Context, id task.ID) (bool, error) {
	if _, ok := p.known[id]; !ok {
		if err := p.look(ctx, id); err != nil {
			return false, err
		}
	}
	return p.known[id].fate != dies, nil
}

// outstanding tells whether an admission still counts: a task that it admitted waits for its offer, or
// a rate that it drew from is not full again.
func (p *passage) outstanding(ctx context.Context, r *events.Record) (bool, error) {
	e, _ := r.Fact.Event.(task.Granted)
	for _, used := range e.Rates {
		if used.After(p.now) {
			return true, nil
		}
	}
	for _, g := range e.Grants {
		if _, over := p.ended[g.Task]; over {
			continue
		}
		if _, err := p.lives(ctx, g.Task); err != nil {
			return false, err
		}
		if k := p.known[g.Task]; k.held && k.turn == g.Turn {
			return true, nil
		}
	}
	return false, nil
}

// bury counts a task that goes.
func (p *passage) bury(id task.ID, as sums) {
	if p.dead[id] = true; as.job == "" {
		return
	}
	sum := p.tallies[as.job]
	if sum == nil {
		sum = &task.JobTallied{Below: p.below}
		p.tallies[as.job] = sum
	}
	sum.Add(&task.Task{State: as.state, Ran: as.ran, EndedAt: as.ended})
}

// carry writes anew all that lives. Doing it again writes only what is missing.
func (p *passage) carry(ctx context.Context, out *Forgotten) error {
	if p.held.Seq > 0 {
		out.Held = p.held
		return fmt.Errorf("%w at %d by %s %s", ErrHeld, p.held.Seq, p.held.What, p.held.Task)
	}
	n, err := p.Rec.CarryTasks(ctx, p.stay, p.below) // if one is not known, another server has removed the front
	if out.Chains += n; err != nil {
		return err
	}
	for _, def := range slices.Sorted(maps.Keys(p.defs)) {
		n, err := p.Rec.CarryDefinition(ctx, def, p.defs[def], p.below)
		if out.carried(n > 0); err != nil {
			return err
		}
	}
	for i := range p.chains {
		did, err := p.chain(ctx, p.chains[i])
		if out.carried(did); err != nil {
			return err
		}
	}
	return nil
}

// chain carries a chain of another kind than a task's or a definition's.
func (p *passage) chain(ctx context.Context, about events.Fact) (bool, error) {
	switch {
	case about.Node != "":
		return p.Rec.CarryNode(ctx, about.Node, p.below)
	case about.Queue != "":
		return p.Rec.CarryQueue(ctx, about.Queue, p.below)
	}
	return p.Rec.CarryLast(ctx, about, p.below, func(last *events.Record) (bool, error) {
		switch e := last.Fact.Event.(type) {
		case limit.CircuitEvent:
			return !last.Circuit(limit.Circuit{}).Closed(), nil
		case birth.KeyClaimed:
			if birth.IsRoomKey(about.Key) {
				return false, nil // its claims lock nothing
			}
			for _, id := range append([]task.ID{e.Holder}, e.Before...) {
				if is, err := p.lives(ctx, id); is || err != nil {
					return is, err
				}
			}
			return false, nil
		case task.ScheduleEvent:
			def, err := p.Rec.Log.Definition(ctx, task.Named(task.DefSchedule, about.Schedule))
			return def.Exists(), err
		}
		return true, nil
	})
}

// stirred tells whether something has happened to a dead task since the front was read, or asks for
// one.
func (p *passage) stirred(ctx context.Context) (bool, error) {
	last, err := p.Log.Last(ctx)
	if err != nil {
		return false, err
	}
	if p.Stirs != nil {
		stirred, upTo := p.Stirs.heard(p.dead)
		if stirred {
			return true, nil
		}
		p.upTo = max(p.upTo, upTo)
	}
	if last <= p.upTo {
		return false, nil
	}
	feed, err := p.Log.Follow(ctx, p.upTo+1)
	if err != nil {
		return false, err
	}
	defer feed.Close()
	for p.since = time.Now(); p.upTo < last; {
		records, err := feed.Next(ctx)
		if err != nil {
			return false, err
		}
		for i := range records {
			for id := range stirs(&records[i]) {
				if p.dead[id] {
					return true, nil
				}
			}
		}
		p.upTo = records[len(records)-1].Seq
		if err := p.rest(ctx); err != nil {
			return false, err
		}
	}
	return false, nil
}

// stirs are the tasks that a record is about or, if it is a birth, asks for.
func stirs(r *events.Record) iter.Seq[task.ID] {
	return func(yield func(task.ID) bool) {
		if r.Fact.Task != "" && !yield(r.Fact.Task) {
			return
		}
		if e, ok := r.Fact.Event.(task.Submitted); ok && e.Needs != nil {
			for _, need := range e.Needs.Of {
				if !yield(need.Task) {
					return
				}
			}
		}
	}
}

// Stirs hears from a read model of which tasks the log tells while a horizon moves, so that nobody reads
// that once more. It implements the observer of package projections. The zero value can be used.
type Stirs struct {
	mu      sync.Mutex
	seed    maphash.Seed
	tasks   map[uint64]struct{} // guarded by mu; the hashes of those since it listens; nil if it does not
	reached uint64              // guarded by mu; the last record of which it has heard
}

// Observe takes records as the read model has folded them. Those of a read model that begins anew count
// for nothing: it may have left some out.
func (s *Stirs) Observe(steps []events.Step) {
	if len(steps) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if steps[0].Record.Seq <= s.reached {
		s.tasks = nil
	}
	if s.reached = steps[len(steps)-1].Record.Seq; s.tasks == nil {
		return
	}
	for i := range steps {
		for id := range stirs(steps[i].Record) {
			s.tasks[maphash.String(s.seed, string(id))] = struct{}{}
		}
	}
}

// listen begins anew. What the read model has not folded yet will be heard.
func (s *Stirs) listen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seed, s.tasks = maphash.MakeSeed(), map[uint64]struct{}{}
}

// heard tells whether the log has told of one of the tasks, and up to where it has not; 0 if that is not known.
func (s *Stirs) heard(of map[task.ID]bool) (stirred bool, upTo uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tasks == nil {
		return false, 0
	}
	if len(s.tasks) > 0 {
		for id := range of {
			if _, stirred = s.tasks[maphash.String(s.seed, string(id))]; stirred {
				return true, 0
			}
		}
	}
	clear(s.tasks)
	return false, s.reached
}
