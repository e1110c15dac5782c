package view

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"millrace/events"
	"millrace/task"
)

// Thing is a subject that people change, with the latest of its changes.
type Thing struct {
	Ref
	// As differs after each change.
	As string
}

// Alteration is a fact by which a person has changed a subject, with the changes.
type Alteration struct {
	Ref
	events.Record
	Changes []Change
}

// Changeable returns the subjects of each kind that people changed last, at most most of a kind:
// definitions, queues, and nodes with an order. So the latest changes of all kinds together are
// changes of these subjects.
func Changeable(ctx context.Context, v View, most int) (things []Thing, err error) {
	type stamped struct {
		Thing
		at int64
	}
	add := func(all []stamped) {
		slices.SortFunc(all, func(a, b stamped) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(a.ID, b.ID)) })
		for _, is := range all[:min(len(all), most)] {
			things = append(things, is.Thing)
		}
	}
	stamp := func(ref Ref, at int64, as uint64) stamped {
		text, _ := json.Marshal(as) // of a number
		return stamped{Thing{ref, string(text)}, at}
	}
	defined, err := v.List(ctx, Query{Kind: Definitions})
	if err != nil {
		return nil, err
	}
	var all []stamped
	for def, is := range defined.Definitions {
		all = append(all, stamp(Definition(def), int64(is.Head), is.Head)) // no log is that long
	}
	add(all)
	queues, err := v.List(ctx, Query{Kind: Queues})
	if err != nil {
		return nil, err
	}
	all = nil
	for _, q := range queues.Queues {
		if q.Head > 0 {
			all = append(all, stamp(Queue(q.Name), int64(q.Head), q.Head)) // likewise
		}
	}
	add(all)
	nodes, err := v.List(ctx, Query{Kind: Nodes})
	if err != nil {
		return nil, err
	}
	all = nil
	for i := range nodes.Nodes {
		if n := &nodes.Nodes[i]; !n.Standing.Since.IsZero() {
			at := n.Standing.Since.UnixNano()
			all = append(all, stamp(Node(n.ID), at, uint64(at))) // it is after 1970
		}
	}
	add(all)
	return things, nil
}

// Alterations returns the latest changes of a subject by people, the latest first, at most most.
func Alterations(ctx context.Context, v View, ref Ref, most int) (all []Alteration, err error) {
	records, err := All(ctx, v, ref)
	if err != nil {
		return nil, err
	}
	was := Nothing(ref)
	for i := range records {
		r := &records[i]
		is := was.Clone()
		is.Add(ref, r)
		if byPeople(ref, r) {
			changes, err := altered(ref, was, is)
			if err != nil {
				return nil, err
			}
			all = append(all, Alteration{ref, *r, changes})
		}
		was = is
	}
	slices.Reverse(all)
	return all[:min(len(all), most)], nil
}

// byPeople tells whether a person wrote a fact, and not a part of Millrace or the node that it is
// about.
func byPeople(ref Ref, r *events.Record) bool {
	by := r.Fact.Actor
	return r.Err == nil && r.IsFact() && by != "" && !events.IsPart(by) && (ref.Kind != Nodes || by != ref.ID)
}

// altered returns the changes; for a definition those of its content, without credentials.
func altered(ref Ref, was, is Item) ([]Change, error) {
	if ref.Kind != Definitions {
		return DiffItems(was, is)
	}
	if task.Def(ref.ID).Kind() == task.DefToken {
		return nil, nil
	}
	text := func(i Item) json.RawMessage {
		if i.Definition.Exists() {
			return i.Definition.Text
		}
		return json.RawMessage("{}")
	}
	return DiffValues(text(was), text(is))
}
