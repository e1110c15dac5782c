package past

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
)

// numbered is a task by its number in the index. Born is the sequence of the first message about it. Sure
// says that it matches a filter.
type numbered struct {
	id     task.ID
	number uint32
	born   uint64
	sure   bool
}

// walk visits the tasks of a scene that may match a filter, in its order.
type walk struct {
	past   *View
	scene  *scene
	filter *view.Filter
	after  task.ID
	chosen choice
	left   int      // how many chosen tasks may be in the blocks still to be read
	blocks []*block // still to be read, in the order of their first ids
	reborn map[*block]bool
	found  []numbered // in order; from the blocks read so far
	rowed  bool       // only rows tell all that the filter asks for
}

func (p *View) walk(s *scene, f *view.Filter, after task.ID) (*walk, error) {
	if f.Text != "" {
		return nil, view.ErrUnindexed
	}
	w := &walk{past: p, scene: s, filter: f, after: after, chosen: s.chosen(f), rowed: f.Rowed(), reborn: map[*block]bool{}}
	w.chosen.born = s.of.bornWith(s, f)
	w.left = w.chosen.most(s)
	for number := range s.reborn {
		if number <= s.tasks {
			w.reborn[&s.blocks[blockOf(s.blocks, number)]] = true
		}
	}
	for i := range s.blocks {
		b := &s.blocks[i]
		if !f.OldestFirst { // nearly in order, so that sorting costs little
			b = &s.blocks[len(s.blocks)-1-i]
		}
		switch {
		case b.at >= s.at || b.until == b.tasks, !w.reborn[b] && !b.bears(f), after != "" && !w.precedes(string(after), b.far(!f.OldestFirst)):
		default:
			w.blocks = append(w.blocks, b)
		}
	}
	slices.SortFunc(w.blocks, func(a, b *block) int {
		if f.OldestFirst {
			return strings.Compare(a.low, b.low)
		}
		return strings.Compare(b.high, a.high)
	})
	return w, nil
}

// far is the id of the block that comes last in the order: the least or the greatest.
func (b *block) far(least bool) string {
	if least {
		return b.low
	}
	return b.high
}

// bears tells whether tasks of the block may have been submitted within the filter's bounds, or in
// the same microsecond.
func (b *block) bears(f *view.Filter) bool {
	may, _ := during(f, b.first)
	last, _ := during(f, b.last)
	return may || last || b.first < f.Since.UnixMicro() && (f.Until.IsZero() || b.last > f.Until.UnixMicro())
}

// during tells whether a task that was submitted in a microsecond may be within the filter's bounds,
// and whether it surely is.
func during(f *view.Filter, at int64) (may, surely bool) {
	may, surely = true, true
	if !f.Since.IsZero() {
		since := f.Since.UnixMicro()
		may, surely = at >= since, at > since
	}
	if !f.Until.IsZero() {
		until := f.Until.UnixMicro()
		may, surely = may && at <= until, surely && at < until
	}
	return may, surely
}

// precedes tells whether one id comes before another in the order of the filter.
func (w *walk) precedes(a, b string) bool {
	if w.filter.OldestFirst {
		return a < b
	}
	return a > b
}

// next returns the next tasks, at most most and fewer only at the end: what is found out about them costs
// less for all of them at once.
func (w *walk) next(ctx context.Context, most int) (some []numbered, err error) {
	for len(some) < most {
		more, err := w.few(ctx, most-len(some))
		if err != nil || len(more) == 0 {
			return some, err
		}
		some = append(some, more...)
	}
	return some, nil
}

