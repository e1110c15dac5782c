package jobfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"millrace/task/job"
	"millrace/task/schedule"
)

// ParseCalendars reads the calendars of a file, as [Parse] reads jobs.
func ParseCalendars(name string, data []byte) ([]schedule.Calendar, error) {
	var all []schedule.Calendar
	err := documents(name, data, ofCalendar, calendarNeeds, func(d *reader, root *node, before []Problem) string {
		c, called := d.calendarOf(root, before)
		all = append(all, c)
		return called
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// ParseCalendar is [ParseOne] for a calendar.
func ParseCalendar(name string, data []byte) (schedule.Calendar, error) {
	return one("", name, data, ofCalendar, calendarNeeds, (*reader).calendarOf)
}

// calendarOf reads and checks a calendar, and returns its name.
func (r *reader) calendarOf(root *node, before []Problem) (schedule.Calendar, string) {
	var c schedule.Calendar
	r.root(root, &c)
	_, err := c.Hours()
	r.say(err, slices.Clone(r.problems[len(before):]))
	return c, c.Name
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

// ofCalendar marks a reader of calendars.
const ofCalendar = "calendar"

// calendarNeeds are the fields that a calendar needs.
const calendarNeeds = "`name` and `rules`"

// unknown explains why a field of a struct is refused.
func (r *reader) unknown(path, name string, of reflect.Type) string {
	fields := namesIn(of)
	switch {
	case r.what == ofCalendar:
		return unlisted(path, name, slices.Sorted(slices.Values(fields)))
	case of == reflect.TypeFor[job.Secret]():
		return "unknown field `" + excerpt(join(path, name)) + "`: a secret is read from a `file` on the node"
	}
	return refusal(path, name, fields)
}
