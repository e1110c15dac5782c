package past

import (
	"context"
	"slices"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
)

// traits are the properties of a message by which readers of the log choose it, beside its task.
type traits struct {
	typ      events.Type // "" if the message is unreadable
	actor    string
	factNode string // the node that the message names
}

func traitsOf(r *events.Record) traits {
	return traits{r.Fact.Type, r.Fact.Actor, view.FactNode(r)}
}

// match tells whether a message with these traits is of the type, the actor and the node that are asked for.
func (t *traits) match(c *view.Trace) bool {
	return (c.Actor == "" || t.actor == c.Actor) && (c.Node == "" || t.factNode == c.Node || t.actor == c.Node) && c.OfType(t.typ)
}

// otherFact is a message that is about no task. Its text is a name in the index.
type otherFact struct {
	traits
	queue, job, schedule string
	// namesTask says that it names a task nevertheless, which may be of any queue, job and schedule.
	namesTask bool
}

func otherFactOf(r *events.Record) otherFact {
	f := &r.Fact
	is := otherFact{traitsOf(r), f.Queue, f.Job, f.Schedule, f.Task != ""}
	switch f.Def.Kind() {
	case task.DefJob:
		is.job = f.Def.Name()
	case task.DefSchedule:
		is.schedule = f.Def.Name()
	}
	return is
}

func (f *otherFact) text() string {
	return string(appendTexts([]byte{bit(f.namesTask)}, string(f.typ), f.actor, f.factNode, f.queue, f.job, f.schedule))
}

// readOtherFact reads the text of such a message; false if the name is one of something else.
func readOtherFact(name string) (f otherFact, ok bool) {
	r := reader{b: []byte(name)}
	namesTask := r.text(1)
	f.traits = traits{events.Type(r.string()), r.string(), r.string()}
	f.queue, f.job, f.schedule = r.string(), r.string(), r.string()
	if r.bad {
		return f, false
	}
	f.namesTask = namesTask[0] != 0
	return f, true
}

func (f *otherFact) match(c *view.Trace) bool {
	return f.traits.match(c) && (f.namesTask ||
		(c.Queue == "" || f.queue == c.Queue) && (c.Job == "" || f.job == c.Job) && (c.Schedule == "" || f.schedule == c.Schedule))
}

// factChoice are the messages that a [view.Trace] asks for, in the numbers of a scene. A message about a task
// is told by the place to which its task came with it; any other one by its name, see [otherFact].
type factChoice struct {
	places, names []bool // by number: whether their messages are chosen
	any           bool   // one of them is
	// inPlaces and inNames are the chosen ones: blocks without any of them are not read.
	inPlaces, inNames sieve
	// ofTask tells whether a task is of the queue, job and schedule that are asked for; nil if all are.
	// Groups are the groups of these tasks.
	ofTask func(number uint32) bool
	groups sieve
}

func (s *scene) chooseFacts(c *view.Trace) *factChoice {
	is := &factChoice{places: make([]bool, len(s.tables.places)), names: make([]bool, len(s.tables.names))}
	for i := range s.tables.places {
		if p := &s.tables.places[i]; p.anyFact || p.match(c) {
			is.places[i], is.any = true, true
			is.inPlaces.add(uint32(i)) // there are no more places
		}
	}
	for i, name := range s.tables.names {
		if f, ok := readOtherFact(name); ok && f.match(c) {
			is.names[i], is.any = true, true
			is.inNames.add(uint32(i)) // there are no more names
		}
	}
	if c.Queue == "" && c.Job == "" && c.Schedule == "" {
		return is
	}
	in, from := make([]bool, len(s.tables.places)+1), make([]bool, len(s.tables.origins)+1)
	for i := range s.tables.places {
		in[i+1] = c.Queue == "" || s.tables.places[i].queue() == c.Queue
	}
	from[0] = c.Job == "" && c.Schedule == ""
	for i := range s.tables.origins {
		o := &s.tables.origins[i]
		from[i+1] = (c.Job == "" || o.job == c.Job) && (c.Schedule == "" || o.schedule == c.Schedule)
	}
	is.ofTask = func(number uint32) bool { return in[s.in.At(number)] && from[s.from[number]] }
	for number := range s.in.Len() {
		if is.ofTask(number) {
			is.groups.add(groupOf(number))
		}
	}
	return is
}

// Traces returns the sequences of the messages that a choice may choose, the latest before a sequence or
// the earliest after it, at most most. It reads only the blocks of the index that may have such messages,
// in the order that is asked for.
func (p *View) Traces(ctx context.Context, c view.Trace, beyond uint64, most int) ([]uint64, error) {
	s, err := p.scene(ctx)
	if err != nil {
		return nil, err
	}
	is := s.chooseFacts(&c)
	var found []uint64
	for i := range s.blocks {
		if !is.any || len(found) >= most {
			break
		}
		if !c.OldestFirst {
			i = len(s.blocks) - 1 - i
		}
		b := &s.blocks[i]
		ofTasks := b.places.meets(&is.inPlaces) && (is.ofTask == nil || b.groups.meets(&is.groups))
		switch {
		case b.at >= s.at, !ofTasks && !b.names.meets(&is.inNames):
			continue
		case c.OldestFirst && i+1 < len(s.blocks) && s.blocks[i+1].seq <= beyond, !c.OldestFirst && b.seq >= beyond:
			continue
		}
		here, err := p.factsIn(ctx, s, b, is, func(seq uint64) bool { return seq < beyond != c.OldestFirst && seq != beyond })
		if err != nil {
			return nil, err
		}
		if !c.OldestFirst {
			slices.Reverse(here)
		}
		if n := len(found); n > 0 && len(here) > 0 && here[0] == found[n-1] { // a message is in two blocks
			here = here[1:]
		}
		found = append(found, here...)
	}
	return found[:min(len(found), most)], nil
}

// factsIn returns the sequences of the chosen messages in a block, the earliest first.
func (p *View) factsIn(ctx context.Context, s *scene, b *block, is *factChoice, within func(seq uint64) bool) (here []uint64, err error) {
	scan := new(scanner)
	add := func() {
		if n := len(here); scan.seq >= s.first && within(scan.seq) && (n == 0 || here[n-1] != scan.seq) {
			here = append(here, scan.seq)
		}
	}
	scan.move = func(number, place uint32, _ int64) {
		if is.places[place] && (is.ofTask == nil || is.ofTask(number)) {
			add()
		}
	}
	scan.note = func(r *reader) {
		if r.uint() == noteFact {
			if n := r.uint(); n < uint64(len(is.names)) && is.names[n] {
				add()
			}
		}
	}
	return here, p.scanBlock(ctx, s, b, scan)
}
