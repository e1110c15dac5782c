package pages

import (
	"strings"
	"testing"

	"millrace/view"
)

// Queues have their bounds, and buttons that change them.
func TestQueues(t *testing.T) {
	t.Parallel()
	p := open(t)
	if page, _ := p.get(200, "/queues"); !strings.Contains(page, "There are no queues yet") || !strings.Contains(page, "No task stands under a limit") {
		t.Error("an empty list does not say what to do")
	}
	p.submit(command("date"))
	p.press(303, "/do/queue.pause", "queue", "default", "for", "1h", "reason", "the source is down")
	if page, _ := p.get(200, "/queues"); !strings.Contains(page, "the source is down") || !strings.Contains(page, "do/queue.resume") {
		t.Error("a paused queue does not say so")
	}
	p.press(303, "/do/queue.resume", "queue", "default")
	p.press(303, "/do/queue.limit", "queue", "default", "running", "3", "waiting", "", "rate", `{"limit":5,"per":"1m"}`)
	q, err := view.GetQueue(t.Context(), p.client.View(), "default")
	if err != nil || q.Paused != nil || q.Limit != 3 || q.Rate.Limit != 5 {
		t.Errorf("the queue is %+v, %v", q, err)
	}
	if page, _ := p.get(200, "/queues"); !strings.Contains(page, "at most 3 may run at once") || !strings.Contains(page, `value="3"`) {
		t.Error("the bounds of a queue are not shown")
	}
}
