package past

import (
	"math/bits"
	"slices"

	"millrace/projections/view"
	"millrace/task"
)

// choice are the tasks of a scene that match a filter, as far as their places, origins and births tell.
type choice struct {
	in, from []bool      // by the number of a place, and of an origin: whether its tasks match
	held     held        // the same numbers
	born     taskNumbers // the tasks that were born as the filter asks, or may have been; nil for all
	was      *scene      // if not nil, only tasks that were in another state then
}

// taskNumbers is a set of tasks, a bit for each number.
type taskNumbers []uint64

func (t taskNumbers) add(number uint32) { t[number/64] |= 1 << (number % 64) }

func (t taskNumbers) has(number uint32) bool { return t[number/64]&(1<<(number%64)) != 0 }

// bornWith returns the tasks of a scene that were born with the labels and the step of a filter, and those whose
// origin came again: only their facts tell. It returns nil if the filter asks for neither.
func (m *index) bornWith(s *scene, f *view.Filter) (of taskNumbers) {
	var asked []string
	for name, value := range f.Labels {
		asked = append(asked, labelText(name, value))
	}
	if f.Step != "" {
		asked = append(asked, stepText(f.Step))
	}
	if len(asked) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, label := range asked {
		before := of
		of = make(taskNumbers, s.tasks/64+1)
		if s.labels[label] == nil {
			continue
		}
		for _, number := range *s.labels[label] {
			if number <= s.tasks && (i == 0 || before.has(number)) {
				of.add(number)
			}
		}
	}
	for number := range s.reborn {
		if number <= s.tasks {
			of.add(number)
		}
	}
	return of
}

// chosen are the tasks that match a filter, without a look at its labels and its step.
func (s *scene) chosen(f *view.Filter) choice {
	c := choice{in: make([]bool, len(s.tables.places)+1), from: make([]bool, len(s.tables.origins)+1)}
	for i := range s.tables.places {
		if c.in[i+1] = s.tables.places[i].meets(f); c.in[i+1] {
			c.held.in.add(uint32(i + 1)) // there are no more places
		}
	}
	for i := range s.tables.origins {
		o := &s.tables.origins[i]
		c.from[i+1] = (f.Job == "" || o.job == f.Job) && (f.Schedule == "" || o.schedule == f.Schedule) && (!f.Roots || o.root)
		if c.from[i+1] {
			c.held.from.add(uint32(i + 1)) // there are no more origins
		}
	}
	return c
}

// held are the places and origins of some tasks, by number.
type held struct{ in, from sieve }

// holds are the places and origins of the tasks that were born in a block.
func (s *scene) holds(b *block) *held {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cached.held == nil {
		s.cached.held = make([]*held, len(s.blocks))
	}
	if s.cached.held[b.rank] == nil {
		is, until := new(held), min(b.until, s.tasks)+1
		last, origin := uint32(0), uint32(0)
		for _, part := range s.in.Parts(b.tasks+1, until) {
			for _, place := range part {
				if place != last { // else it is there
					is.in.add(place)
					last = place
				}
			}
		}
		for _, from := range s.from[b.tasks+1 : until] {
			if from != origin {
				is.from.add(from)
				origin = from
			}
		}
		s.cached.held[b.rank] = is
	}
	return s.cached.held[b.rank]
}

// most is how many tasks of a scene are chosen at most.
func (c *choice) most(s *scene) (n int) {
	if !slices.Contains(c.from, true) {
		return 0
	}
	for place, of := range s.n {
		if c.in[place] {
			n += of
		}
	}
	if c.born != nil {
		born := 0
		for _, some := range c.born {
			born += bits.OnesCount64(some)
		}
		n = min(n, born)
	}
	return n
}

// has tells whether a task of the scene is chosen.
func (c *choice) has(s *scene, number uint32) bool {
	return (c.born == nil || c.born.has(number)) && c.in[s.in.At(number)] && c.from[s.from[number]] && (c.was == nil || c.was.state(number) != s.state(number))
}

// any tells whether one of the tasks that were born in a block is chosen.
func (c *choice) any(s *scene, b *block) bool {
	if is := s.holds(b); !is.in.meets(&c.held.in) || !is.from.meets(&c.held.from) {
		return false
	}
	after, until := b.tasks, min(b.until, s.tasks)
	if c.was != nil && s.in.Shares(&c.was.in, after+1, until+1) {
		return false
	}
	for at, part := range s.in.Parts(after+1, until+1) {
		from := s.from[at:]
		for i, place := range part {
			if c.in[place] && c.from[from[i]] && (c.was == nil && c.born == nil || c.has(s, at+uint32(i))) { // there are no more tasks
				return true
			}
		}
	}
	return false
}

// meets tells whether tasks in the place match the parts of a filter that concern places.
func (p *place) meets(f *view.Filter) bool {
	switch {
	case p.state == task.Unknown, f.Dead && !p.dead, len(f.States) > 0 && !slices.Contains(f.States, p.state):
	case f.Node != "" && p.node != f.Node, f.Batch != "" && p.batch != f.Batch:
	case f.Queue != "" && p.route.Queue() != f.Queue && p.queue() != f.Queue:
	case len(f.Priorities) > 0 && !slices.Contains(f.Priorities, p.route.Priority()):
	default:
		return true
	}
	return false
}
