package task

import (
	"encoding/json"
	"slices"
	"time"

	"millrace/task/job"
	"millrace/task/reason"
	"millrace/task/value"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at is the time of the record with a sequence in the tests' histories.
func at(seq uint64) time.Time { return noon.Add(time.Duration(seq) * time.Second) }

// history gives events their places: sequences from 1, a second apart.
func history(events ...Event) []Recorded {
	records := make([]Recorded, len(events))
	for i, e := range events {
		seq := uint64(i + 1)
		records[i] = Recorded{Seq: seq, Chain: !isOffer(e), At: at(seq), Actor: "test", Event: e}
	}
	return records
}

func isOffer(e Event) bool {
	switch e.(type) {
	case Submitted, Queued:
		return true
	}
	return false
}

func given(events ...Event) Task {
	t := Task{ID: "01JNA0TASK0000000000000000"}
	for _, r := range history(events...) {
		t = Evolve(t, r)
	}
	return t
}

func after(events []Event, more ...Event) []Event { return append(slices.Clone(events), more...) }

// The events that make up the histories. Unless noted, the birth has sequence 1 and the first start
// sequence 2.
var (
	spec = &job.Spec{
		Handler: "noop",
		Timeout: job.Timeout{Run: value.Duration(time.Minute), Stop: value.Duration(3 * time.Second)},
		Retry:   job.Retry{Max: 2, Min: value.Duration(10 * time.Second), NotOn: []string{reason.Memory}},
	}
	bounded = &job.Spec{Handler: "noop", Timeout: job.Timeout{Pending: value.Duration(5 * time.Minute)}, Retry: job.Retry{Max: 1}}

	work  = Work{Job: "j", Revision: 3, Spec: spec, Params: json.RawMessage(`{"a":1}`), Route: "default.5", Group: "g"}
	birth = Submitted{Work: work}
	hold  = Submitted{Work: work, Due: noon.Add(time.Hour)}

	started = AttemptStarted{Attempt: 1, Node: "n1", Session: "s1", Offer: 1}
	cancel2 = CancelRequested{Reason: "not needed", Deadline: noon.Add(time.Minute)}
	failed  = AttemptFailed{Attempt: 1, Epoch: 2, Class: reason.Exit, Message: "exit 1", Retry: &RetryPlan{Attempt: 2, Due: noon.Add(15 * time.Second)}}

	pending    = []Event{birth}
	scheduled  = []Event{hold}
	running    = []Event{birth, started}
	cancelling = after(running, cancel2)
	retrying   = after(running, failed)
	released   = after(running, AttemptReleased{Attempt: 1, Epoch: 2, Reason: "shutdown"})
	lost       = after(running, AttemptLost{Attempt: 1, Epoch: 2, Reason: "gone"})
	finished   = after(running, AttemptFinished{Attempt: 1, Epoch: 2})
	inError    = after(running, AttemptFailed{Attempt: 1, Epoch: 2, Class: reason.Memory, Message: "too much"})
	cancelled  = after(pending, CancelConfirmed{Reason: "not needed"})
	abnormal   = after(pending, GivenUp{Reason: reason.Expired, Detail: "late"})
	reopened   = after(finished, Reopened{Reason: "again"})
)

// histories has one or more histories for each final state.
var histories = map[string]struct {
	events []Event
	state  State
}{
	"nothing":                {nil, Unknown},
	"garbage only":           {[]Event{nil}, Unknown},
	"submitted":              {pending, Pending},
	"submitted for later":    {scheduled, Scheduled},
	"due":                    {after(scheduled, Queued{Work: work, Attempt: 1, Due: hold.Due}), Pending},
	"running":                {running, Running},
	"cancelling":             {cancelling, Cancelling},
	"retrying":               {retrying, Retrying},
	"retry offered":          {after(retrying, Queued{Work: work, Attempt: 2, After: 3, Reason: reason.Exit}), Pending},
	"released":               {released, Pending},
	"released and offered":   {after(released, Queued{Work: work, Attempt: 2, After: 3}), Pending},
	"lost":                   {lost, Pending},
	"finished":               {finished, Finished},
	"in error":               {inError, Error},
	"cancelled":              {cancelled, Cancelled},
	"abnormal":               {abnormal, Abnormal},
	"reopened":               {reopened, Pending},
	"reopened and offered":   {after(reopened, Queued{Work: work, Attempt: 2, After: 4}), Pending},
	"reported late":          {after(finished, AttemptLate{Epoch: 9, Node: "n9"}), Finished},
	"known from an offer":    {[]Event{nil, Queued{Work: work, Attempt: 3, After: 1, Reason: reason.Exit}}, Pending},
	"garbage while it ran":   {after(running, nil), Running},
	"lost as often as it is": {after(pending, lose(MaxLosses)...), Pending},
}

// lose makes a task lose its node n times.
func lose(n int) []Event {
	var events []Event
	for i := range n {
		epoch := uint64(2 + 2*i)
		events = append(events, AttemptStarted{Attempt: i + 1, Node: "n1", Session: "s1", Offer: 1}, AttemptLost{Attempt: i + 1, Epoch: epoch, Reason: "gone"})
	}
	return events
}
