package past

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"os"
	"slices"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
)

// notWritten turns the error of a read beyond the end of the file into ErrDamaged.
func notWritten(err error) error {
	if errors.Is(err, io.EOF) {
		return ErrDamaged
	}
	return fmt.Errorf("read the index of the past: %w", err)
}

// continued is a writer behind an end, after a look at all that was written before.
func (m *index) continued(end End) (*writer, error) {
	scan, sum := scanner{until: math.MaxUint64}, uint32(0)
	_, err := eachPart(context.Background(), m.file, 0, end.Size, m.bounds.Block, &scan, func(_ int64, part []byte) { sum = checksum(sum, part) })
	if err == nil && sum != end.Sum {
		err = ErrDamaged
	}
	if err == nil {
		err = m.file.Truncate(end.Size)
	}
	w := &writer{file: m.file, progress: scan.progress}
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
	w.end = end
	return w, err
}

// Index is the index of the past of one read model: it knows of each message what it has made of its
// task, and so answers questions about any place in the log. One goroutine writes it, with Begin, Add and
// Write; any number may ask meanwhile.
type Index interface {
	// Begin begins a batch of entries behind an end that Write has returned; the zero one is the
	// beginning. Entries behind it do not count. The error wraps [ErrDamaged] if the file is not what was
	// written up to there.
	Begin(end End) error
	// Add adds a record to the batch: what it has made of its task, nil if it is about none.
	Add(r *events.Record, m *Move)
	// Write writes the batch to the file, and returns its end. A batch without entries makes durable
	// what was written before.
	Write() (End, error)
	// At answers as of a place in the log, as soon as the rows have reached it.
	At(p view.Point, rows Rows, log Log) *View
	// Now answers as of the place to which rows have come, with the size of the index up to there. Use
	// the view before the next call, which must not come with an earlier place.
	Now(ctx context.Context, p view.Point, size int64, rows Rows) (*View, error)
	// Close closes the file. Later questions fail.
	Close() error
}

// Open opens the index of the past in a file, and creates that if needed. It calls damaged when a
// question shows that the file is not what was written.
func Open(path string, bounds Bounds, damaged func()) (Index, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	m := &index{file: file, bounds: bounds, damaged: damaged}
	m.begin()
	return m, nil
}

// Begin implements [Index].
func (m *index) Begin(end End) (err error) {
	if w := m.writer; w == nil || end != w.end && end != w.written {
		if m.writer, err = m.continued(end); err != nil {
			m.writer = nil
			return err
		}
	}
	m.writer.begin(end)
	return nil
}

// Add implements [Index].
func (m *index) Add(r *events.Record, of *Move) {
	if of == nil {
		m.writer.other(r)
	} else {
		m.writer.note(r, of)
	}
}

// Write implements [Index].
func (m *index) Write() (End, error) { return m.writer.write() }

// At implements [Index].
func (m *index) At(p view.Point, rows Rows, log Log) *View {
	return &View{index: m, at: p, rows: rows, log: log}
}

// Now implements [Index].
func (m *index) Now(ctx context.Context, p view.Point, size int64, rows Rows) (*View, error) {
	if err := m.toEnd(ctx, size); err != nil {
		return nil, m.noticed(err)
	}
	m.present.reached = p.Seq
	return &View{index: m, at: p, rows: rows, present: m.present}, nil
}

// Close implements [Index].
func (m *index) Close() error { return m.file.Close() }

// noticed reports that the file is not what was written, if an error says so.
func (m *index) noticed(err error) error {
	if errors.Is(err, ErrDamaged) {
		m.damaged()
	}
	return err
}

// Rows are the rows of the read model that an index belongs to.
type Rows interface {
	// Reached returns the size of the index when the rows have come to a sequence, or further.
	Reached(ctx context.Context, seq uint64) (size int64, err error)
	// Known returns the known tasks among some, in no particular order.
	Known(ctx context.Context, ids []task.ID) ([]task.Task, error)
	// Numbers returns the numbers that known tasks have in the index.
	Numbers(ctx context.Context, ids []task.ID) (map[task.ID]uint32, error)
}

// Log reads what the index of the past only refers to.
type Log interface {
	// About returns the facts about a task, in the order of the log.
	About(ctx context.Context, ref view.Ref) ([]events.Record, error)
	// Messages returns the messages that exist at sequences, in no particular order.
	Messages(ctx context.Context, seqs []uint64) ([]events.Record, error)
}

// View answers as of one place in the log.
type View struct {
	index   *index
	at      view.Point
	rows    Rows
	log     Log
	present *scene // nil for a place in the past
}

// Point implements [view.Model].
func (p *View) Point(context.Context) (view.Point, error) { return p.at, nil }

