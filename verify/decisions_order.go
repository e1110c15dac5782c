package verify

import (
	"container/heap"
	"fmt"
	"slices"

	"millrace/events"
	"millrace/task"
)

// Who is admitted next follows from all tasks that a scheduler knew, up to the sequence that its admission names. Of that
// is decided again what the order proves: whoever waits for the same counters at the same place waits in one line,
// and nobody goes before the first of a line whose time had come. Lines are told apart here at least as finely as by
// [task.Limiter].

// queued is what is kept of a task that waits to be admitted.
type queued struct {
	id    task.ID
	line  *line
	index int
	since uint64 // the record with which it began to wait
	turn  uint64
	due   stamp
	born  stamp
	prior int
}

// before is the order of a line.
func (q *queued) before(p *queued) bool {
	switch {
	case q.prior != p.prior:
		return q.prior > p.prior
	case q.born != p.born:
		return q.born < p.born
	}
	return q.id < p.id
}

// lineKey tells lines apart. Limits are those of the tasks, with their bounds, and spec where the rest of them stands.
type lineKey struct {
	route, limits string
	spec          uint32
}

// line is a heap of those who wait, the first of them on top.
type line struct {
	key lineKey
	all []*queued
}

func (l *line) Len() int           { return len(l.all) }
func (l *line) Less(i, j int) bool { return l.all[i].before(l.all[j]) }
func (l *line) Swap(i, j int) {
	l.all[i], l.all[j] = l.all[j], l.all[i]
	l.all[i].index, l.all[j].index = i, j
}

func (l *line) Push(x any) {
	q := x.(*queued)
	q.index = len(l.all)
	l.all = append(l.all, q)
}

func (l *line) Pop() any {
	last := len(l.all) - 1
	q := l.all[last]
	l.all[last], l.all = nil, l.all[:last]
	return q
}

// order is who waits to be admitted.
type order struct {
	waiting map[task.ID]*queued
	lines   map[lineKey]*line
}

// lining follows whether a task waits to be admitted. The story is that after the record.
func (v *Verifier) lining(s *story, r *events.Record) {
	was := v.order.waiting[s.id]
	held := v.tasks.words.list[s.now.holds] == task.HoldLimit
	if was == nil && !held {
		return
	}
	k := task.Task{State: s.now.state, Turn: s.now.turn, Work: task.Work{Holds: []string{v.tasks.words.list[s.now.holds]}}}
	p := v.places[s.id]
	waits := k.Admissible() && s.now.rivals == nil && (p == nil || !k.Holding(p.granted, p.sure))
	if was != nil && waits && was.turn == s.now.turn && was.due == s.now.due {
		return
	}
	if was != nil {
		v.order.leave(was)
	}
	if !waits {
		return
	}
	route := task.Route(v.tasks.words.list[s.now.route])
	key := lineKey{route: route.Queue()}
	if len(s.limit) > 0 {
		key.limits, key.spec = fmt.Sprint(s.limit), s.now.spec
	}
	v.order.enter(key, &queued{id: s.id, since: r.Seq, turn: s.now.turn, due: s.now.due, born: s.now.submitted, prior: route.Priority()})
}

func (o *order) enter(key lineKey, q *queued) {
	if o.waiting == nil {
		o.waiting, o.lines = map[task.ID]*queued{}, map[lineKey]*line{}
	}
	if q.line = o.lines[key]; q.line == nil {
		q.line = &line{key: key}
		o.lines[key] = q.line
	}
	heap.Push(q.line, q)
	o.waiting[q.id] = q
}

func (o *order) leave(q *queued) {
	heap.Remove(q.line, q.index)
	if delete(o.waiting, q.id); q.line.Len() == 0 {
		delete(o.lines, q.line.key)
	}
}

