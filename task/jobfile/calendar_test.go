package jobfile

import (
	"reflect"
	"strings"
	"testing"

	"millrace/task/schedule"
)

func TestCalendarsAreReadAndWritten(t *testing.T) {
	all, err := ParseCalendars("c.yaml", []byte("name: night\ntitle: Not at night\ntimezone: Europe/Berlin\nrules:\n  - open: sun\n  - closed: 22:00-06:00\notherwise: open\n---\nname: weekend\nrules: [{open: \"sat,sun\"}]\notherwise: closed\n"))
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	want := schedule.Calendar{Name: "night", Title: "Not at night", Timezone: "Europe/Berlin", Rules: []schedule.Rule{{Open: "sun"}, {Closed: "22:00-06:00"}}, Otherwise: schedule.Open}
	if !reflect.DeepEqual(all[0], want) {
		t.Errorf("read was %+v", all[0])
	}
	for i := range all {
		text, err := MarshalCalendar(&all[i])
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseCalendars("", text)
		if err != nil || !reflect.DeepEqual(again, all[i:i+1]) {
			t.Errorf("%s reads back as %+v, %v", text, again, err)
		}
	}
}

func TestWhatIsWrongWithCalendars(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "c.yaml:1:1: the file is empty: a calendar needs at least `name` and `rules`",
		"rules: [{closed: sun}]":         "c.yaml:1:1: name is missing: a calendar needs one",
		"name: a\nrule: []":              "c.yaml:2:1: unknown field `rule`: did you mean `rules`?",
		"name: a\nrules:\n  - shut: sun": "c.yaml:3:5: unknown field `rules[0].shut`: the fields here are closed, open",
		"name: a\nrules:\n  - closed: sun\n  - closed: x":                       "c.yaml:4:5: rules[1].closed: \"x\" in \"x\": want weekdays such as sat,sun or mon-fri",
		"name: a\nrules:\n  - closed: sun\nzone: UTC":                           "c.yaml:4:1: unknown field `zone`: the fields here are name, otherwise, rules, timezone, title",
		"name: a\nrules:\n  - open: sun":                                        "c.yaml:2:1: rules: none says closed, and otherwise it is open: it would never close",
		"name: a\nrules: [{closed: sun}]\n---\nname: a\nrules: [{closed: sun}]": "c.yaml:4:1: calendar name \"a\" is used twice in this file, first on line 1",
	} {
		if _, err := ParseCalendars("c.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
