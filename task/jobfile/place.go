package jobfile

import (
	"fmt"

	"millrace/task/job"
	"millrace/task/placement"
)

// selector reads a list of requirements, or a mapping from labels to values.
func (r *reader) selector(v entry) placement.Selector {
	var s placement.Selector
	switch v.kind {
	case text:
		s = r.requirements(v)
	case list:
		if len(v.items) == 0 {
			r.refuse(v, "the list is empty: fill it or leave the field out")
		}
		for i, n := range v.items {
			s = append(s, r.requirements(entry{n, fmt.Sprintf("%s[%d]", v.path, i), n.pos})...)
		}
	case mapping:
		for _, f := range v.fields {
			at := entry{f.node, join(v.path, f.name), f.pos}
			if f.node.kind == list {
				s = append(s, placement.Requirement{Key: f.name, Op: placement.OpIn, Values: r.list(at, r.scalar)})
			} else {
				s = append(s, placement.SelectLabel(f.name, r.scalar(at)))
			}
		}
	default:
		r.want(v, "a list such as [\"zone in (eu,us)\", gpu] or a mapping such as {zone: eu}")
	}
	return s
}

func (r *reader) requirements(v entry) placement.Selector {
	line := r.line(v)
	if v.kind != text {
		return nil
	}
	s, err := placement.ParseSelector(line)
	if err != nil {
		r.refuse(v, "%v", err)
	}
	return s
}

func (r *reader) atLeastOne(v entry) int {
	n := r.whole(v)
	if v.kind == number && n < 1 {
		r.refuse(v, "want 1 or more, got %s", describe(v.node))
	}
	return n
}

// preferences reads a list of selectors with weights.
func (r *reader) preferences(v entry) (all []job.Preference) {
	if v.kind != list || len(v.items) == 0 {
		r.want(v, "a list such as [{labels: {zone: eu}, weight: 10}]")
		return nil
	}
	for i, n := range v.items {
		var p job.Preference
		r.object(entry{n, fmt.Sprintf("%s[%d]", v.path, i), n.pos}, "a mapping such as {labels: {zone: eu}, weight: 10}", r.fields(&p, setters{"weight": into(&p.Weight, r.atLeastOne)}))
		all = append(all, p)
	}
	return all
}
