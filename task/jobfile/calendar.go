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
	c := r.calendar(root)
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

func (r *reader) calendar(root *node) schedule.Calendar {
	var c schedule.Calendar
	r.root(root, r.fields(&c, setters{
		"timezone":  into(&c.Timezone, r.line),
		"rules":     func(v entry) { r.list(v, func(v entry) string { c.Rules = append(c.Rules, r.rule(v)); return "" }) },
		"otherwise": r.words(&c.Otherwise, []string{schedule.Open, schedule.Closed}),
	}))
	return c
}

func (r *reader) rule(v entry) (is schedule.Rule) {
	r.object(v, "a rule such as {closed: 22:00-06:00}", r.fields(&is, setters{"open": into(&is.Open, r.line), "closed": into(&is.Closed, r.line)}))
	return is
}

// unknown explains why a field is refused.
func (r *reader) unknown(path, name string, fields setters) string {
	if r.what == ofCalendar {
		return unlisted(path, name, slices.Sorted(maps.Keys(fields)))
	}
	return refusal(path, name)
}
