package view

import (
	"reflect"
	"slices"
	"strings"

	"millrace/task"
)

// Field is one way to choose tasks: a field of [Filter], with all that is said of it elsewhere. Requests to
// the service, queries, their completion and the flags of commands follow from it.
type Field struct {
	// Name is that of the field in [Filter].
	Name string
	// Word is its key in a query, or stands behind is: if the field is true or false. Example is a term
	// of a query; "" if queries have no such term.
	Word, Example string
	// Flag is a flag of commands that choose tasks, Short its letter and Usage its help; "" for none.
	Flag, Short, Usage string
	// Told says what tells whether a task matches.
	Told Told
	// Match tells whether a task matches the field, if that is set.
	Match func(f *Filter, t *task.Task) bool
}

// Told is what of a task tells whether it matches a field.
type Told uint8

// What tells whether a task matches.
const (
	ByRow   Told = iota // only the task itself; a new field is told so
	ByPlace             // its state, route and node, or its job and origin, which the index of the past has
	ByBirth             // its id, or what the index of the past keeps of its birth
)

// Fields are all ways to choose tasks. To add one, add a field to [Filter] and a line here.
var Fields = []Field{
	{"States", "state", "state:error,abnormal", "", "", "", ByPlace, func(f *Filter, t *task.Task) bool { return len(f.States) == 0 || slices.Contains(f.States, t.State) }},
	{"Job", "job", "job:backup", "job", "", "of this job", ByPlace, func(f *Filter, t *task.Task) bool { return f.Job == "" || t.Job == f.Job }},
	{"Queue", "queue", "queue:crawl", "queue", "q", "of this queue", ByPlace, func(f *Filter, t *task.Task) bool {
		return f.Queue == "" || t.Route.Queue() == f.Queue || t.QueueName() == f.Queue
	}},
	{"Node", "node", "node:w3", "node", "", "run by this node at last", ByPlace, func(f *Filter, t *task.Task) bool { return f.Node == "" || t.Node == f.Node }},
	{"Schedule", "schedule", "schedule:nightly", "schedule", "", "made by this schedule", ByPlace, func(f *Filter, t *task.Task) bool { return f.Schedule == "" || t.Schedule == f.Schedule }},
	{"Step", "step", "step:load", "", "", "", ByBirth, func(f *Filter, t *task.Task) bool { return f.Step == "" || t.Step == f.Step }},
	{"Labels", "label", "label:env=prod", "label", "l", "with the label `name=value` (repeat it)", ByBirth, func(f *Filter, t *task.Task) bool {
		for k, v := range f.Labels {
			if have, ok := t.Labels[k]; !ok || have != v {
				return false
			}
		}
		return true
	}},
	{"Params", "param", "param.NAME:value", "", "", "", ByRow, func(f *Filter, t *task.Task) bool { return HasParts(t.Params, f.Params) }},
	{"Results", "result", "result.NAME:value", "", "", "", ByRow, func(f *Filter, t *task.Task) bool { return HasParts(t.Result, f.Results) }},
	{"Records", "record", "record.NAME:value", "", "", "", ByRow, func(f *Filter, _ *task.Task) bool { return len(f.Records) == 0 }},
	{"Priorities", "priority", "priority:8,9", "priority", "", "with one of these `priorities`: 8,9,10", ByPlace, func(f *Filter, t *task.Task) bool {
		return len(f.Priorities) == 0 || slices.Contains(f.Priorities, t.Route.Priority())
	}},
	{"Since", "since", "since:2h", "since", "", "submitted since a `time`: 2h or 7d ago, 2026-03-01, 12:00", ByBirth, func(f *Filter, t *task.Task) bool { return f.Since.IsZero() || !t.SubmittedAt.Before(f.Since) }},
	{"Until", "until", "until:12:00", "until", "", "submitted until a `time`", ByBirth, func(f *Filter, t *task.Task) bool { return f.Until.IsZero() || t.SubmittedAt.Before(f.Until) }},
	{"Dead", "dead", "is:dead", "", "", "", ByPlace, func(f *Filter, t *task.Task) bool { return !f.Dead || t.Dead() }},
	{"Approval", "approval", "is:approval", "approval", "", "that wait for an approval", ByRow, func(f *Filter, t *task.Task) bool { return !f.Approval || t.AwaitsSignal() }},
	{"Doubted", "suspect", "is:suspect", "suspect", "", "whose node has vanished or is late with its heartbeat, or which wait only for such a node", ByRow, func(f *Filter, t *task.Task) bool {
		return f.Suspect == nil || (t.State == task.Pending || t.Live()) && f.Suspect(t)
	}},
	{"Roots", "root", "is:root", "roots", "", "without the steps and other children of tasks", ByPlace, func(f *Filter, t *task.Task) bool { return !f.Roots || t.Parent == "" }},
	{"Batch", "batch", "batch:01ARZ3NDEKTSV4RRFFQ69G5FAV", "batch", "", "touched last by this bulk command, an `id`", ByPlace, func(f *Filter, t *task.Task) bool { return f.Batch == "" || t.Batch == f.Batch }},
	{"IDPart", "id", "id:9G5FAV", "", "", "", ByBirth, func(f *Filter, t *task.Task) bool {
		return strings.HasPrefix(string(t.ID), f.IDPart) || strings.HasSuffix(string(t.ID), f.IDPart)
	}},
	{"Text", "text", "", "text", "", "with this `text` in id, job, command or message", ByRow, (*Filter).matchText},
}

// In returns the field in a filter, which may be set.
func (k *Field) In(f *Filter) reflect.Value { return reflect.ValueOf(f).Elem().FieldByName(k.Name) }

// Sets tells whether a filter sets one of the fields that are meant.
func (f *Filter) Sets(meant func(k *Field) bool) bool {
	for i := range Fields {
		if k := &Fields[i]; meant(k) && !k.In(f).IsZero() {
			return true
		}
	}
	return false
}

// Placed tells whether the places and origins of tasks tell all that a filter asks for.
func (f *Filter) Placed() bool { return !f.Sets(func(k *Field) bool { return k.Told != ByPlace }) }

// Rowed tells whether only the tasks themselves tell all that a filter asks for.
func (f *Filter) Rowed() bool {
	return f.Suspect != nil || f.Sets(func(k *Field) bool { return k.Told == ByRow })
}

// Join adds the fields that another filter sets. both is the word of a field that is set in both, ""
// for none; what is true in one of them is no such field.
func (f *Filter) Join(other *Filter) (both string) {
	for i := range Fields {
		k := &Fields[i]
		is, said := k.In(f), k.In(other)
		switch {
		case said.IsZero():
		case !is.IsZero() && is.Kind() != reflect.Bool:
			return k.Word
		default:
			is.Set(said)
		}
	}
	return ""
}

// Match tells whether a task matches the filter, regardless of pages.
func (f *Filter) Match(t *task.Task) bool {
	if t.State == task.Unknown {
		return false
	}
	for i := range Fields {
		if !Fields[i].Match(f, t) {
			return false
		}
	}
	return true
}
