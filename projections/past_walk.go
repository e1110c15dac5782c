package projections

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/view"
)

// numbered is a task by its number in the index.
type numbered struct {
	id     task.ID
	number uint32
}

// walk visits the tasks of a scene that may match a filter, in its order.
type walk struct {
	past   *past
	scene  *scene
	filter *view.Filter
	after  task.ID
	meets  func(number uint32) bool
	says   *says        // nil without a text
	blocks []*pastBlock // still to be read, in the order of their first ids
	odd    map[*pastBlock]bool
	found  []numbered // in order; from the blocks read so far
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

// far is the id of the block that comes last in the order: the least or the greatest.
func (b *pastBlock) far(least bool) string {
	if least {
		return b.low
	}
	return b.high
}

// bears tells whether tasks of the block may have been submitted within the filter's bounds, or in
// the same microsecond, and have its labels.
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

// precedes tells whether one id comes before another in the order of the filter.
func (w *walk) precedes(a, b string) bool {
	if w.filter.OldestFirst {
		return a < b
	}
	return a > b
}

// next returns the next tasks, at most most; none at the end.
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

// read adds the tasks of a block.
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
	var unfit []bool // by number, as the last entry about the task says; the entry may be in another block
	if !f.Since.IsZero() || !f.Until.IsZero() || len(f.Labels) > 0 {
		unfit = make([]bool, b.until-b.tasks+1)
		marks := marksFor(f.Labels)
		scan.from = func(number, _ uint32, submitted, _ int64, labels []byte) {
			at := time.UnixMicro(submitted)
			in := (f.Since.IsZero() || !at.Before(f.Since.Truncate(time.Microsecond))) && (f.Until.IsZero() || at.Before(f.Until))
			if number > b.tasks {
				unfit[number-b.tasks] = !in || !mayHave(labels, marks)
			}
		}
	}
	if err := w.past.scanBlock(ctx, w.scene, b, scan); err != nil {
		return err
	}
	if unfit != nil {
		fit := w.found[:n]
		for _, t := range w.found[n:] {
			if !unfit[t.number-b.tasks] || w.scene.odd[t.number] {
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

// saying returns the tasks among some that by their rows may have had the text. Reading a whole row
// would cost ten times as much.
func (w *walk) saying(ctx context.Context, of []numbered) (found []numbered, err error) {
	now := map[string]bool{}
	err = w.past.store.view(ctx, "look for a text", func(tx *sql.Tx, _ uint64) error {
		for some := range slices.Chunk(of, idsAtOnce) {
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
	// Read now, because rows may have changed since the index was read.
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

// within tells whether an id comes after another one in the order of the filter, and has the
// filter's part of an id.
func within(f *view.Filter, after, id string) bool {
	if after != "" && (f.OldestFirst && id <= after || !f.OldestFirst && id >= after) {
		return false
	}
	return strings.HasPrefix(id, f.IDPart) || strings.HasSuffix(id, f.IDPart)
}

// says are the tasks that may have had a text: those that have it now, and those whose texts have
// changed since.
type says struct {
	spans []span   // the ranges of ids of tasks that may have it now
	since []uint64 // has a bit for each task whose texts have changed
}

func (p *past) says(ctx context.Context, s *scene, f *view.Filter) (*says, error) {
	is := &says{spans: []span{{}}}
	if len(f.Text) >= 3 {
		is.spans = p.store.texts.spans(f.Text) // before the index is read: later changes are recorded there
	}
	var err error
	is.since, err = p.saidSince(ctx, s)
	return is, err
}

// may tells whether a task may have had the text.
func (s *says) may(number uint32, id []byte) bool {
	return s.has(number) || s.within(string(id), string(id))
}

// has tells whether a task's texts have changed since.
func (s *says) has(number uint32) bool { return s.since[number/64]&(1<<(number%64)) != 0 }

// within tells whether a task between two ids may have the text now.
func (s *says) within(low, high string) bool {
	at, _ := slices.BinarySearchFunc(s.spans, low, func(s span, low string) int {
		if s.end != "" && s.end <= low {
			return -1
		}
		return 1
	})
	return at < len(s.spans) && s.spans[at].first <= high
}

// block tells whether a task of a block, up to a number, may have had the text.
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

// saidSince has a bit for each task of the scene whose texts have changed since.
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

// named returns the tasks with these numbers.
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

// sinceWhen is since when a task is pending, by its latest entry read so far.
type sinceWhen struct {
	seq   uint64
	since int64
}

// waiting are the pending tasks of a queue.
type waiting struct {
	moved  sieve  // of all
	oldest uint32 // 0 until one is known
}

// oldest returns since when the longest waiting task of each queue is pending. It reads only blocks
// that may tell of an older task than the known ones, or more of those.
func (p *past) oldest(ctx context.Context, s *scene) (map[string]time.Time, error) {
	queues, of := map[string]*waiting{}, make([]*waiting, len(s.tables.places)+1)
	for i := range s.tables.places {
		if is := &s.tables.places[i]; is.state == task.Pending {
			if queues[is.queue()] == nil {
				queues[is.queue()] = &waiting{}
			}
			of[i+1] = queues[is.queue()]
		}
	}
	for number, place := range s.in {
		if q := of[place]; q != nil {
			q.moved.add(near(uint32(number))) //nolint:gosec // there are no more tasks
		}
	}
	maps.DeleteFunc(queues, func(_ string, q *waiting) bool { return q.moved == sieve{} })
	known, read := map[uint32]sinceWhen{}, make([]bool, len(s.blocks))
	scan := new(pastScan)
	scan.move = func(number, _ uint32, at int64) {
		if of[s.in[number]] != nil && known[number].seq <= scan.seq {
			known[number] = sinceWhen{scan.seq, at}
		}
	}
	for again := true; again; {
		again = false
		for i := range s.blocks {
			b := &s.blocks[i]
			if b.at >= s.at || read[i] || !slices.ContainsFunc(slices.Collect(maps.Values(queues)), func(q *waiting) bool {
				return b.moved.meets(&q.moved) && (q.oldest == 0 || b.since < known[q.oldest].since || b.moved.has(near(q.oldest)))
			}) {
				continue
			}
			if err := p.scanBlock(ctx, s, b, scan); err != nil {
				return nil, err
			}
			read[i], again = true, true
			for _, q := range queues {
				q.oldest = 0
			}
			for number, is := range known {
				if q := of[s.in[number]]; q.oldest == 0 || is.since < known[q.oldest].since {
					q.oldest = number
				}
			}
		}
	}
	oldest := map[string]time.Time{}
	for name, q := range queues {
		oldest[name] = time.UnixMicro(known[q.oldest].since)
	}
	return oldest, nil
}

// LastFailed implements [view.Tracer].
func (p *past) LastFailed(ctx context.Context, most int) ([]task.Task, error) {
	s, err := p.scene(ctx)
	if err != nil {
		return nil, err
	}
	found, err := p.lastFailed(ctx, s, most)
	if err != nil {
		return nil, err
	}
	were, _, err := p.were(ctx, s, found)
	return were, err
}

// lastFailed returns the tasks that have failed, those that failed last first. It reads the index
// backwards, block by block.
func (p *past) lastFailed(ctx context.Context, s *scene, most int) ([]numbered, error) {
	left, in := 0, s.counts()
	for i := range s.tables.places {
		if s.tables.places[i].state.Failed() {
			left += in[i+1]
		}
	}
	var last []uint32
	seen := map[uint32]bool{}
	for i := len(s.blocks) - 1; i >= 0 && left > 0 && len(last) < most; i-- {
		b := &s.blocks[i]
		if b.at >= s.at || !b.fell {
			continue
		}
		var fell []uint32
		if err := p.scanBlock(ctx, s, b, &pastScan{move: func(number, place uint32, _ int64) {
			if s.tables.places[place].fell {
				fell = append(fell, number)
			}
		}}); err != nil {
			return nil, err
		}
		for _, number := range slices.Backward(fell) {
			if at := s.in[number]; !seen[number] && at > 0 && s.tables.places[at-1].state.Failed() {
				seen[number] = true
				last = append(last, number)
				left--
			}
		}
	}
	last = last[:min(len(last), most)]
	found, err := p.named(ctx, s, slices.Clone(last))
	slices.SortFunc(found, func(a, b numbered) int {
		return cmp.Compare(slices.Index(last, a.number), slices.Index(last, b.number))
	})
	return found, err
}

// pastAnswers are the cached answers of a scene: the past does not change.
type pastAnswers struct {
	were    map[uint32]task.Task // by number; at most [mostKept]
	counts  []int
	oldest  map[string]time.Time
	limited *limited
	// said has a bit for each task whose texts have changed since then, up to a place.
	said   []uint64
	saidTo pastMark
}

// mostKept is how many tasks a scene keeps.
const mostKept = 2000

// were returns tasks as they were, in the order of of, and how many were folded from their
// messages, because they have changed since.
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
	now, err := p.rows(ctx, ids)
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

// folded returns tasks as the fold of their messages.
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

func sortByID(of []numbered) {
	slices.SortFunc(of, func(a, b numbered) int { return strings.Compare(string(a.id), string(b.id)) })
}
