package param

import (
	"encoding/json"

	"millrace/task/value"
)

// Schema returns a JSON Schema (draft 2020-12) of the values that a submission may set: an object
// with a property for each parameter. It is for programs that offer a job to others; what it cannot
// say, [Params.Read] checks nevertheless.
func (p *Params) Schema() map[string]any {
	properties, required := map[string]any{}, []string{}
	for name, is := range p.Defaults {
		properties[name] = map[string]any{"default": is}
	}
	for i := range p.Declared {
		d := &p.Declared[i]
		properties[d.Name] = d.form()
		if p.needs(d) {
			required = append(required, d.Name)
		}
	}
	// Beside defaults a submission may set others, beside declarations it may not.
	return map[string]any{"type": Object, "properties": properties, "required": required, "additionalProperties": len(p.Declared) == 0}
}

// needs tells whether a submission must set a declared parameter.
func (p *Params) needs(d *Param) bool {
	_, known := p.Defaults[d.Name]
	return !known && !d.Optional && len(d.Default) == 0
}

// bounds are the keywords for [Param.Min] and [Param.Max], by the type.
var bounds = map[string][2]string{
	Integer: {"minimum", "maximum"}, Number: {"minimum", "maximum"}, String: {"minLength", "maxLength"},
	Array: {"minItems", "maxItems"}, Object: {"minProperties", "maxProperties"},
}

// form is the JSON Schema of one parameter.
func (d *Param) form() map[string]any {
	is := map[string]any{}
	if len(d.Schema) > 0 {
		is["allOf"] = []json.RawMessage{d.Schema}
	}
	for name, text := range map[string]string{"title": d.Title, "description": d.Description, "type": d.Type, "pattern": d.Pattern} {
		if text != "" {
			is[name] = text
		}
	}
	if len(d.Enum) > 0 {
		is["enum"] = d.Enum
	}
	if len(d.Default) > 0 {
		is["default"] = d.Default
	}
	for i, bound := range []*value.Number{d.Min, d.Max} {
		if of, ok := bounds[d.Type]; ok && bound != nil {
			is[of[i]] = *bound
		}
	}
	if d.Secret {
		is["type"], is["required"], is["additionalProperties"] = Object, []string{"file"}, false
		is["properties"] = map[string]any{"file": map[string]any{"type": String, "description": "the path of a file on the node that holds the secret"}}
	}
	return is
}
