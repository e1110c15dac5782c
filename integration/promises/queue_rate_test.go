package promises

import (
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/integration/harness"
	"millrace/task"
)

// Sixty tasks wait in a queue when it gets a rate. Two servers admit them, one of which is killed,
// and two workers start no more than the rate allows. When the rate is removed, the rest starts at
// once.
func TestARateForAQueue(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.Server()
	c := p.Connect()
	other := p.Start("server", "--data", "other") // on the server that $NATS_URL names
	ids := strings.Fields(p.Run("run", "--count", "60", "--", "true"))
	if len(ids) != 60 {
		t.Fatalf("submitted %d tasks", len(ids))
	}
	const limit, burst = 20, 4
	p.Run("queue", "limit", "default", "--rate", "20/1s", "--burst", "4")
	since := time.Now() // workers that start from now on know the rate
	p.Worker("n1")
	p.Worker("n2")
	starts := func() (at []time.Time) {
		for _, records := range p.ReadLog(c) {
			for _, r := range records {
				if r.Fact.Type == events.AttemptStarted {
					at = append(at, r.Fact.At)
				}
			}
		}
		slices.SortFunc(at, time.Time.Compare)
		return at
	}
	p.Until("some have started", func() bool { return len(starts()) > 10 })
	other.Kill()
	p.Until("most have started", func() bool { return len(starts()) > 40 })
	p.Run("queue", "limit", "default", "--rate", "1/1h")
	slow := time.Now()
	p.Run("queue", "limit", "default", "--rate", "none")
	for _, id := range ids {
		p.Await(c, task.ID(id), task.Finished)
	}
	n := 0
	for _, at := range starts() {
		if n++; at.Before(slow) && n > burst+int(at.Sub(since)*limit/time.Second) {
			t.Errorf("%d have started within %v of %d in a second, %d at once", n, at.Sub(since), limit, burst)
		}
	}
	if n != len(ids) {
		t.Errorf("%d attempts of %d tasks", n, len(ids))
	}
}
