package view

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Change is a field that two things have differently.
type Change struct {
	// Field is its path, such as spec.timeout.run. A list is one field, unless each of its items has a name of its own: then
	// they stand by those, as params.depth.max.
	Field string `json:"field"`
	// Was and Is are its values as JSON; nil where there is none.
	Was json.RawMessage `json:"was,omitempty"`
	Is  json.RawMessage `json:"is,omitempty"`
}

// Diff says what has become of one thing between two views, by the names of the fields. What is in neither has no
// difference; what is in one has all its fields.
func Diff(ctx context.Context, before, after View, ref Ref) ([]Change, error) {
	was, err := fieldsAt(ctx, before, ref)
	if err != nil {
		return nil, err
	}
	is, err := fieldsAt(ctx, after, ref)
	if err != nil {
		return nil, err
	}
	return diff(was, is), nil
}

// DiffItems says how two things differ.
func DiffItems(was, is Item) ([]Change, error) {
	a, err := fieldsOf(was)
	if err != nil {
		return nil, err
	}
	b, err := fieldsOf(is)
	return diff(a, b), err
}

// DiffValues says how two values differ by their forms in JSON, such as two tasks of one job.
func DiffValues(was, is any) ([]Change, error) {
	a, err := fieldsIn(was)
	if err != nil {
		return nil, err
	}
	b, err := fieldsIn(is)
	return diff(a, b), err
}

func diff(was, is map[string]json.RawMessage) []Change {
	all := maps.Clone(was)
	maps.Copy(all, is)
	var changes []Change
	for _, field := range slices.Sorted(maps.Keys(all)) {
		if !bytes.Equal(was[field], is[field]) {
			changes = append(changes, Change{field, was[field], is[field]})
		}
	}
	return changes
}

// fieldsAt are those of a thing in a view; none if it is not there.
func fieldsAt(ctx context.Context, v View, ref Ref) (map[string]json.RawMessage, error) {
	item, err := v.Get(ctx, ref)
	switch {
	case unknown(err):
		return map[string]json.RawMessage{}, nil
	case err != nil:
		return nil, err
	}
	return fieldsOf(item)
}

// fieldsOf are the fields of a thing, by their paths.
func fieldsOf(item Item) (map[string]json.RawMessage, error) {
	var thing any
	switch {
	case item.Task != nil:
		thing = item.Task
	case item.Node != nil:
		thing = item.Node
	case item.Queue != nil:
		thing = item.Queue
	case item.Breaker != nil:
		thing = item.Breaker
	default:
		thing = item.Definition
	}
	return fieldsIn(thing)
}

// fieldsIn are the fields of a value, by their paths.
func fieldsIn(thing any) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(thing)
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	fields := map[string]json.RawMessage{}
	return fields, flatten(fields, "", text)
}

// flatten adds the fields of a value of JSON: those of an object one by one, and of a list of what has names, anything else as it is.
func flatten(into map[string]json.RawMessage, path string, value json.RawMessage) error {
	object, named := byName(value)
	if !named && (len(value) == 0 || value[0] != '{') {
		into[path] = value
		return nil
	}
	if !named {
		if err := json.Unmarshal(value, &object); err != nil {
			return fmt.Errorf("compare %s: %w", path, err)
		}
	}
	for name, field := range object {
		if path != "" {
			name = path + "." + name
		}
		if err := flatten(into, name, field); err != nil {
			return err
		}
	}
	return nil
}

// byName are the items of a list by their names; false if one has none, or two have the same.
func byName(value json.RawMessage) (map[string]json.RawMessage, bool) {
	if len(value) == 0 || value[0] != '[' {
		return nil, false
	}
	var items []struct {
		Name string `json:"name"`
	}
	var whole []json.RawMessage
	if json.Unmarshal(value, &items) != nil || json.Unmarshal(value, &whole) != nil || len(items) == 0 {
		return nil, false
	}
	all := make(map[string]json.RawMessage, len(items))
	for i := range items {
		if _, twice := all[items[i].Name]; twice || items[i].Name == "" {
			return nil, false
		}
		all[items[i].Name] = whole[i]
	}
	return all, true
}
