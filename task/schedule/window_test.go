package schedule

import (
	"strings"
	"testing"
	"time"

	"millrace/task"
)

func TestWindow(t *testing.T) {
	night := `{"name":"night","timezone":"Europe/Berlin","rules":[{"open":"sun"},{"closed":"22:00-06:00"}]}`
	for name, c := range map[string]struct {
		text  string
		at    string
		until string // when it opens or, if it is open, closes; "" if not soon
		open  bool
		words string
	}{
		"open":                      {night, "2026-03-02T21:59:59+01:00", "2026-03-02T22:00:00+01:00", true, ""},
		"closed from that moment":   {night, "2026-03-02T22:00:00+01:00", "2026-03-03T06:00:00+01:00", false, "outside of the window night, opens at 2026-03-03 06:00:00 +01:00"},
		"after midnight":            {night, "2026-03-03T00:00:00+01:00", "2026-03-03T06:00:00+01:00", false, "opens at"},
		"an exception":              {night, "2026-03-08T23:00:00+01:00", "2026-03-09T00:00:00+01:00", true, ""},
		"a timer that fires early":  {night, "2026-03-03T05:59:59+01:00", "", true, ""},
		"and earlier than they may": {night, "2026-03-03T05:59:58+01:00", "2026-03-03T06:00:00+01:00", false, "opens at"},
		"clocks go forward": {`{"name":"night","timezone":"Europe/Berlin","rules":[{"closed":"01:00-02:30"}]}`,
			"2026-03-29T01:10:00+01:00", "2026-03-29T03:00:00+02:00", false, "opens at 2026-03-29 03:00:00 +02:00"},
		"clocks go back": {`{"name":"night","timezone":"Europe/Berlin","rules":[{"closed":"01:00-02:30"}]}`,
			"2026-10-25T02:10:00+01:00", "2026-10-25T02:30:00+01:00", false, "opens at 2026-10-25 02:30:00 +01:00"},
		"it does not open again": {`{"name":"night","rules":[{"open":"2020-01-01"}],"otherwise":"closed"}`,
			"2026-03-02T12:00:00Z", "2027-03-03T12:00:00Z", false, "does not open within a year"},
		"there is none":     {"", "2026-03-02T12:00:00Z", "2026-03-02T12:10:00Z", false, "there is no such calendar"},
		"it cannot be read": {`{"name":"day"}`, "2026-03-02T12:00:00Z", "2026-03-02T12:10:00Z", false, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			at, _ := time.Parse(time.RFC3339, c.at)
			w, closes := Window("night", &task.Definition{Edition: task.Edition{Revision: 1, Text: []byte(c.text)}}, at)
			until, _ := time.Parse(time.RFC3339, c.until)
			if (w == nil) != c.open {
				t.Fatalf("it waits for %+v, want %q", w, c.until)
			}
			if w == nil {
				if !closes.Equal(until) {
					t.Errorf("it closes at %v, want %v", closes, until)
				}
				return
			}
			if !w.Until.Equal(until) || !strings.Contains(w.Detail, c.words) {
				t.Errorf("until %v, %q; want %v, %q", w.Until, w.Detail, until, c.words)
			}
		})
	}
}
