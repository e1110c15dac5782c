package task_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/queue"
	"millrace/task/value"
)

func TestDecide(t *testing.T) {
	exit := 7
	usage := &task.Usage{MaxMemory: 1}
	result := json.RawMessage(`{"ok":true}`)
	claimed := task.Claim{Node: "n2", Session: "s2", Offer: 9}
	claimAfter := func(turn uint64) task.Claim { c := claimed; c.After = turn; return c }
	takeover := task.Claim{Node: "n2", Session: "s2", Offer: 1}
	poisoned := logtest.After(logtest.Pending, append(logtest.Lose(task.MaxLosses), task.AttemptStarted{Attempt: task.MaxLosses + 1, Node: "last", Offer: 1})...)
	// by claims with an account of the attempt at an epoch, some time after its claim.
	by := func(epoch uint64, session string, age time.Duration) task.Claim {
		c := takeover
		c.Account = &task.Account{Epoch: epoch, Session: session, Claimed: logtest.Noon, Now: logtest.Noon.Add(age), Lease: value.Duration(lease)}
		return c
	}
	withinBound := task.Submitted{Work: task.Work{Spec: logtest.Bounded, Route: "default.5", StartBy: logtest.Noon.Add(time.Minute)}}

	for _, c := range []struct {
		name  string
		given []task.Event
		when  task.Command
		now   time.Time
		then  task.Event
		err   error
	}{
		// Claims.
		{"claim a birth", logtest.Pending, task.Claim{Node: "n2", Session: "s2", Offer: 1}, logtest.Noon,
			task.AttemptStarted{Attempt: 1, Node: "n2", Session: "s2", Offer: 1}, nil},
		{"claim a birth under an offer that is seen", logtest.Pending, task.Claim{Node: "n2", Session: "s2", Offer: 1, Seen: true}, logtest.Noon,
			task.AttemptStarted{Attempt: 1, Node: "n2", Session: "s2", Offer: 1}, nil},
		{"claim a birth under an offer that is lost", logtest.Pending, task.Claim{Node: "n2", Session: "s2", Offer: 2, Seen: true}, logtest.Noon, nil, task.ErrStale},
		{"claim under an offer that is lost, and another message has its sequence", logtest.Released,
			task.Claim{Node: "n2", Session: "s2", Offer: 3, After: 3, Seen: true}, logtest.Noon, nil, task.ErrStale},
		{"claim of a turn that is over", logtest.Pending, claimAfter(3), logtest.Noon, nil, task.ErrStale},
		{"claim a retry", logtest.Retrying, claimAfter(3), logtest.Noon, task.AttemptStarted{Attempt: 2, Node: "n2", Session: "s2", Offer: 9}, nil},
		{"claim a retry with the birth", logtest.Retrying, claimed, logtest.Noon, nil, task.ErrStale},
		{"claim what was released", logtest.Released, claimAfter(3), logtest.Noon, task.AttemptStarted{Attempt: 2, Node: "n2", Session: "s2", Offer: 9}, nil},
		{"claim what was reopened", logtest.Reopened, claimAfter(4), logtest.Noon, task.AttemptStarted{Attempt: 2, Node: "n2", Session: "s2", Offer: 9}, nil},
		{"claim before it is due", logtest.Scheduled, claimed, logtest.Noon, task.AttemptStarted{Attempt: 1, Node: "n2", Session: "s2", Offer: 9}, nil},
		{"claim what runs, under another offer", logtest.Running, claimed, logtest.Noon, nil, task.ErrStale},
		{"claim what is finished", logtest.Finished, takeover, logtest.Noon, nil, task.ErrEnded},
		{"claim what is cancelled", logtest.Cancelled, claimed, logtest.Noon, nil, task.ErrEnded},
		{"claim at the last moment", []task.Event{withinBound}, claimed, logtest.Noon.Add(time.Minute),
			task.AttemptStarted{Attempt: 1, Node: "n2", Session: "s2", Offer: 9}, nil},
		{"claim too late", []task.Event{withinBound}, claimed, logtest.Noon.Add(time.Minute + 1),
			task.GivenUp{Reason: value.Expired, Detail: "pending timeout: not started by 2026-03-01T12:01:00Z"}, nil},
		{"a retry has a bound of its own", []task.Event{withinBound, logtest.Started, logtest.Failed}, claimAfter(3), logtest.Noon.Add(5 * time.Minute),
			task.AttemptStarted{Attempt: 2, Node: "n2", Session: "s2", Offer: 9}, nil},
		{"and must keep it", []task.Event{withinBound, logtest.Started, logtest.Failed}, claimAfter(3), logtest.Noon.Add(5*time.Minute + 16*time.Second),
			task.GivenUp{Reason: value.Expired, Detail: "pending timeout: not started by 2026-03-01T12:05:15Z"}, nil},

		// The offer of a running attempt comes to another node: only the account tells whether the
		// lease has ended.
		{"an offer alone takes nothing over", logtest.Running, takeover, logtest.Noon.Add(24 * time.Hour), nil, task.ErrLeased},
		{"an offer alone ends no cancel", logtest.Cancelling, takeover, logtest.Noon.Add(24 * time.Hour), nil, task.ErrLeased},
		{"an offer alone counts as no loss", poisoned, takeover, logtest.Noon.Add(24 * time.Hour), nil, task.ErrLeased},
		{"an account of another attempt", logtest.Running, by(1, "s1", lease), logtest.Noon, nil, task.ErrLeased},
		{"an account of another session", logtest.Running, by(2, "s0", lease), logtest.Noon, nil, task.ErrLeased},
		{"the lease holds", logtest.Running, by(2, "s1", lease-1), logtest.Noon, nil, task.ErrLeased},
		{"the lease holds while it is cancelled", logtest.Cancelling, by(2, "s1", lease-1), logtest.Noon, nil, task.ErrLeased},
		{"take over", logtest.Running, by(2, "s1", lease), logtest.Noon, task.AttemptStarted{Attempt: 2, Node: "n2", Session: "s2", Offer: 1,
			TookOver: &task.TookOver{Epoch: 2, Reason: "the lease of n1 ran out: nothing was heard of the attempt since its start at 12:00:00.000",
				Ground: task.GroundClaim, Heard: logtest.Noon}}, nil},
		{"take over what was to be cancelled", logtest.Cancelling, by(2, "s1", lease), logtest.Noon,
			task.GivenUp{Reason: value.Lost, Detail: "cancel was requested, and n1 did not confirm the end of the process"}, nil},
		{"take over once too often", poisoned, by(uint64(len(poisoned)), "", lease), logtest.Noon,
			task.GivenUp{Reason: value.Poison, Detail: fmt.Sprintf("%d nodes were lost while running it, the last one last", task.MaxLosses+1)}, nil},

		// Reports of nodes.
		{"finish", logtest.Running, task.Finish{Epoch: 2, Exit: &exit, Result: result, Usage: usage}, logtest.Noon,
			task.AttemptFinished{Attempt: 1, Epoch: 2, Exit: &exit, Result: result, Usage: usage}, nil},
		{"finish although a cancel was asked for", logtest.Cancelling, task.Finish{Epoch: 2}, logtest.Noon, task.AttemptFinished{Attempt: 1, Epoch: 2}, nil},
		{"finish under an old epoch", logtest.Running, task.Finish{Epoch: 1}, logtest.Noon, nil, task.ErrFenced},
		{"finish twice", logtest.Finished, task.Finish{Epoch: 2}, logtest.Noon, nil, task.ErrFenced},
		{"finish after release", logtest.Released, task.Finish{Epoch: 2}, logtest.Noon, nil, task.ErrFenced},
		{"fail and retry", logtest.Running, task.Fail{Epoch: 2, Class: value.Exit, Exit: &exit, Message: "m", Usage: usage}, logtest.Noon,
			task.AttemptFailed{Attempt: 1, Epoch: 2, Class: value.Exit, Exit: &exit, Message: "m", Usage: usage,
				Retry: &task.RetryPlan{Attempt: 2, Due: logtest.Noon.Add(10 * time.Second)}}, nil},
		{"fail again and wait longer", logtest.After(logtest.Retrying, task.AttemptStarted{Attempt: 2, Node: "n1", Offer: 1}), task.Fail{Epoch: 4, Class: value.Exit}, logtest.Noon,
			task.AttemptFailed{Attempt: 2, Epoch: 4, Class: value.Exit, Retry: &task.RetryPlan{Attempt: 3, Due: logtest.Noon.Add(20 * time.Second)}}, nil},
		{"fail for a reason that is not retried", logtest.Running, task.Fail{Epoch: 2, Class: value.Memory}, logtest.Noon,
			task.AttemptFailed{Attempt: 1, Epoch: 2, Class: value.Memory, Reason: "no retry on memory"}, nil},
		{"fail for good", logtest.Running, task.Fail{Epoch: 2, Class: value.Exit, Final: true}, logtest.Noon,
			task.AttemptFailed{Attempt: 1, Epoch: 2, Class: value.Exit, Reason: "the task said that no other attempt can mend it"}, nil},
		{"fail and ask for a pause", logtest.Running, task.Fail{Epoch: 2, Class: value.Exit, RetryAfter: time.Minute}, logtest.Noon,
			task.AttemptFailed{Attempt: 1, Epoch: 2, Class: value.Exit, Reason: "the task asked for a pause of 1m0s", RetryAfter: value.Duration(time.Minute),
				Retry: &task.RetryPlan{Attempt: 2, Due: logtest.Noon.Add(time.Minute)}}, nil},
		{"fail when no retry is left", []task.Event{withinBound, logtest.Started, logtest.Failed, task.AttemptStarted{Attempt: 2}}, task.Fail{Epoch: 4, Class: value.Exit}, logtest.Noon,
			task.AttemptFailed{Attempt: 2, Epoch: 4, Class: value.Exit, Reason: "its retries are used up: retry.max is 1"}, nil},
		{"losses use up no retry", logtest.After(logtest.Pending, append(logtest.Lose(2), logtest.Started)...), task.Fail{Epoch: 6, Class: value.Exit}, logtest.Noon,
			task.AttemptFailed{Attempt: 1, Epoch: 6, Class: value.Exit, Retry: &task.RetryPlan{Attempt: 2, Due: logtest.Noon.Add(10 * time.Second)}}, nil},
		{"fail although a cancel was asked for", logtest.Cancelling, task.Fail{Epoch: 2, Class: value.Exit, Exit: &exit}, logtest.Noon,
			task.CancelConfirmed{Reason: "not needed", Epoch: 2, Exit: &exit}, nil},
		{"fail under an old epoch", logtest.Running, task.Fail{Epoch: 1}, logtest.Noon, nil, task.ErrFenced},
		{"stopped", logtest.Cancelling, task.Stopped{Epoch: 2, Exit: &exit}, logtest.Noon, task.CancelConfirmed{Reason: "not needed", Epoch: 2, Exit: &exit}, nil},
		{"stopped under an old epoch", logtest.Cancelling, task.Stopped{Epoch: 1}, logtest.Noon, nil, task.ErrFenced},
		{"release", logtest.Running, task.Release{Epoch: 2, Reason: "shutdown"}, logtest.Noon, task.AttemptReleased{Attempt: 1, Epoch: 2, Reason: "shutdown"}, nil},
		{"release although a cancel was asked for", logtest.Cancelling, task.Release{Epoch: 2}, logtest.Noon, task.CancelConfirmed{Reason: "not needed", Epoch: 2}, nil},
		{"release under an old epoch", logtest.Running, task.Release{Epoch: 1}, logtest.Noon, nil, task.ErrFenced},
		{"lose", logtest.Running, task.Lose{Epoch: 2, Reason: "gone"}, logtest.Noon, task.AttemptLost{Attempt: 1, Epoch: 2, Reason: "gone"}, nil},
		{"lose by an account", logtest.Running, task.Lose{Epoch: 2, Reason: "gone", Account: by(2, "s1", lease).Account}, logtest.Noon, task.AttemptLost{Attempt: 1, Epoch: 2, Reason: "gone"}, nil},
		{"lose what holds its lease", logtest.Running, task.Lose{Epoch: 2, Reason: "gone", Account: by(2, "s1", lease-1).Account}, logtest.Noon, nil, task.ErrLeased},
		{"lose what was adopted meanwhile", logtest.Running, task.Lose{Epoch: 2, Reason: "gone", Account: by(2, "s0", lease).Account}, logtest.Noon, nil, task.ErrLeased},
		{"lose once too often", poisoned, task.Lose{Epoch: uint64(len(poisoned))}, logtest.Noon,
			task.GivenUp{Reason: value.Poison, Detail: fmt.Sprintf("%d nodes were lost while running it, the last one last", task.MaxLosses+1)}, nil},
		{"lose what was to be cancelled", logtest.Cancelling, task.Lose{Epoch: 2}, logtest.Noon,
			task.GivenUp{Reason: value.Lost, Detail: "cancel was requested, and n1 did not confirm the end of the process"}, nil},
		{"lose what is finished", logtest.Finished, task.Lose{Epoch: 2}, logtest.Noon, nil, task.ErrFenced},
		{"report late", logtest.Finished, task.ReportLate{Epoch: 1, Node: "n1", Said: result}, logtest.Noon, task.AttemptLate{Epoch: 1, Node: "n1", Said: result}, nil},
		{"report late of what nobody knows", nil, task.ReportLate{Epoch: 1}, logtest.Noon, task.AttemptLate{Epoch: 1}, nil},

		// Requests of people and schedulers.
		{"cancel what waits", logtest.Pending, task.Cancel{Reason: "r"}, logtest.Noon, task.CancelConfirmed{Reason: "r"}, nil},
		{"cancel what is scheduled", logtest.Scheduled, task.Cancel{Reason: "r"}, logtest.Noon, task.CancelConfirmed{Reason: "r"}, nil},
		{"cancel between attempts", logtest.Retrying, task.Cancel{Reason: "r"}, logtest.Noon, task.CancelConfirmed{Reason: "r"}, nil},
		{"cancel what runs", logtest.Running, task.Cancel{Reason: "r"}, logtest.Noon, task.CancelRequested{Reason: "r", Deadline: logtest.Noon.Add(3*time.Second + task.StopMargin)}, nil},
		{"cancel what runs without a grace of its own", []task.Event{task.Submitted{Work: task.Work{Spec: logtest.Bounded}}, logtest.Started}, task.Cancel{}, logtest.Noon,
			task.CancelRequested{Deadline: logtest.Noon.Add(job.DefaultStop + task.StopMargin)}, nil},
		{"cancel without knowing the spec", []task.Event{nil, logtest.Started}, task.Cancel{}, logtest.Noon, task.CancelRequested{Deadline: logtest.Noon.Add(job.DefaultStop + task.StopMargin)}, nil},
		{"cancel twice", logtest.Cancelling, task.Cancel{}, logtest.Noon, nil, nil},
		{"cancel what is cancelled", logtest.Cancelled, task.Cancel{}, logtest.Noon, nil, nil},
		{"cancel what is finished", logtest.Finished, task.Cancel{}, logtest.Noon, nil, task.ErrEnded},
		{"cancel what is abnormal", logtest.Abnormal, task.Cancel{}, logtest.Noon, nil, task.ErrEnded},
		{"cancel what nobody knows", nil, task.Cancel{}, logtest.Noon, nil, task.ErrUnknown},
		{"expire what waits", logtest.Pending, task.Expire{Detail: "d"}, logtest.Noon, task.GivenUp{Reason: value.Expired, Detail: "d"}, nil},
		{"expire between attempts", logtest.Retrying, task.Expire{Detail: "d"}, logtest.Noon, task.GivenUp{Reason: value.Expired, Detail: "d"}, nil},
		{"expire what runs", logtest.Running, task.Expire{}, logtest.Noon, nil, task.ErrNotWaiting},
		{"expire what is finished", logtest.Finished, task.Expire{}, logtest.Noon, nil, task.ErrNotWaiting},
		{"give up what waits", logtest.Pending, task.GiveUp{Reason: value.Unplaced, Detail: "d"}, logtest.Noon, task.GivenUp{Reason: value.Unplaced, Detail: "d"}, nil},
		{"give up what runs", logtest.Running, task.GiveUp{Reason: value.Lost}, logtest.Noon, task.GivenUp{Reason: value.Lost}, nil},
		{"give up what is finished", logtest.Finished, task.GiveUp{}, logtest.Noon, nil, task.ErrEnded},
		{"reopen what is finished", logtest.Finished, task.Reopen{Reason: "r"}, logtest.Noon, task.Reopened{Reason: "r"}, nil},
		{"reopen what is abnormal", logtest.Abnormal, task.Reopen{Reason: "r"}, logtest.Noon, task.Reopened{Reason: "r"}, nil},
		{"reopen what runs", logtest.Running, task.Reopen{}, logtest.Noon, nil, task.ErrRunning},
		{"reopen what waits", logtest.Pending, task.Reopen{}, logtest.Noon, nil, task.ErrRunning},
		{"reopen what nobody knows", nil, task.Reopen{}, logtest.Noon, nil, task.ErrUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := task.Decide(logtest.Given(c.given...), c.when, c.now)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Fatalf("got the error %v, want %v", err, c.err)
			}
			if !reflect.DeepEqual(got, c.then) {
				t.Errorf("got\n%+v\nwant\n%+v", got, c.then)
			}
		})
	}
}

