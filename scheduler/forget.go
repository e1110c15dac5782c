package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/limit"
)

// Forget moves the horizon of the log: it writes anew what lives in front of it, and removes the
// front. Several may do so at once, and each may die at any moment: each step is a fact on the chain
// of the horizon, by compare-and-set, and can be done again.
type Forget struct {
	Rec *events.Recorder
	Log interface {
		events.Trimmer
		events.Follower
	}
	Keeping Keeping
	// Ended returns when the n-th latest of the ended tasks ended; zero if there are fewer. Default:
	// their number moves nothing.
	Ended func(ctx context.Context, n int) (time.Time, error)
	// Needed returns the ended tasks for which an open one waits, and the ones that schedules count as
	// open, and the sequence that this reflects. Default: none.
	Needed func(ctx context.Context) (map[task.ID]bool, uint64, error)
	// Counts returns the beginning of what budgets and breakers count at present; zero for nothing.
	// Default: nothing.
	Counts func(ctx context.Context) (time.Time, error)
	// Sealer keeps what goes. Default: nothing does.
	Sealer Sealer
	// Settle is how long after the last step the front is removed: by then all workers know where the
	// horizon is. Default 2s.
	Settle time.Duration
	// Wait waits. Default: by the clock of the process.
	Wait func(ctx context.Context, d time.Duration) error
}

// Sealer keeps in an archive what the log forgets.
type Sealer interface {
	// Seal stores the messages from first up to the horizon, without that, as one segment, reads it
	// back, and returns what the log records of it. It can be done again, also by two at once. After an
	// error nothing may be removed.
	Seal(ctx context.Context, first uint64, chosen task.HorizonChosen) (task.HorizonSealed, error)
}

// Forgotten is the result of a round.
type Forgotten struct {
	Horizon task.Horizon
	// Held is what holds the horizon back; zero if nothing does.
	Held Held
	// Chains is how many chains this round has carried, and Tasks how many tasks it has forgotten.
	Chains, Tasks int
	// Done says that the front was removed.
	Done bool
}

// ErrHeld ends a round because something that came up meanwhile holds the horizon back.
var ErrHeld = errors.New("the horizon is held back")

// errOther: another server has made the step.
var errOther = errors.New("another server moves the horizon")

// Round moves the horizon once, if it can move, or goes on with a move that another process has left.
func (f *Forget) Round(ctx context.Context) (Forgotten, error) {
	var out Forgotten
	err := f.round(ctx, &out)
	if errors.Is(err, errOther) {
		err = nil
	}
	return out, err
}

func (f *Forget) round(ctx context.Context, out *Forgotten) (err error) {
	if out.Horizon, err = f.Rec.Horizon(ctx); err != nil {
		return err
	}
	h := &out.Horizon
	if h.Step == task.HorizonRests {
		e, err := f.choose(ctx, out)
		if err != nil || e.Below == 0 {
			return err
		}
		if err := f.step(ctx, h, e); err != nil {
			return err
		}
	}
	span := h.Span
	if h.Step == task.HorizonOpen && f.Sealer != nil && !h.Sealed {
		sealed, err := f.Sealer.Seal(ctx, h.From, task.HorizonChosen{Span: span})
		if err != nil {
			out.Held = Held{Seq: h.Below, What: "the archive: " + err.Error(), Since: h.Since}
			return fmt.Errorf("seal the log up to %d: %w", h.Below, err)
		}
		sealed.Span, sealed.Chosen = span, h.Chosen
		if err := f.step(ctx, h, sealed); err != nil {
			return err
		}
	}
	pass, err := f.carry(ctx, h, out)
	if err != nil {
		return err
	}
	if h.Step == task.HorizonOpen {
		for job, sum := range pass.tallies {
			if err := f.Rec.Tally(ctx, job, *sum); err != nil {
				return err
			}
		}
		if err := f.step(ctx, h, task.HorizonCarried{Span: span, Chosen: h.Chosen, Chains: out.Chains}); err != nil {
			return err
		}
	}
	return f.remove(ctx, h, pass, out)
}

