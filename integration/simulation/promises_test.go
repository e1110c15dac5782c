package simulation

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// due is when a delayed task is due; the facts of a told story are a minute apart.
var due = noon.Add(3 * time.Minute)

// told makes a story of events: the n-th has the sequence n. A value that is no event becomes an
// unreadable message.
func told(said ...any) story {
	var s story
	for i, e := range said {
		r := events.Record{Seq: uint64(i + 1), Stored: noon.Add(time.Duration(i+1) * time.Minute), Kind: events.KindChain}
		r.Fact = events.Fact{Task: taskID(1), At: r.Stored, Type: events.TypeOf(e), Event: e}
		switch e := e.(type) {
		case task.Submitted:
			if r.Kind = events.KindOffer; !e.Offers() {
				r.Kind = events.KindHold
			}
		case task.Queued:
			r.Kind = events.KindOffer
		case task.Event:
		default:
			r.Fact.Event, r.Err = nil, errors.New("garbage")
		}
		s = append(s, r)
	}
	return s
}

// by sets the actor of the last fact of a story.
func (s story) by(actor string) story {
	s[len(s)-1].Fact.Actor = actor
	return s
}

// The facts that stories are made of.

var newborn = task.Submitted{}

func started(attempt int, offer uint64) task.AttemptStarted {
	return task.AttemptStarted{Attempt: attempt, Offer: offer}
}

func tookOver(attempt int, offer, epoch uint64) task.AttemptStarted {
	return task.AttemptStarted{Attempt: attempt, Offer: offer, TookOver: &task.TookOver{Epoch: epoch}}
}

func finished(attempt int, epoch uint64) task.AttemptFinished {
	return task.AttemptFinished{Attempt: attempt, Epoch: epoch}
}

func failed(attempt int, epoch uint64) task.AttemptFailed {
	return task.AttemptFailed{Attempt: attempt, Epoch: epoch}
}

func retried(attempt int, epoch uint64, at time.Time) task.AttemptFailed {
	return task.AttemptFailed{Attempt: attempt, Epoch: epoch, Retry: &task.RetryPlan{Attempt: attempt + 1, Due: at}}
}

func queued(attempt int, after uint64, at time.Time) task.Queued {
	return task.Queued{Attempt: attempt, After: after, Due: at}
}

// Each promise finds the stories that break it, and names itself.
func TestPromisesFindWhatBreaksThem(t *testing.T) {
	var (
		cancelled = task.CancelConfirmed{}
		reopened  = task.Reopened{}
		released  = task.AttemptReleased{Attempt: 1, Epoch: 2}
		lost      = task.AttemptLost{Attempt: 1, Epoch: 2}
		asked     = task.CancelRequested{}
		late      = task.AttemptLate{Epoch: 2, Said: json.RawMessage(`{}`)}
		wait      = time.Time{}
	)
	for _, c := range []struct {
		name    string
		finds   func(story) error
		promise error
		story   story
	}{
		{"two ends", oneEnd, errI2, told(newborn, started(1, 1), finished(1, 2), cancelled)},
		{"a start after the end", oneEnd, errI2, told(newborn, cancelled, started(1, 1))},
		{"a request to stop after the end", oneEnd, errI2, told(newborn, cancelled, asked)},
		{"two ends in the second life", oneEnd, errI2, told(newborn, cancelled, reopened, cancelled, task.GivenUp{})},
		{"another life before the end of the first", oneEnd, errI2, told(newborn, started(1, 1), reopened)},
		{"no end", over, errI2, told(newborn, started(1, 1), released)},
		{"no end of the second life", over, errI2, told(newborn, cancelled, reopened)},
		{"no end but garbage", over, errI2, told(newborn, "garbage")},
		{"no end but a stranger's", over, errI2, told(newborn, finished(1, 2)).by(stranger)},
		{"no birth", func(s story) error { return kept(taskID(1), s) }, errI2, nil},
		{"an offer is no birth", func(s story) error { return kept(taskID(1), s) }, errI2, told(queued(1, 0, wait))},

		{"two live epochs", oneEpoch, errI3, told(newborn, started(1, 1), started(2, 1))},
		{"a takeover of another epoch", oneEpoch, errI3, told(newborn, started(1, 1), tookOver(2, 1, 2), tookOver(3, 1, 2))},
		{"a takeover of nobody", oneEpoch, errI3, told(newborn, started(1, 1), released, tookOver(2, 1, 2))},
		{"a takeover under another offer", oneEpoch, errI3, told(newborn, newborn, started(1, 1), tookOver(2, 2, 3))},
		{"a result of a fenced epoch", oneEpoch, errI3, told(newborn, started(1, 1), tookOver(2, 1, 2), finished(1, 2))},
		{"a failure of a fenced epoch", oneEpoch, errI3, told(newborn, started(1, 1), tookOver(2, 1, 2), failed(1, 2))},
		{"a release after the loss", oneEpoch, errI3, told(newborn, started(1, 1), lost, released)},
		{"a loss after the release", oneEpoch, errI3, told(newborn, started(1, 1), released, lost)},
		{"a result of an attempt that failed", oneEpoch, errI3, told(newborn, started(1, 1), retried(1, 2, due), finished(1, 2))},
		{"two results", oneEpoch, errI3, told(newborn, started(1, 1), finished(1, 2), finished(1, 2))},
		{"the end of a fenced epoch confirmed", oneEpoch, errI3, told(newborn, started(1, 1), tookOver(2, 1, 2), task.CancelConfirmed{Epoch: 2})},
		{"evidence of what was accepted", evidence, errEvidence, told(newborn, started(1, 1), finished(1, 2), late)},

		{"cancelled while it ran", exitSeen, errI5, told(newborn, started(1, 1), cancelled)},
		{"cancelled by the word of an older epoch", exitSeen, errI5, told(newborn, started(1, 1), tookOver(2, 1, 2), asked, task.CancelConfirmed{Epoch: 2})},

		{"a start without a newborn", causeFirst, errI7, told(started(1, 1))},
		{"a start by no offer", causeFirst, errI7, told(newborn, started(1, 7))},
		{"a start by what is no offer", causeFirst, errI7, told(task.Submitted{Due: due}, started(1, 1))},
		{"a start by a stale offer", causeFirst, errI7, told(newborn, started(1, 1), released, started(2, 1))},
		{"an attempt left out", causeFirst, errI7, told(newborn, started(2, 1))},
		{"an offer that follows from nothing", causeFirst, errI7, told(newborn, queued(2, 7, wait))},
		{"an offer that follows from a start", causeFirst, errI7, told(newborn, started(1, 1), queued(2, 2, wait))},
		{"an offer before its cause", causeFirst, errI7, told(newborn, started(1, 1), queued(2, 4, wait), released)},
		{"an offer of another attempt", causeFirst, errI7, told(newborn, started(1, 1), released, queued(3, 3, wait))},
		{"an offer before it is due", causeFirst, errI7, told(task.Submitted{Due: due}, queued(1, 0, due))},
		{"an offer for another time than the newborn's", causeFirst, errI7, told(task.Submitted{Due: due}, queued(1, 0, wait))},
		{"a retry that was not planned", causeFirst, errI7, told(newborn, started(1, 1), failed(1, 2), queued(2, 3, due))},
		{"a retry for another time than planned", causeFirst, errI7, told(newborn, started(1, 1), retried(1, 2, due), queued(2, 3, noon))},
		{"a result without a start", causeFirst, errI7, told(newborn, finished(1, 2))},
		{"a result of another attempt", causeFirst, errI7, told(newborn, started(1, 1), finished(2, 2))},
		{"a takeover of what never started", causeFirst, errI7, told(newborn, started(1, 1), tookOver(2, 1, 7))},
		{"a late word of what never started", causeFirst, errI7, told(newborn, late)},
		{"moved from elsewhere", causeFirst, errI7, told(newborn, task.Reassigned{From: "a.5", To: "b.5"})},
		{"moved while it runs", causeFirst, errI7, told(newborn, started(1, 1), task.Reassigned{To: "b.5"})},
		{"started by the offer before a move", causeFirst, errI7, told(newborn, task.Reassigned{To: "b.5"}, started(1, 1))},
		{"asked to stop while it waits", causeFirst, errI7, told(newborn, asked)},
		{"stopped and never asked to", causeFirst, errI7, told(newborn, started(1, 1), task.CancelConfirmed{Epoch: 2})},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.finds(c.story); !errors.Is(err, c.promise) {
				t.Errorf("found %v, want that %v\n%s", err, c.promise, telling(c.story))
			}
		})
	}
}

