package past

import (
	"context"
	"slices"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
)

// Which messages readers of the log choose, by type, actor, node, and what their tasks belong to. The
// index has the traces of a message with the place of its task after it; for a message that is not
// about a task a note has them as a name.

// otherOf returns the traces of a message that is not about a task, as a name. One that names a task
// nevertheless may belong to any queue, job and schedule.
func otherOf(r *events.Record) string {
	f := &r.Fact
	t := tracesOf(r)
	job, schedule := f.Job, f.Schedule
	switch f.Def.Kind() {
	case task.DefJob:
		job = f.Def.Name()
	case task.DefSchedule:
		schedule = f.Def.Name()
	}
	return string(appendTexts([]byte{bit(f.Task != "")}, string(t.kind), t.actor, t.names, f.Queue, job, schedule))
}

// mayMean tells whether a choice may mean a message with these traces.
func (t *traces) mayMean(c *view.Trace) bool {
	return (c.Actor == "" || t.actor == c.Actor) && (c.Node == "" || t.names == c.Node || t.actor == c.Node) && c.OfType(t.kind)
}

// otherMeans tells whether a choice may mean a message with the traces that a name is.
func otherMeans(name string, c *view.Trace) bool {
	r := reader{b: []byte(name)}
	any := r.text(1)
	t := traces{events.Type(r.string()), r.string(), r.string()}
	queue, job, schedule := r.string(), r.string(), r.string()
	if r.bad {
		return false // it is the name of something else
	}
	return t.mayMean(c) && (any[0] != 0 || (c.Queue == "" || queue == c.Queue) && (c.Job == "" || job == c.Job) && (c.Schedule == "" || schedule == c.Schedule))
}

// tracing is what a choice means, in the numbers of the index.
type tracing struct {
	places, names []bool
	came, facts   sieve
	any           bool
	belongs       func(number uint32) bool // nil if all tasks do
	moved         sieve
}

func (s *scene) tracing(c *view.Trace) *tracing {
	is := &tracing{places: make([]bool, len(s.tables.places)), names: make([]bool, len(s.tables.names))}
	for i := range s.tables.places {
		if p := &s.tables.places[i]; p.loose || p.mayMean(c) {
			is.places[i], is.any = true, true
			is.came.add(uint32(i)) // there are no more places
		}
	}
	for i, name := range s.tables.names {
		if otherMeans(name, c) {
			is.names[i], is.any = true, true
			is.facts.add(uint32(i)) // there are no more names
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
	is.belongs = func(number uint32) bool { return in[s.in.At(number)] && from[s.from[number]] }
	for number := range s.in.Len() {
		if is.belongs(number) {
			is.moved.add(near(number))
		}
	}
	return is
}

// Traces returns the sequences of the messages that a choice may choose, the latest before a sequence or
// the earliest after it, at most most. It reads only the blocks of the index that may have what is meant,
// in the order that is asked for.
func (p *View) Traces(ctx context.Context, c view.Trace, beyond uint64, most int) ([]uint64, error) {
	s, err := p.scene(ctx)
	if err != nil {
		return nil, err
	}
	is := s.tracing(&c)
	var found []uint64
	for i := range s.blocks {
		if !is.any || len(found) >= most {
			break
		}
		if !c.OldestFirst {
			i = len(s.blocks) - 1 - i
		}
		b := &s.blocks[i]
		tasks := b.came.meets(&is.came) && (is.belongs == nil || b.moved.meets(&is.moved))
		switch {
		case b.at >= s.at, !tasks && !b.facts.meets(&is.facts):
			continue
		case c.OldestFirst && i+1 < len(s.blocks) && s.blocks[i+1].seq <= beyond, !c.OldestFirst && b.seq >= beyond:
			continue
		}
		here, err := p.tracesIn(ctx, s, b, is, func(seq uint64) bool { return seq < beyond != c.OldestFirst && seq != beyond })
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

// tracesIn returns the messages in a block that are meant, the earliest first.
func (p *View) tracesIn(ctx context.Context, s *scene, b *block, is *tracing, within func(seq uint64) bool) (here []uint64, err error) {
	scan := new(scanner)
	add := func() {
		if n := len(here); within(scan.seq) && (n == 0 || here[n-1] != scan.seq) {
			here = append(here, scan.seq)
		}
	}
	scan.move = func(number, place uint32, _ int64) {
		if is.places[place] && (is.belongs == nil || is.belongs(number)) {
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