// remove removes the front when nothing in it lives any more.
func (f *Forget) remove(ctx context.Context, h *task.Horizon, pass *passage, out *Forgotten) error {
	if left := cmp.Or(f.Settle, tooYoung) - f.Rec.Now().Sub(h.Since); left > 0 {
		wait := f.Wait
		if wait == nil {
			wait = rest
		}
		if err := wait(ctx, left); err != nil {
			return err
		}
	}
	for try := 0; ; try++ {
		again, err := f.stirred(ctx, pass)
		switch {
		case err != nil:
			return err
		case again && try == mostStirs:
			return fmt.Errorf("%w: something always happens to what was to go, or the read model is far behind", ErrHeld)
		}
		if !again {
			break
		}
		if pass, err = f.carry(ctx, h, out); err != nil {
			return err
		}
	}
	floor, err := f.Log.Floor(ctx)
	if err != nil {
		return err
	}
	if floor.Seq > 0 && floor.Seq < h.Below {
		out.Held = Held{Seq: floor.Seq, What: "an offer that is out or waits", Task: floor.Holder, Since: floor.Since}
		return fmt.Errorf("%w at %d by an offer of task %s", ErrHeld, floor.Seq, floor.Holder)
	}
	if err := f.Log.Trim(ctx, h.Below); err != nil {
		return err
	}
	out.Tasks, out.Done = len(pass.dead), true
	return f.step(ctx, h, task.HorizonPurged{Span: h.Span, Chosen: h.Chosen})
}

// mostStirs is how often the front is looked at again before its removal, because something has
// happened in it.
const mostStirs = 20

// rest waits by the clock of the process.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// step records a step of the horizon.
func (f *Forget) step(ctx context.Context, h *task.Horizon, e task.HorizonEvent) error {
	fact := f.Rec.HorizonFact(e)
	seq, err := f.Rec.Log.Append(ctx, fact, h.Head)
	if errors.Is(err, events.ErrConflict) {
		return fmt.Errorf("%w: %w", errOther, err)
	}
	if err == nil {
		*h = task.EvolveHorizon(*h, seq, fact.At, e)
	}
	return err
}

// choose finds where the horizon can move; nowhere if Below is 0.
func (f *Forget) choose(ctx context.Context, out *Forgotten) (e task.HorizonChosen, err error) {
	now := f.Rec.Now()
	front := Front{}
	if front.First, err = f.Log.First(ctx); err != nil {
		return e, err
	}
	at := func(p *Point, t time.Time) {
		if err == nil && !t.IsZero() {
			p.Seq, p.Stored, err = f.Log.StoredAt(ctx, t)
		}
	}
	at(&front.Young, now.Add(-tooYoung))
	if front.Young.Seq == 0 && err == nil {
		var last uint64
		last, err = f.Log.Last(ctx)
		front.Young.Seq = last
	}
	if k := f.Keeping; k.Age > 0 {
		if at(&front.Aged, now.Add(-k.Age)); front.Aged.Seq == 0 {
			front.Aged = front.Young
		}
	}
	if k := f.Keeping; k.Tasks > 0 && f.Ended != nil && err == nil {
		var since time.Time
		since, err = f.Ended(ctx, k.Tasks)
		at(&front.Many, since)
	}
	if f.Counts != nil && err == nil {
		var since time.Time
		since, err = f.Counts(ctx)
		at(&front.Counts, since)
	}
	if err == nil {
		front.Floor, err = f.Log.Floor(ctx)
	}
	c := f.Keeping.Choose(front)
	if out.Held = c.Held; err != nil || c.Below == 0 {
		return e, err
	}
	pass, err := f.survey(ctx, front.First, c.Below, now)
	if err != nil {
		return e, err
	}
	held, err := pass.holds(ctx)
	if err != nil {
		return e, err
	}
	if held.Seq > 0 {
		if c.Below, out.Held = held.Seq, held; c.Below < front.First+cmp.Or(f.Keeping.Least, leastPassed) {
			return e, nil
		}
	}
	e.Below, e.Why, e.From = c.Below, c.Why, max(out.Horizon.Below, 1)
	e.Before, err = f.stored(ctx, c.Below)
	return e, err
}

