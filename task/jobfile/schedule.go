package jobfile

import (
	"errors"
	"reflect"
	"strings"

	"millrace/task/schedule"
	"millrace/task/value"
)

// storedFields are the fields of a schedule that only the store sets.
var storedFields = func() (names []string) {
	for f := range reflect.TypeFor[schedule.Definition]().Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.Tag.Get("readOnly") == "true" {
			names = append(names, name)
		}
	}
	return names
}()

// ParseSchedule reads a file that holds one schedule, in the form in which the service takes it. With
// a name, the schedule must have that one. File names the file in messages. The error is an
// [Errors].
func ParseSchedule(file, name string, data []byte) (schedule.Definition, error) {
	return one(file, name, data, "schedule", "`name`, `schedule` and `task`", func(d *reader, root *node, before []Problem) (is schedule.Definition, called string) {
		if root.kind != mapping {
			d.want(entry{node: root, pos: root.pos}, "a schedule: fields such as `name: pulse`")
			return is, ""
		}
		d.locate(root, "")
		text := d.appendJSON(nil, entry{node: root, pos: root.pos})
		if len(d.problems) > len(before) {
			return is, ""
		}
		for _, field := range storedFields {
			if pos, ok := d.where[field]; ok {
				d.add(pos, field, "%s is the store's: leave it out", field)
			}
		}
		if err := value.Strictly(text, &is); err != nil {
			path := d.misread(err)
			d.add(d.where[path], path, "%s", err)
			return is, ""
		}
		if err := value.ValidName("schedule", is.Name); err != nil {
			d.add(d.where["name"], "name", "%s", err)
			return is, is.Name
		}
		err := is.Validate()
		if when := schedule.Validate(is.Name, is.When); when != nil {
			err = value.Under("schedule.", when)
		}
		d.say(err, nil)
		return is, is.Name
	})
}

// locate records the positions of all fields below a node.
func (r *reader) locate(n *node, path string) {
	for _, f := range n.fields {
		at := join(path, f.name)
		r.where[at] = f.pos
		r.locate(f.node, at)
	}
}

// misread returns the path of the part that cannot be decoded, or of what holds it; "" if the error
// does not say.
func (r *reader) misread(err error) (path string) {
	if is, ok := errors.AsType[*value.Misfit](err); ok {
		path = is.Path
	}
	for path != "" {
		if _, ok := r.where[path]; ok {
			return path
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return ""
}

// MarshalSchedule returns a schedule as a YAML file, from which [ParseSchedule] reads it, without
// what only the store sets. The error is that of ParseSchedule if a file cannot express it.
func MarshalSchedule(d schedule.Definition) ([]byte, error) {
	clear := schedule.Definition{Name: d.Name, When: d.When, Make: d.Make}
	return marshal("schedule", d.Name, clear, func(text []byte) (any, error) { return ParseSchedule("", d.Name, text) })
}
