package projections

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/quota"
	"millrace/view"
)

// pastSuffix is what the name of the file of the index of the past has behind that of the database.
const pastSuffix = "-past"

// pastBuffer is how much of it is read at once.
const pastBuffer = 1 << 20

// scanPast reads the first size bytes of the index, at most up to the sequence that s says, and returns their sum.
func scanPast(ctx context.Context, file io.ReaderAt, size int64, s *pastScan) (sum uint32, err error) {
	buffer := make([]byte, min(size, pastBuffer))
	have := 0 // what was read and not understood yet, at the front of the buffer
	for at := int64(0); at < size; {
		if have == len(buffer) { // an entry is longer
			buffer = append(buffer, make([]byte, len(buffer))...)
		}
		n := int(min(int64(len(buffer)-have), size-at))
		if _, err := file.ReadAt(buffer[have:have+n], at); err != nil {
			if errors.Is(err, io.EOF) {
				err = errPast
			}
			return sum, err
		}
		sum = pastSum(sum, buffer[have:have+n])
		at, have = at+int64(n), have+n
		used, err := s.read(buffer[:have])
		if errors.Is(err, errPastEnd) {
			return sum, nil
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return sum, err
		}
		have = copy(buffer, buffer[used:have])
	}
	if have > 0 {
		return sum, errPast
	}
	return sum, nil
}

// pastWriter continues the index of the past where the rows are. The error is one of a damaged file if that is not what was written.
func (s *Store) pastWriter(p *position) (*pastWriter, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.past == nil {
		return nil, ErrClosed
	}
	scan := pastScan{until: math.MaxUint64}
	sum, err := scanPast(context.Background(), s.past, p.Past, &scan)
	if err == nil && sum != p.PastSum {
		err = errPast
	}
	if err == nil {
		err = s.past.Truncate(p.Past)
	}
	w := &pastWriter{file: s.past, pastState: scan.pastState}
	for _, is := range scan.places {
		w.places.add(is)
	}
	for _, is := range scan.origins {
		w.origins.add(is)
	}
	for _, is := range scan.names {
		w.names.add(is)
	}
	w.keep()
	return w, err
}

// past is a place in the log, as the index of the past and the facts about single tasks tell it.
type past struct {
	store *Store
	at    view.Point
	log   view.Numbered

	mu   sync.Mutex
	seen *scene // guarded by mu; nil until it is asked for
}

var _ view.Index = (*past)(nil)

// At is what the index of the past tells about a place in the log, when the rows have reached that. Single messages are read from the log.
func (s *Store) At(p view.Point, log view.Numbered) view.Index {
	return &past{store: s, at: p, log: log}
}

// scan reads the index up to the place.
func (p *past) scan(ctx context.Context, s *pastScan) error {
	s.until = p.at.Seq
	if err := p.store.Wait(ctx, p.at.Seq); err != nil {
		return err
	}
	return p.store.view(ctx, "look into the past", func(tx *sql.Tx, seq uint64) error {
		if seq < p.at.Seq {
			return fmt.Errorf("the read model is made again and has come to sequence %d, before %d", seq, p.at.Seq)
		}
		var reached position
		err := reached.load(ctx, tx)
		if err == nil {
			_, err = scanPast(ctx, p.store.past, reached.Past, s)
		}
		return err
	})
}

// scene is where all tasks were, by their numbers; 0 stands before all places and origins.
type scene struct {
	pastScan
	in   []uint32 // one more than the number of the place
	from []uint32 // one more than the number of the origin
}

// scene is read once.
func (p *past) scene(ctx context.Context) (*scene, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen != nil {
		return p.seen, nil
	}
	s := new(scene)
	s.in, s.from = make([]uint32, 1, 1024), make([]uint32, 1, 1024)
	s.pastScan.birth = func(uint32, []byte) { s.in, s.from = append(s.in, 0), append(s.from, 0) }
	s.pastScan.from = func(number, origin uint32, _, _ int64, _ []byte) { s.from[number] = origin + 1 }
	s.pastScan.move = func(number, place uint32, _ int64) { s.in[number] = place + 1 }
	if err := p.scan(ctx, &s.pastScan); err != nil {
		return nil, err
	}
	p.seen = s
	return s, nil
}