// scene returns the places of all tasks.
func (p *View) scene(ctx context.Context) (*scene, error) {
	if p.present != nil {
		return p.present, nil
	}
	size, err := p.rows.Reached(ctx, p.at.Seq)
	if err != nil {
		return nil, err
	}
	s, err := p.index.sceneAt(ctx, size, p.at.Seq)
	return s, p.index.noticed(err)
}

// scanBlock reads a block, up to the scene.
func (p *View) scanBlock(ctx context.Context, s *scene, b *block, to *scanner) error {
	id := append(to.id[:0], b.id...)
	to.progress, to.until, to.whole = b.progress, s.reached, true
	to.id = id
	to.places, to.origins, to.names = s.tables.places, s.tables.origins, s.tables.names
	_, err := eachPart(ctx, p.index.file, b.at, min(b.end, s.at), p.index.bounds.Block, to, nil)
	return p.index.noticed(err)
}

// choice tells which tasks match the parts of a filter that concern their places and origins, by the
// numbers of these in a scene.
type choice struct {
	in, from []bool
	held     held        // these places and origins
	born     taskNumbers // if not nil, only those: they were born as the filter asks, or may have been
	was      *scene      // if not nil, only those of which the state was another one then
}

// taskNumbers is a set of tasks, a bit for each number.
type taskNumbers []uint64

func (t taskNumbers) add(number uint32) { t[number/64] |= 1 << (number % 64) }

func (t taskNumbers) has(number uint32) bool { return t[number/64]&(1<<(number%64)) != 0 }

// bornWith returns the tasks of a scene that have the labels and the step of a filter, and those of which the
// origin came again: only their facts tell. It returns nil if the filter asks for neither.
func (m *index) bornWith(s *scene, f *view.Filter) (of taskNumbers) {
	var asked []string
	for name, value := range f.Labels {
		asked = append(asked, labelText(name, value))
	}
	if f.Step != "" {
		asked = append(asked, stepText(f.Step))
	}
	if len(asked) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, label := range asked {
		before := of
		of = make(taskNumbers, s.tasks/64+1)
		if s.labels[label] == nil {
			continue
		}
		for _, number := range *s.labels[label] {
			if number <= s.tasks && (i == 0 || before.has(number)) {
				of.add(number)
			}
		}
	}
	for number := range s.odd {
		if number <= s.tasks {
			of.add(number)
		}
	}
	return of
}

func (s *scene) chosen(f *view.Filter) choice {
	c := choice{in: make([]bool, len(s.tables.places)+1), from: make([]bool, len(s.tables.origins)+1)}
	for i := range s.tables.places {
		if c.in[i+1] = s.tables.places[i].meets(f); c.in[i+1] {
			c.held.in.add(uint32(i + 1)) // there are no more places
		}
	}
	for i := range s.tables.origins {
		o := &s.tables.origins[i]
		c.from[i+1] = (f.Job == "" || o.job == f.Job) && (f.Schedule == "" || o.schedule == f.Schedule) && (!f.Roots || o.root)
		if c.from[i+1] {
			c.held.from.add(uint32(i + 1)) // there are no more origins
		}
	}
	return c
}

// held are the places and origins of some tasks.
type held struct{ in, from sieve }

// holds are the places and origins of the tasks that a block introduces.
func (s *scene) holds(b *block) *held {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked.held == nil {
		s.asked.held = make([]*held, len(s.blocks))
	}
	if s.asked.held[b.rank] == nil {
		is, until := new(held), min(b.until, s.tasks)+1
		last, origin := uint32(0), uint32(0)
		for _, part := range s.in.Parts(b.tasks+1, until) {
			for _, place := range part {
				if place != last { // else it is there
					is.in.add(place)
					last = place
				}
			}
		}
		for _, from := range s.from[b.tasks+1 : until] {
			if from != origin {
				is.from.add(from)
				origin = from
			}
		}
		s.asked.held[b.rank] = is
	}
	return s.asked.held[b.rank]
}

// most is how many tasks of a scene are chosen at most.
func (c *choice) most(s *scene) (n int) {
	if !slices.Contains(c.from, true) {
		return 0
	}
	for place, of := range s.n {
		if c.in[place] {
			n += of
		}
	}
	if c.born != nil {
		born := 0
		for _, some := range c.born {
			born += bits.OnesCount64(some)
		}
		n = min(n, born)
	}
	return n
}

// has tells whether a task of the scene is chosen.
func (c *choice) has(s *scene, number uint32) bool {
	return (c.born == nil || c.born.has(number)) && c.in[s.in.At(number)] && c.from[s.from[number]] && (c.was == nil || c.was.state(number) != s.state(number))
}