// A fold that is wrong about the end or the epoch is found.
func TestAgreesFindsAWrongFold(t *testing.T) {
	s := told(newborn, started(1, 1), finished(1, 2))
	right := events.FoldTask(taskID(1), s)
	if err := agrees(&right, s); err != nil {
		t.Errorf("the right fold: %v", err)
	}
	running, elsewhere := right, right
	running.State = task.Running
	elsewhere.Epoch = 1
	for _, wrong := range []task.Task{running, elsewhere} {
		if err := agrees(&wrong, s); !errors.Is(err, errI8) {
			t.Errorf("%s under epoch %d: found %v", wrong.State, wrong.Epoch, err)
		}
	}
}

// Stories in which all is well break no promise.
func TestPromisesHoldInGoodStories(t *testing.T) {
	wait := time.Time{}
	for name, s := range map[string]story{
		"success":          told(newborn, started(1, 1), finished(1, 2)),
		"submitted twice":  told(newborn, newborn, started(1, 2), finished(1, 3)),
		"delayed":          told(task.Submitted{Due: due}, newborn, newborn, queued(1, 0, due), started(1, 4), failed(1, 5)),
		"retry":            told(newborn, started(1, 1), retried(1, 2, due), queued(2, 3, due), started(2, 4), finished(2, 5)),
		"takeover":         told(newborn, started(1, 1), tookOver(2, 1, 2), finished(2, 3), task.AttemptLate{Epoch: 2}),
		"release":          told(newborn, started(1, 1), task.AttemptReleased{Attempt: 1, Epoch: 2}, queued(2, 3, wait), started(2, 4), finished(2, 5)),
		"cancel":           told(newborn, task.CancelConfirmed{}),
		"cancel of a run":  told(newborn, started(1, 1), task.CancelRequested{}, task.CancelConfirmed{Epoch: 2}),
		"another life":     told(newborn, task.GivenUp{}, task.Reopened{}, queued(1, 3, wait), started(1, 4), finished(1, 5)),
		"move":             told(newborn, task.Reassigned{To: "b.5"}, task.Queued{Work: task.Work{Route: "b.5"}, Attempt: 1, After: 2}, started(1, 3), finished(1, 4)),
		"garbage":          told(newborn, "garbage", started(1, 1), "garbage", finished(1, 3)),
		"a stranger's end": append(told(newborn, finished(1, 7)).by(stranger), told(0, 0, started(1, 1), finished(1, 3))[2:]...),
	} {
		t.Run(name, func(t *testing.T) {
			for _, promise := range append(promises, over, func(s story) error { return kept(taskID(1), s) }) {
				if err := promise(s); err != nil {
					t.Errorf("%v\n%s", err, telling(s))
				}
			}
			folded := events.FoldTask(taskID(1), s)
			if err := agrees(&folded, s); err != nil {
				t.Errorf("%v\n%s", err, telling(s))
			}
		})
	}
}