// chosen tells of each task whether it may meet a filter, but for its labels and for when it was submitted.
func (s *scene) chosen(f *view.Filter) func(number uint32) bool {
	in, from := make([]bool, len(s.places)+1), make([]bool, len(s.origins)+1)
	for i := range s.places {
		in[i+1] = s.places[i].meets(f)
	}
	for i := range s.origins {
		o := &s.origins[i]
		from[i+1] = (f.Job == "" || o.job == f.Job) && (f.Schedule == "" || o.schedule == f.Schedule) && (!f.Roots || o.root)
	}
	return func(number uint32) bool { return in[s.in[number]] && from[s.from[number]] }
}

// meets tells whether tasks in the place meet a filter as far as that is about places.
func (p *place) meets(f *view.Filter) bool {
	switch {
	case p.state == task.Unknown, f.Dead && !p.dead, !f.Dead && len(f.States) > 0 && !slices.Contains(f.States, p.state):
	case f.Node != "" && p.node != f.Node, f.Batch != "" && p.batch != f.Batch:
	case f.Queue != "" && p.route.Queue() != f.Queue && p.queue() != f.Queue:
	case len(f.Priorities) > 0 && !slices.Contains(f.Priorities, p.route.Priority()):
	default:
		return true
	}
	return false
}

// indexed refuses queries about which the index says nothing.
func indexed(q *view.Query) error {
	switch {
	case q.Kind != view.Tasks, q.Text != "", q.Suspect != nil:
		return view.ErrUnindexed
	}
	return nil
}

// Count implements [view.Index].
func (p *past) Count(ctx context.Context, q view.Query) (view.Counts, error) {
	c := view.Counts{Point: p.at}
	if err := indexed(&q); err != nil {
		return c, err
	}
	if !q.Since.IsZero() || !q.Until.IsZero() || q.IDPart != "" || len(q.Labels) > 0 {
		return c, view.ErrUnindexed
	}
	s, err := p.scene(ctx)
	if err != nil {
		return c, err
	}
	n := make([]int, len(s.places)+1)
	meets := s.chosen(&q.Filter)
	for number := uint32(1); number < uint32(len(s.in)); number++ {
		if meets(number) {
			n[s.in[number]]++
		}
	}
	for i := range s.places {
		if n[i+1] > 0 {
			c.Add(s.places[i].queue(), s.places[i].state, n[i+1])
		}
	}
	return c, nil
}

// List implements [view.Index].
func (p *past) List(ctx context.Context, q view.Query) (page view.Page, err error) {
	page.Point = p.at
	if err := indexed(&q); err != nil {
		return page, err
	}
	if q.AtLeast > p.at.Seq {
		return page, fmt.Errorf("%w: at_least is %d, and this is as of sequence %d", view.ErrQuery, q.AtLeast, p.at.Seq)
	}
	most, err := q.Most()
	if err != nil {
		return page, err
	}
	after, err := q.Start()
	if err != nil {
		return page, err
	}
	var tasks []task.Task
	for more := true; more && len(tasks) <= most; {
		var found []numbered
		if found, more, err = p.candidates(ctx, &q.Filter, after, max(most+1, candidatesAtOnce)); err != nil {
			return page, err
		}
		for some := range slices.Chunk(found, most+1) {
			were, err := p.were(ctx, some)
			if err != nil {
				return page, err
			}
			for i := range were {
				if q.Match(&were[i]) && len(tasks) <= most {
					tasks = append(tasks, were[i])
				}
			}
			if after = some[len(some)-1].id; len(tasks) > most {
				break
			}
		}
	}
	page.Tasks, page.Next = q.Cut(tasks, most)
	return page, nil
}