// any tells whether one of the tasks that a block introduces is chosen.
func (c *choice) any(s *scene, b *block) bool {
	if is := s.holds(b); !is.in.meets(&c.held.in) || !is.from.meets(&c.held.from) {
		return false
	}
	after, until := b.tasks, min(b.until, s.tasks)
	if c.was != nil && s.in.Shares(&c.was.in, after+1, until+1) {
		return false
	}
	for at, part := range s.in.Parts(after+1, until+1) {
		from := s.from[at:]
		for i, place := range part {
			if c.in[place] && c.from[from[i]] && (c.was == nil && c.born == nil || c.has(s, at+uint32(i))) { // there are no more tasks
				return true
			}
		}
	}
	return false
}

// meets tells whether tasks in the place match the parts of a filter that concern places.
func (p *place) meets(f *view.Filter) bool {
	switch {
	case p.state == task.Unknown, f.Dead && !p.dead, len(f.States) > 0 && !slices.Contains(f.States, p.state):
	case f.Node != "" && p.node != f.Node, f.Batch != "" && p.batch != f.Batch:
	case f.Queue != "" && p.route.Queue() != f.Queue && p.queue() != f.Queue:
	case len(f.Priorities) > 0 && !slices.Contains(f.Priorities, p.route.Priority()):
	default:
		return true
	}
	return false
}

// indexed refuses queries that the index cannot answer.
func indexed(q *view.Query) error {
	if q.Kind != view.Tasks || q.Suspect != nil {
		return view.ErrUnindexed
	}
	return nil
}

// Count implements [view.Whole].
func (p *View) Count(ctx context.Context, q view.Query) (view.Counts, error) {
	c := view.Counts{Point: p.at}
	if err := indexed(&q); err != nil {
		return c, err
	}
	s, err := p.scene(ctx)
	if err != nil {
		return c, err
	}
	if q.Placed() {
		c = s.count(&q.Filter, slices.Clone(s.n))
	} else {
		c, err = p.countEach(ctx, s, &q.Filter)
	}
	c.Point = p.at
	return c, err
}

// mostAtOnce is of about how many tasks it is found out at once whether they match.
const mostAtOnce = 500

// countEach counts the tasks that match a filter of which the places and origins of tasks do not tell
// everything. Tasks that only may match are read.
func (p *View) countEach(ctx context.Context, s *scene, f *view.Filter) (c view.Counts, err error) {
	w, err := p.walk(s, f, "")
	if err != nil {
		return c, err
	}
	n, folded := make([]int, len(s.tables.places)+1), 0
	var maybe []numbered
	look := func() error {
		for _, t := range w.found {
			if t.sure {
				n[s.in.At(t.number)]++
			} else {
				maybe = append(maybe, t)
			}
		}
		were, some, err := p.were(ctx, s, maybe)
		if err != nil {
			return err
		}
		if folded += some; folded > mostFolded {
			return view.ErrUnindexed
		}
		for i := range were {
			if f.Match(&were[i]) {
				n[s.in.At(maybe[i].number)]++
			}
		}
		maybe, w.found = maybe[:0], w.found[:0]
		return nil
	}
	for _, b := range w.blocks {
		if w.counts(b, n) {
			continue
		}
		if err := w.read(ctx, b); err != nil {
			return c, err
		}
		if len(w.found) >= mostAtOnce {
			if err := look(); err != nil {
				return c, err
			}
		}
	}
	if err := look(); err != nil {
		return c, err
	}
	s.sum(&c, n)
	return c, nil
}

// count counts the tasks that match a filter. n is how many are in each place, and is changed.
func (s *scene) count(f *view.Filter, n []int) (c view.Counts) {
	if f.Job == "" && f.Schedule == "" && !f.Roots {
		for i := range s.tables.places {
			if !s.tables.places[i].meets(f) {
				n[i+1] = 0
			}
		}
	} else {
		clear(n)
		chosen := s.chosen(f)
		for at, part := range s.in.Parts(0, s.in.Len()) {
			from := s.from[at:]
			for i, place := range part {
				if chosen.in[place] && chosen.from[from[i]] {
					n[place]++
				}
			}
		}
	}
	s.sum(&c, n)
	return c
}

// sum adds up tasks by their places: n is how many are in each.
func (s *scene) sum(c *view.Counts, n []int) {
	for i := range s.tables.places {
		if n[i+1] > 0 {
			c.Add(s.tables.places[i].queue(), s.tables.places[i].state, n[i+1])
		}
	}
}

// mostFolded is how many tasks are folded from their messages for one page of a search. A search
// that needs more needs the whole log.
const mostFolded = 5000