// Failures of an earlier life do not count in the next one.
func TestReopenedTaskRetriesAnew(t *testing.T) {
	one := logtest.Given(logtest.After(logtest.InError, task.Reopened{Reason: "again"}, task.AttemptStarted{Attempt: 2, Node: "n1", Offer: 1})...)
	e, err := task.Decide(one, task.Fail{Epoch: one.Epoch, Class: value.Exit}, logtest.Noon)
	if f, ok := e.(task.AttemptFailed); err != nil || !ok || f.Retry == nil || f.Retry.Due != logtest.Noon.Add(10*time.Second) {
		t.Errorf("got %+v, %v; want the first retry", e, err)
	}
}

func TestDelayFallsByChance(t *testing.T) {
	jittery := logtest.Work
	jittery.Spec = &job.Spec{Handler: "noop", Retry: job.Retry{Max: 1, Min: value.Duration(10 * time.Second), Jitter: 0.5}}
	e, err := task.Decide(logtest.Given(task.Submitted{Work: jittery}, logtest.Started), task.Fail{Epoch: 2, Class: value.Exit, Chance: 0.5}, logtest.Noon)
	if f, ok := e.(task.AttemptFailed); err != nil || !ok || f.Retry == nil || f.Retry.Due != logtest.Noon.Add(7500*time.Millisecond) {
		t.Errorf("got %+v, %v; want a retry after 7.5s", e, err)
	}
}

