package task_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/queue"
	"millrace/task/tasktest"
	"millrace/task/value"
)

func TestDecide(t *testing.T) {
	exit := 7
	usage := &task.Usage{MaxMemory: 1}
	result := json.RawMessage(`{"ok":true}`)
	claimed := task.Claim{Node: "n2", Session: "s2", Offer: 9}
	claimAfter := func(turn uint64) task.Claim { c := claimed; c.After = turn; return c }
	takeover := task.Claim{Node: "n2", Session: "s2", Offer: 1}
	poisoned := tasktest.After(tasktest.Pending, append(tasktest.Lose(task.MaxLosses), task.AttemptStarted{Attempt: task.MaxLosses + 1, Node: "last", Offer: 1})...)
	// by claims with an account of the attempt at an epoch, some time after its claim.
	by := func(epoch uint64, session string, age time.Duration) task.Claim {
		c := takeover
		c.Account = &task.Account{Epoch: epoch, Session: session, Claimed: tasktest.Noon, Now: tasktest.Noon.Add(age), Lease: value.Duration(lease)}
		return c
	}
	withinBound := task.Submitted{Work: task.Work{Spec: tasktest.Bounded, Route: "default.5", StartBy: tasktest.Noon.Add(time.Minute)}}

	for _, c := range []struct {
		name  string
		given []task.Event
		when  task.Command
		now   time.Time
		then  task.Event
		err   error
	}{
		// Claims.
		{"claim a birth", tasktest.Pending, task.Claim{Node: "n2", Session: "s2", Offer: 1}, tasktest.Noon,
			task.AttemptStarted{Attempt: 1, Node: "n2", Session: "s2", Offer: 1}, nil},
		{"claim a birth under an offer that is seen", tasktest.Pending, task.Claim{Node: "n2", Session: "s2", Offer: 1, Seen: true}, tasktest.Noon,
			task.AttemptStarted{Attempt: 1, Node: "n2", Session: "s2", Offer: 1}, nil},
		{"claim a birth under an offer that is lost", tasktest.Pending, task.Claim{Node: "n2", Session: "s2", Offer: 2, Seen: true}, tasktest.Noon, nil, task.ErrStale},
		{"claim under an offer that is lost, and another message has its sequence", tasktest.Released,
			task.Claim{Node: "n2", Session: "s2", Offer: 3, After: 3, Seen: true}, tasktest.Noon, nil, task.ErrStale},
		{"claim of a turn that is over", tasktest.Pending, claimAfter(3), tasktest.Noon, nil, task.ErrStale},
		{"claim a retry", tasktest.Retrying, claimAfter(3), tasktest.Noon, task.AttemptStarted{Attempt: 2, Node: "n2", Session: "s2", Offer: 9}, nil},
		{"claim a retry with the birth", tasktest.Retrying, claimed, tasktest.Noon, nil, task.ErrStale},
		{"claim what was released", tasktest.Released, claimAfter(3), tasktest.Noon, task.AttemptStarted{Attempt: 2, Node: "n2", Session: "s2", Offer: 9}, nil},
		{"claim what was reopened", tasktest.Reopened, claimAfter(4), tasktest.Noon, task.AttemptStarted{Attempt: 2, Node: "n2", Session: "s2", Offer: 9}, nil},
		{"claim before it is due", tasktest.Scheduled, claimed, tasktest.Noon, task.AttemptStarted{Attempt: 1, Node: "n2", Session: "s2", Offer: 9}, nil},
		{"claim what runs, under another offer", tasktest.Running, claimed, tasktest.Noon, nil, task.ErrStale},
		{"claim what is finished", tasktest.Finished, takeover, tasktest.Noon, nil, task.ErrEnded},
		{"claim what is cancelled", tasktest.Cancelled, claimed, tasktest.Noon, nil, task.ErrEnded},
		{"claim at the last moment", []task.Event{withinBound}, claimed, tasktest.Noon.Add(time.Minute),
			task.AttemptStarted{Attempt: 1, Node: "n2", Session: "s2", Offer: 9}, nil},
		{"claim too late", []task.Event{withinBound}, claimed, tasktest.Noon.Add(time.Minute + 1),
			task.GivenUp{Reason: value.Expired, Detail: "pending timeout: not started by 2026-03-01T12:01:00Z"}, nil},
		{"a retry has a bound of its own", []task.Event{withinBound, tasktest.Started, tasktest.Failed}, claimAfter(3), tasktest.Noon.Add(5 * time.Minute),
			task.AttemptStarted{Attempt: 2, Node: "n2", Session: "s2", Offer: 9}, nil},
		{"and must keep it", []task.Event{withinBound, tasktest.Started, tasktest.Failed}, claimAfter(3), tasktest.Noon.Add(5*time.Minute + 16*time.Second),
			task.GivenUp{Reason: value.Expired, Detail: "pending timeout: not started by 2026-03-01T12:05:15Z"}, nil},

		// The offer of a running attempt comes to another node: only the account tells whether the
		// lease has ended.
		{"an offer alone takes nothing over", tasktest.Running, takeover, tasktest.Noon.Add(24 * time.Hour), nil, task.ErrLeased},
		{"an offer alone ends no cancel", tasktest.Cancelling, takeover, tasktest.Noon.Add(24 * time.Hour), nil, task.ErrLeased},
		{"an offer alone counts as no loss", poisoned, takeover, tasktest.Noon.Add(24 * time.Hour), nil, task.ErrLeased},
		{"an account of another attempt", tasktest.Running, by(1, "s1", lease), tasktest.Noon, nil, task.ErrLeased},
		{"an account of another session", tasktest.Running, by(2, "s0", lease), tasktest.Noon, nil, task.ErrLeased},
		{"the lease holds", tasktest.Running, by(2, "s1", lease-1), tasktest.Noon, nil, task.ErrLeased},
		{"the lease holds while it is cancelled", tasktest.Cancelling, by(2, "s1", lease-1), tasktest.Noon, nil, task.ErrLeased},
		{"take over", tasktest.Running, by(2, "s1", lease), tasktest.Noon, task.AttemptStarted{Attempt: 2, Node: "n2", Session: "s2", Offer: 1,
			TookOver: &task.TookOver{Epoch: 2, Reason: "the lease of n1 ran out: nothing was heard of the attempt since its start at 12:00:00.000",
				Ground: task.GroundClaim, Heard: tasktest.Noon}}, nil},
		{"take over what was to be cancelled", tasktest.Cancelling, by(2, "s1", lease), tasktest.Noon,
			task.GivenUp{Reason: value.Lost, Detail: "cancel was requested, and n1 did not confirm the end of the process"}, nil},
		{"take over once too often", poisoned, by(uint64(len(poisoned)), "", lease), tasktest.Noon,
			task.GivenUp{Reason: value.Poison, Detail: fmt.Sprintf("%d nodes were lost while running it, the last one last", task.MaxLosses+1)}, nil},

		// Reports of nodes.
		{"finish", tasktest.Running, task.Finish{Epoch: 2, Exit: &exit, Result: result, Usage: usage}, tasktest.Noon,
			task.AttemptFinished{Attempt: 1, Epoch: 2, Exit: &exit, Result: result, Usage: usage}, nil},
		{"finish although a cancel was asked for", tasktest.Cancelling, task.Finish{Epoch: 2}, tasktest.Noon, task.AttemptFinished{Attempt: 1, Epoch: 2}, nil},
		{"finish under an old epoch", tasktest.Running, task.Finish{Epoch: 1}, tasktest.Noon, nil, task.ErrFenced},
		{"finish twice", tasktest.Finished, task.Finish{Epoch: 2}, tasktest.Noon, nil, task.ErrFenced},
		{"finish after release", tasktest.Released, task.Finish{Epoch: 2}, tasktest.Noon, nil, task.ErrFenced},
		{"fail and retry", tasktest.Running, task.Fail{Epoch: 2, Class: value.Exit, Exit: &exit, Message: "m", Usage: usage}, tasktest.Noon,
			task.AttemptFailed{Attempt: 1, Epoch: 2, Class: value.Exit, Exit: &exit, Message: "m", Usage: usage,
				Retry: &task.RetryPlan{Attempt: 2, Due: tasktest.Noon.Add(10 * time.Second)}}, nil},
		{"fail again and wait longer", tasktest.After(tasktest.Retrying, task.AttemptStarted{Attempt: 2, Node: "n1", Offer: 1}), task.Fail{Epoch: 4, Class: value.Exit}, tasktest.Noon,
			task.AttemptFailed{Attempt: 2, Epoch: 4, Class: value.Exit, Retry: &task.RetryPlan{Attempt: 3, Due: tasktest.Noon.Add(20 * time.Second)}}, nil},
		{"fail for a reason that is not retried", tasktest.Running, task.Fail{Epoch: 2, Class: value.Memory}, tasktest.Noon,
			task.AttemptFailed{Attempt: 1, Epoch: 2, Class: value.Memory, Reason: "no retry on memory"}, nil},
		{"fail for good", tasktest.Running, task.Fail{Epoch: 2, Class: value.Exit, Final: true}, tasktest.Noon,
			task.AttemptFailed{Attempt: 1, Epoch: 2, Class: value.Exit, Reason: "the task said that no other attempt can mend it"}, nil},
		{"fail and ask for a pause", tasktest.Running, task.Fail{Epoch: 2, Class: value.Exit, RetryAfter: time.Minute}, tasktest.Noon,
			task.AttemptFailed{Attempt: 1, Epoch: 2, Class: value.Exit, Reason: "the task asked for a pause of 1m0s", RetryAfter: value.Duration(time.Minute),
				Retry: &task.RetryPlan{Attempt: 2, Due: tasktest.Noon.Add(time.Minute)}}, nil},
		{"fail when no retry is left", []task.Event{withinBound, tasktest.Started, tasktest.Failed, task.AttemptStarted{Attempt: 2}}, task.Fail{Epoch: 4, Class: value.Exit}, tasktest.Noon,
			task.AttemptFailed{Attempt: 2, Epoch: 4, Class: value.Exit, Reason: "its retries are used up: retry.max is 1"}, nil},
		{"losses use up no retry", tasktest.After(tasktest.Pending, append(tasktest.Lose(2), tasktest.Started)...), task.Fail{Epoch: 6, Class: value.Exit}, tasktest.Noon,
			task.AttemptFailed{Attempt: 1, Epoch: 6, Class: value.Exit, Retry: &task.RetryPlan{Attempt: 2, Due: tasktest.Noon.Add(10 * time.Second)}}, nil},
		{"fail although a cancel was asked for", tasktest.Cancelling, task.Fail{Epoch: 2, Class: value.Exit, Exit: &exit}, tasktest.Noon,
			task.CancelConfirmed{Reason: "not needed", Epoch: 2, Exit: &exit}, nil},
		{"fail under an old epoch", tasktest.Running, task.Fail{Epoch: 1}, tasktest.Noon, nil, task.ErrFenced},
		{"stopped", tasktest.Cancelling, task.Stopped{Epoch: 2, Exit: &exit}, tasktest.Noon, task.CancelConfirmed{Reason: "not needed", Epoch: 2, Exit: &exit}, nil},
		{"stopped under an old epoch", tasktest.Cancelling, task.Stopped{Epoch: 1}, tasktest.Noon, nil, task.ErrFenced},
		{"release", tasktest.Running, task.Release{Epoch: 2, Reason: "shutdown"}, tasktest.Noon, task.AttemptReleased{Attempt: 1, Epoch: 2, Reason: "shutdown"}, nil},
		{"release although a cancel was asked for", tasktest.Cancelling, task.Release{Epoch: 2}, tasktest.Noon, task.CancelConfirmed{Reason: "not needed", Epoch: 2}, nil},
		{"release under an old epoch", tasktest.Running, task.Release{Epoch: 1}, tasktest.Noon, nil, task.ErrFenced},
		{"lose", tasktest.Running, task.Lose{Epoch: 2, Reason: "gone"}, tasktest.Noon, task.AttemptLost{Attempt: 1, Epoch: 2, Reason: "gone"}, nil},
		{"lose by an account", tasktest.Running, task.Lose{Epoch: 2, Reason: "gone", Account: by(2, "s1", lease).Account}, tasktest.Noon, task.AttemptLost{Attempt: 1, Epoch: 2, Reason: "gone"}, nil},
		{"lose what holds its lease", tasktest.Running, task.Lose{Epoch: 2, Reason: "gone", Account: by(2, "s1", lease-1).Account}, tasktest.Noon, nil, task.ErrLeased},
		{"lose what was adopted meanwhile", tasktest.Running, task.Lose{Epoch: 2, Reason: "gone", Account: by(2, "s0", lease).Account}, tasktest.Noon, nil, task.ErrLeased},
		{"lose once too often", poisoned, task.Lose{Epoch: uint64(len(poisoned))}, tasktest.Noon,
			task.GivenUp{Reason: value.Poison, Detail: fmt.Sprintf("%d nodes were lost while running it, the last one last", task.MaxLosses+1)}, nil},
		{"lose what was to be cancelled", tasktest.Cancelling, task.Lose{Epoch: 2}, tasktest.Noon,
			task.GivenUp{Reason: value.Lost, Detail: "cancel was requested, and n1 did not confirm the end of the process"}, nil},
		{"lose what is finished", tasktest.Finished, task.Lose{Epoch: 2}, tasktest.Noon, nil, task.ErrFenced},
		{"report late", tasktest.Finished, task.ReportLate{Epoch: 1, Node: "n1", Said: result}, tasktest.Noon, task.AttemptLate{Epoch: 1, Node: "n1", Said: result}, nil},
		{"report late of what nobody knows", nil, task.ReportLate{Epoch: 1}, tasktest.Noon, task.AttemptLate{Epoch: 1}, nil},

		// Requests of people and schedulers.
		{"cancel what waits", tasktest.Pending, task.Cancel{Reason: "r"}, tasktest.Noon, task.CancelConfirmed{Reason: "r"}, nil},
		{"cancel what is scheduled", tasktest.Scheduled, task.Cancel{Reason: "r"}, tasktest.Noon, task.CancelConfirmed{Reason: "r"}, nil},
		{"cancel between attempts", tasktest.Retrying, task.Cancel{Reason: "r"}, tasktest.Noon, task.CancelConfirmed{Reason: "r"}, nil},
		{"cancel what runs", tasktest.Running, task.Cancel{Reason: "r"}, tasktest.Noon, task.CancelRequested{Reason: "r", Deadline: tasktest.Noon.Add(3*time.Second + task.StopMargin)}, nil},
		{"cancel what runs without a grace of its own", []task.Event{task.Submitted{Work: task.Work{Spec: tasktest.Bounded}}, tasktest.Started}, task.Cancel{}, tasktest.Noon,
			task.CancelRequested{Deadline: tasktest.Noon.Add(job.DefaultStop + task.StopMargin)}, nil},
		{"cancel without knowing the spec", []task.Event{nil, tasktest.Started}, task.Cancel{}, tasktest.Noon, task.CancelRequested{Deadline: tasktest.Noon.Add(job.DefaultStop + task.StopMargin)}, nil},
		{"cancel twice", tasktest.Cancelling, task.Cancel{}, tasktest.Noon, nil, nil},
		{"cancel what is cancelled", tasktest.Cancelled, task.Cancel{}, tasktest.Noon, nil, nil},
		{"cancel what is finished", tasktest.Finished, task.Cancel{}, tasktest.Noon, nil, task.ErrEnded},
		{"cancel what is abnormal", tasktest.Abnormal, task.Cancel{}, tasktest.Noon, nil, task.ErrEnded},
		{"cancel what nobody knows", nil, task.Cancel{}, tasktest.Noon, nil, task.ErrUnknown},
		{"expire what waits", tasktest.Pending, task.Expire{Detail: "d"}, tasktest.Noon, task.GivenUp{Reason: value.Expired, Detail: "d"}, nil},
		{"expire between attempts", tasktest.Retrying, task.Expire{Detail: "d"}, tasktest.Noon, task.GivenUp{Reason: value.Expired, Detail: "d"}, nil},
		{"expire what runs", tasktest.Running, task.Expire{}, tasktest.Noon, nil, task.ErrNotWaiting},
		{"expire what is finished", tasktest.Finished, task.Expire{}, tasktest.Noon, nil, task.ErrNotWaiting},
		{"give up what waits", tasktest.Pending, task.GiveUp{Reason: value.Unplaced, Detail: "d"}, tasktest.Noon, task.GivenUp{Reason: value.Unplaced, Detail: "d"}, nil},
		{"give up what runs", tasktest.Running, task.GiveUp{Reason: value.Lost}, tasktest.Noon, task.GivenUp{Reason: value.Lost}, nil},
		{"give up what is finished", tasktest.Finished, task.GiveUp{}, tasktest.Noon, nil, task.ErrEnded},
		{"reopen what is finished", tasktest.Finished, task.Reopen{Reason: "r"}, tasktest.Noon, task.Reopened{Reason: "r"}, nil},
		{"reopen what is abnormal", tasktest.Abnormal, task.Reopen{Reason: "r"}, tasktest.Noon, task.Reopened{Reason: "r"}, nil},
		{"reopen what runs", tasktest.Running, task.Reopen{}, tasktest.Noon, nil, task.ErrRunning},
		{"reopen what waits", tasktest.Pending, task.Reopen{}, tasktest.Noon, nil, task.ErrRunning},
		{"reopen what nobody knows", nil, task.Reopen{}, tasktest.Noon, nil, task.ErrUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := task.Decide(tasktest.Given(c.given...), c.when, c.now)
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
	one := tasktest.Given(tasktest.After(tasktest.InError, task.Reopened{Reason: "again"}, task.AttemptStarted{Attempt: 2, Node: "n1", Offer: 1})...)
	e, err := task.Decide(one, task.Fail{Epoch: one.Epoch, Class: value.Exit}, tasktest.Noon)
	if f, ok := e.(task.AttemptFailed); err != nil || !ok || f.Retry == nil || f.Retry.Due != tasktest.Noon.Add(10*time.Second) {
		t.Errorf("got %+v, %v; want the first retry", e, err)
	}
}

func TestDelayFallsByChance(t *testing.T) {
	jittery := tasktest.Work
	jittery.Spec = &job.Spec{Handler: "noop", Retry: job.Retry{Max: 1, Min: value.Duration(10 * time.Second), Jitter: 0.5}}
	e, err := task.Decide(tasktest.Given(task.Submitted{Work: jittery}, tasktest.Started), task.Fail{Epoch: 2, Class: value.Exit, Chance: 0.5}, tasktest.Noon)
	if f, ok := e.(task.AttemptFailed); err != nil || !ok || f.Retry == nil || f.Retry.Due != tasktest.Noon.Add(7500*time.Millisecond) {
		t.Errorf("got %+v, %v; want a retry after 7.5s", e, err)
	}
}

type foreign struct{ task.Command }

// In every state every command is either decided or refused for a documented reason, and every
// decision takes effect.
func TestDecideMatrix(t *testing.T) {
	documented := []error{task.ErrUnknown, task.ErrEnded, task.ErrRunning, task.ErrStale, task.ErrFenced, task.ErrNotWaiting, task.ErrNotDead, task.ErrLeased}
	seen := map[task.State]bool{}
	for name, h := range tasktest.Histories {
		one := tasktest.Given(h.Events...)
		if one.State != h.State {
			t.Errorf("%s: the task is %s, want %s", name, one.State, h.State)
		}
		seen[one.State] = true
		for _, c := range allCommands(one) {
			for _, now := range []time.Time{{}, tasktest.Noon, tasktest.Noon.Add(24 * time.Hour)} {
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
				next := task.Evolve(one, task.Recorded{Seq: one.Seq + 1, Chain: true, At: tasktest.Noon, Event: e})
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
		if e, err := task.Decide(one, foreign{}, tasktest.Noon); err == nil {
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
				task.Claim{Node: "n2", Session: "s2", Offer: offer, After: turn, Account: &task.Account{Epoch: t.Epoch, Session: t.Session, Now: tasktest.Noon}},
				task.Claim{Node: "n2", Session: "s2", Offer: offer, After: turn, Account: &task.Account{Epoch: t.Epoch, Session: t.Session, Now: tasktest.Noon, Claimed: tasktest.Noon, Lease: 1}})
		}
	}
	return all
}

// A held task accepts the commands of any waiting task.
func TestHeld(t *testing.T) {
	held := tasktest.Given(tasktest.Scheduled...)
	held.State = task.Held
	for _, c := range []task.Command{task.Claim{}, task.Cancel{}, task.Expire{}, task.GiveUp{}} {
		if e, err := task.Decide(held, c, tasktest.Noon); e == nil || err != nil {
			t.Errorf("%T of a held task: %v, %v", c, e, err)
		}
	}
	if _, missing := task.NextOffer(&held); missing {
		t.Error("a held task misses an offer")
	}
	if d := duties.Owes(held, duties.Surroundings{}, tasktest.Settings); d.Who == "nobody" {
		t.Error("nobody owes anything on a held task")
	}
}

// A duty of an earlier life of the task ends nothing.
func TestWhatWasJudgedHoldsForItsHead(t *testing.T) {
	k := task.Task{State: task.Pending, Head: 7}
	expire := task.Judged{Command: task.Unmoved{Command: task.Expire{Detail: "late"}, Head: k.Head}}
	if e, err := k.Decide(expire, tasktest.Noon); err != nil || e != (task.GivenUp{Reason: value.Expired, Detail: "late"}) {
		t.Errorf("at its head: %v, %v", e, err)
	}
	k.Head = 9
	if e, err := k.Decide(expire, tasktest.Noon); !errors.Is(err, task.ErrMovedOn) {
		t.Errorf("at another head: %v, %v", e, err)
	}
}