// List implements [view.Whole].
func (p *View) List(ctx context.Context, q view.Query) (page view.Page, err error) {
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
	s, err := p.scene(ctx)
	if err != nil {
		return page, err
	}
	walk, err := p.walk(s, &q.Filter, after)
	if err != nil {
		return page, err
	}
	var tasks []task.Task
	for folded := 0; len(tasks) <= most; {
		some, err := walk.next(ctx, most+1)
		if err != nil {
			return page, err
		}
		if len(some) == 0 {
			break
		}
		were, n, err := p.were(ctx, s, some)
		if err != nil {
			return page, err
		}
		if folded += n; folded > mostFolded && q.Rowed() {
			return page, view.ErrUnindexed
		}
		for i := range were {
			if q.Match(&were[i]) && len(tasks) <= most {
				tasks = append(tasks, were[i])
			}
		}
	}
	page.Tasks, page.Next = q.Cut(tasks, most)
	return page, nil
}

// States implements [view.Whole].
func (p *View) States(ctx context.Context, ids []task.ID) (map[task.ID]task.State, error) {
	s, err := p.scene(ctx)
	if err != nil {
		return nil, err
	}
	numbers, err := p.rows.Numbers(ctx, ids)
	states := make(map[task.ID]task.State, len(ids))
	for id, number := range numbers {
		if state := s.state(number); state != task.Unknown {
			states[id] = state
		}
	}
	return states, err
}

// Steps is [view.Whole.Steps] since an earlier place of the same index.
func (p *View) Steps(ctx context.Context, earlier *View, f view.Filter, most int) (steps view.Steps, err error) {
	if earlier.index != p.index {
		return steps, view.ErrUnindexed
	}
	was, err := earlier.scene(ctx)
	if err != nil {
		return steps, err
	}
	s, err := p.scene(ctx)
	if err != nil {
		return steps, err
	}
	f.OldestFirst = true
	w, err := p.walk(s, &f, "")
	if err != nil {
		return steps, err
	}
	w.chosen.was = was
	steps.Of = map[[2]task.State]int{}
	visit := most
	if f.Placed() {
		s.steps(was, &w.chosen, steps.Of)
	} else {
		visit = math.MaxInt
	}
	var first []numbered
	err = p.eachOf(ctx, w, visit, func(t *numbered) {
		of := [2]task.State{was.state(t.number), s.state(t.number)}
		if len(first) < most {
			first, steps.Was = append(first, *t), append(steps.Was, of[0])
		}
		if visit > most {
			steps.Of[of]++
		}
	})
	if err == nil {
		steps.First, _, err = p.were(ctx, s, first)
	}
	return steps, err
}

// steps counts the chosen tasks by their states in an earlier scene and in this one, if they differ.
func (s *scene) steps(was *scene, c *choice, n map[[2]task.State]int) {
	before, after := was.tables.states(), s.tables.states()
	counts := make([][]int, 1+slices.Max(task.States()))
	for i := range counts {
		counts[i] = make([]int, len(counts))
	}
	for at, part := range s.in.Parts(0, s.in.Len()) {
		if s.in.Shares(&was.in, at, at+uint32(len(part))) { // a part is short
			continue
		}
		for i, in := range part {
			number := at + uint32(i) // likewise
			if !c.in[in] || !c.from[s.from[number]] {
				continue
			}
			from := task.Unknown
			if number < was.in.Len() {
				from = before[was.in.At(number)]
			}
			counts[from][after[in]]++
		}
	}
	for from := range counts {
		for to, of := range counts[from] {
			if of > 0 && from != to {
				n[[2]task.State{task.State(from), task.State(to)}] = of // they were states
			}
		}
	}
}

// states are the states of tasks in each place, after one for no place.
func (s *scanner) states() []task.State {
	all := []task.State{task.Unknown}
	for i := range s.places {
		all = append(all, s.places[i].state)
	}
	return all
}

// state returns the state of a task; unknown if it is not there yet.
func (s *scene) state(number uint32) task.State {
	if number > s.tasks || s.in.At(number) == 0 {
		return task.Unknown
	}
	return s.tables.places[s.in.At(number)-1].state
}

// eachOf calls f with the next tasks of a walk that match its filter, at most most.
func (p *View) eachOf(ctx context.Context, w *walk, most int, f func(*numbered)) error {
	for n := 0; n < most; {
		some, err := w.next(ctx, min(most-n, mostAtOnce))
		if err != nil || len(some) == 0 {
			return err
		}
		var maybe []numbered
		for _, t := range some {
			if !t.sure {
				maybe = append(maybe, t)
			}
		}
		were, _, err := p.were(ctx, w.scene, maybe)
		if err != nil {
			return err
		}
		for i := range some {
			if !some[i].sure {
				is := &were[0]
				if were = were[1:]; !w.filter.Match(is) {
					continue
				}
			}
			f(&some[i])
			n++
		}
	}
	return nil
}
