package quota

import (
	"cmp"
	"slices"
	"strings"

	"millrace/task/limit"
)

// scope is the limiter's state of a scope's chain.
type scope struct {
	name limit.Scope
	head uint64 // the last known admission; 0 for none
	// gate is where lines rest while an admission of the scope is on its way: its draws and the new
	// end of the chain are uncertain.
	gate *counter
	out  bool
	uses int // its counters and lines
	// beside are scopes that share lines with it, and how many.
	beside map[*scope]int
}

// keepScopes is for how many scopes without counters the limiter keeps the heads. It learns a
// forgotten head again when an admission is refused.
const keepScopes = 10_000

func (a *Limiter) scope(name limit.Scope) *scope {
	s := a.scopes[name]
	if s == nil {
		s = &scope{name: name, gate: &counter{index: -1}}
		a.scopes[name] = s
	}
	return s
}

// Head is the sequence of the last known admission of a scope; 0 for none.
func (a *Limiter) Head(name limit.Scope) uint64 {
	if s := a.scopes[name]; s != nil {
		return s.head
	}
	return 0
}

// Learn records that everything up to a sequence on the chain of a scope is known.
func (a *Limiter) Learn(name limit.Scope, head uint64) {
	s := a.scope(limit.Scope(strings.Clone(string(name))))
	s.head = max(s.head, head)
}

// Emptied records that the log has forgotten all of a scope's chain, up to the head that was known.
func (a *Limiter) Emptied(name limit.Scope, end, head uint64) {
	if s := a.scopes[name]; s != nil && end == 0 && s.head == head {
		s.head = 0
	}
}

// Out tells whether an admission of the counter's scope is on its way.
func (a *Limiter) Out(counter string) bool {
	c := a.counters[counter]
	return c != nil && c.scope.out
}

// Shut tells whether no task can be admitted before the outcome of an admission on its way is
// known.
func (a *Limiter) Shut() bool {
	if a.out == 0 {
		return false
	}
	for _, s := range a.scopes {
		if !s.out && s.uses > 0 {
			return false
		}
	}
	return true
}

// Send announces that a decision is about to be recorded and returns the known heads of its scopes'
// chains. Until [Limiter.Settle] no decision draws from those scopes.
func (a *Limiter) Send(d *Decision) (heads []uint64) {
	for _, name := range d.Scopes {
		s := a.scope(name)
		s.out = true
		a.out++
		heads = append(heads, s.head)
	}
	return heads
}

// Settle reports that the outcome of a decision is known and taken over.
func (a *Limiter) Settle(d *Decision) {
	for _, name := range d.Scopes {
		s := a.scope(name)
		s.out = false
		a.out--
		a.open(s)
	}
}

// open makes all lines that rest at the gate of a scope ready to be examined.
func (a *Limiter) open(s *scope) {
	for _, r := range s.gate.rows {
		for r.lines.Len() > 0 {
			a.get(r.lines.Pop())
		}
	}
}

// enter sets the scopes of a line, in order: those of its counters or, without counters, that of
// its queue.
func (a *Limiter) enter(l *line) {
	before := l.scopes
	l.scopes = nil
	for c := range l.counters() {
		l.scopes = append(l.scopes, c.scope)
	}
	if len(l.scopes) == 0 {
		l.scopes = append(l.scopes, a.scope(limit.ScopeNamed("queue.", l.queue.Name)))
	}
	slices.SortFunc(l.scopes, func(x, y *scope) int { return cmp.Compare(x.name, y.name) })
	l.scopes = slices.Compact(l.scopes)
	for _, s := range l.scopes {
		s.uses++
		for _, other := range l.scopes {
			if other == s {
				continue
			}
			if s.beside == nil {
				s.beside = map[*scope]int{}
			}
			s.beside[other]++
		}
	}
	exit(before)
}

// exit is the reverse of enter.
func exit(scopes []*scope) {
	for _, s := range scopes {
		s.uses--
		for _, other := range scopes {
			if other == s {
				continue
			}
			if s.beside[other]--; s.beside[other] == 0 {
				delete(s.beside, other)
			}
		}
	}
}

// Closed returns the closed scopes of [Limiter.Around]. If no admission is on its way, which is
// nearly always so, it returns at once: thousands of keys may share a limit.
func (a *Limiter) Closed(scopes []limit.Scope) (closed []limit.Scope) {
	if a.out > 0 {
		_, closed = a.Around(scopes)
	}
	return closed
}

// Around returns the scopes on which a decision on some others depends: those that share lines with
// them, and so on, but not beyond closed ones.
func (a *Limiter) Around(scopes []limit.Scope) (open, closed []limit.Scope) {
	var all []*scope
	seen := map[*scope]bool{}
	for _, name := range scopes {
		if s := a.scopes[name]; s != nil && len(s.beside) > 0 {
			all, seen[s] = append(all, s), true
		}
	}
	for own := len(all); len(all) > 0; own-- {
		s := all[0]
		switch all = all[1:]; {
		case s.out:
			closed = append(closed, s.name)
			continue
		case own <= 0:
			open = append(open, s.name)
		}
		for other := range s.beside {
			if !seen[other] {
				all, seen[other] = append(all, other), true
			}
		}
	}
	slices.Sort(open)
	slices.Sort(closed)
	return open, closed
}

// pruneScopes forgets unused heads, if there are too many.
func (a *Limiter) pruneScopes() {
	for name, s := range a.scopes {
		if len(a.scopes) <= keepScopes {
			return
		}
		if s.uses == 0 && !s.out {
			delete(a.scopes, name)
		}
	}
}

// closed returns the gate at which a line must rest; nil if there is none.
func (l *line) closed() *counter {
	for _, s := range l.scopes {
		if s.out {
			return s.gate
		}
	}
	return nil
}
