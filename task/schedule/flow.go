package schedule

import (
	"time"

	"millrace/task/definition"
	"millrace/task/queue"
)

// Flow tells whether what waits in a queue may start at a time, by what operators have said about the queue and by what is
// defined under the name of its window: if it returns nil it may, until the window closes, which is zero if that is not
// soon or if there is no window. It is asked by whoever fetches offers, by the claim, and by those who explain, and nobody else has
// to act when the hour comes. A pause and a limit are the NATS server's own to keep.
func Flow(q *queue.Queue, calendar *definition.Definition, at time.Time) (shut *Wait, closes time.Time) {
	if q.Window == "" {
		return nil, closes
	}
	return Window(q.Window, calendar, at)
}
