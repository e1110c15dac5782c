package past

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"millrace/projections/view"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/quota"
)

// Sums of all tasks as they were: which waited longest, the latest of each job and schedule, the results of
// ticks, and what limits had admitted. A scene caches those that cost much.

// Oldest implements [view.Whole].
func (p *View) Oldest(ctx context.Context) (map[string]time.Time, error) {
	s, err := p.scene(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cached.oldest == nil {
		if s.cached.oldest, err = p.oldest(ctx, s); err != nil {
			return nil, err
		}
	}
	return maps.Clone(s.cached.oldest), nil
}

// sinceWhen is since when a task is pending, by its latest entry read so far.
type sinceWhen struct {
	seq   uint64
	since int64
}

// waiting are the pending tasks of a queue.
type waiting struct {
	groups sieve  // of all
	oldest uint32 // 0 until one is known
}

// oldest returns since when the longest waiting task of each queue is pending. It reads only blocks
// that may tell of an older task than the known ones, or more of those.
func (p *View) oldest(ctx context.Context, s *scene) (map[string]time.Time, error) {
	queues, of := map[string]*waiting{}, make([]*waiting, len(s.tables.places)+1)
	for i := range s.tables.places {
		if is := &s.tables.places[i]; is.state == task.Pending {
			if queues[is.queue()] == nil {
				queues[is.queue()] = &waiting{}
			}
			of[i+1] = queues[is.queue()]
		}
	}
	for at, part := range s.in.Parts(0, s.in.Len()) {
		for i, place := range part {
			if q := of[place]; q != nil {
				q.groups.add(groupOf(at + uint32(i))) // a part is short
			}
		}
	}
	maps.DeleteFunc(queues, func(_ string, q *waiting) bool { return q.groups == sieve{} })
	known, read := map[uint32]sinceWhen{}, make([]bool, len(s.blocks))
	scan := new(scanner)
	scan.move = func(number, _ uint32, at int64) {
		if of[s.in.At(number)] != nil && known[number].seq <= scan.seq {
			known[number] = sinceWhen{scan.seq, at}
		}
	}
	for again := true; again; {
		again = false
		for i := range s.blocks {
			b := &s.blocks[i]
			if b.at >= s.at || read[i] || !slices.ContainsFunc(slices.Collect(maps.Values(queues)), func(q *waiting) bool {
				return b.groups.meets(&q.groups) && (q.oldest == 0 || b.since < known[q.oldest].since || b.groups.has(groupOf(q.oldest)))
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
				if q := of[s.in.At(number)]; q.oldest == 0 || is.since < known[q.oldest].since {
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

// LastOfJobs implements [view.Whole].
func (p *View) LastOfJobs(ctx context.Context) (map[string]task.Task, uint64, error) {
	s, err := p.scene(ctx)
	if err != nil {
		return nil, 0, err
	}
	last, err := p.latest(ctx, s, s.byJob, func(o *origin) string { return o.job })
	return last, p.at.Seq, err
}

// latest returns the latest tasks without a parent, by the name that name gives their origins; ""
// is omitted.
func (p *View) latest(ctx context.Context, s *scene, of []view.Latest, name func(o *origin) string) (map[string]task.Task, error) {
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

// Schedules implements [view.Whole].
func (p *View) Schedules(ctx context.Context, since time.Time) (map[string]*view.Ticks, uint64, error) {
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
	if err != nil {
		return all, p.at.Seq, err
	}
	skips, err := p.skips(ctx, s, since)
	for _, s := range skips {
		of(s.Schedule).Skipped[s.Reason] += s.Skipped
	}
	return all, p.at.Seq, err
}

// Skips implements [view.Ticked].
func (p *View) Skips(ctx context.Context, since time.Time) ([]view.TickDecision, error) {
	s, err := p.scene(ctx)
	if err != nil {
		return nil, err
	}
	return p.skips(ctx, s, since)
}

// skips are the decisions since a time by which ticks got no task.
func (p *View) skips(ctx context.Context, s *scene, since time.Time) (all []view.TickDecision, err error) {
	type until struct {
		schedule string
		at       int64
	}
	skips := map[until]view.TickDecision{}
	scan := new(scanner)
	scan.note = func(r *reader) {
		if r.uint() != noteTick {
			return
		}
		schedule, at, n, reason := scan.name(r), r.int(), int(r.uint()), scan.name(r)
		if n > 0 && !time.UnixMicro(at).Before(since) {
			skips[until{schedule, at}] = view.TickDecision{Schedule: schedule, Until: time.UnixMicro(at).UTC(), Skipped: n, Reason: reason}
		}
	}
	for i := range s.blocks {
		if b := &s.blocks[i]; b.at < s.at && b.skips != math.MinInt64 && !time.UnixMicro(b.skips).Before(since) {
			if err := p.scanBlock(ctx, s, b, scan); err != nil {
				return nil, err
			}
		}
	}
	return view.ByTick(slices.Collect(maps.Values(skips))), nil
}

// limited are the tasks under limits that had not ended, and the usage of limits.
type limited struct {
	found  []numbered
	grants map[uint32]task.Grant
	used   quota.Used
	// waits has, by number, the tasks about which the log has but their birth, and which have waited for
	// their limits alone since then: the index has all that limits ask about them.
	waits map[uint32]stand
}

// stand is a task and its limits.
type stand struct {
	quota.Stand
	counters []limit.Counter
}

// EachLimited implements [view.Whole].
func (p *View) EachLimited(ctx context.Context, each quota.Each) (quota.Used, uint64, error) {
	s, err := p.scene(ctx)
	if err != nil {
		return quota.Used{}, 0, err
	}
	s.mu.Lock()
	is := s.cached.limited
	s.mu.Unlock()
	if is == nil {
		if is, err = p.limited(ctx, s); err != nil {
			return quota.Used{}, 0, err
		}
		s.mu.Lock()
		s.cached.limited = is
		s.mu.Unlock()
	}
	var others []numbered
	for _, t := range is.found {
		if _, born := is.waits[t.number]; !born {
			others = append(others, t)
		}
	}
	were, _, err := p.were(ctx, s, others)
	if err != nil {
		return quota.Used{}, 0, err
	}
	for _, t := range is.found { // if bounds of one name differ, the latest task's is shown
		if w, born := is.waits[t.number]; born {
			each(w.Stand, func() ([]limit.Counter, error) { return w.counters, nil }, nil)
			continue
		}
		var admitted *task.Grant
		if g, ok := is.grants[t.number]; ok {
			admitted = &g
		}
		each(quota.StandOf(&were[0]), were[0].Counters, admitted)
		were = were[1:]
	}
	return quota.Used{Rates: maps.Clone(is.used.Rates), Budgets: maps.Clone(is.used.Budgets)}, p.at.Seq, err
}

// limited finds the tasks under limits that had not ended, and what had become of them.
func (p *View) limited(ctx context.Context, at *scene) (*limited, error) {
	scan := newLimitScan(at.underLimits())
	is := &limited{grants: map[uint32]task.Grant{}, used: scan.used, waits: map[uint32]stand{}}
	if !slices.ContainsFunc(at.blocks, func(b block) bool { return b.limits }) && !slices.ContainsFunc(at.tables.places, func(p place) bool { return p.limited }) {
		return is, nil // as in most logs
	}
	for i := range at.blocks {
		if b := &at.blocks[i]; b.at < at.at && (b.limits || b.groups.meets(&scan.groups)) {
			if err := p.scanBlock(ctx, at, b, &scan.scanner); err != nil {
				return nil, err
			}
		}
	}
	found, err := p.named(ctx, at, scan.under)
	if err != nil {
		return nil, err
	}
	lines := map[uint64]lined{}
	for _, t := range found {
		i, _ := slices.BinarySearch(scan.under, t.number)
		moved, born := scan.moved[i], scan.born[t.number]
		if g, ok := scan.grants[t.id]; ok && g.seq > moved.passed {
			is.grants[t.number] = g.Grant
		} else if !ok && moved.times == 1 && born.Limited {
			line, known := lines[born.line]
			if !known {
				if err := lineForm.Read([]byte(scan.names[born.line]), &line); err != nil {
					return nil, err
				}
				lines[born.line] = line
			}
			place := &at.tables.places[at.in.At(t.number)-1]
			born.ID, born.Seq, born.State, born.Route, born.Queue, born.counters = t.id, moved.last, place.state, place.route, line.Queue, line.Counters
			is.waits[t.number] = born.stand
		}
	}
	sortByID(found)
	is.found = found
	return is, nil
}

// underLimits returns the numbers of the tasks under limits that had not ended, ascending.
func (s *scene) underLimits() (under []uint32) {
	open, left := make([]bool, len(s.tables.places)+1), 0
	for i, of := range s.n[1:] {
		if is := &s.tables.places[i]; is.limited && is.state != task.Unknown && !is.state.Terminal() {
			open[i+1], left = true, left+of
		}
	}
	for number := uint32(0); left > 0; number++ {
		if open[s.in.At(number)] {
			under = append(under, number)
			left--
		}
	}
	return under
}

// limitScan collects what the index says of tasks under limits.
type limitScan struct {
	scanner
	under  []uint32          // their numbers, ascending
	moved  []movedUnder      // of each of them
	groups sieve             // their groups
	grants map[task.ID]grant // the latest of each task
	used   quota.Used
	born   map[uint32]bornWaiting // by number
}

// bornWaiting is a task that waited at its birth for its limits alone. Line is the number of the name that its
// [lined] is.
type bornWaiting struct {
	stand
	line uint64
}

// movedUnder is how a task under limits moved: how often, with which message the last time, and with which
// the last time that something else than its limits held it, or nothing did.
type movedUnder struct {
	times        int
	last, passed uint64
}

// grant is an admission, and the sequence of its message.
type grant struct {
	task.Grant
	seq uint64
}

func newLimitScan(under []uint32) *limitScan {
	s := &limitScan{
		under:  under,
		moved:  make([]movedUnder, len(under)),
		grants: map[task.ID]grant{},
		born:   map[uint32]bornWaiting{},
		used:   quota.Used{Rates: map[string]time.Time{}, Budgets: limit.Tallies{}},
	}
	for _, number := range under {
		s.groups.add(groupOf(number))
	}
	s.move, s.note = s.moves, s.notes
	return s
}

func (s *limitScan) moves(number, place uint32, _ int64) {
	i, is := slices.BinarySearch(s.under, number)
	if !is {
		return
	}
	m := &s.moved[i]
	m.times++
	m.last = s.seq
	if !s.places[place].waits {
		m.passed = s.seq
	}
}

func (s *limitScan) notes(r *reader) {
	switch r.uint() {
	case noteGrant:
		g := grant{task.Grant{Turn: r.uint(), Rated: r.uint()}, s.seq}
		g.Task = task.ID(r.text(uint64(len(r.b) - r.at)))
		s.grants[g.Task] = g
	case noteRate:
		name := s.name(r)
		s.used.Rates[name] = time.Unix(0, r.int())
	case noteShift:
		names := strings.Split(s.name(r), "\n")
		took, ok := limit.ReadShift(r.text(uint64(len(r.b) - r.at)))
		if !ok {
			r.bad = true
			return
		}
		counters := make([]limit.Counter, len(names))
		for i := range names {
			counters[i].Name = names[i]
		}
		s.used.Budgets.Spend(counters, took)
	case noteWaits:
		turn, line := r.uint(), r.uint()
		if line >= uint64(len(s.names)) {
			r.bad = true
		} else if _, is := slices.BinarySearch(s.under, s.tasks); is {
			s.born[s.tasks] = bornWaiting{stand{Stand: quota.Stand{Turn: turn, Born: time.UnixMicro(s.submitted), Limited: true, Held: true, First: true}}, line}
		}
	}
}
