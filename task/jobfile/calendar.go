package jobfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"millrace/task/schedule"
)

// ParseCalendars reads the calendars of a file, as [Parse] reads jobs.
func ParseCalendars(name string, data []byte) ([]schedule.Calendar, error) {
	var all []schedule.Calendar
	err := documents(name, data, ofCalendar, "`name` and `rules`", func(d *reader, root *node, before []Problem) string {
		c := d.calendar(root)
		_, err := c.Hours()
		d.say(err, slices.Clone(d.problems[len(before):]))
		all = append(all, c)
		return c.Name
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// MarshalCalendar returns a calendar as a YAML file, from which [ParseCalendars] reads it.
func MarshalCalendar(c *schedule.Calendar) ([]byte, error) {
	encoded, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write calendar %s: %w", c.Name, err)
	}
	var b bytes.Buffer
	writeFields(&b, jsonTree(encoded), "")
	return b.Bytes(), nil
}

// ofCalendar says of a reader that it reads a calendar.
const ofCalendar = "calendar"

func (r *reader) calendar(root *node) schedule.Calendar {
	var c schedule.Calendar
	r.root(root, setters{
		"name":      func(v value) { c.Name = r.name(v, ofCalendar) },
		"title":     func(v value) { c.Title = r.text(v) },
		"timezone":  func(v value) { c.Timezone = r.line(v) },
		"rules":     func(v value) { r.list(v, func(v value) string { c.Rules = append(c.Rules, r.rule(v)); return "" }) },
		"otherwise": func(v value) { c.Otherwise = r.oneOf(v, []string{schedule.Open, schedule.Closed}) },
	})
	return c
}

func (r *reader) rule(v value) (is schedule.Rule) {
	r.object(v, "a rule such as {closed: 22:00-06:00}", setters{
		"open":   func(v value) { is.Open = r.line(v) },
		"closed": func(v value) { is.Closed = r.line(v) },
	})
	return is
}

// unknown says why a field is refused.
func (r *reader) unknown(path, name string, fields setters) string {
	if r.what == ofCalendar {
		return unlisted(path, fold(name), slices.Sorted(maps.Keys(fields)))
	}
	return refusal(path, name)
}
