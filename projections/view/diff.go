package view

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/task"
	"millrace/task/value"
)

// Change is a field in which two items differ.
type Change struct {
	// Field is its path, such as spec.timeout.run. A list is one field, unless each of its items
	// has a unique name: then the items are fields by name, as params.depth.max.
	Field string `json:"field"`
	// Was and Is are its values as JSON; nil where there is none.
	Was json.RawMessage `json:"was,omitempty"`
	Is  json.RawMessage `json:"is,omitempty"`
}

// DiffItems returns how two items differ.
func DiffItems(was, is Item) ([]Change, error) {
	a, err := fieldsOf(was)
	if err != nil {
		return nil, err
	}
	b, err := fieldsOf(is)
	return diff(a, b), err
}

// DiffValues returns how two values, such as two tasks of one job, differ in their JSON forms.
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

// Bounds of measures that tell something: one of them is at least twice the other, and at least so much.
const (
	tellingTime   = time.Second
	tellingMemory = 16 << 20
)

// firstOfRuns are the fields of a task that people look at first, and ofEachRun those that differ between any two
// runs: which task it is, its places in the log and in time, and what it used.
var (
	firstOfRuns = []string{"state", "reason", "exit", "message", "params", "node", "ran", "usage"}
	ofEachRun   = []string{
		"id", "parent", "head", "seq", "offer", "epoch", "session", "turn", "rated", "life", "end_seq", "since", "submitted_at", "due", "begun",
		"started_at", "ended_at", "tick", "ran", "usage",
	}
)

// Telling parts the changes between two runs: what tells how they differ, what matters most first, and what differs
// between any two.
func Telling(changes []Change) (telling, always []Change) {
	for _, c := range changes {
		if root, _, _ := strings.Cut(c.Field, "."); slices.Contains(ofEachRun, root) && !c.apart() {
			always = append(always, c)
		} else {
			telling = append(telling, c)
		}
	}
	rank := func(c Change) int {
		root, _, _ := strings.Cut(c.Field, ".")
		if at := slices.Index(firstOfRuns, root); at >= 0 {
			return at
		}
		return len(firstOfRuns)
	}
	slices.SortStableFunc(telling, func(a, b Change) int { return cmp.Compare(rank(a), rank(b)) })
	return telling, always
}

// apart tells whether a measure of two runs differs so much that it may be why one of them failed.
func (c *Change) apart() bool {
	differ := func(a, b, least int64) bool { return max(a, b) >= max(least, 2*min(a, b)) }
	switch c.Field {
	case "ran":
		var was, is value.Duration
		return (c.Was == nil || json.Unmarshal(c.Was, &was) == nil) && (c.Is == nil || json.Unmarshal(c.Is, &is) == nil) &&
			differ(int64(was), int64(is), int64(tellingTime))
	case "usage.max_memory":
		var was, is int64
		return json.Unmarshal(c.Was, &was) == nil && json.Unmarshal(c.Is, &is) == nil && differ(was, is, tellingMemory)
	}
	return c.Field == "usage.signal" || c.Field == "usage.limits" || c.Field == "usage.refused"
}

// goodWithin is how far back the last good run of a job is looked for.
const goodWithin = 31 * 24 * time.Hour

// LastGood finds the latest run of a task's job before it that has finished; nil for none, and for a step.
func LastGood(ctx context.Context, v View, t *task.Task) (*task.Task, error) {
	if t.Job == "" || t.Parent != "" {
		return nil, nil
	}
	page, err := v.List(ctx, Query{Kind: Tasks, Filter: Filter{Job: t.Job, Roots: true, States: []task.State{task.Finished}, After: t.ID, Since: t.SubmittedAt.Add(-goodWithin), Limit: 1}})
	if err != nil || len(page.Tasks) == 0 {
		return nil, err
	}
	return &page.Tasks[0], nil
}

// fieldsOf returns the fields of an item, by path.
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

// fieldsIn returns the fields of a value, by path.
func fieldsIn(thing any) (map[string]json.RawMessage, error) {
	text, err := value.JSON(thing)
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	fields := map[string]json.RawMessage{}
	return fields, flatten(fields, "", text)
}

// flatten adds the fields of a JSON value: those of an object, or of a list of named items, one by
// one; any other value as a whole.
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

// byName returns the items of a list by name; false if one has no name, or two have the same.
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
