package schedule

import (
	"strings"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/queue"
)

func TestFlow(t *testing.T) {
	const night = `{"name":"night","rules":[{"closed":"06:00-22:00"}]}`
	paused := &queue.Pause{Since: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)}
	for name, c := range map[string]struct {
		q     queue.Queue
		text  string // of the calendar
		at    string
		turns string // when it opens or, if it flows, closes; "" if not soon
		flows bool
		words string
	}{
		"no window":                  {q: queue.Queue{}, text: night, at: "2026-03-02T12:00:00Z", flows: true},
		"a window that was taken":    {q: queue.Queue{Limit: 3}, text: night, at: "2026-03-02T12:00:00Z", flows: true},
		"open":                       {q: queue.Queue{Valve: queue.Valve{Window: "night"}}, text: night, at: "2026-03-02T23:00:00Z", flows: true},
		"open, and closes soon":      {q: queue.Queue{Valve: queue.Valve{Window: "night"}}, text: night, at: "2026-03-03T05:59:59Z", turns: "2026-03-03T06:00:00Z", flows: true},
		"closed from that moment on": {q: queue.Queue{Valve: queue.Valve{Window: "night"}}, text: night, at: "2026-03-03T06:00:00Z", turns: "2026-03-03T22:00:00Z", words: "outside of the window night, opens at 2026-03-03 22:00:00"},
		"a clock that is early":      {q: queue.Queue{Valve: queue.Valve{Window: "night"}}, text: night, at: "2026-03-03T21:59:59Z", flows: true},
		"no such calendar":           {q: queue.Queue{Valve: queue.Valve{Window: "night"}}, at: "2026-03-02T12:00:00Z", turns: "2026-03-02T12:10:00Z", words: "there is no such calendar"},
		"a pause is the server's":    {q: queue.Queue{Paused: paused}, text: night, at: "2026-03-02T12:00:00Z", flows: true},
		"a pause beside a window":    {q: queue.Queue{Valve: queue.Valve{Window: "night"}, Paused: paused}, text: night, at: "2026-03-02T12:00:00Z", turns: "2026-03-02T22:00:00Z", words: "outside of the window night"},
	} {
		t.Run(name, func(t *testing.T) {
			at, _ := time.Parse(time.RFC3339, c.at)
			turns, _ := time.Parse(time.RFC3339, c.turns)
			shut, closes, err := Flow(c.q.Valve, at, func(calendar string) (task.Definition, error) {
				if calendar != "night" {
					t.Errorf("it asks for the calendar %q", calendar)
				}
				return task.Definition{Edition: task.Edition{Revision: 1, Text: []byte(c.text)}}, nil
			})
			switch {
			case err != nil:
				t.Error(err)
			case (shut == nil) != c.flows:
				t.Errorf("it is shut: %+v", shut)
			case shut == nil && !closes.Equal(turns):
				t.Errorf("it closes at %v, want %v", closes, turns)
			case shut != nil && (!shut.Until.Equal(turns) || !strings.Contains(shut.Detail, c.words)):
				t.Errorf("until %v, %q; want %v, %q", shut.Until, shut.Detail, turns, c.words)
			}
		})
	}
}
