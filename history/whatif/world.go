package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"millrace/events"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/value"
)

// The consequences of a difference follow from the relations between tasks, and from later facts in
// the log. From the first differing decision on, all later ones of that task are unknown, and so is
// what depends on them: its family, the tasks that need it, the tasks under its limits, and the
// later ticks of its schedule. A task that only waits in the same queue may have waited longer or
// shorter.

// topic is the subject of a decision: a task, node, limit scope, schedule, job (its breaker), or
// key.
type topic struct {
	kind byte
	name string
}

// life is the memory of a task. A sequence is 0 if the event did not happen.
type life struct {
	id                   task.ID
	born, started, ended uint64 // the latest start
	parent               task.ID
	needs                []task.ID
	limits               []string
	schedule, job, queue string
	node                 string
}

// takeover is the end of an attempt on a node, found by another component.
type takeover struct {
	seq, started uint64 // of the end, and of the attempt
	node         string
	task         task.ID
}

type world struct {
	lives     map[task.ID]*life
	under     map[topic][]*life // the lives that depend on a topic
	takeovers []takeover
	decisions map[topic][]uint64
	texts     map[string]string
}

func newWorld() world {
	return world{lives: map[task.ID]*life{}, under: map[topic][]*life{}, decisions: map[topic][]uint64{}, texts: map[string]string{}}
}

// own is a copy of a text that shares no memory with a record.
func (w *world) own(s string) string {
	if is, ok := w.texts[s]; ok {
		return is
	}
	s = strings.Clone(s)
	w.texts[s] = s
	return s
}

// decided records that a record is a decision.
func (w *world) decided(r *events.Record) {
	of := about(r.Fact.Type, r.Fact.Task, r.Fact.Node, r.Fact.Job != "", r.Fact.About())
	of.name = w.own(of.name)
	w.decisions[of] = append(w.decisions[of], r.Seq)
}

// about is the subject of a decision that a fact of a type records.
func about(t events.Type, id task.ID, n node.ID, job bool, name string) topic {
	switch {
	case t == events.LimitGranted:
		return topic{'l', name}
	case id != "":
		return topic{'t', string(id)}
	case n != "":
		return topic{'n', string(n)}
	case job:
		return topic{'j', name}
	case strings.HasPrefix(string(t), "schedule."):
		return topic{'s', name}
	}
	return topic{'k', name}
}

func (w *world) add(r *events.Record) {
	if r.Err != nil || r.Fact.Task == "" {
		return
	}
	l := w.lives[r.Fact.Task]
	if e, ok := r.Fact.Event.(task.Submitted); ok && l == nil {
		w.birth(r, &e)
		return
	}
	if l == nil {
		return
	}
	switch e := r.Fact.Event.(type) {
	case task.AttemptStarted:
		if e.TookOver != nil {
			w.takeovers = append(w.takeovers, takeover{r.Seq, l.started, l.node, l.id})
		}
		l.started, l.node = r.Seq, w.own(e.Node)
	case task.AttemptLost:
		w.takeovers = append(w.takeovers, takeover{r.Seq, l.started, l.node, l.id})
	case task.AttemptFinished, task.CancelConfirmed, task.GivenUp, task.Concluded:
		l.ended = r.Seq
	case task.AttemptFailed:
		if e.Retry == nil {
			l.ended = r.Seq
		}
	case task.Reopened:
		l.ended = 0
	}
}

func (w *world) birth(r *events.Record, e *task.Submitted) {
	l := &life{id: task.ID(strings.Clone(string(r.Fact.Task))), born: r.Seq, parent: task.ID(strings.Clone(string(e.Parent))),
		schedule: w.own(e.Schedule), job: w.own(e.Job), queue: w.own(e.Route.Queue())}
	if e.Needs != nil {
		for _, n := range e.Needs.Of {
			l.needs = append(l.needs, task.ID(strings.Clone(string(n.Task))))
		}
	}
	if counters, err := e.Counters(); err == nil {
		for _, c := range counters {
			l.limits = append(l.limits, w.own(string(limit.ScopeOf(c.Name))))
		}
	}
	w.lives[l.id] = l
	hang := func(kind byte, name string) {
		if name != "" {
			w.under[topic{kind, name}] = append(w.under[topic{kind, name}], l)
		}
	}
	hang('p', string(l.parent))
	for _, id := range l.needs {
		hang('w', string(id))
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(l.limits))) {
		hang('l', name)
	}
	hang('s', l.schedule)
	if e.Spec.Guarded() {
		hang('j', l.job)
	}
	hang('q', l.queue)
}

// touched is a topic that is unknown from a sequence on.
type touched struct {
	of  topic
	seq uint64
	why string
}

// spread computes from where on which topics are unknown, each with the first cause.
func (w *world) spread(first []touched) map[topic]touched {
	open := value.Heap[touched]{Before: func(a, b touched) bool { return a.seq < b.seq }}
	for _, t := range first {
		open.Push(t)
	}
	known := map[topic]touched{}
	for open.Len() > 0 {
		t := open.Pop()
		if _, done := known[t.of]; done {
			continue
		}
		known[t.of] = t
		w.leads(t, func(kind byte, name string, seq uint64, why string) {
			if of := (topic{kind, name}); name != "" && known[of].seq == 0 {
				open.Push(touched{of, max(seq, t.seq), why})
			}
		})
	}
	return known
}

