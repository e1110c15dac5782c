package wording

import "millrace/task/queue"

// QueueLine is what commands print of a queue that they have changed.
func QueueLine(q *queue.Queue) string {
	text := "open"
	if p := q.Paused; p != nil {
		text = Words("paused", By("until", p.Until), p.Reason)
	}
	return q.Name + " " + Words(text, q.Bounds().Words())
}