// few returns some of the next tasks, at most most; none at the end.
func (w *walk) few(ctx context.Context, most int) ([]numbered, error) {
	read, first := false, ""
	if len(w.found) > 0 {
		first = string(w.found[0].id)
	}
	for len(w.blocks) > 0 && w.left > 0 && (first == "" || !w.precedes(first, w.blocks[0].far(w.filter.OldestFirst))) {
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
	for n < min(most, len(w.found)) && (len(w.blocks) == 0 || w.left == 0 || w.precedes(string(w.found[n].id), w.blocks[0].far(w.filter.OldestFirst))) {
		n++
	}
	some := w.found[:n]
	w.found = w.found[n:]
	return some, nil
}

// counts adds the tasks of a block to the numbers of those in each place, if it need not be read for
// that.
func (w *walk) counts(b *block, n []int) bool {
	_, first := during(w.filter, b.first)
	_, last := during(w.filter, b.last)
	if !first || !last || w.reborn[b] || w.filter.IDPart != "" || w.rowed {
		return false
	}
	for number := b.tasks + 1; number <= min(b.until, w.scene.tasks); number++ {
		if w.chosen.has(w.scene, number) {
			n[w.scene.in.At(number)]++
		}
	}
	return true
}

// read adds the tasks of a block.
func (w *walk) read(ctx context.Context, b *block) error {
	if min(b.until, w.scene.tasks) <= b.tasks || !w.chosen.any(w.scene, b) {
		return nil
	}
	n, f, reborn := len(w.found), w.filter, w.scene.reborn
	scan := new(scanner)
	scan.birth = func(number uint32, id []byte) {
		if !w.chosen.has(w.scene, number) {
			return
		}
		w.left--
		if is := string(id); within(f, string(w.after), is) {
			w.found = append(w.found, numbered{task.ID(is), number, scan.seq, !reborn[number] && !w.rowed})
		}
	}
	var of []birthFit // by number, as the entry of its birth says, which may be in the next block
	if !f.Since.IsZero() || !f.Until.IsZero() {
		of = make([]birthFit, b.until-b.tasks+1)
		scan.from = func(number, _ uint32, submitted, _ int64) {
			if number > b.tasks {
				may, surely := during(f, submitted)
				of[number-b.tasks] = birthFit{true, may, surely}
			}
		}
	}
	if err := w.past.scanBlock(ctx, w.scene, b, scan); err != nil {
		return err
	}
	fit := w.found[:n]
	for _, t := range w.found[n:] {
		if of != nil && !reborn[t.number] {
			if is := of[t.number-b.tasks]; is.known && !is.may {
				continue
			} else if !is.surely {
				t.sure = false
			}
		}
		fit = append(fit, t)
	}
	w.found = fit
	return nil
}

// birthFit is what an entry tells of a task's birth: whether it may match, and whether the time surely
// does.
type birthFit struct{ known, may, surely bool }

// within tells whether an id comes after another one in the order of the filter, and has the
// filter's part of an id.
func within(f *view.Filter, after, id string) bool {
	if after != "" && (f.OldestFirst && id <= after || !f.OldestFirst && id >= after) {
		return false
	}
	return strings.HasPrefix(id, f.IDPart) || strings.HasSuffix(id, f.IDPart)
}

// mostNamed is how many tasks an index keeps that were asked for by their numbers.
const mostNamed = 5000

// named returns the tasks with these numbers, by number.
func (p *View) named(ctx context.Context, s *scene, numbers []uint32) (found []numbered, err error) {
	numbers = slices.Clone(numbers) // the caller keeps its own
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	m := s.of
	m.mu.Lock()
	numbers = slices.DeleteFunc(numbers, func(number uint32) bool {
		is, known := m.named[number]
		if known {
			found = append(found, is)
		}
		return known
	})
	m.mu.Unlock()
	known := len(found)
	for len(numbers) > 0 {
		b := &s.blocks[blockOf(s.blocks, numbers[0])]
		n := 0
		scan := new(scanner)
		scan.birth = func(number uint32, id []byte) {
			if n < len(numbers) && number == numbers[n] {
				found = append(found, numbered{id: task.ID(id), number: number, born: scan.seq})
				n++
			}
		}
		if err := p.scanBlock(ctx, s, b, scan); err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, ErrDamaged
		}
		numbers = numbers[n:]
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.named)+len(found)-known > mostNamed {
		clear(m.named)
	}
	for _, is := range found[known:min(len(found), known+mostNamed)] {
		m.named[is.number] = is
	}
	slices.SortFunc(found, func(a, b numbered) int { return cmp.Compare(a.number, b.number) })
	return found, nil
}