// leads calls to with all topics that a topic affects.
func (w *world) leads(t touched, to func(kind byte, name string, seq uint64, why string)) {
	if t.of.kind == 'n' {
		for _, o := range w.takeovers {
			if o.node == t.of.name && o.seq > t.seq {
				to('t', string(o.task), t.seq, "node "+t.of.name)
			}
		}
		return
	}
	if t.of.kind != 't' {
		words := map[byte]string{'l': "limits of ", 's': "planned runs of schedule ", 'j': "the breaker of job "}[t.of.kind] + t.of.name
		for _, l := range w.under[t.of] {
			if l.after(t.seq) && (t.of.kind != 's' || l.born > t.seq) {
				to('t', string(l.id), l.born, words)
			}
		}
		return
	}
	l := w.lives[task.ID(t.of.name)]
	if l == nil {
		return
	}
	if p := w.lives[l.parent]; p != nil && (p.ended == 0 || p.ended > t.seq) {
		to('t', string(l.parent), 0, "its child "+string(l.id))
	}
	for _, c := range w.under[topic{'p', t.of.name}] {
		if c.ended == 0 || c.ended > t.seq {
			to('t', string(c.id), c.born, "its parent "+string(l.id))
		}
	}
	for _, n := range w.under[topic{'w', t.of.name}] {
		if n.after(t.seq) {
			to('t', string(n.id), n.born, "what it needs, "+string(l.id))
		}
	}
	for _, name := range l.limits {
		to('l', name, 0, "task "+string(l.id)+" stands under it")
	}
}

// after tells whether a task was still to start, or to start again, after a sequence.
func (l *life) after(seq uint64) bool {
	return l.started > seq || l.started == 0 && (l.ended == 0 || l.ended > seq)
}

// unknown counts the consequences of the changes, and lists the known ones of each.
func (j *Judge) unknown(r *Report) {
	w := &j.world
	var first []touched
	differ, sooner := map[task.ID]bool{}, map[task.ID]bool{}
	for i := range r.Changes {
		c := &r.Changes[i]
		if c.Kind == AsSoon {
			sooner[c.Task] = true
			for _, t := range w.lostBy(c) {
				sooner[t.task] = true
			}
			continue
		}
		first = append(first, touched{c.of, c.Seq, fmt.Sprintf("#%d", c.Seq)})
		if c.Task != "" {
			differ[c.Task] = true
		}
	}
	known := w.spread(first)
	queues := map[string]uint64{}
	for of, t := range known {
		if l := w.lives[task.ID(of.name)]; of.kind == 't' && l != nil {
			r.Unknown = append(r.Unknown, Unknown{l.id, t.seq, t.why})
			if from := queues[l.queue]; from == 0 || t.seq < from {
				queues[l.queue] = t.seq
			}
		}
	}
	slices.SortFunc(r.Unknown, func(a, b Unknown) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Task, b.Task))
	})
	w.count(r, known, differ, sooner, queues)
	kept := r.Changes[:0]
	for _, c := range r.Changes {
		if c.Kind == AsSoon && known[c.of].seq > 0 && known[c.of].seq < c.Seq {
			continue // unknown by then
		}
		if c.Kind == AsSoon {
			r.Decisions.Sooner++
		} else if c.Kind != Never {
			r.Decisions.Differ++
		}
		c.Follows = w.follows(&c)
		kept = append(kept, c)
	}
	r.Changes = kept
}

// count counts tasks, and the decisions that are unknown.
func (w *world) count(r *Report, known map[topic]touched, differ, sooner map[task.ID]bool, queues map[string]uint64) {
	r.Tasks.All = len(w.lives)
	for id, l := range w.lives {
		_, unknown := known[topic{'t', string(id)}]
		from := queues[l.queue]
		switch {
		case differ[id]:
			r.Tasks.Differ++
		case unknown:
			r.Tasks.Unknown++
		case sooner[id], from > 0 && l.started > from:
			r.Tasks.Later++
		default:
			r.Tasks.Same++
		}
	}
	for of, t := range known {
		for _, seq := range w.decisions[of] {
			if seq > t.seq {
				r.Decisions.Unknown++
			}
		}
	}
}

// lostBy lists the attempts that were found to be lost with the node of a change. Attempts that
// started there after it were lost by another silence.
func (w *world) lostBy(c *Change) (all []takeover) {
	for _, t := range w.takeovers {
		if c.Node != "" && t.node == string(c.Node) && t.seq > c.Seq && t.started < c.Seq {
			all = append(all, t)
		}
	}
	return all
}

// follows lists the known consequences of a change.
func (w *world) follows(c *Change) (all []string) {
	if c.Node != "" {
		var seqs []string
		lost := w.lostBy(c)
		for _, t := range lost[:min(len(lost), 20)] {
			seqs = append(seqs, fmt.Sprintf("#%d", t.seq))
		}
		if len(seqs) > 0 && c.Kind == AsSoon {
			all = append(all, fmt.Sprintf("so could what was then found to be lost there: %s", strings.Join(seqs, ", ")))
		} else if len(seqs) > 0 {
			all = append(all, fmt.Sprintf("what was then found to be lost there is unknown: %s", strings.Join(seqs, ", ")))
		}
	}
	l := w.lives[c.Task]
	if c.Kind == AsSoon || l == nil {
		return all
	}
	text := "unknown from here: what became of the task"
	switch {
	case l.ended > c.Seq:
		text += fmt.Sprintf(" (it ended at #%d)", l.ended)
	case l.ended == c.Seq:
		text = "unknown from here: what the task would have done then"
	}
	return append(all, text)
}