// overtaken is who had to be admitted before a task by whoever knew the log up to a sequence and decided
// at a time; nil for nobody.
func (o *order) overtaken(q *queued, seen uint64, at stamp) *queued {
	var first *queued
	var later []*queued // not known yet, or not due
	for q.line.all[0] != q {
		f := heap.Pop(q.line).(*queued)
		if later = append(later, f); f.since <= seen && f.due <= at {
			first = f
			break
		}
	}
	for _, f := range later {
		heap.Push(q.line, f)
	}
	return first
}

// inOrder judges whether a task was the first of its line, and takes it out.
func (v *Verifier) inOrder(r *events.Record, g *task.Grant) {
	q := v.order.waiting[g.Task]
	if q == nil || q.turn != g.Turn {
		return // the scheduler did not know yet
	}
	if first := v.order.overtaken(q, by(r).Seen, stampOf(r.Fact.At)); first != nil {
		v.granted(r, g.Task, first.since, fmt.Sprintf("task %s goes before it, and had been waiting in the same line since %d", first.id, first.since))
	}
	v.order.leave(q)
}

// refusal is one that the admission in the same batch has to bear out: that comes behind it.
type refusal struct {
	bound
	seq, seen uint64
}

// refusedFor judges those for whom the limits of a scope had no place, after what they have admitted.
func (v *Verifier) refusedFor(r *events.Record, e *task.Granted) {
	for _, id := range e.Refused {
		f, ok := v.refusals[id]
		if !ok || task.ScopeOf(v.tasks.words.list[f.counter]) != r.Fact.Scope {
			continue
		}
		delete(v.refusals, id)
		if v.hadPlace(f.bound, f.seen, v.uncounted(f.counter, e)) {
			v.granted(r, id, f.seq, fmt.Sprintf("the task is refused by %s, which had a place by all that was known at %d", v.tasks.words.list[f.counter], f.seen))
		}
	}
}

// unborne tells of refusals that no admission has borne out, now that their batch is over for certain.
func (v *Verifier) unborne() {
	for id, f := range v.refusals {
		delete(v.refusals, id)
		v.find(Decisions, Finding{Task: id, Seqs: []uint64{f.seq}, Look: "`millrace events show " + number(f.seq) + "`",
			What: fmt.Sprintf("the task is refused by %s, and no limit.granted on the chain of that names it", v.tasks.words.list[f.counter])})
	}
}

// freedAtOnce is how many places of a counter are remembered after they became free.
const freedAtOnce = 64

// frees remembers that a place of a counter is free since a record.
func (v *Verifier) frees(counter uint32, seq uint64) {
	all := v.freed[counter]
	if len(all) == freedAtOnce {
		all = slices.Delete(all, 0, 1)
	}
	v.freed[counter] = append(all, seq)
}

// uncounted is how many an admission gave a place under a counter who have none after it: they had ended, or had to make
// place at once for newer ones. When it refused others they had theirs.
func (v *Verifier) uncounted(counter uint32, e *task.Granted) (n int) {
	name := v.tasks.words.list[counter]
	for i := range e.Grants {
		if !slices.Contains(e.Grants[i].Limits, name) {
			continue
		}
		s, p := v.tasks.known(e.Grants[i].Task), v.places[e.Grants[i].Task]
		at := -1
		if s != nil {
			at = slices.IndexFunc(s.limit, func(b bound) bool { return b.counter == counter })
		}
		if p == nil || at < 0 || p.counted&(1<<at) == 0 {
			n++
		}
	}
	return n
}

// hadPlace tells whether a counter that allows so many had a place by what was known up to a sequence, beside so many
// that are not counted any more. What had not been seen can only have freed one.
func (v *Verifier) hadPlace(b bound, seen uint64, beside int) bool {
	all := v.freed[b.counter]
	if len(all) == freedAtOnce && seen < all[0] {
		v.forgotten++
		return false
	}
	unseen := 0
	for _, seq := range all {
		if seq > seen {
			unseen++
		}
	}
	return v.held[b.counter]+unseen+beside < int(b.max)
}