type foreign struct{ task.Command }

// In every state every command is either decided or refused for a documented reason, and every
// decision takes effect.
func TestDecideMatrix(t *testing.T) {
	documented := []error{task.ErrUnknown, task.ErrEnded, task.ErrRunning, task.ErrStale, task.ErrFenced, task.ErrNotWaiting, task.ErrNotDead, task.ErrLeased}
	seen := map[task.State]bool{}
	for name, h := range logtest.Histories {
		one := logtest.Given(h.Events...)
		if one.State != h.State {
			t.Errorf("%s: the task is %s, want %s", name, one.State, h.State)
		}
		seen[one.State] = true
		for _, c := range allCommands(one) {
			for _, now := range []time.Time{{}, logtest.Noon, logtest.Noon.Add(24 * time.Hour)} {
				e, err := task.Decide(one, c, now)
				known := err == nil
				for _, d := range documented {
					known = known || errors.Is(err, d)
				}
				if !known {
					t.Errorf("%s, %+v: %v is no documented refusal", name, c, err)
				}
				if err != nil && e != nil {
					t.Errorf("%s, %+v: refused with %v, and %T follows", name, c, err, e)
				}
				if e == nil {
					continue
				}
				next := task.Evolve(one, task.Recorded{Seq: one.Seq + 1, Chain: true, At: logtest.Noon, Event: e})
				if _, late := e.(task.AttemptLate); !late && reflect.DeepEqual(state(next), state(one)) {
					t.Errorf("%s, %+v: %+v changed nothing", name, c, e)
				}
				if one.State.Terminal() {
					_, again := e.(task.Reopened)
					_, seen := e.(task.Dismissed)
					if _, late := e.(task.AttemptLate); !again && !late && !seen {
						t.Errorf("%s, %+v: %T follows on the end", name, c, e)
					}
				}
			}
		}
		if e, err := task.Decide(one, foreign{}, logtest.Noon); err == nil {
			t.Errorf("%s: a foreign command gave %+v", name, e)
		}
	}
	for _, s := range task.States() {
		if !seen[s] && s != task.Held { // no history of this test ends held
			t.Errorf("no history ends in %s", s)
		}
	}
}