// numbered is a task by its number in the index.
type numbered struct {
	id     task.ID
	number uint32
}

// candidatesAtOnce is how many tasks that may meet a filter are looked for at once, at least.
const candidatesAtOnce = 1024

// candidates are the first so many tasks behind one of them that may meet a filter, in its order, and whether there are more.
func (p *past) candidates(ctx context.Context, f *view.Filter, after task.ID, most int) (found []numbered, more bool, err error) {
	s, err := p.scene(ctx)
	if err != nil {
		return nil, false, err
	}
	meets := s.chosen(f)
	born := func(uint32) bool { return true }
	if !f.Since.IsZero() || !f.Until.IsZero() || len(f.Labels) > 0 {
		if born, err = p.born(ctx, f, len(s.in)); err != nil {
			return nil, false, err
		}
	}
	var bound []byte // if there are more: none behind it is among the first
	cut := func() {
		if len(found) <= most {
			return
		}
		sortByID(found)
		if more = true; f.OldestFirst {
			found = found[:most]
			bound = append(bound[:0], found[most-1].id...)
		} else {
			found = append(found[:0], found[len(found)-most:]...)
			bound = append(bound[:0], found[0].id...)
		}
	}
	err = p.scan(ctx, &pastScan{birth: func(number uint32, id []byte) {
		if !meets(number) || !within(f, string(after), string(id)) || !born(number) {
			return
		}
		if more && (bytes.Compare(id, bound) < 0) != f.OldestFirst {
			return
		}
		if found = append(found, numbered{task.ID(id), number}); len(found) == 2*most {
			cut()
		}
	}})
	cut()
	if sortByID(found); !f.OldestFirst {
		slices.Reverse(found)
	}
	return found, more, err
}

func sortByID(of []numbered) {
	slices.SortFunc(of, func(a, b numbered) int { return strings.Compare(string(a.id), string(b.id)) })
}

// named are the tasks with numbers that are chosen, in the order of their ids.
func (p *past) named(ctx context.Context, choose func(number uint32) bool) (found []numbered, err error) {
	err = p.scan(ctx, &pastScan{birth: func(number uint32, id []byte) {
		if choose(number) {
			found = append(found, numbered{task.ID(id), number})
		}
	}})
	sortByID(found)
	return found, err
}

// within tells whether an id lies behind another one in the order of the filter, and has the part that it asks for.
func within(f *view.Filter, after, id string) bool {
	if after != "" && (f.OldestFirst && id <= after || !f.OldestFirst && id >= after) {
		return false
	}
	return strings.HasPrefix(id, f.IDPart) || strings.HasSuffix(id, f.IDPart)
}

// born tells of each task whether it may have the labels of a filter, and was submitted within its bounds or in the same microsecond.
func (p *past) born(ctx context.Context, f *view.Filter, tasks int) (func(number uint32) bool, error) {
	in := make([]bool, tasks)
	err := p.scan(ctx, &pastScan{from: func(number, _ uint32, submitted, _ int64, labels []byte) {
		at := time.UnixMicro(submitted)
		within := (f.Since.IsZero() || !at.Before(f.Since.Truncate(time.Microsecond))) && (f.Until.IsZero() || at.Before(f.Until))
		in[number] = within && mayHave(labels, f.Labels)
	}})
	return func(number uint32) bool { return in[number] }, err
}