// LastFailed returns at most most tasks that have failed, those that failed last first.
func (p *View) LastFailed(ctx context.Context, most int) ([]task.Task, error) {
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
func (p *View) lastFailed(ctx context.Context, s *scene, most int) ([]numbered, error) {
	left, in := 0, s.n
	for i := range s.tables.places {
		if s.tables.places[i].state.Failed() {
			left += in[i+1]
		}
	}
	var last []uint32
	seen := map[uint32]bool{}
	for i := len(s.blocks) - 1; i >= 0 && left > 0 && len(last) < most; i-- {
		b := &s.blocks[i]
		if b.at >= s.at || !b.failed {
			continue
		}
		var failed []uint32
		if err := p.scanBlock(ctx, s, b, &scanner{move: func(number, place uint32, _ int64) {
			if s.tables.places[place].failed {
				failed = append(failed, number)
			}
		}}); err != nil {
			return nil, err
		}
		for _, number := range slices.Backward(failed) {
			if at := s.in.At(number); !seen[number] && at > 0 && s.tables.places[at-1].state.Failed() {
				seen[number] = true
				last = append(last, number)
				left--
			}
		}
	}
	last = last[:min(len(last), most)]
	found, err := p.named(ctx, s, last)
	slices.SortFunc(found, func(a, b numbered) int {
		return cmp.Compare(slices.Index(last, a.number), slices.Index(last, b.number))
	})
	return found, err
}

// answers are the cached answers of a scene: the past does not change.
type answers struct {
	were    map[uint32]task.Task // by number; at most [mostKept]
	held    []*held              // by block; nil until it is asked for
	ran     map[*block][]ranFor  // of at most [mostRan] blocks
	oldest  map[string]time.Time
	limited *limited
}

// mostKept is how many tasks a scene keeps.
const mostKept = 2000

// were returns tasks as they were, in the order of of, and how many were folded from their
// messages, because they have changed since.
func (p *View) were(ctx context.Context, s *scene, of []numbered) (tasks []task.Task, folded int, err error) {
	tasks = make([]task.Task, len(of))
	place := make(map[task.ID]int, len(of))
	var ids []task.ID
	s.mu.Lock()
	for i := range of {
		if t, ok := s.cached.were[of[i].number]; ok {
			tasks[i] = t
		} else {
			ids, place[of[i].id] = append(ids, of[i].id), i
		}
	}
	s.mu.Unlock()
	if len(ids) == 0 {
		return tasks, 0, nil
	}
	now, err := p.rows.Known(ctx, ids)
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
	if len(s.cached.were)+len(ids) > mostKept || s.cached.were == nil {
		s.cached.were = map[uint32]task.Task{}
	}
	for _, i := range place {
		if len(s.cached.were) < mostKept {
			s.cached.were[of[i].number] = tasks[i]
		}
	}
	return tasks, len(changed), nil
}

// folded returns tasks as the fold of their messages.
func (p *View) folded(ctx context.Context, s *scene, of []numbered) (map[task.ID]*task.Task, error) {
	then := make(map[task.ID]*task.Task, len(of))
	if len(of) == 0 {
		return then, nil
	}
	var firsts []uint64
	var moved []numbered
	var far []task.ID
	for i := range of {
		then[of[i].id] = &task.Task{ID: of[i].id}
		if of[i].born < s.first {
			far = append(far, of[i].id) // the index has only some of its messages
		} else if in := s.in.At(of[i].number); in > 0 && s.tables.places[in-1].first {
			firsts = append(firsts, of[i].born)
		} else {
			moved = append(moved, of[i])
		}
	}
	indexed, beyond := p.nearby(s, moved)
	seqs, err := p.messages(ctx, s, indexed)
	if err != nil {
		return nil, err
	}
	records, err := p.log.Messages(ctx, append(seqs, firsts...))
	if err != nil {
		return nil, err
	}
	for _, id := range append(far, beyond...) {
		about, err := p.log.About(ctx, view.Task(id))
		if err != nil {
			return nil, fmt.Errorf("read the log: %w", err)
		}
		is, _, err := view.FoldAt(view.Task(id), about, p.at.Seq)
		if err != nil {
			is.Task = s.roughly(id, of)
		}
		*then[id] = *is.Task
	}
	slices.SortFunc(records, func(a, b events.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	for i := range records {
		if t := then[records[i].Fact.Task]; t != nil { // messages of moves have a task
			t.Apply(records[i].Task())
		}
	}
	return then, nil
}

// roughly is what the index has of a task whose facts of that time the log has forgotten.
func (s *scene) roughly(id task.ID, of []numbered) *task.Task {
	t := &task.Task{ID: id, Message: "older events are no longer kept"}
	i := slices.IndexFunc(of, func(is numbered) bool { return is.id == id })
	if in := s.in.At(of[i].number); in > 0 {
		is := &s.tables.places[in-1]
		t.State, t.Route, t.Node, t.Batch = is.state, is.route, is.node, is.batch
	}
	if from := s.from[of[i].number]; from > 0 {
		t.Job, t.Schedule = s.tables.origins[from-1].job, s.tables.origins[from-1].schedule
	}
	return t
}

// nearby tells of which tasks the index is searched for their messages. Those with messages in too
// much of it are far, if they are few.
func (p *View) nearby(s *scene, of []numbered) (indexed map[uint32]bool, far []task.ID) {
	indexed = make(map[uint32]bool, len(of))
	long := map[uint32]bool{} // by what tasks share in sieves
	for i := range of {
		group := groupOf(of[i].number)
		is, known := long[group]
		if !known {
			size := int64(0)
			for b := range s.moving(group) {
				size += b.end - b.at
			}
			is = size > s.of.bounds.Near
			long[group] = is
		}
		if indexed[of[i].number] = true; is {
			far = append(far, of[i].id)
		}
	}
	if len(far) > s.of.bounds.Few {
		return indexed, nil
	}
	for i := range of {
		if long[groupOf(of[i].number)] {
			delete(indexed, of[i].number)
		}
	}
	return indexed, far
}

// moving are the blocks up to the scene that may have messages of tasks with a number for sieves.
func (s *scene) moving(group uint32) iter.Seq[*block] {
	return func(yield func(*block) bool) {
		for i := range s.blocks {
			if b := &s.blocks[i]; b.at >= s.at || b.groups.has(group) && !yield(b) {
				return
			}
		}
	}
}

// messages are the sequences of the messages of tasks, by their numbers.
func (p *View) messages(ctx context.Context, s *scene, of map[uint32]bool) (seqs []uint64, err error) {
	var moved sieve
	for number := range of {
		moved.add(groupOf(number))
	}
	scan := new(scanner)
	scan.move = func(number, _ uint32, _ int64) {
		if moved.has(groupOf(number)) && of[number] {
			seqs = append(seqs, scan.seq)
		}
	}
	for i := range s.blocks {
		if b := &s.blocks[i]; b.at < s.at && b.groups.meets(&moved) {
			if err := p.scanBlock(ctx, s, b, scan); err != nil {
				return nil, err
			}
		}
	}
	return seqs, nil
}

func sortByID(of []numbered) {
	slices.SortFunc(of, func(a, b numbered) int { return strings.Compare(string(a.id), string(b.id)) })
}
