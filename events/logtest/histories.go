package logtest

import (
	"encoding/json"
	"slices"
	"time"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/value"
)

var Noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at is when the record with a sequence happened in the histories of the tests.
func At(seq uint64) time.Time { return Noon.Add(time.Duration(seq) * time.Second) }

// history gives events their places: sequences from 1, a second apart.
func History(events ...task.Event) []task.Recorded {
	records := make([]task.Recorded, len(events))
	for i, e := range events {
		seq := uint64(i + 1)
		records[i] = task.Recorded{Seq: seq, Chain: !IsOffer(e), At: At(seq), Actor: "test", Event: e}
	}
	return records
}

func IsOffer(e task.Event) bool {
	switch e.(type) {
	case task.Submitted, task.Queued:
		return true
	}
	return false
}

func Given(events ...task.Event) task.Task {
	t := task.Task{ID: "01JNA0TASK0000000000000000"}
	for _, r := range History(events...) {
		t = task.Evolve(t, r)
	}
	return t
}

func After(events []task.Event, more ...task.Event) []task.Event {
	return append(slices.Clone(events), more...)
}

// The events that make up the histories. Unless noted, the birth has sequence 1 and the first start
// sequence 2.
var (
	Spec = &job.Spec{
		Handler: "noop",
		Timeout: job.Timeout{Run: value.Duration(time.Minute), Stop: value.Duration(3 * time.Second)},
		Retry:   job.Retry{Max: 2, Min: value.Duration(10 * time.Second), NotOn: []string{value.Memory}},
	}
	Bounded = &job.Spec{Handler: "noop", Timeout: job.Timeout{Pending: value.Duration(5 * time.Minute)}, Retry: job.Retry{Max: 1}}

	Work    = task.Work{Job: "j", Revision: 3, Spec: Spec, Params: json.RawMessage(`{"a":1}`), Route: "default.5", Group: "g"}
	Birth   = task.Submitted{Work: Work}
	Delayed = task.Submitted{Work: Work, Due: Noon.Add(time.Hour)}

	Started = task.AttemptStarted{Attempt: 1, Node: "n1", Session: "s1", Offer: 1}
	Cancel  = task.CancelRequested{Reason: "not needed", Deadline: Noon.Add(time.Minute)}
	Failed  = task.AttemptFailed{
		Attempt: 1,
		Epoch:   2,
		Class:   value.Exit,
		Message: "exit 1",
		Retry:   &task.RetryPlan{Attempt: 2, Due: Noon.Add(15 * time.Second)},
	}

	Pending    = []task.Event{Birth}
	Scheduled  = []task.Event{Delayed}
	Running    = []task.Event{Birth, Started}
	Cancelling = After(Running, Cancel)
	Retrying   = After(Running, Failed)
	Released   = After(Running, task.AttemptReleased{Attempt: 1, Epoch: 2, Reason: "shutdown"})
	Lost       = After(Running, task.AttemptLost{Attempt: 1, Epoch: 2, Reason: "gone"})
	Finished   = After(Running, task.AttemptFinished{Attempt: 1, Epoch: 2})
	InError    = After(Running, task.AttemptFailed{Attempt: 1, Epoch: 2, Class: value.Memory, Message: "too much"})
	Cancelled  = After(Pending, task.CancelConfirmed{Reason: "not needed"})
	Abnormal   = After(Pending, task.GivenUp{Reason: value.Expired, Detail: "late"})
	Reopened   = After(Finished, task.Reopened{Reason: "again"})
)

// histories has one or more histories for each final state.
var Histories = map[string]struct {
	Events []task.Event
	State  task.State
}{
	"nothing":                {nil, task.Unknown},
	"garbage only":           {[]task.Event{nil}, task.Unknown},
	"submitted":              {Pending, task.Pending},
	"submitted for later":    {Scheduled, task.Scheduled},
	"due":                    {After(Scheduled, task.Queued{Work: Work, Attempt: 1, Due: Delayed.Due}), task.Pending},
	"running":                {Running, task.Running},
	"cancelling":             {Cancelling, task.Cancelling},
	"retrying":               {Retrying, task.Retrying},
	"retry offered":          {After(Retrying, task.Queued{Work: Work, Attempt: 2, After: 3, Reason: value.Exit}), task.Pending},
	"released":               {Released, task.Pending},
	"released and offered":   {After(Released, task.Queued{Work: Work, Attempt: 2, After: 3}), task.Pending},
	"lost":                   {Lost, task.Pending},
	"finished":               {Finished, task.Finished},
	"in error":               {InError, task.Error},
	"cancelled":              {Cancelled, task.Cancelled},
	"abnormal":               {Abnormal, task.Abnormal},
	"reopened":               {Reopened, task.Pending},
	"reopened and offered":   {After(Reopened, task.Queued{Work: Work, Attempt: 2, After: 4}), task.Pending},
	"reported late":          {After(Finished, task.AttemptLate{Epoch: 9, Node: "n9"}), task.Finished},
	"known from an offer":    {[]task.Event{nil, task.Queued{Work: Work, Attempt: 3, After: 1, Reason: value.Exit}}, task.Pending},
	"garbage while it ran":   {After(Running, nil), task.Running},
	"lost as often as it is": {After(Pending, Lose(task.MaxLosses)...), task.Pending},
}

// lose has a task lose its node n times.
func Lose(n int) []task.Event {
	var events []task.Event
	for i := range n {
		epoch := uint64(2 + 2*i)
		events = append(events, task.AttemptStarted{
			Attempt: i + 1,
			Node:    "n1",
			Session: "s1",
			Offer:   1,
		}, task.AttemptLost{Attempt: i + 1, Epoch: epoch, Reason: "gone"})
	}
	return events
}

// preferring returns a task with the preferences of the place.
func Preferring(p job.Place) task.Submitted {
	return value.Must(birth.Of(birth.Submission{
		Spec:   &job.Spec{Handler: "noop", Place: p},
		Queue:  "images",
		Params: map[string]json.RawMessage{"customer": json.RawMessage(`"acme"`)},
	}, nil, 0, Noon))
}

func Selects(text string) placement.Selector {
	return value.Must(placement.ParseSelector(text))
}
