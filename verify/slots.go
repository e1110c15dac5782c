package verify

import (
	"fmt"
	"slices"

	"millrace/node"
	"millrace/task"
)

// I-4, as far as there are limits: the epochs that run on a node at one time
// are never more than the slots with which its session registered, nor those under one counter
// more than a task among them allows on one node.
//
// An epoch may stay open in the log though nothing runs: the answer to the claim
// was lost, or the report, and then somebody else ends it. So only epochs that
// ended by their own word are held against the slots.

// sessionKey is one life of a node, or of that a counter of what runs there, by the numbers of their words. Without a session it is
// a counter in all lives.
type sessionKey struct{ node, session, counter word }

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
	sure         []uint64 // they have ended by their own word
	alreadyAbove bool
}

// maxCrowds bounds what is remembered of a session whose epochs nobody ends.
const maxCrowds = 256

func (v *Verifier) register(id, name string, slots int) {
	n := v.tasks.words.number(id)
	for key, s := range v.sessions {
		if key.node == n {
			if s.finished = true; len(s.open) == 0 {
				delete(v.sessions, key)
			}
		}
	}
	if slots > 0 {
		v.sessions[sessionKey{node: n, session: v.tasks.words.number(name)}] = &session{slots: slots}
	}
}

// manyBegan is how many epochs of a counter are remembered on each node.
const manyBegan = 256

// enter opens an epoch of a task on its session, which takes so many of its slots.
func (v *Verifier) enter(s *story, epoch uint64, cost int) {
	v.enterOne(s.openOn, epoch, cost)
	for _, b := range s.kin.onNode {
		key := s.openOn
		key.counter = word(b.counter)
		on := v.sessions[key]
		if on == nil {
			on = &session{}
			v.sessions[key] = on
		}
		on.slots = max(on.slots, int(b.max))
		v.enterOne(key, epoch, 1)
		key.session = 0
		if len(v.began[key]) == manyBegan {
			v.began[key] = slices.Delete(v.began[key], 0, 1)
		}
		v.began[key] = append(v.began[key], epoch)
	}
}

func (v *Verifier) enterOne(key sessionKey, epoch uint64, cost int) {
	s, ok := v.sessions[key]
	if !ok {
		return
	}
	v.checked[Limits]++
	for range cost {
		s.open = append(s.open, epoch)
	}
	if len(s.open) > s.slots && len(s.crowds) < maxCrowds {
		s.crowds = append(s.crowds, crowd{at: epoch, undecided: slices.Clone(s.open)})
	}
}

// leave closes an epoch of a task; own is whether it ended by its own word.
func (v *Verifier) leave(s *story, epoch uint64, own bool) {
	v.leaveOne(s.openOn, epoch, own, s.id)
	for _, b := range s.kin.onNode {
		key := s.openOn
		key.counter = word(b.counter)
		v.leaveOne(key, epoch, own, s.id)
	}
}

func (v *Verifier) leaveOne(key sessionKey, epoch uint64, own bool, of task.ID) {
	s, ok := v.sessions[key]
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
			name := v.tasks.words.list[key.node]
			what := fmt.Sprintf("at %d the session %s of node %s ran attempts in %d slots, and it has %d", c.at, v.tasks.words.list[key.session], name, len(c.sure), s.slots)
			if key.counter != 0 {
				what = fmt.Sprintf("at %d node %s ran %d %s, and per_node is %d", c.at, name, len(c.sure), task.LimitWords(v.tasks.words.list[key.counter]), s.slots)
			}
			v.find(Limits, Finding{Node: node.ID(name), Task: of, Seqs: slices.Clone(c.sure), What: what,
				Look: "`millrace node show " + name + "`, and `millrace events show` of each epoch"})
		}
	}
	s.crowds = slices.DeleteFunc(s.crowds, func(c crowd) bool { return c.over(s.slots) })
	if (s.finished || key.counter != 0) && len(s.open) == 0 {
		delete(v.sessions, key)
	}
}

// over tells whether nothing more can come of a crowd.
func (c *crowd) over(slots int) bool { return c.alreadyAbove || len(c.undecided)+len(c.sure) <= slots }
