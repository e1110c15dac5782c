package projections

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"millrace/events"
	"millrace/projections/past"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/placement"
)

// Bounds of the kept parts of unreadable messages, in bytes.
const (
	maxReason  = 1 << 10
	maxCounter = 64
)

// errBackwards: a message of the log does not come after the one before.
var errBackwards = errors.New("the log went backwards")

// fold adds batches of records to a store. It is for one goroutine.
type fold struct {
	store *Store
	w     *writer
	live  *cache
	// held is a carried task at the end of the batch before, for the fact behind it says whether it counts.
	held     *events.Record
	past     past.Index
	at       position
	complete bool // as [Projector.Complete] says
	move     past.Move
	seen     uint64 // the last sequence given, which may be before at

	// The present batch; kept between batches to reuse the memory.
	index   map[task.ID]int // place in changes
	changes []change
	of      []int   // of each record, its place in changes, or -1
	shifts  []shift // of attempts under budgets, in order

	noted     []noted
	observers []Observer
	steps     []events.Step // the effects of the present batch, if there are observers
}

// change is a task that the batch touches.
type change struct {
	task task.Task
	has  past.Indexed
	// before is the key under which it was counted. isNew says that it is assumed to have no row, bare
	// that it had none.
	before      counted
	isNew, bare bool
	// dead is the kind of dead letter that it was, "" for none.
	dead task.Letter
	// spec, message and was, the job, are the values before the batch.
	spec         *job.Spec
	message, was string
}

// deadOf is the kind of dead letter that the task is; "" if it is none, or was dismissed.
func deadOf(t *task.Task) task.Letter {
	if !t.Dead() {
		return ""
	}
	return t.Letter()
}

// counted is the key under which tasks are counted.
type counted struct {
	queue string // of its route
	home  string // the display name of the queue: tasks of several queues may share a route, where they name the same nodes
	state task.State
}

// countedOf returns the key under which a task is counted.
func countedOf(t *task.Task) counted {
	c := counted{t.Route.Queue(), "", t.State}
	if c.home = c.queue; placement.IsSelectorQueue(c.queue) {
		c.home = t.QueueName()
	}
	return c
}

func newFold(ctx context.Context, s *Store, cacheSize int) (*fold, error) {
	w, err := newWriter(ctx, s)
	if err != nil {
		return nil, err
	}
	f := &fold{store: s, w: w, live: newCache(cacheSize), index: map[task.ID]int{}}
	s.mu.RLock()
	f.past = s.past
	s.mu.RUnlock()
	if err = f.at.load(ctx, w.conn); err == nil {
		err = f.past.Begin(f.at.Past)
	}
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return f, nil
}

// next returns the next records of the log. While it waits, it releases the memory of the last
// batch.
func (f *fold) next(ctx context.Context, feed events.Feed) ([]events.Record, error) {
	for more := true; more; {
		soon, cancel := context.WithTimeout(ctx, atRest)
		records, err := feed.Next(soon)
		late := soon.Err() != nil
		if cancel(); err == nil || ctx.Err() != nil || !late {
			return records, err
		}
		if more, err = f.rest(ctx); err != nil {
			return nil, err
		}
	}
	return feed.Next(ctx)
}

// rest releases the memory of earlier batches, SQLite's as well, pages of the file that are free, and at
// last what the journal has of the disk. It tells whether there may be more pages.
func (f *fold) rest(ctx context.Context) (more bool, err error) {
	f.index, f.changes, f.of, f.steps, f.noted = map[task.ID]int{}, nil, nil, nil, nil
	if err = f.past.Begin(f.at.Past); err == nil {
		_, err = f.past.Write()
	}
	if err == nil {
		more, err = f.vacuum(ctx, vacuumed)
	}
	if err == nil && !more { // it waits for no reader: then the journal keeps its 16 MB until the next rest
		err = f.w.exec(ctx, "PRAGMA busy_timeout(0); PRAGMA wal_checkpoint(TRUNCATE); PRAGMA busy_timeout(5000)")
	}
	if err != nil {
		return false, err
	}
	return more, f.w.exec(ctx, "PRAGMA shrink_memory")
}

