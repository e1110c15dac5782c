package jobfile

import (
	"fmt"

	"millrace/task/limit"
)

func (r *reader) concurrency(v entry) limit.Concurrencies {
	return few(r, v, "a mapping such as {max: 5}, or a list of such", func(c *limit.Concurrency) setters {
		return r.fields(c, setters{"on_limit": r.words(&c.OnLimit, limit.OnLimits)})
	})
}

func (r *reader) budget(v entry) limit.Budgets {
	return few(r, v, "a mapping such as {starts: 1000} or {run: 8h}, or a list of such", func(b *limit.Budget) setters {
		return r.fields(b, setters{"per": r.words(&b.Per, limit.Pers)})
	})
}

// few reads an object, or a list of objects.
func few[T any](r *reader, v entry, what string, fields func(*T) setters) (all []T) {
	r.oneOrMore(v, func(at entry) {
		var one T
		r.object(at, what, fields(&one))
		all = append(all, one)
	})
	return all
}

// oneOrMore reads a value, or each value of a list.
func (r *reader) oneOrMore(v entry, read func(entry)) {
	if v.kind != list {
		read(v)
		return
	}
	if len(v.items) == 0 {
		r.refuse(v, "the list is empty: fill it or leave the field out")
	}
	for i, n := range v.items {
		at := fmt.Sprintf("%s[%d]", v.path, i)
		r.where[at] = n.pos
		read(entry{n, at, n.pos})
	}
}

// perNode reads a number for the usual case.
func (r *reader) perNode(v entry) limit.PerNodes {
	if v.kind == number {
		return limit.PerNodes{{Max: r.atLeastOne(v)}}
	}
	return few(r, v, "a number, a mapping such as {max: 1}, or a list of such", func(p *limit.PerNode) setters {
		return r.fields(p, nil)
	})
}
