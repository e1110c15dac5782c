package jobfile

import (
	"fmt"
	"reflect"

	"millrace/task/limit"
)

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
func (r *reader) perNode(to *limit.PerNodes) func(entry) {
	return func(v entry) {
		if v.kind == number {
			*to = limit.PerNodes{{Max: r.atLeastOne(v)}}
			return
		}
		r.mappings(v, reflect.ValueOf(to).Elem(), "a number, ")
	}
}