// state returns the parts of a task that decisions depend on, without its place in the log.
func state(t task.Task) [4]any { return [4]any{t.State, t.Turn, t.Epoch, t.Dismissed} }

func allCommands(t task.Task) []task.Command {
	all := []task.Command{task.Cancel{}, task.Expire{}, task.GiveUp{}, task.Reopen{}, task.Dismiss{}, task.ReportLate{}}
	for _, epoch := range []uint64{0, t.Epoch, t.Epoch + 1} {
		all = append(all, task.Finish{Epoch: epoch}, task.Fail{Epoch: epoch, Class: value.Exit}, task.Fail{Epoch: epoch, Final: true},
			task.Stopped{Epoch: epoch}, task.Release{Epoch: epoch}, task.Lose{Epoch: epoch}, task.ReportLate{Epoch: epoch})
	}
	for _, turn := range []uint64{0, t.Turn, t.Turn + 1} {
		for _, offer := range []uint64{0, t.Offer, t.Offer + 1} {
			all = append(all, task.Claim{Node: "n2", Session: "s2", Offer: offer, After: turn},
				task.Claim{Node: "n2", Session: "s2", Offer: offer, After: turn, Rate: queue.Rate{Queue: "default", Since: 99}},
				task.Claim{Node: "n2", Session: "s2", Offer: offer, After: turn, Account: &task.Account{Epoch: t.Epoch, Session: t.Session, Now: logtest.Noon}},
				task.Claim{Node: "n2", Session: "s2", Offer: offer, After: turn, Account: &task.Account{Epoch: t.Epoch, Session: t.Session, Now: logtest.Noon, Claimed: logtest.Noon, Lease: 1}})
		}
	}
	return all
}

