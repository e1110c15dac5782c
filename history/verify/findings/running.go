package findings

import (
	"fmt"
	"slices"

	"millrace/task"
	"millrace/task/limit"
	"millrace/task/node"
)

// I-4, as far as it concerns limits: the epochs that run on a node at one time are never more than
// the slots with which its session registered, and those under one counter never more than a task
// among them allows per node.
//
// An epoch may stay open in the log although nothing runs: the answer to the claim was lost, or the
// report, and another component ends it. So only epochs that ended by their own report count.

// Running are the running epochs, on nodes and under limits.
type Running struct {
	book  *Collector
	terms *Terms

	sessions map[counted]*session
	began    map[counted][]uint64 // the latest epochs of a counter on a node, in all its sessions
	uses     map[Word]use
}

// NewRunning returns a Running without epochs.
func NewRunning(b *Collector, terms *Terms) *Running {
	return &Running{book: b, terms: terms, sessions: map[counted]*session{}, began: map[counted][]uint64{}, uses: map[Word]use{}}
}

// Session is one life of a node, as the numbers of its words.
type Session struct{ Node, Session Word }

// counted is a session, or a counter within it. Without a session it is a counter over all lives.
type counted struct {
	Session
	counter Word
}

type session struct {
	slots    int
	open     []uint64 // epochs
	crowds   []crowd
	finished bool // a newer session has registered
}

// crowd is a moment at which more epochs were open than there were slots.
type crowd struct {
	at           uint64
	undecided    []uint64
	sure         []uint64 // they have ended by their own reports
	alreadyAbove bool
}

// maxCrowds bounds the memory of a session whose epochs never end.
const maxCrowds = 256

// Register records the beginning of a node's session, with its slots.
func (n *Running) Register(id, name string, slots int) {
	w := n.terms.words.Number(id)
	for key, s := range n.sessions {
		if key.Node == w {
			if s.finished = true; len(s.open) == 0 {
				delete(n.sessions, key)
			}
		}
	}
	if slots > 0 {
		n.sessions[counted{Session: Session{w, n.terms.words.Number(name)}}] = &session{slots: slots}
	}
}

// manyBegan is how many epochs of a counter are remembered per node.
const manyBegan = 256

// Enter opens an epoch of a task on a session, with its slots, under the per_node bounds.
func (n *Running) Enter(at Session, under Bounds, epoch uint64, cost int) {
	n.enter(counted{Session: at}, epoch, cost)
	for _, b := range under {
		key := counted{at, b.counter}
		on := n.sessions[key]
		if on == nil {
			on = &session{}
			n.sessions[key] = on
		}
		on.slots = max(on.slots, int(b.max))
		n.enter(key, epoch, 1)
		key.Session.Session = 0
		if len(n.began[key]) == manyBegan {
			n.began[key] = slices.Delete(n.began[key], 0, 1)
		}
		n.began[key] = append(n.began[key], epoch)
	}
}

// Began returns the index of the first epoch that did not begin on a node under that counter, or
// that is named twice; -1 for none. Known is false if an epoch is older than the memory.
func (n *Running) Began(on, counter string, epochs []uint64) (not int, known bool) {
	began := n.began[counted{Session{Node: n.terms.words.Number(on)}, n.terms.words.Number(counter)}]
	for i, epoch := range epochs {
		if len(began) == manyBegan && epoch < began[0] {
			return i, false
		}
		if !slices.Contains(began, epoch) || slices.Contains(epochs[:i], epoch) {
			return i, true
		}
	}
	return -1, true
}

func (n *Running) enter(key counted, epoch uint64, cost int) {
	s, ok := n.sessions[key]
	if !ok {
		return
	}
	n.book.Checked[Limits]++
	for range cost {
		s.open = append(s.open, epoch)
	}
	if len(s.open) > s.slots && len(s.crowds) < maxCrowds {
		s.crowds = append(s.crowds, crowd{at: epoch, undecided: slices.Clone(s.open)})
	}
}

// Leave closes an epoch of a task. Own says that it ended by its own report.
func (n *Running) Leave(id task.ID, at Session, under Bounds, epoch uint64, own bool) {
	n.leave(counted{Session: at}, epoch, own, id)
	for _, b := range under {
		n.leave(counted{at, b.counter}, epoch, own, id)
	}
}

func (n *Running) leave(key counted, epoch uint64, own bool, of task.ID) {
	s, ok := n.sessions[key]
	if !ok || epoch == 0 {
		return
	}
	is := func(e uint64) bool { return e == epoch }
	s.open = slices.DeleteFunc(s.open, is)
	for i := range s.crowds {
		c := &s.crowds[i]
		before := len(c.undecided)
		if c.undecided = slices.DeleteFunc(c.undecided, is); own {
			for range before - len(c.undecided) {
				c.sure = append(c.sure, epoch)
			}
		}
		if len(c.sure) > s.slots {
			c.alreadyAbove = true
			name := n.terms.words.Text(key.Node)
			what := fmt.Sprintf("at %d the session %s of node %s ran attempts in %d slots, and it has %d", c.at, n.terms.words.Text(key.Session.Session), name, len(c.sure), s.slots)
			if key.counter != 0 {
				what = fmt.Sprintf("at %d node %s ran %d %s, and per_node is %d", c.at, name, len(c.sure), limit.Words(n.terms.words.Text(key.counter)), s.slots)
			}
			n.book.Find(Limits, Finding{Node: node.ID(name), Task: of, Seqs: slices.Clone(c.sure), What: what,
				Look: "`millrace node show " + name + "`, and `millrace events show` of each epoch"})
		}
	}
	s.crowds = slices.DeleteFunc(s.crowds, func(c crowd) bool { return c.over(s.slots) })
	if (s.finished || key.counter != 0) && len(s.open) == 0 {
		delete(n.sessions, key)
	}
}

// over tells whether a crowd can no longer break the rule.
func (c *crowd) over(slots int) bool { return c.alreadyAbove || len(c.undecided)+len(c.sure) <= slots }
