package worker_test

import (
	"context"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/worker"
	"millrace/worker/claim"
)

// window gives the default queue a window; "" takes it away.
func (w *world) window(calendar string) {
	w.Helper()
	if _, _, err := w.rec.DoQueue(w.Context(), placement.DefaultQueue, queue.Limit{Window: &calendar}); err != nil {
		w.Fatal(err)
	}
}

// Tasks start while the window of their queue is open, without a scheduler, and waiting for it
// writes no facts. The story begins at midnight.
func TestWindowOfAQueue(t *testing.T) {
	const closed = `{"closed":"00:00-06:00"}`
	for name, c := range map[string]struct {
		rules  string        // at midnight
		five   string        // the rules from five o'clock on; "" for no change
		taken  bool          // the window is taken away at five
		first  time.Duration // submitted at midnight, takes the only slot
		node   bool          // it is aimed at the node
		spec   job.Spec      // its window is called "own"
		starts time.Duration // after midnight
		facts  int           // about it after its birth
	}{
		"it is open":                           {rules: `{"closed":"01:00-06:00"}`, facts: 2},
		"it is closed":                         {rules: closed, starts: 6 * time.Hour, facts: 2},
		"it has closed while the task waited":  {rules: `{"closed":"01:00-06:00"}`, first: 2 * time.Hour, starts: 6 * time.Hour, facts: 2},
		"one that runs when it closes goes on": {rules: `{"closed":"00:30-06:00"}`, spec: job.Spec{Handler: "long"}, facts: 2},
		"it opens later than was said":         {rules: closed, five: `{"closed":"00:00-08:00"}`, starts: 8 * time.Hour, facts: 2},
		"it opens earlier than was said":       {rules: closed, five: `{"closed":"00:00-04:00"}`, starts: 5 * time.Hour, facts: 2},
		"it is taken away":                     {rules: closed, taken: true, starts: 5 * time.Hour, facts: 2},
		"the task is aimed at a node":          {rules: closed, node: true, facts: 2},
		"the task has a window as well":        {rules: closed, spec: job.Spec{Window: "own"}, starts: 9 * time.Hour, facts: 4},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleOf(t, calm.NodeTTL, func(w *world) {
				midnight := time.Now()
				started := time.Duration(-1)
				run := func(context.Context, task.Task) error { started = time.Since(midnight); return nil }
				w.start(calm, map[string]worker.Handler{
					"h": run, "first": func(context.Context, task.Task) error { wait(c.first); return nil },
					"long": func(ctx context.Context, is task.Task) error { err := run(ctx, is); wait(3 * time.Hour); return err },
				})
				w.apply("night", c.rules)
				w.apply("own", `{"closed":"00:00-09:00"}`)
				w.window("night")
				if c.first > 0 {
					w.submit(job.Spec{Handler: "first"})
				}
				if c.node {
					c.spec.Place.Nodes = []string{"a"}
				}
				id := w.submit(c.spec)
				pass(5 * time.Hour)
				if c.five != "" {
					w.apply("night", c.five)
				}
				if c.taken {
					w.window("")
				}
				pass(7 * time.Hour)
				w.wantState(w.ended(id), task.Finished, "")
				if late := started - c.starts; late < -task.TimerError || late > time.Minute {
					t.Errorf("it started %v after midnight, want %v", started, c.starts)
				}
				if n := len(w.facts(id)); n != c.facts {
					t.Errorf("there are %d facts about it, want %d", n, c.facts)
				}
			})
		})
	}
}

// A task does not start if the window of its queue closes while other rules are asked, whatever its
// own window says.
func TestClaimAfterTheQueueClosed(t *testing.T) {
	for name, c := range map[string]struct {
		own    string // the task's own window
		closed bool
	}{
		"the task has none":      {closed: true},
		"its own closes later":   {own: `{"closed":"00:58-06:00"}`, closed: true},
		"its own closes earlier": {own: `{"closed":"00:40-06:00"}`, closed: true},
		"its own does not close": {own: `{"closed":"05:00-06:00"}`, closed: true},
		"neither closes by then": {own: `{"closed":"05:00-06:00"}`},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				night, spec := `{"closed":"00:55-06:00"}`, job.Spec{}
				if !c.closed {
					night = `{"closed":"04:00-06:00"}`
				}
				if w.apply("night", night); c.own != "" {
					w.apply("own", c.own)
					spec.Window = "own"
				}
				w.window("night")
				id := w.submit(spec)
				offers, _ := w.log.Offers(w.Context(), []string{placement.DefaultQueue})
				pass(30 * time.Minute)
				p := claim.Protocol{Recorder: w.rec, Node: "a", Session: "s", Runs: func(*job.Spec) bool { wait(29 * time.Minute); return true }}
				var k task.Task
				if mine, err := p.Claim(w.Context(), offers.(*events.MemoryOffers).Try(), &k); mine == c.closed || err != nil {
					t.Errorf("at %v the claim says %v, %v", time.Now(), mine, err)
				}
				if n := len(w.facts(id)); c.closed && n > 0 {
					t.Errorf("there are %d facts", n)
				}
			})
		})
	}
}