// apply folds records into rows, all or none. It skips those up to the sequence reached, which were
// folded before.
func (f *fold) apply(ctx context.Context, records []events.Record) error {
	for i := range records {
		if records[i].Seq <= f.seen {
			return fmt.Errorf("%w: sequence %d came after %d", errBackwards, records[i].Seq, f.seen)
		}
		f.seen = records[i].Seq
	}
	for len(records) > 0 && records[0].Seq <= f.at.Seq {
		records = records[1:]
	}
	if f.held != nil {
		records, f.held = append([]events.Record{*f.held}, records...), nil
	}
	if n := len(records); n > 0 && records[n-1].Kind == events.KindCarried {
		last := records[n-1]
		records, f.held = records[:n-1], &last
	}
	if len(records) == 0 {
		return nil
	}
	// A birth is nearly always the first record of its task, and looking for a row costs as much as
	// writing one. So a birth is assumed to be new. If its row exists, the batch is folded again,
	// with lookups.
	err := f.try(ctx, records, true)
	if errors.Is(err, errExists) {
		err = f.try(ctx, records, false)
	}
	if err != nil {
		return fmt.Errorf("fold sequences %d to %d: %w", records[0].Seq, records[len(records)-1].Seq, err)
	}
	for i := range f.changes {
		f.live.put(&f.changes[i].task, f.changes[i].has.Number)
	}
	for _, o := range f.observers {
		o.Observe(f.steps)
	}
	clear(f.steps) // let go of the records
	f.store.jobs.note(f.changes, f.at.Seq)
	f.store.reach.set(f.at.Seq)
	return f.forget(ctx)
}

func (f *fold) try(ctx context.Context, records []events.Record, trusting bool) error {
	next := f.at
	err := f.w.transact(ctx, func(ctx context.Context) error {
		if err := f.collect(ctx, records, trusting); err != nil {
			return err
		}
		if err := f.past.Begin(f.at.Past); err != nil {
			return err
		}
		f.evolve(records)
		if err := f.writeTasks(ctx); err != nil {
			return err
		}
		if err := f.writeOthers(ctx, records); err != nil {
			return err
		}
		if err := f.writeSubjects(ctx, records); err != nil {
			return err
		}
		if err := f.writeLimits(ctx, records); err != nil {
			return err
		}
		if err := f.writeBudgets(ctx, &records[len(records)-1]); err != nil {
			return err
		}
		var err error
		if next.Past, err = f.past.Write(); err != nil {
			return err
		}
		next.advance(records)
		if err := f.writeTallies(ctx, records); err != nil {
			return err
		}
		if err := f.writePosition(ctx, next); err != nil {
			return err
		}
		f.noteTexts(records) // now it is known which tasks are new
		return nil
	})
	if err == nil {
		f.at = next
	}
	return err
}

// collect finds the tasks that the records touch, in their state before.
func (f *fold) collect(ctx context.Context, records []events.Record, trusting bool) error {
	clear(f.index)
	clear(f.changes)
	clear(f.shifts)
	f.changes, f.of, f.shifts = f.changes[:0], f.of[:0], f.shifts[:0]
	var unknown []int
	for i := range records {
		r := &records[i]
		id := taskOf(r)
		if id == "" {
			f.of = append(f.of, -1)
			continue
		}
		at, ok := f.index[id]
		if !ok {
			at = len(f.changes)
			f.index[id] = at
			c := change{task: task.Task{ID: id}}
			if live, ok := f.live.get(id); ok {
				c.task, c.has.Number = live.task, live.number
			} else if _, birth := r.Fact.Event.(task.Submitted); birth && trusting {
				c.isNew = true
			} else {
				unknown = append(unknown, at)
			}
			f.changes = append(f.changes, c)
		}
		f.of = append(f.of, at)
	}
	missing := make([]*change, len(unknown))
	for i, at := range unknown {
		missing[i] = &f.changes[at]
	}
	if err := f.w.loadTasks(ctx, f.store.form, missing); err != nil {
		return err
	}
	for i := range f.changes {
		f.changes[i].has = past.IndexedAs(f.changes[i].has.Number, &f.changes[i].task)
		f.changes[i].bare = f.changes[i].has.Number == 0
		f.changes[i].before = countedOf(&f.changes[i].task)
		f.changes[i].dead = deadOf(&f.changes[i].task)
		f.changes[i].spec, f.changes[i].message, f.changes[i].was = f.changes[i].task.Spec, f.changes[i].task.Message, f.changes[i].task.Job
	}
	return nil
}

