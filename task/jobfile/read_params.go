package jobfile

import (
	"encoding/json"
	"slices"

	"millrace/task/param"
	"millrace/task/value"
)

// params reads a mapping of defaults, or a list of declarations.
func (r *reader) params(v entry) param.Params {
	if v.kind != list {
		return param.Params{Defaults: r.defaults(v)}
	}
	var all param.Params
	r.oneOrMore(v, func(at entry) {
		var p param.Param
		r.object(at, "a mapping such as {name: depth, type: integer, default: 2}", r.fields(&p, setters{
			"type":    r.words(&p.Type, param.Types),
			"enum":    into(&p.Enum, r.values),
			"pattern": into(&p.Pattern, r.line),
			"schema":  into(&p.Schema, r.jsonSchema),
		}))
		all.Declared = append(all.Declared, p)
	})
	return all
}

// defaults reads values of any kind by their names.
func (r *reader) defaults(v entry) map[string]json.RawMessage {
	if v.kind != mapping {
		r.want(v, "a mapping from names to default values, or a list that declares each, such as [{name: depth, type: integer}]")
		return nil
	}
	all := make(map[string]json.RawMessage, len(v.fields))
	for _, f := range v.fields {
		if declares(f.node) {
			r.refuse(entry{f.node, join(v.path, f.name), f.pos}, "this would be the default value, and reads like a declaration: declare parameters in a list, such as params: [{name: %s, …}]", f.name)
		}
		all[f.name] = r.json(entry{f.node, join(v.path, f.name), f.pos})
	}
	return all
}

// declares tells whether a default value reads as what a list declares of a parameter: a type, an enumeration or a secret, and no other fields.
func declares(v *node) bool {
	if v.kind != mapping {
		return false
	}
	says := false
	for _, f := range v.fields {
		switch f.name {
		case "type":
			says = says || slices.Contains(param.Types, f.node.text)
		case "enum":
			says = says || f.node.kind == list
		case "secret":
			says = says || f.node.text == "true"
		case "title", "description", "min", "max", "pattern", "schema", "default", "optional":
		default:
			return false
		}
	}
	return says
}

// json reads a value of any kind.
func (r *reader) json(v entry) json.RawMessage { return r.appendJSON(nil, v) }

func (r *reader) jsonSchema(v entry) json.RawMessage {
	if v.kind != mapping {
		r.want(v, "a JSON Schema, which is a mapping such as {items: {type: string}}")
		return nil
	}
	return r.json(v)
}

// bound reads a number that may be 0, with all its digits.
func (r *reader) bound(v entry) *value.Number {
	n, ok := r.exact(v, "a number")
	if !ok {
		return nil
	}
	return &n
}
