package projections

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
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

// notWritten is the error of a file that is shorter than what was written, or cannot be read.
func notWritten(err error) error {
	if errors.Is(err, io.EOF) {
		return errPast
	}
	return err
}

// scanPast reads the first size bytes of the index, and returns their sum.
func scanPast(ctx context.Context, file io.ReaderAt, size int64, s *pastScan) (sum uint32, err error) {
	buffer := make([]byte, min(size, pastBuffer))
	have := 0 // what was read and not understood yet, at the front of the buffer
	for at := int64(0); at < size; {
		if have == len(buffer) { // an entry is longer
			buffer = append(buffer, make([]byte, len(buffer))...)
		}
		n := int(min(int64(len(buffer)-have), size-at))
		if _, err := file.ReadAt(buffer[have:have+n], at); err != nil {
			return sum, notWritten(err)
		}
		sum = pastSum(sum, buffer[have:have+n])
		at, have = at+int64(n), have+n
		used, err := s.read(buffer[:have])
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
}

var _ view.Index = (*past)(nil)

// At is what the index of the past tells about a place in the log, when the rows have reached that. Single messages are read from the log.
func (s *Store) At(p view.Point, log view.Numbered) view.Index {
	return &past{store: s, at: p, log: log}
}

// look has f look at the index, which is so long and reaches up to the place at least.
func (p *past) look(ctx context.Context, f func(file io.ReaderAt, size int64) error) error {
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
			err = f(p.store.past, reached.Past)
		}
		return err
	})
}

// scene is where all tasks were.
func (p *past) scene(ctx context.Context) (s *scene, err error) {
	err = p.look(ctx, func(file io.ReaderAt, size int64) error {
		s, err = p.store.then.sceneAt(ctx, file, size, p.at.Seq)
		return err
	})
	return s, err
}

// scan reads the index from a mark on up to the scene.
func (p *past) scan(ctx context.Context, s *scene, from pastMark, to *pastScan) error {
	return p.scanTo(ctx, s, from, s.at, to)
}

// scanBlock reads a block, up to the scene.
func (p *past) scanBlock(ctx context.Context, s *scene, b *pastBlock, to *pastScan) error {
	return p.scanTo(ctx, s, b.pastMark, min(b.end, s.at), to)
}

func (p *past) scanTo(ctx context.Context, s *scene, from pastMark, end int64, to *pastScan) error {
	to.pastState, to.until, to.whole = from.pastState, s.reached, true
	to.id = slices.Clone(from.id)
	to.places, to.origins, to.names = s.tables.places, s.tables.origins, s.tables.names
	return p.look(ctx, func(file io.ReaderAt, _ int64) error {
		_, err := eachPart(ctx, file, from.at, end, p.store.then.bounds.block, to, nil)
		return err
	})
}

