package schedule

import (
	"time"

	"millrace/task/definition"
	"millrace/task/queue"
)

// Flow tells whether waiting tasks of a queue may start at a time, by the queue's settings and the
// definition of its window's calendar. A nil result means yes, until closes, which is zero if the
// window does not close soon or there is none. The fetcher of offers, the claim and the
// explanations call it, so no component has to act when the hour comes. The NATS server enforces
// pauses and limits.
func Flow(q *queue.Queue, calendar *definition.Definition, at time.Time) (shut *Wait, closes time.Time) {
	if q.Window == "" {
		return nil, closes
	}
	return Window(q.Window, calendar, at)
}
