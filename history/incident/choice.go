package incident

import (
	"slices"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
)

// Choice selects the facts that are needed to fold a span of a log: all facts of each subject that
// lives in the span, from its beginning. First show it the log up to the end of the span
// ([Choice.See]). Then ask for each record whether it belongs in the file ([Choice.Keeps]).
//
//   - A task lives in the span if the span has a fact about it, or if it had not ended before. With
//     it come all tasks of its family (parents, children, steps), and those that it needs.
//   - Nodes, queues, definitions and breakers are complete, and so are unreadable messages that
//     belong to no task.
//   - Of a schedule's ticks and a scope's admissions, the file has those in the span, those that
//     name a task in the file, and the last one before the span, which gives the state at its
//     beginning.
//   - Claims of a unique key are there if a task in the file holds the key.
//   - Messages that are not facts are there only within the span.
type Choice struct {
	from, to uint64
	tasks    map[task.ID]*life
	children map[task.ID][]task.ID
	holders  map[string][]task.ID // of unique keys
	keys     map[string]bool
	before   map[chainOf]uint64 // the last fact before the span
	settled  bool
	seen     int
}

// life is the state of a task.
type life struct {
	state  *task.Task // nil once it has ended
	parent task.ID
	needs  []task.ID
	lives  bool
}

// chainOf names a chain of ticks or admissions.
type chainOf struct {
	kind events.Kind
	of   string
}

// NewChoice returns a choice for a span, inclusive.
func NewChoice(from, to uint64) *Choice {
	return &Choice{
		from:     from,
		to:       to,
		tasks:    map[task.ID]*life{},
		children: map[task.ID][]task.ID{},
		holders:  map[string][]task.ID{},
		keys:     map[string]bool{},
		before:   map[chainOf]uint64{},
	}
}

// See takes the next record of the log.
func (c *Choice) See(r *events.Record) {
	if r.Seq > c.to {
		return
	}
	if r.IsFact() {
		c.seen++
	}
	switch r.Kind {
	case events.KindOffer, events.KindHold, events.KindChain, events.KindCarried:
		if r.Fact.Task != "" {
			c.seeTask(r)
		}
	case events.KindKey:
		if e, ok := r.Fact.Event.(birth.KeyClaimed); ok {
			c.holders[r.Fact.Key] = append(c.holders[r.Fact.Key], e.Holder)
		}
	case events.KindTick, events.KindFire, events.KindLimit:
		if r.Seq < c.from {
			c.before[chainOfRecord(r)] = r.Seq
		}
	}
}

func chainOfRecord(r *events.Record) chainOf { return chainOf{r.Kind, r.Fact.About()} }

func (c *Choice) seeTask(r *events.Record) {
	l := c.tasks[r.Fact.Task]
	switch {
	case l == nil:
		l = &life{state: &task.Task{ID: r.Fact.Task}}
		c.tasks[r.Fact.Task] = l
	case l.state == nil: // it had ended: a reopening makes it live, a late report does not
		l.lives = l.lives || r.Fact.Type == events.TaskReopened
	}
	if r.Seq >= c.from && !r.Retold() {
		l.lives = true
	}
	if l.state == nil || l.lives && l.state.Seq > 0 {
		return
	}
	l.state.Apply(r.Task())
	if t := l.state; l.parent == "" && t.Parent != "" {
		l.parent = t.Parent
		c.children[t.Parent] = append(c.children[t.Parent], t.ID)
	}
	if n := l.state.Needs; n != nil && l.needs == nil {
		for _, need := range n.Of {
			l.needs = append(l.needs, need.Task)
		}
	}
	if l.state.State.Terminal() {
		l.state = nil
	}
}

// settle determines which tasks live in the span, after the last See.
func (c *Choice) settle() {
	if c.settled {
		return
	}
	c.settled = true
	var open []task.ID
	for id, l := range c.tasks {
		if l.lives || l.state != nil {
			l.lives = true
			open = append(open, id)
		}
	}
	for len(open) > 0 {
		id := open[len(open)-1]
		open = open[:len(open)-1]
		l := c.tasks[id]
		for _, related := range append(append([]task.ID{l.parent}, l.needs...), c.children[id]...) {
			if other := c.tasks[related]; other != nil && !other.lives {
				other.lives = true
				open = append(open, related)
			}
		}
	}
	for key, holders := range c.holders {
		for _, id := range holders {
			c.keys[key] = c.keys[key] || c.Lives(id)
		}
	}
}

// Lives tells whether a task is in the file.
func (c *Choice) Lives(id task.ID) bool {
	c.settle()
	l := c.tasks[id]
	return l != nil && l.lives
}

// Living returns the tasks in the file, by id.
func (c *Choice) Living() (ids []task.ID) {
	c.settle()
	for id, l := range c.tasks {
		if l.lives {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Tasks returns how many tasks are in the file, and how many the log has up to the end of the span.
func (c *Choice) Tasks() (there, all int) {
	c.settle()
	for _, l := range c.tasks {
		if l.lives {
			there++
		}
	}
	return there, len(c.tasks)
}

// Seen is how many facts the log has up to the end of the span.
func (c *Choice) Seen() int { return c.seen }

// Keeps tells whether a record belongs in the file.
func (c *Choice) Keeps(r *events.Record) bool {
	c.settle()
	inside := r.Seq >= c.from
	switch {
	case r.Seq > c.to:
		return false
	case r.Kind == events.KindOther || r.Kind == events.KindProbe || r.Kind == events.KindCopies:
		return inside
	case r.Unreadable() != "" && r.Fact.Task == "":
		return true // otherwise it goes with its task, but does not alone include it
	}
	switch r.Kind {
	case events.KindOffer, events.KindHold, events.KindChain, events.KindCarried:
		return r.Fact.Task == "" || c.Lives(r.Fact.Task)
	case events.KindKey:
		return inside || c.keys[r.Fact.Key]
	case events.KindTick, events.KindFire:
		return inside || c.before[chainOfRecord(r)] == r.Seq || c.made(r)
	case events.KindLimit:
		return inside || c.before[chainOfRecord(r)] == r.Seq || c.admits(r)
	}
	return true
}

func (c *Choice) made(r *events.Record) bool {
	e, ok := r.Fact.Event.(task.ScheduleAdmitted)
	return ok && c.Lives(e.Made)
}

func (c *Choice) admits(r *events.Record) bool {
	e, _ := r.Fact.Event.(task.Granted)
	for i := range e.Grants {
		if c.Lives(e.Grants[i].Task) {
			return true
		}
	}
	for _, id := range e.Refused {
		if c.Lives(id) {
			return true
		}
	}
	return false
}