// chosen tells of each task whether it may meet a filter, but for its labels, its texts, and when it was submitted.
func (s *scene) chosen(f *view.Filter) func(number uint32) bool {
	in, from := make([]bool, len(s.tables.places)+1), make([]bool, len(s.tables.origins)+1)
	for i := range s.tables.places {
		in[i+1] = s.tables.places[i].meets(f)
	}
	for i := range s.tables.origins {
		o := &s.tables.origins[i]
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
	if q.Kind != view.Tasks || q.Suspect != nil {
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
	if !q.Since.IsZero() || !q.Until.IsZero() || q.IDPart != "" || len(q.Labels) > 0 || q.Text != "" {
		return c, view.ErrUnindexed
	}
	s, err := p.scene(ctx)
	if err != nil {
		return c, err
	}
	n := s.counts()
	if q.Job == "" && q.Schedule == "" && !q.Roots {
		for i := range s.tables.places {
			if !s.tables.places[i].meets(&q.Filter) {
				n[i+1] = 0
			}
		}
	} else {
		clear(n)
		meets := s.chosen(&q.Filter)
		for number := range s.in {
			if meets(uint32(number)) { //nolint:gosec // there are no more tasks
				n[s.in[number]]++
			}
		}
	}
	for i := range s.tables.places {
		if n[i+1] > 0 {
			c.Add(s.tables.places[i].queue(), s.tables.places[i].state, n[i+1])
		}
	}
	return c, nil
}

// counts are how many tasks were in each place, after one for none.
func (s *scene) counts() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked.counts == nil {
		s.asked.counts = make([]int, len(s.tables.places)+1)
		for _, place := range s.in {
			s.asked.counts[place]++
		}
	}
	return slices.Clone(s.asked.counts)
}

// mostFolded is how many tasks are folded from their messages for one page of a search: a search that needs more needs the whole log.
const mostFolded = 5000

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
	s, err := p.scene(ctx)
	if err != nil {
		return page, err
	}
	walk, err := p.walk(ctx, s, &q.Filter, after)
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
		if folded += n; folded > mostFolded && q.Text != "" {
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

// numbered is a task by its number in the index.
type numbered struct {
	id     task.ID
	number uint32
}

// walk goes through the tasks of a scene that may meet a filter, in its order.
type walk struct {
	past   *past
	scene  *scene
	filter *view.Filter
	after  task.ID
	meets  func(number uint32) bool
	says   *says        // nil if no text is asked for
	blocks []*pastBlock // that are still to be read, in the order of the ids that come first in them
	odd    map[*pastBlock]bool
	found  []numbered // in order; those of blocks that were read
}

func (p *past) walk(ctx context.Context, s *scene, f *view.Filter, after task.ID) (*walk, error) {
	w := &walk{past: p, scene: s, filter: f, after: after, meets: s.chosen(f), odd: map[*pastBlock]bool{}}
	if f.Text != "" {
		var err error
		if w.says, err = p.says(ctx, s, f); err != nil {
			return nil, err
		}
	}
	for number := range s.odd {
		if number <= s.tasks {
			w.odd[&s.blocks[blockOf(s.blocks, number)]] = true
		}
	}
	for i := range s.blocks {
		b := &s.blocks[i]
		switch {
		case b.at >= s.at || b.until == b.tasks, !w.odd[b] && !b.bears(f), after != "" && !w.precedes(string(after), b.far(!f.OldestFirst)):
		case w.says != nil && !w.says.block(b, s.tasks):
		default:
			w.blocks = append(w.blocks, b)
		}
	}
	slices.SortFunc(w.blocks, func(a, b *pastBlock) int {
		if f.OldestFirst {
			return strings.Compare(a.low, b.low)
		}
		return strings.Compare(b.high, a.high)
	})
	return w, nil
}

// far is the id of the block that comes last, the least or the greatest.
func (b *pastBlock) far(least bool) string {
	if least {
		return b.low
	}
	return b.high
}

// bears tells whether tasks of the block may have been submitted within the bounds of a filter, or in the same microsecond, and have its labels.
func (b *pastBlock) bears(f *view.Filter) bool {
	if !f.Since.IsZero() && b.last < f.Since.UnixMicro() || !f.Until.IsZero() && b.first > f.Until.UnixMicro() {
		return false
	}
	for k, v := range f.Labels {
		m := labelHash(k, v)
		if word, bit := labelBit(m[:]); b.labels[word]&bit == 0 {
			return false
		}
	}
	return true
}

// precedes tells whether an id comes before another one in the order of the filter.
func (w *walk) precedes(a, b string) bool {
	if w.filter.OldestFirst {
		return a < b
	}
	return a > b
}

// next are the next ones, at most so many; none if there are no more.
func (w *walk) next(ctx context.Context, most int) ([]numbered, error) {
	read, first := false, ""
	if len(w.found) > 0 {
		first = string(w.found[0].id)
	}
	for len(w.blocks) > 0 && (first == "" || !w.precedes(first, w.blocks[0].far(w.filter.OldestFirst))) {
		n := len(w.found)
		if err := w.read(ctx, w.blocks[0]); err != nil {
			return nil, err
		}
		for i := range w.found[n:] {
			if id := string(w.found[n+i].id); first == "" || w.precedes(id, first) {
				first = id
			}
		}
		w.blocks, read = w.blocks[1:], read || len(w.found) > n
	}
	if read {
		slices.SortFunc(w.found, func(a, b numbered) int {
			if w.filter.OldestFirst {
				return strings.Compare(string(a.id), string(b.id))
			}
			return strings.Compare(string(b.id), string(a.id))
		})
	}
	n := 0
	for n < min(most, len(w.found)) && (len(w.blocks) == 0 || w.precedes(string(w.found[n].id), w.blocks[0].far(w.filter.OldestFirst))) {
		n++
	}
	some := w.found[:n]
	w.found = w.found[n:]
	return some, nil
}

// read adds what a block has.
func (w *walk) read(ctx context.Context, b *pastBlock) error {
	any := false
	for number := b.tasks + 1; number <= min(b.until, w.scene.tasks) && !any; number++ {
		any = w.meets(number)
	}
	if !any {
		return nil
	}
	n, f := len(w.found), w.filter
	scan := &pastScan{birth: func(number uint32, id []byte) {
		if w.meets(number) && within(f, string(w.after), string(id)) && (w.says == nil || w.says.may(number, id)) {
			w.found = append(w.found, numbered{task.ID(id), number})
		}
	}}
	var unfit map[uint32]bool
	if !f.Since.IsZero() || !f.Until.IsZero() || len(f.Labels) > 0 {
		unfit = map[uint32]bool{}
		scan.from = func(number, _ uint32, submitted, _ int64, labels []byte) {
			at := time.UnixMicro(submitted)
			in := (f.Since.IsZero() || !at.Before(f.Since.Truncate(time.Microsecond))) && (f.Until.IsZero() || at.Before(f.Until))
			unfit[number] = !in || !mayHave(labels, f.Labels)
		}
	}
	if err := w.past.scanBlock(ctx, w.scene, b, scan); err != nil {
		return err
	}
	if unfit != nil {
		fit := w.found[:n]
		for _, t := range w.found[n:] {
			if !unfit[t.number] || w.scene.odd[t.number] {
				fit = append(fit, t)
			}
		}
		w.found = fit
	}
	if w.says == nil || plainPart(f.Text) == "" {
		return nil
	}
	found, err := w.saying(ctx, w.found[n:])
	w.found = append(w.found[:n], found...)
	return err
}

// saying are those of some tasks that may have had the text by their rows: to read a whole row costs ten times as much.
func (w *walk) saying(ctx context.Context, of []numbered) (found []numbered, err error) {
	now := map[string]bool{}
	err = w.past.store.view(ctx, "look for a text", func(tx *sql.Tx, _ uint64) error {
		for some := range slices.Chunk(of, statesAtOnce) {
			c := conditions(&view.Filter{Text: w.filter.Text}, nil, "")
			ids := make([]any, len(some))
			for i := range some {
				ids[i] = string(some[i].id)
			}
			c.and("id IN ("+repeat("?", len(ids))+")", ids...)
			var id string
			if err := each(ctx, tx, "SELECT id FROM tasks WHERE "+c.text.String(), c.args, []any{&id}, func() error { now[id] = true; return nil }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	// Now, for the rows may have become others since the index was read.
	if w.says.since, err = w.past.saidSince(ctx, w.scene); err != nil {
		return nil, err
	}
	for _, t := range of {
		if now[string(t.id)] || w.says.has(t.number) {
			found = append(found, t)
		}
	}
	return found, nil
}

// within tells whether an id lies behind another one in the order of the filter, and has the part that it asks for.
func within(f *view.Filter, after, id string) bool {
	if after != "" && (f.OldestFirst && id <= after || !f.OldestFirst && id >= after) {
		return false
	}
	return strings.HasPrefix(id, f.IDPart) || strings.HasSuffix(id, f.IDPart)
}

// says is who may have had a text: who has it now, or has said something else since.
type says struct {
	spans []span   // where who has it now may be, in the order of ids
	since []uint64 // has a bit for each task that has said something else
}

func (p *past) says(ctx context.Context, s *scene, f *view.Filter) (*says, error) {
	is := &says{spans: []span{{}}}
	if len(f.Text) >= 3 {
		is.spans = p.store.texts.spans(f.Text) // before the index is read: who says something else from now on is noted there
	}
	var err error
	is.since, err = p.saidSince(ctx, s)
	return is, err
}

// may tells whether a task may have had it.
func (s *says) may(number uint32, id []byte) bool {
	return s.has(number) || s.within(string(id), string(id))
}

// has tells whether a task has said something else since.
func (s *says) has(number uint32) bool { return s.since[number/64]&(1<<(number%64)) != 0 }

// within tells whether who has it now may be from one id up to another one.
func (s *says) within(low, high string) bool {
	at, _ := slices.BinarySearchFunc(s.spans, low, func(s span, low string) int {
		if s.end != "" && s.end <= low {
			return -1
		}
		return 1
	})
	return at < len(s.spans) && s.spans[at].first <= high
}

// block tells whether a task of a block may have had it, of those up to a number.
func (s *says) block(b *pastBlock, until uint32) bool {
	if s.within(b.low, b.high) {
		return true
	}
	for number := b.tasks + 1; number <= min(b.until, until); number++ {
		if s.has(number) {
			return true
		}
	}
	return false
}

// saidSince has a bit for each task of the scene that has said something else since then.
func (p *past) saidSince(ctx context.Context, s *scene) ([]uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &s.asked
	if a.said == nil {
		a.said, a.saidTo = make([]uint64, s.tasks/64+1), s.pastMark
	}
	err := p.look(ctx, func(file io.ReaderAt, size int64) error {
		m := &p.store.then
		m.mu.Lock()
		err := m.cover(ctx, file, size, math.MaxUint64)
		blocks, places := slices.Clip(m.blocks), slices.Clip(m.scan.places)
		origins, names, end := slices.Clip(m.scan.origins), slices.Clip(m.scan.names), m.scan.mark(m.read)
		m.mu.Unlock()
		if err != nil {
			return err
		}
		for i := range blocks {
			b := &blocks[i]
			if b.end <= a.saidTo.at || !b.texts {
				continue
			}
			from := b.pastMark
			if a.saidTo.at > from.at {
				from = a.saidTo
			}
			scan := pastScan{pastState: from.pastState, until: math.MaxUint64, whole: true, places: places, origins: origins, names: names}
			scan.id = slices.Clone(from.id)
			scan.move = func(number, place uint32, _ int64) {
				if places[place].said && number <= s.tasks {
					a.said[number/64] |= 1 << (number % 64)
				}
			}
			if _, err := eachPart(ctx, file, from.at, b.end, m.bounds.block, &scan, nil); err != nil {
				return err
			}
		}
		a.saidTo = end
		return nil
	})
	return slices.Clone(a.said), err
}

// named are the tasks with these numbers.
func (p *past) named(ctx context.Context, s *scene, numbers []uint32) (found []numbered, err error) {
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	for len(numbers) > 0 {
		b := &s.blocks[blockOf(s.blocks, numbers[0])]
		n := 0
		if err := p.scanBlock(ctx, s, b, &pastScan{birth: func(number uint32, id []byte) {
			if n < len(numbers) && number == numbers[n] {
				found = append(found, numbered{task.ID(id), number})
				n++
			}
		}}); err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, errPast
		}
		numbers = numbers[n:]
	}
	return found, nil
}

// pastAnswers are those that a scene keeps: the past does not become another.
type pastAnswers struct {
	were    map[uint32]task.Task // by number; at most [mostKept]
	counts  []int
	oldest  map[string]time.Time
	limited *limited
	// said has a bit for each task that has said something else since then, up to a place.
	said   []uint64
	saidTo pastMark
}

// mostKept is how many tasks a scene keeps.
const mostKept = 2000

// were are tasks as they were, in this order, and how many of them were folded from their messages: those to which something has happened since.
func (p *past) were(ctx context.Context, s *scene, of []numbered) (tasks []task.Task, folded int, err error) {
	tasks = make([]task.Task, len(of))
	place := make(map[task.ID]int, len(of))
	var ids []task.ID
	s.mu.Lock()
	for i := range of {
		if t, ok := s.asked.were[of[i].number]; ok {
			tasks[i] = t
		} else {
			ids, place[of[i].id] = append(ids, of[i].id), i
		}
	}
	s.mu.Unlock()
	if len(ids) == 0 {
		return tasks, 0, nil
	}
	now, err := p.store.ByID(ctx, ids)
	if err != nil {
		return nil, 0, err
	}
	for i := range now {
		if now[i].Seq <= p.at.Seq {
			tasks[place[now[i].ID]] = now[i]
		}
	}
	var changed []numbered
	for _, i := range place {
		if tasks[i].ID == "" {
			changed = append(changed, of[i])
		}
	}
	then, err := p.folded(ctx, s, changed)
	if err != nil {
		return nil, 0, err
	}
	for id, t := range then {
		tasks[place[id]] = *t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked.were)+len(ids) > mostKept || s.asked.were == nil {
		s.asked.were = map[uint32]task.Task{}
	}
	for _, i := range place {
		if len(s.asked.were) < mostKept {
			s.asked.were[of[i].number] = tasks[i]
		}
	}
	return tasks, len(changed), nil
}

// folded are tasks as the messages about them add up.
func (p *past) folded(ctx context.Context, s *scene, of []numbered) (map[task.ID]*task.Task, error) {
	then := map[task.ID]*task.Task{}
	for i := range of {
		then[of[i].id] = &task.Task{ID: of[i].id}
	}
	messages := map[uint32]bool{}
	var far []numbered
	from := s.pastMark
	for _, t := range of {
		if b := &s.blocks[blockOf(s.blocks, t.number)]; s.at-b.at > p.store.then.bounds.near {
			far = append(far, t)
		} else if messages[t.number] = true; b.at < from.at {
			from = b.pastMark
		}
	}
	var records []events.Record
	if len(far) <= p.store.then.bounds.few {
		for _, t := range far {
			about, err := p.log.About(ctx, view.Task(t.id))
			if err != nil {
				return nil, fmt.Errorf("read the log: %w", err)
			}
			for i := range about {
				if about[i].Seq <= p.at.Seq {
					records = append(records, about[i])
				}
			}
		}
	} else {
		for _, t := range far {
			messages[t.number] = true
			if b := &s.blocks[blockOf(s.blocks, t.number)]; b.at < from.at {
				from = b.pastMark
			}
		}
	}
	if len(messages) > 0 {
		var seqs []uint64
		scan := new(pastScan)
		scan.move = func(number, _ uint32, _ int64) {
			if messages[number] {
				seqs = append(seqs, scan.seq)
			}
		}
		if err := p.scan(ctx, s, from, scan); err != nil {
			return nil, err
		}
		said, err := p.log.Messages(ctx, seqs)
		if err != nil {
			return nil, err
		}
		records = append(records, said...)
	}
	slices.SortFunc(records, func(a, b events.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	for i := range records {
		if t := then[taskOf(&records[i])]; t != nil {
			t.Apply(records[i].Task())
		}
	}
	return then, nil
}

// States implements [view.Index].
func (p *past) States(ctx context.Context, ids []task.ID) (map[task.ID]task.State, error) {
	s, err := p.scene(ctx)
	if err != nil {
		return nil, err
	}
	states := make(map[task.ID]task.State, len(ids))
	err = p.store.view(ctx, "look at the states of tasks", func(tx *sql.Tx, _ uint64) error {
		for some := range slices.Chunk(ids, statesAtOnce) {
			args := make([]any, len(some))
			for i, id := range some {
				args[i] = string(id)
			}
			var id task.ID
			var number uint32
			err := each(ctx, tx, "SELECT id, number FROM tasks WHERE id IN ("+repeat("?", len(some))+")", args, []any{&id, &number}, func() error {
				if number <= s.tasks && s.in[number] > 0 {
					if state := s.tables.places[s.in[number]-1].state; state != task.Unknown {
						states[id] = state
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return states, err
}

// Oldest implements [view.Index].
func (p *past) Oldest(ctx context.Context) (map[string]time.Time, error) {
	s, err := p.scene(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked.oldest == nil {
		if s.asked.oldest, err = p.oldest(ctx, s); err != nil {
			return nil, err
		}
	}
	return maps.Clone(s.asked.oldest), nil
}

func (p *past) oldest(ctx context.Context, s *scene) (map[string]time.Time, error) {
	pending := make([]bool, len(s.tables.places)+1)
	for i := range s.tables.places {
		pending[i+1] = s.tables.places[i].state == task.Pending
	}
	oldest := map[string]time.Time{}
	first := slices.IndexFunc(s.in, func(place uint32) bool { return pending[place] })
	if first < 0 {
		return oldest, nil
	}
	since := make([]int64, len(s.in)-first)
	from := s.blocks[blockOf(s.blocks, uint32(first))].pastMark //nolint:gosec // there are no more tasks
	if err := p.scan(ctx, s, from, &pastScan{move: func(number, place uint32, at int64) {
		if int(number) >= first {
			since[int(number)-first] = at
		}
	}}); err != nil {
		return nil, err
	}
	for i, place := range s.in[first:] {
		if !pending[place] {
			continue
		}
		at, queue := time.UnixMicro(since[i]), s.tables.places[place-1].queue()
		if before, ok := oldest[queue]; !ok || at.Before(before) {
			oldest[queue] = at
		}
	}
	return oldest, nil
}

// LastOfJobs implements [view.Index].
func (p *past) LastOfJobs(ctx context.Context) (map[string]task.Task, uint64, error) {
	s, err := p.scene(ctx)
	if err != nil {
		return nil, 0, err
	}
	last, err := p.latest(ctx, s, s.byJob, func(o *origin) string { return o.job })
	return last, p.at.Seq, err
}

// latest are the latest tasks that have no parent, by the name that their origins have; of "" none.
func (p *past) latest(ctx context.Context, s *scene, of []view.Latest, name func(o *origin) string) (map[string]task.Task, error) {
	latest := map[string]view.Latest{}
	for i, l := range of {
		o := &s.tables.origins[i]
		if of := name(o); o.root && of != "" && l.Number > 0 {
			if have, ok := latest[of]; !ok || l.After(have) {
				latest[of] = l
			}
		}
	}
	names := map[uint32][]string{}
	for name, l := range latest {
		names[l.Number] = append(names[l.Number], name)
	}
	found, err := p.named(ctx, s, slices.Collect(maps.Keys(names)))
	if err != nil {
		return nil, err
	}
	were, _, err := p.were(ctx, s, found)
	last := map[string]task.Task{}
	for i := range were {
		for _, name := range names[found[i].number] {
			last[name] = were[i]
		}
	}
	return last, err
}

// Schedules implements [view.Index].
func (p *past) Schedules(ctx context.Context, since time.Time) (map[string]*view.Ticks, uint64, error) {
	s, err := p.scene(ctx)
	if err != nil {
		return nil, 0, err
	}
	all := map[string]*view.Ticks{}
	of := func(name string) *view.Ticks {
		if all[name] == nil {
			all[name] = &view.Ticks{Skipped: map[string]int{}}
		}
		return all[name]
	}
	for i, at := range s.decided {
		if at != math.MinInt64 {
			of(s.tables.names[i]).Decided = time.UnixMicro(at).UTC()
		}
	}
	last, err := p.latest(ctx, s, s.bySchedule, func(o *origin) string { return o.schedule })
	for name, t := range last {
		of(name).Last = t
	}
	if err == nil {
		err = p.skips(ctx, s, since, func(schedule, reason string, n int) { of(schedule).Skipped[reason] += n })
	}
	return all, p.at.Seq, err
}

// skips tells how many ticks of schedules got no task since a time, and why.
func (p *past) skips(ctx context.Context, s *scene, since time.Time, tell func(schedule, reason string, n int)) error {
	type until struct {
		schedule string
		at       int64
	}
	type skip struct {
		reason string
		n      int
	}
	skips := map[until]skip{}
	scan := new(pastScan)
	scan.note = func(r *pastReader) {
		if r.uint() != noteTick {
			return
		}
		schedule, at, n, reason := scan.name(r), r.int(), int(r.uint()), scan.name(r)
		if n > 0 && !time.UnixMicro(at).Before(since) {
			skips[until{schedule, at}] = skip{reason, n}
		}
	}
	for i := range s.blocks {
		if b := &s.blocks[i]; b.at < s.at && b.skips != math.MinInt64 && !time.UnixMicro(b.skips).Before(since) {
			if err := p.scanBlock(ctx, s, b, scan); err != nil {
				return err
			}
		}
	}
	for u, s := range skips {
		tell(u.schedule, s.reason, s.n)
	}
	return nil
}

// limited are the tasks under limits that had not ended, with their admissions, and what was used up.
type limited struct {
	found  []numbered
	grants map[uint32]task.Grant
	used   quota.Used
}

// EachLimited implements [view.Index].
func (p *past) EachLimited(ctx context.Context, each func(*task.Task, *task.Grant)) (quota.Used, uint64, error) {
	s, err := p.scene(ctx)
	if err != nil {
		return quota.Used{}, 0, err
	}
	s.mu.Lock()
	is := s.asked.limited
	s.mu.Unlock()
	if is == nil {
		if is, err = p.limited(ctx, s); err != nil {
			return quota.Used{}, 0, err
		}
		s.mu.Lock()
		s.asked.limited = is
		s.mu.Unlock()
	}
	were, _, err := p.were(ctx, s, is.found)
	for i := range were {
		var admitted *task.Grant
		if g, ok := is.grants[is.found[i].number]; ok {
			admitted = &g
		}
		each(&were[i], admitted) // of bounds of one name that differ, that of the latest task is shown
	}
	return quota.Used{Rates: maps.Clone(is.used.Rates), Budgets: maps.Clone(is.used.Budgets)}, p.at.Seq, err
}

func (p *past) limited(ctx context.Context, at *scene) (*limited, error) {
	is := &limited{grants: map[uint32]task.Grant{}, used: quota.Used{Rates: map[string]time.Time{}, Budgets: limit.Tallies{}}}
	used := &is.used
	if !slices.ContainsFunc(at.blocks, func(b pastBlock) bool { return b.limits }) && !slices.ContainsFunc(at.tables.places, func(p place) bool { return p.limited }) {
		return is, nil // as in most logs
	}
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
	if err := p.scan(ctx, at, pastMark{}, s); err != nil {
		return nil, err
	}
	var under []uint32
	for number := uint32(1); number < uint32(len(in)); number++ { //nolint:gosec // there are no more tasks
		if in[number] == 0 {
			continue
		}
		if at := &s.places[in[number]-1]; at.limited && at.state != task.Unknown && !at.state.Terminal() {
			under = append(under, number)
		}
	}
	found, err := p.named(ctx, at, under)
	if err != nil {
		return nil, err
	}
	for _, t := range found {
		if g, ok := grants[t.id]; ok && g.seq > passed[t.number] {
			is.grants[t.number] = g.Grant
		}
	}
	sortByID(found)
	is.found = found
	return is, nil
}

func sortByID(of []numbered) {
	slices.SortFunc(of, func(a, b numbered) int { return strings.Compare(string(a.id), string(b.id)) })
}