// were are tasks as they were, in this order. Those to which something has happened since are folded from their messages.
func (p *past) were(ctx context.Context, of []numbered) ([]task.Task, error) {
	ids := make([]task.ID, len(of))
	place := make(map[task.ID]int, len(of))
	for i := range of {
		ids[i], place[of[i].id] = of[i].id, i
	}
	now, err := p.store.ByID(ctx, ids)
	if err != nil {
		return nil, err
	}
	tasks := make([]task.Task, len(of))
	for i := range now {
		if now[i].Seq <= p.at.Seq {
			tasks[place[now[i].ID]] = now[i]
		}
	}
	messages := map[uint32][]uint64{}
	for i := range of {
		if tasks[i].ID == "" {
			messages[of[i].number] = nil
		}
	}
	if len(messages) == 0 {
		return tasks, nil
	}
	scan := new(pastScan)
	scan.move = func(number, _ uint32, _ int64) {
		if have, wanted := messages[number]; wanted {
			messages[number] = append(have, scan.seq)
		}
	}
	if err := p.scan(ctx, scan); err != nil {
		return nil, err
	}
	var all []uint64
	for _, seqs := range messages {
		all = append(all, seqs...)
	}
	records, err := p.log.Messages(ctx, all)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(records, func(a, b events.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	for i := range of {
		if tasks[i].ID == "" {
			tasks[i].ID = of[i].id
		}
	}
	for i := range records {
		if r := &records[i]; taskOf(r) != "" {
			tasks[place[taskOf(r)]].Apply(r.Task())
		}
	}
	return tasks, nil
}

// Oldest implements [view.Index].
func (p *past) Oldest(ctx context.Context) (map[string]time.Time, error) {
	in, since := make([]uint32, 1, 1024), make([]int64, 1, 1024)
	s := pastScan{
		birth: func(uint32, []byte) { in, since = append(in, 0), append(since, 0) },
		move:  func(number, place uint32, at int64) { in[number], since[number] = place+1, at },
	}
	if err := p.scan(ctx, &s); err != nil {
		return nil, err
	}
	oldest := map[string]time.Time{}
	first := make([]int64, len(s.places))
	for number, place := range in {
		if place == 0 || s.places[place-1].state != task.Pending {
			continue
		}
		if at := since[number]; first[place-1] == 0 || at < first[place-1] {
			first[place-1] = at
		}
	}
	for i, us := range first {
		if us == 0 {
			continue
		}
		at, queue := time.UnixMicro(us), s.places[i].queue()
		if before, ok := oldest[queue]; !ok || at.Before(before) {
			oldest[queue] = at
		}
	}
	return oldest, nil
}

// latestOf is the number of what is the latest of a name, and what makes it that.
type latestOf struct {
	number uint32
	at     int64
}

// LastOfJobs implements [view.Index].
func (p *past) LastOfJobs(ctx context.Context) (map[string]task.Task, uint64, error) {
	last, _, err := p.latest(ctx, new(pastScan), func(o *origin, submitted, _ int64) (string, int64) { return o.job, submitted })
	return last, p.at.Seq, err
}

// latest are the latest tasks that have no parent, by the name that key tells of each; of "" none.
func (p *past) latest(ctx context.Context, s *pastScan, key func(o *origin, submitted, tick int64) (name string, at int64)) (map[string]task.Task, uint64, error) {
	latest := map[string]latestOf{}
	there := make([]bool, 1, 1024)
	s.birth = func(uint32, []byte) { there = append(there, false) }
	s.move = func(number, place uint32, _ int64) { there[number] = s.places[place].state != task.Unknown }
	s.from = func(number, of uint32, submitted, tick int64, _ []byte) {
		o := &s.origins[of]
		name, at := key(o, submitted, tick)
		if there[number] || !o.root || name == "" {
			return
		}
		if have, ok := latest[name]; !ok || at >= have.at {
			latest[name] = latestOf{number, at}
		}
	}
	if err := p.scan(ctx, s); err != nil {
		return nil, 0, err
	}
	of := map[uint32][]string{}
	for name, l := range latest {
		of[l.number] = append(of[l.number], name)
	}
	found, err := p.named(ctx, func(number uint32) bool { return len(of[number]) > 0 })
	if err != nil {
		return nil, 0, err
	}
	were, err := p.were(ctx, found)
	last := map[string]task.Task{}
	for i := range were {
		for _, name := range of[found[i].number] {
			last[name] = were[i]
		}
	}
	return last, p.at.Seq, err
}

// Schedules implements [view.Index].
func (p *past) Schedules(ctx context.Context, since time.Time) (map[string]*view.Ticks, uint64, error) {
	all := map[string]*view.Ticks{}
	of := func(name string) *view.Ticks {
		if all[name] == nil {
			all[name] = &view.Ticks{Skipped: map[string]int{}}
		}
		return all[name]
	}
	type until struct {
		schedule string
		at       int64
	}
	type skip struct {
		reason string
		n      int
	}
	skips := map[until]skip{}
	s := new(pastScan)
	s.note = func(r *pastReader) {
		if r.uint() != noteTick {
			return
		}
		schedule, at, n, reason := s.name(r), r.int(), int(r.uint()), s.name(r)
		if t := of(schedule); !time.UnixMicro(at).Before(t.Decided) {
			t.Decided = time.UnixMicro(at).UTC()
		}
		if n > 0 {
			skips[until{schedule, at}] = skip{reason, n}
		}
	}
	last, seq, err := p.latest(ctx, s, func(o *origin, _, tick int64) (string, int64) { return o.schedule, tick })
	for name, t := range last {
		of(name).Last = t
	}
	for u, s := range skips {
		if !time.UnixMicro(u.at).Before(since) {
			of(u.schedule).Skipped[s.reason] += s.n
		}
	}
	return all, seq, err
}

// EachLimited implements [view.Index].
func (p *past) EachLimited(ctx context.Context, each func(*task.Task, *task.Grant)) (quota.Used, uint64, error) {
	used := quota.Used{Rates: map[string]time.Time{}, Budgets: limit.Tallies{}}
	type grant struct {
		task.Grant
		seq uint64
	}
	grants := map[task.ID]grant{}
	in, passed := make([]uint32, 1, 1024), make([]uint64, 1, 1024) // passed is the last sequence at which it waited for more than its limits
	s := new(pastScan)
	s.birth = func(uint32, []byte) { in, passed = append(in, 0), append(passed, 0) }
	s.move = func(number, place uint32, _ int64) {
		if in[number] = place + 1; !s.places[place].waits {
			passed[number] = s.seq
		}
	}
	s.note = func(r *pastReader) {
		switch r.uint() {
		case noteGrant:
			g := grant{task.Grant{Turn: r.uint(), Rated: r.uint()}, s.seq}
			g.Task = task.ID(r.text(uint64(len(r.b) - r.at)))
			grants[g.Task] = g
		case noteRate:
			name := s.name(r)
			used.Rates[name] = time.Unix(0, r.int())
		case noteShift:
			names := strings.Split(s.name(r), "\n")
			what := r.text(1)
			if r.bad {
				return
			}
			took := limit.Shift{Ended: what[0]&1 != 0, Began: what[0]&2 != 0, At: time.Unix(0, r.int())}
			if took.Ended {
				took.From = time.Unix(0, r.int())
			}
			counters := make([]limit.Counter, len(names))
			for i := range names {
				counters[i].Name = names[i]
			}
			used.Budgets.Spend(counters, took)
		}
	}
	if err := p.scan(ctx, s); err != nil {
		return used, 0, err
	}
	found, err := p.named(ctx, func(number uint32) bool {
		at := &s.places[max(in[number], 1)-1]
		return in[number] > 0 && at.limited && at.state != task.Unknown && !at.state.Terminal()
	})
	if err != nil {
		return used, 0, err
	}
	were, err := p.were(ctx, found)
	for i := range were {
		var admitted *task.Grant
		if g, ok := grants[found[i].id]; ok && g.seq > passed[found[i].number] {
			admitted = &g.Grant
		}
		each(&were[i], admitted) // of bounds of one name that differ, that of the latest task is shown
	}
	return used, p.at.Seq, err
}