// A held task accepts the commands of any waiting task.
func TestHeld(t *testing.T) {
	held := logtest.Given(logtest.Scheduled...)
	held.State = task.Held
	for _, c := range []task.Command{task.Claim{}, task.Cancel{}, task.Expire{}, task.GiveUp{}} {
		if e, err := task.Decide(held, c, logtest.Noon); e == nil || err != nil {
			t.Errorf("%T of a held task: %v, %v", c, e, err)
		}
	}
	if _, missing := task.NextOffer(&held); missing {
		t.Error("a held task misses an offer")
	}
	if d := duties.Owes(held, duties.Surroundings{}, logtest.Settings); d.Who == "nobody" {
		t.Error("nobody owes anything on a held task")
	}
}

// A duty of an earlier life of the task ends nothing.
func TestWhatWasJudgedHoldsForItsHead(t *testing.T) {
	k := task.Task{State: task.Pending, Head: 7}
	expire := task.Judged{Command: task.Unmoved{Command: task.Expire{Detail: "late"}, Head: k.Head}}
	if e, err := k.Decide(expire, logtest.Noon); err != nil || e != (task.GivenUp{Reason: value.Expired, Detail: "late"}) {
		t.Errorf("at its head: %v, %v", e, err)
	}
	k.Head = 9
	if e, err := k.Decide(expire, logtest.Noon); !errors.Is(err, task.ErrMovedOn) {
		t.Errorf("at another head: %v, %v", e, err)
	}
}