// stored is when the log stored the first message from a sequence on.
func (f *Forget) stored(ctx context.Context, seq uint64) (time.Time, error) {
	feed, err := f.Log.Follow(ctx, seq)
	if err != nil {
		return time.Time{}, err
	}
	defer feed.Close()
	records, err := feed.Next(ctx)
	if err != nil {
		return time.Time{}, err
	}
	return records[0].Stored, nil
}

// passage is what lies in front of a horizon.
type passage struct {
	*Forget
	below uint64
	now   time.Time
	upTo  uint64 // the log, when its chains were read
	tasks []task.ID
	needs map[task.ID]bool
	known map[task.ID]known // as they were read
	dead  map[task.ID]bool
	// chains are the other chains, in order of their first fact; defs have all facts of a definition.
	chains  []events.Fact
	kinds   map[string]bool
	defs    map[task.Def][]events.Record
	limits  []events.Record
	tallies map[string]*task.JobTallied
}

// known is what remains of a task that was read.
type known struct {
	fate fate
	seq  uint64 // of a task that holds
	held uint64 // the turn in which only limits hold it
	is   bool
}

// survey reads the front of the log.
func (f *Forget) survey(ctx context.Context, first, below uint64, now time.Time) (*passage, error) {
	p := &passage{Forget: f, below: below, now: now, needs: map[task.ID]bool{}, known: map[task.ID]known{}, dead: map[task.ID]bool{},
		kinds: map[string]bool{}, defs: map[task.Def][]events.Record{}, tallies: map[string]*task.JobTallied{}}
	var err error
	if p.upTo, err = f.Log.Last(ctx); err != nil {
		return nil, err
	}
	if f.Needed != nil {
		var seq uint64
		if p.needs, seq, err = f.Needed(ctx); err != nil {
			return nil, err
		}
		p.upTo = min(p.upTo, seq) // the rest is looked at before the front goes
	}
	if first, err = f.Log.First(ctx); err != nil || first >= below {
		return p, err
	}
	feed, err := f.Log.Follow(ctx, first)
	if err != nil {
		return nil, err
	}
	defer feed.Close()
	seen := map[task.ID]bool{}
	for {
		records, err := feed.Next(ctx)
		if err != nil {
			return nil, err
		}
		for i := range records {
			r := &records[i]
			if r.Seq >= below {
				return p, nil
			}
			p.add(r, seen)
		}
	}
}

