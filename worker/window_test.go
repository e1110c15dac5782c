package worker_test

import (
	"context"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
	"millrace/worker"
)

// apply stores a calendar in the log; it removes it if there are no rules.
func (w *world) apply(name, rules string) {
	w.Helper()
	def := task.Named(task.DefCalendar, name)
	is, err := w.log.Definition(w.Context(), def)
	if err != nil {
		w.Fatal(err)
	}
	var text []byte
	if rules != "" {
		text = []byte(`{"name":"` + name + `","rules":[` + rules + `]}`)
	}
	next, err := is.Next(text)
	if err != nil {
		w.Fatal(err)
	}
	var event any = task.DefinitionApplied{Edition: next}
	if text == nil {
		event = task.DefinitionRemoved{Revision: next.Revision}
	}
	f := &events.Fact{ID: events.NewID(time.Now()), At: time.Now(), Type: events.TypeOf(event), Def: def, Event: event}
	if _, err := w.log.Append(w.Context(), f, is.Head); err != nil {
		w.Fatal(err)
	}
}

// calm is a worker that beats rarely: it has half a day to wait for.
var calm = worker.Config{Beat: 2 * time.Minute, NodeTTL: 6 * time.Minute}

// Tasks with a window start while it is open, whatever made them wait until it was closed. The
// story begins at midnight.
func TestWindow(t *testing.T) {
	hour := value.Duration(time.Hour)
	for name, c := range map[string]struct {
		rules  string        // at midnight
		five   string        // the rules from five o'clock on; "" for no change
		first  time.Duration // submitted at midnight, takes the only slot
		spec   job.Spec
		fails  int
		gone   bool          // the calendar is removed at five
		starts time.Duration // after midnight, the last attempt
		facts  int           // about it after its birth, until it has ended
	}{
		"it is open":                           {rules: `{"closed":"01:00-06:00"}`, starts: 0, facts: 2},
		"it is closed":                         {rules: `{"closed":"00:00-06:00"}`, starts: 6 * time.Hour, facts: 4},
		"it has closed while the task waited":  {rules: `{"closed":"01:00-06:00"}`, first: 2 * time.Hour, starts: 6 * time.Hour, facts: 4},
		"it has opened again, too":             {rules: `{"closed":"01:00-06:00"}`, first: 7 * time.Hour, starts: 7 * time.Hour, facts: 2},
		"a retry is due when it is closed":     {rules: `{"closed":"00:30-06:00"}`, spec: job.Spec{Retry: job.Retry{Max: 1, Min: hour, Jitter: 0}}, fails: 1, starts: 6 * time.Hour, facts: 7},
		"one that runs when it closes goes on": {rules: `{"closed":"00:30-06:00"}`, spec: job.Spec{Handler: "long"}, starts: 0, facts: 2},
		"it opens later than was said":         {rules: `{"closed":"00:00-06:00"}`, five: `{"closed":"00:00-08:00"}`, starts: 8 * time.Hour, facts: 6},
		"it opens earlier, and the task waits": {rules: `{"closed":"00:00-06:00"}`, five: `{"closed":"00:00-04:00"}`, starts: 6 * time.Hour, facts: 4},
		"it has gone":                          {rules: `{"closed":"00:00-06:00"}`, gone: true, starts: 12*time.Hour + 10*time.Minute, facts: 2*38 + 2},
		"the task may not wait for so long":    {rules: `{"closed":"00:00-06:00"}`, spec: job.Spec{Timeout: job.Timeout{Pending: hour}}, starts: -1, facts: 3},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleOf(t, calm.NodeTTL, func(w *world) {
				midnight := time.Now()
				started := time.Duration(-1)
				run := func(_ context.Context, is task.Task) error {
					started = time.Since(midnight)
					if is.Attempt <= c.fails {
						return errBroken
					}
					return nil
				}
				w.start(calm, map[string]worker.Handler{
					"h": run, "first": func(context.Context, task.Task) error { wait(c.first); return nil },
					"long": func(ctx context.Context, is task.Task) error { err := run(ctx, is); wait(3 * time.Hour); return err },
				})
				w.apply("night", c.rules)
				if c.first > 0 {
					w.submit(job.Spec{Handler: "first"})
				}
				c.spec.Window = "night"
				id := w.submit(c.spec)
				pass(time.Millisecond)
				if c.starts == 6*time.Hour && c.first == 0 && c.fails == 0 {
					w.wantState(w.task(id), task.Scheduled, value.Window)
					if is := w.task(id); is.Message != "outside of the window night, opens at 2000-01-01 06:00:00 +00:00" || !is.Due.Equal(midnight.Add(6*time.Hour)) {
						t.Errorf("it waits until %v: %q", is.Due, is.Message)
					}
				}
				pass(5 * time.Hour)
				switch {
				case c.five != "":
					w.apply("night", c.five)
				case c.gone:
					w.apply("night", "")
				}
				pass(7 * time.Hour)
				if c.gone {
					w.apply("night", `{"closed":"sun"}`)
					pass(10 * time.Minute)
				}
				if c.starts >= 0 {
					w.wantState(w.ended(id), task.Finished, "")
				} else {
					// A scheduler then does what is due.
					w.wantState(w.ended(id), task.Abnormal, value.Expired)
				}
				if started.Truncate(time.Minute) != c.starts && started != c.starts {
					t.Errorf("it started %v after midnight, want %v", started, c.starts)
				}
				if n := len(w.facts(id)); n != c.facts {
					t.Errorf("there are %d facts about it, want %d", n, c.facts)
				}
			})
		})
	}
}
