package schedule

import (
	"fmt"
	"time"

	"millrace/task"
	"millrace/task/queue"
)

// Flow tells whether waiting tasks of a queue may start at a time, by the queue's valve and the
// calendars that it names; read returns their definitions. A nil result means yes, until closes,
// which is zero if the valve does not close soon. The fetcher of offers, the claim and the
// explanations call it, so no component has to act when the hour comes. The NATS server enforces
// pauses and limits.
func Flow(v queue.Valve, at time.Time, read func(calendar string) (task.Definition, error)) (shut *Wait, closes time.Time, err error) {
	if v.Window == "" {
		return nil, closes, nil
	}
	is, err := read(v.Window)
	if err != nil {
		return nil, closes, fmt.Errorf("ask the calendar %s: %w", v.Window, err)
	}
	shut, closes = Window(v.Window, &is, at)
	return shut, closes, nil
}