// taskOf is the task whose history the record belongs to, "" if there is none.
func taskOf(r *events.Record) task.ID {
	switch r.Kind {
	case events.KindOffer, events.KindHold, events.KindChain, events.KindCarried:
		return r.Fact.Task
	}
	return ""
}

func (f *fold) evolve(records []events.Record) {
	f.steps = f.steps[:0]
	observed := len(f.observers) > 0 // they are called only when the batch is written: it may have to be folded again
	glance := func(t *task.Task) (is events.Glance) {
		if observed {
			is = events.GlanceAt(t)
		}
		return is
	}
	for i, at := range f.of {
		s := events.Step{Record: &records[i]}
		if at < 0 {
			f.past.Add(s.Record, nil)
		} else {
			c := &f.changes[at]
			s.Was = glance(&c.task)
			f.follow(s.Record, c)
			s.Is, s.Task = glance(&c.task), &c.task
		}
		if observed {
			f.steps = append(f.steps, s)
		}
	}
}

// follow applies a record to its task, and records the task's new place.
func (f *fold) follow(r *events.Record, c *change) {
	f.move = past.Move{Task: &c.task, Failed: c.task.State.Failed(), Of: &c.has}
	f.spend(r, &c.task)
	f.past.Add(r, &f.move)
}

// noteTexts tells the store the new texts of the batch's tasks.
func (f *fold) noteTexts(records []events.Record) {
	f.noted = f.noted[:0]
	for i := range f.changes {
		c := &f.changes[i]
		n := noted{id: string(c.task.ID), new: c.isNew || c.bare}
		switch {
		case n.new || c.before.state == task.Unknown || c.task.Spec != c.spec:
			n.has = view.Texts(&c.task)
		case c.task.Message != c.message:
			n.has[textMessage] = c.task.Message
		default:
			continue
		}
		f.noted = append(f.noted, n)
	}
	f.store.texts.note(records[0].Seq, records[len(records)-1].Seq, f.noted)
}

func (f *fold) writeTasks(ctx context.Context) error {
	added := taskRows{w: f.w, form: f.store.form, stmt: inserts}
	changed := taskRows{w: f.w, form: f.store.form, stmt: upserts}
	counts := map[counted]int{}
	dead := map[task.Letter]int{}
	for i := range f.changes {
		c := &f.changes[i]
		rows := &changed
		if c.isNew {
			rows = &added
		}
		if err := rows.add(ctx, c); err != nil {
			return err
		}
		if after := countedOf(&c.task); after != c.before {
			counts[c.before]--
			counts[after]++
		}
		if is := deadOf(&c.task); is != c.dead {
			dead[c.dead]--
			dead[is]++
		}
	}
	if err := added.flush(ctx); err != nil {
		return err
	}
	if err := changed.flush(ctx); err != nil {
		return err
	}
	return f.writeCounts(ctx, counts, dead)
}

