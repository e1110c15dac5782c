package pages

import (
	"fmt"
	"strings"
	"testing"

	"millrace/projections/view"
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

// A page of queues has a bounded number of them, and leads to the next; so has the overview.
func TestManyQueues(t *testing.T) {
	t.Parallel()
	p := open(t)
	for i := range 2*shownQueues + 1 {
		s := command("date")
		s.Queue = fmt.Sprintf("q%03d", i)
		if _, err := p.client.Submit(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	p.seen()
	for _, at := range []string{"", fmt.Sprintf("&at=%d", p.server.Desk.Reached())} {
		seen, path := 0, "/queues?x=1"+at
		for path != "" {
			page, _ := p.get(200, path)
			rows := strings.Count(page, `<tr id="q-`)
			if seen += rows; rows > shownQueues {
				t.Fatalf("a page has %d queues", rows)
			}
			path = ""
			if _, rest, more := strings.Cut(page, `rel="next"`); more && rest != "" {
				for _, to := range links(t, page) {
					if strings.Contains(to, "cursor=") {
						path = "/" + strings.TrimPrefix(to, "./")
					}
				}
			}
		}
		if seen != 2*shownQueues+1 {
			t.Errorf("%d queues are on the pages, want %d", seen, 2*shownQueues+1)
		}
	}
	if page, _ := p.get(200, "/"); strings.Count(page, `<tr id="n-unserved-`) != 20 || !strings.Contains(page, fmt.Sprintf("%d more", 2*shownQueues+1-20)) {
		t.Error("the overview has all queues without a worker")
	}
}