func (p *passage) add(r *events.Record, seen map[task.ID]bool) {
	about := events.Fact{Node: r.Fact.Node, Def: r.Fact.Def, Job: r.Fact.Job, Queue: r.Fact.Queue, Schedule: r.Fact.Schedule, Key: r.Fact.Key}
	switch events.Carries[r.Kind] {
	case events.CarryTask:
		switch id := r.Fact.Task; {
		case id == "" && r.Fact.Def != "":
			p.defs[r.Fact.Def] = append(p.defs[r.Fact.Def], *r)
		case id != "" && !seen[id]:
			seen[id] = true
			p.tasks = append(p.tasks, id)
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

// look reads a task and decides about it.
func (p *passage) look(ctx context.Context, id task.ID) (k known, t task.Task, err error) {
	records, err := p.Rec.Log.Task(ctx, id)
	if err != nil || len(records) == 0 {
		p.known[id] = known{}
		return known{}, t, err
	}
	t = events.FoldTask(id, records)
	p.known[id] = known{fate: stays} // while it is asked for its parents
	needed, err := p.needed(ctx, &t)
	if err != nil {
		return k, t, err
	}
	k.fate, k.seq = p.Keeping.fateOf(&t, records, p.below, needed, p.now)
	k.held, k.is = t.Turn, t.Admissible()
	p.known[id] = k
	return k, t, nil
}

// lives tells whether a task is there, and stays.
func (p *passage) lives(ctx context.Context, id task.ID) (bool, error) {
	k, ok := p.known[id]
	if !ok {
		var err error
		if k, _, err = p.look(ctx, id); err != nil {
			return false, err
		}
	}
	return k.fate != dies, nil
}

// needed tells whether something that lives may still ask for an ended task.
func (p *passage) needed(ctx context.Context, t *task.Task) (bool, error) {
	if !t.State.Terminal() || p.needs[t.ID] {
		return true, nil
	}
	if key, err := t.UniqueKey(); err == nil && key != "" && birth.Locks(t, &t.Spec.Unique, p.now) {
		return true, nil
	}
	if t.Parent == "" {
		return false, nil
	}
	return p.lives(ctx, t.Parent)
}

// holds returns the first thing that the horizon must not pass.
func (p *passage) holds(ctx context.Context) (first Held, err error) {
	hold := func(h Held) {
		if h.Seq > 0 && (first.Seq == 0 || h.Seq < first.Seq) {
			first = h
		}
	}
	for _, id := range p.tasks {
		k, t, err := p.look(ctx, id)
		if err != nil {
			return first, err
		}
		switch k.fate {
		case holds:
			hold(Held{Seq: k.seq, What: "a task that runs or is offered", Task: id, Since: t.Since})
		case stays:
			records, err := p.Rec.Log.Task(ctx, id)
			if err != nil {
				return first, err
			}
			if c, ok := events.CarryOf(id, records); ok {
				if _, err := events.Encode(nil, p.Rec.Fact(id, c)); err != nil {
					hold(Held{Seq: records[0].Seq, What: "a task that is too large to be carried", Task: id, Since: records[0].Stored})
				}
			}
		}
	}
	for i := range p.limits {
		r := &p.limits[i]
		is, err := p.outstanding(ctx, r)
		if err != nil {
			return first, err
		}
		if is {
			hold(Held{Seq: r.Seq, What: "an admission by limits that still counts", Since: r.Stored})
		}
	}
	return first, nil
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
		k, ok := p.known[g.Task]
		if !ok {
			var err error
			if k, _, err = p.look(ctx, g.Task); err != nil {
				return false, err
			}
		}
		if k.is && k.held == g.Turn {
			return true, nil
		}
	}
	return false, nil
}

// carry writes anew all that lives in front of the horizon. Doing it again writes only what is missing.
func (f *Forget) carry(ctx context.Context, h *task.Horizon, out *Forgotten) (*passage, error) {
	p, err := f.survey(ctx, 0, h.Below, h.Since)
	if err != nil {
		return nil, err
	}
	if p.now = h.Since; h.Step != task.HorizonOpen {
		p.now = f.Rec.Now()
	}
	wrote := func(did bool, failed error) {
		if err = failed; did {
			out.Chains++
		}
	}
	for _, id := range p.tasks {
		k, t, err := p.look(ctx, id)
		if err != nil {
			return nil, err
		}
		switch k.fate {
		case stays:
			did, err := f.Rec.CarryTask(ctx, id, h.Below)
			if wrote(did, err); err != nil {
				if errors.Is(err, events.ErrForgotten) {
					continue // another server has removed the front
				}
				return nil, err
			}
		case holds:
			out.Held = Held{Seq: k.seq, What: "a task that runs or is offered", Task: id, Since: t.Since}
			return nil, fmt.Errorf("%w at %d by task %s", ErrHeld, k.seq, id)
		default:
			p.bury(&t)
		}
	}
	for i := range p.limits {
		if is, err := p.outstanding(ctx, &p.limits[i]); err != nil || is {
			out.Held = Held{Seq: p.limits[i].Seq, What: "an admission by limits that still counts", Since: p.limits[i].Stored}
			return nil, errors.Join(err, ErrHeld)
		}
	}
	for _, def := range slices.Sorted(maps.Keys(p.defs)) {
		n, err := f.Rec.CarryDefinition(ctx, def, p.defs[def], h.Below)
		if out.Chains += min(n, 1); err != nil {
			return nil, err
		}
	}
	for i := range p.chains {
		if wrote(p.chain(ctx, p.chains[i])); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// bury counts a task that goes.
func (p *passage) bury(t *task.Task) {
	if p.dead[t.ID] = true; t.Job == "" {
		return
	}
	sum := p.tallies[t.Job]
	if sum == nil {
		sum = &task.JobTallied{Below: p.below}
		p.tallies[t.Job] = sum
	}
	sum.Add(t)
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
func (f *Forget) stirred(ctx context.Context, p *passage) (bool, error) {
	last, err := f.Log.Last(ctx)
	if err != nil || last <= p.upTo {
		return false, err
	}
	feed, err := f.Log.Follow(ctx, p.upTo+1)
	if err != nil {
		return false, err
	}
	defer feed.Close()
	for p.upTo < last {
		records, err := feed.Next(ctx)
		if err != nil {
			return false, err
		}
		for i := range records {
			r := &records[i]
			if p.dead[r.Fact.Task] {
				return true, nil
			}
			if e, ok := r.Fact.Event.(task.Submitted); ok && e.Needs != nil {
				for _, need := range e.Needs.Of {
					if p.dead[need.Task] {
						return true, nil
					}
				}
			}
		}
		p.upTo = records[len(records)-1].Seq
	}
	return false, nil
}

// Collector moves the horizon again and again.
type Collector struct {
	Forget
	// Every is the interval of its looks. Default one minute. After a move that removed something it
	// looks again at once.
	Every time.Duration
	// First tells whether this server goes first: the others look a few times less often. Default: it
	// does.
	First func() bool
	// Looked is told the result of each round. Default: nobody.
	Looked func(Forgotten, error)
	Logger *slog.Logger
}

// others is how much less often a server looks that does not go first.
const others = 5

// Run moves the horizon until ctx ends, whose error it returns.
func (c *Collector) Run(ctx context.Context) error {
	log := cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	every := cmp.Or(c.Every, time.Minute)
	for n := 0; ; n++ {
		pause := every
		if c.First == nil || c.First() || n%others == others-1 {
			done, err := c.Round(ctx)
			if c.Looked != nil {
				c.Looked(done, err)
			}
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case err != nil:
				log.Warn("the horizon of the log does not move; trying again", "error", err)
			case done.Done:
				log.Info("the log has forgotten its front", "below", done.Horizon.Below, "tasks", done.Tasks, "carried", done.Chains)
				pause = 0
			}
		}
		if err := rest(ctx, pause); err != nil {
			return err
		}
	}
}

// Waits returns the tasks that ended and for which open ones wait, for [Forget.Needed]: by a read
// model.
func Waits(ctx context.Context, m Model) (map[task.ID]bool, uint64, error) {
	_, seq, err := m.Nodes(ctx) // before the rest, which may be later
	needed := map[task.ID]bool{}
	for after := task.ID(""); err == nil; {
		var ids []task.ID
		if ids, err = m.Held(ctx, after, eachTime); err != nil || len(ids) == 0 {
			break
		}
		after = ids[len(ids)-1]
		var tasks []task.Task
		tasks, err = m.Known(ctx, ids)
		for i := range tasks {
			if tasks[i].Needs == nil {
				continue
			}
			for _, need := range tasks[i].Needs.Of {
				needed[need.Task] = true
			}
		}
	}
	return needed, seq, err
}