// writeCounts writes how many more tasks and dead letters of each kind there are.
func (f *fold) writeCounts(ctx context.Context, counts map[counted]int, dead map[task.Letter]int) error {
	emptied := false
	for _, kind := range task.Letters() {
		if dead[kind] == 0 {
			continue
		}
		if err := f.count(ctx, deadTasks+string(kind), dead[kind]); err != nil {
			return err
		}
		emptied = emptied || dead[kind] < 0
	}
	if emptied { // a kind may have none left
		if err := f.w.exec(ctx, "DELETE FROM counters WHERE n = 0"); err != nil {
			return err
		}
	}
	emptied = false
	for of, n := range counts {
		if n == 0 || of.state == task.Unknown {
			continue
		}
		if err := f.w.exec(ctx, "INSERT INTO counts VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n",
			of.queue, of.home, int64(of.state), n); err != nil {
			return err
		}
		emptied = emptied || n < 0
	}
	if !emptied {
		return nil
	}
	return f.w.exec(ctx, "DELETE FROM counts WHERE n = 0")
}

// writeOthers writes the unreadable messages, and how many are of unknown types.
func (f *fold) writeOthers(ctx context.Context, records []events.Record) error {
	var unknown map[events.Type]int
	for i := range records {
		r := &records[i]
		switch why := r.Unreadable(); {
		case why != "":
			if err := f.writePoison(ctx, r, why); err != nil {
				return err
			}
		case r.Fact.Type == events.MessageDismissed:
			if err := f.w.exec(ctx, "DELETE FROM poison WHERE seq = ?", int64(r.Fact.Message)); err != nil {
				return err
			}
		case r.Fact.Event == nil && r.IsFact():
			if unknown == nil {
				unknown = map[events.Type]int{}
			}
			unknown[r.Fact.Type]++
		}
	}
	for typ, n := range unknown {
		if err := f.count(ctx, UnknownType+clip(string(typ), maxCounter), n); err != nil {
			return err
		}
	}
	return nil
}

func (f *fold) count(ctx context.Context, name string, n int) error {
	return f.w.exec(ctx, "INSERT INTO counters VALUES (?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n", name, n)
}

func (f *fold) writePoison(ctx context.Context, r *events.Record, why string) error {
	raw := r.Raw[:min(len(r.Raw), view.MaxRaw)]
	if raw == nil {
		raw = []byte{}
	}
	return f.w.exec(ctx, "INSERT INTO poison VALUES (?, ?, ?, ?)", int64(r.Seq), clip(r.Place, maxReason), clip(why, maxReason), raw)
}

// clip shortens s to at most n bytes, between two characters.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:n])
}

// advance moves the position behind the records.
func (p *position) advance(records []events.Record) {
	p.Seq = records[len(records)-1].Seq
	if p.First == 0 {
		p.First = records[0].Seq
		p.Whole = p.First
	}
	for i := range records {
		switch e := records[i].Fact.Event.(type) {
		case task.HorizonCarried:
			if p.First > 1 && p.First >= e.Below { // what was carried is known only now
				p.Whole = max(p.Whole, records[i].Seq)
			}
		case task.HorizonPurged:
			if e.Below > p.Below {
				p.Below, p.Before = e.Below, e.Before.UnixMicro()
			}
		}
	}
	for i := len(records) - 1; i >= 0; i-- {
		if r := &records[i]; r.Err == nil && r.IsFact() && r.Fact.ID != "" {
			p.Anchor, p.AnchorID = r.Seq, r.Fact.ID
			return
		}
	}
}

func (f *fold) writePosition(ctx context.Context, p position) error {
	result, err := f.w.conn.ExecContext(ctx, "UPDATE reached SET seq = ?, anchor = ?, anchor_id = ?, first = ?, past = ?, past_sum = ?, trims = ?, below = ?, forgot = ?, before = ?, whole = ? WHERE seq = ?",
		int64(p.Seq), int64(p.Anchor), p.AnchorID, int64(p.First), p.Past.Size, int64(p.Past.Sum), p.Trims, int64(p.Below), int64(p.Forgot), p.Before, int64(p.Whole), int64(f.at.Seq))
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return errors.Join(err, errors.New("another process has written this file"))
	}
	return nil
}
