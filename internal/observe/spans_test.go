package observe_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/internal/observe"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	id    = task.ID("01JNAT00000000000000000001")
	given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
)

// history is the log of a task: each event one second after the one before.
func history(w task.Work, list ...task.Event) (records []events.Record) {
	w.Spec = &job.Spec{Handler: "work", Retry: job.Retry{Max: 3}}
	w.Route = "default.5"
	for i, e := range append([]task.Event{task.Submitted{Work: w}}, list...) {
		kind := events.KindChain
		if i == 0 {
			kind = events.KindOffer
		}
		records = append(records, events.Record{Seq: uint64(i + 1), Kind: kind, Stored: noon, Fact: events.Fact{Task: id, At: noon.Add(time.Duration(i) * time.Second), Event: e}})
	}
	return records
}

// The spans of a task show where it waited and its attempts, below the span of its submitter.
func TestSpansOfTask(t *testing.T) {
	t.Parallel()
	started := task.AttemptStarted{Attempt: 1, Node: "n", Session: "s", Offer: 1}
	again := task.AttemptStarted{Attempt: 2, Node: "m", Session: "s", Offer: 4}
	failed := task.AttemptFailed{Attempt: 1, Epoch: 2, Class: "exit", Message: "no", Retry: &task.RetryPlan{Attempt: 2, Due: noon.Add(3 * time.Second)}}
	offered := task.Queued{After: 3, Attempt: 2}
	for name, c := range map[string]struct {
		work  task.Work
		facts []task.Event
		want  string // name, seconds from and to, ! for a failure
	}{
		"it waits":       {task.Work{}, nil, "work 0-9, pending 0-9"},
		"it runs":        {task.Work{}, []task.Event{started}, "work 0-9, attempt 1 1-9, pending 0-1"},
		"it finished":    {task.Work{}, []task.Event{started, task.AttemptFinished{Attempt: 1, Epoch: 2}}, "work 0-2, attempt 1 1-2, pending 0-1"},
		"it is measured": {task.Work{}, []task.Event{started, task.AttemptFinished{Attempt: 1, Epoch: 2, Usage: &task.Usage{Setup: value.Duration(time.Second / 2), Run: value.Duration(time.Second / 2)}}}, "work 0-2, attempt 1 1-2, pending 0-1, setup 1-1, run 1-2"},
		"it fails once":  {task.Work{}, []task.Event{started, failed, offered, again, task.AttemptFinished{Attempt: 2, Epoch: 5}}, "work 0-5, !attempt 1 1-2, attempt 2 4-5, pending 0-1, retrying 2-4"},
		"it is lost":     {task.Work{}, []task.Event{started, task.AttemptLost{Attempt: 1, Epoch: 2}}, "work 0-9, !attempt 1 1-2, pending 0-1, pending 2-9"},
		"it has steps": {task.Work{}, []task.Event{started, task.AttemptStepped{Attempt: 1, Epoch: 2, Steps: []task.Step{{Name: "charge", Kind: task.StepDo, At: noon.Add(2 * time.Second), Took: value.Duration(time.Second)}}},
			task.AttemptParked{Attempt: 1, Epoch: 2, First: 1, Park: task.Park{Step: "yes", Kind: task.StepAwait}}}, "work 0-9, attempt 1 1-3, pending 0-1, held 3-9, step charge 1-2, await yes 3-9"},
		"it is given up": {task.Work{}, []task.Event{task.GivenUp{Reason: "expired"}}, "!work 0-1, pending 0-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			seen := map[observe.SpanID]bool{}
			all := observe.Of(history(c.work, c.facts...), id, noon.Add(9*time.Second))
			for _, s := range all {
				mark := ""
				if s.Failed {
					mark = "!"
				}
				got = append(got, fmt.Sprintf("%s%s %d-%d", mark, s.Name, int(s.From.Sub(noon).Seconds()), int(s.To.Sub(noon).Seconds())))
				if seen[s.Span] || s.Trace != all[0].Trace || s.Span == (observe.SpanID{}) {
					t.Errorf("%s has no place of its own in the trace", s.Name)
				}
				if seen[s.Span] = true; s.Parent != (observe.SpanID{}) && !seen[s.Parent] {
					t.Errorf("%s hangs below a span that is not there", s.Name)
				}
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("%s\nwant %s", strings.Join(got, ", "), c.want)
			}
		})
	}
}

// The place of a span follows from the task: below a given context, else in the trace of its
// family. A worker makes the same span of an attempt as a later reader of the log.
func TestPlaces(t *testing.T) {
	t.Parallel()
	context, ok := observe.Parse(given)
	if !ok || context.String() != given {
		t.Fatal(context)
	}
	root := task.Task{ID: id, Work: task.Work{Trace: given}}
	own, parent, remote := observe.OfTask(&root, id)
	if own.Trace != context.Trace || parent != context.Span || !remote || own.Span == context.Span || !own.Sampled {
		t.Errorf("%v below %x", own, parent)
	}
	child := task.Task{ID: "01JNAT00000000000000000002", Work: task.Work{Parent: id, Trace: given}}
	if is, above, remote := observe.OfTask(&child, id); is.Trace != own.Trace || above != own.Span || remote {
		t.Errorf("a child is at %v below %x", is, above)
	}
	root.Trace, child.Trace = "", ""
	own, parent, _ = observe.OfTask(&root, id)
	if is, above, _ := observe.OfTask(&child, id); parent != (observe.SpanID{}) || is.Trace != own.Trace || above != own.Span {
		t.Errorf("without a context a child is at %v, and its parent at %v", is, own)
	}
	running := history(task.Work{}, task.AttemptStarted{Attempt: 1, Node: "n", Session: "s", Offer: 1})
	var k task.Task
	for i := range running {
		k.ID = id
		k.Apply(running[i].Task())
	}
	live, _ := observe.OfAttempt(&k, id)
	if past := observe.Of(running, id, noon); !slices.ContainsFunc(past, func(s observe.Span) bool { return s.Context == live }) {
		t.Errorf("%v is not among %+v", live, past)
	}
	for _, text := range []string{"", "x", given + "0", strings.ToUpper(given), "00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"} {
		if _, ok := observe.Parse(text); ok {
			t.Errorf("%q is a traceparent", text)
		}
	}
}
