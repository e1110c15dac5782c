package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"millrace/task/job"
	"millrace/task/queue"
	"millrace/task/reason"
	"millrace/task/value"
)

func TestDecide(t *testing.T) {
	exit := 7
	usage := &Usage{MaxMemory: 1}
	result := json.RawMessage(`{"ok":true}`)
	claimed := Claim{Node: "n2", Session: "s2", Offer: 9}
	claimAfter := func(turn uint64) Claim { c := claimed; c.After = turn; return c }
	takeover := Claim{Node: "n2", Session: "s2", Offer: 1}
	poisoned := after(pending, append(lose(MaxLosses), AttemptStarted{Attempt: MaxLosses + 1, Node: "last", Offer: 1})...)
	// by claims with an account of the attempt at an epoch, some time after its claim.
	by := func(epoch uint64, session string, age time.Duration) Claim {
		c := takeover
		c.Account = &Account{Epoch: epoch, Session: session, Claimed: noon, Now: noon.Add(age), Lease: value.Duration(lease)}
		return c
	}
	withinBound := Submitted{Work: Work{Spec: bounded, Route: "default.5", StartBy: noon.Add(time.Minute)}}

	for _, c := range []struct {
		name  string
		given []Event
		when  Command
		now   time.Time
		then  Event
		err   error
	}{
		// Claims.
		{"claim a birth", pending, Claim{Node: "n2", Session: "s2", Offer: 1}, noon,
			AttemptStarted{Attempt: 1, Node: "n2", Session: "s2", Offer: 1}, nil},
		{"claim of a turn that is over", pending, claimAfter(3), noon, nil, ErrStale},
		{"claim a retry", retrying, claimAfter(3), noon, AttemptStarted{Attempt: 2, Node: "n2", Session: "s2", Offer: 9}, nil},
		{"claim a retry with the birth", retrying, claimed, noon, nil, ErrStale},
		{"claim what was released", released, claimAfter(3), noon, AttemptStarted{Attempt: 2, Node: "n2", Session: "s2", Offer: 9}, nil},
		{"claim what was reopened", reopened, claimAfter(4), noon, AttemptStarted{Attempt: 2, Node: "n2", Session: "s2", Offer: 9}, nil},
		{"claim before it is due", scheduled, claimed, noon, AttemptStarted{Attempt: 1, Node: "n2", Session: "s2", Offer: 9}, nil},
		{"claim what runs, under another offer", running, claimed, noon, nil, ErrStale},
		{"claim what is finished", finished, takeover, noon, nil, ErrEnded},
		{"claim what is cancelled", cancelled, claimed, noon, nil, ErrEnded},
		{"claim at the last moment", []Event{withinBound}, claimed, noon.Add(time.Minute),
			AttemptStarted{Attempt: 1, Node: "n2", Session: "s2", Offer: 9}, nil},
		{"claim too late", []Event{withinBound}, claimed, noon.Add(time.Minute + 1),
			GivenUp{Reason: reason.Expired, Detail: "pending timeout: not started by 2026-03-01T12:01:00Z"}, nil},
		{"a retry has a bound of its own", []Event{withinBound, started, failed}, claimAfter(3), noon.Add(5 * time.Minute),
			AttemptStarted{Attempt: 2, Node: "n2", Session: "s2", Offer: 9}, nil},
		{"and must keep it", []Event{withinBound, started, failed}, claimAfter(3), noon.Add(5*time.Minute + 16*time.Second),
			GivenUp{Reason: reason.Expired, Detail: "pending timeout: not started by 2026-03-01T12:05:15Z"}, nil},

		// The offer of a running attempt comes to another node: only the account tells whether the
		// lease has ended.
		{"an offer alone takes nothing over", running, takeover, noon.Add(24 * time.Hour), nil, ErrLeased},
		{"an offer alone ends no cancel", cancelling, takeover, noon.Add(24 * time.Hour), nil, ErrLeased},
		{"an offer alone counts as no loss", poisoned, takeover, noon.Add(24 * time.Hour), nil, ErrLeased},
		{"an account of another attempt", running, by(1, "s1", lease), noon, nil, ErrLeased},
		{"an account of another session", running, by(2, "s0", lease), noon, nil, ErrLeased},
		{"the lease holds", running, by(2, "s1", lease-1), noon, nil, ErrLeased},
		{"the lease holds while it is cancelled", cancelling, by(2, "s1", lease-1), noon, nil, ErrLeased},
		{"take over", running, by(2, "s1", lease), noon, AttemptStarted{Attempt: 2, Node: "n2", Session: "s2", Offer: 1,
			TookOver: &TookOver{Epoch: 2, Reason: "the lease of n1 ran out: nothing was heard of the attempt since its start at 12:00:00.000",
				Ground: GroundClaim, Heard: noon}}, nil},
		{"take over what was to be cancelled", cancelling, by(2, "s1", lease), noon,
			GivenUp{Reason: reason.Lost, Detail: "cancel was requested, and n1 did not confirm the end of the process"}, nil},
		{"take over once too often", poisoned, by(uint64(len(poisoned)), "", lease), noon,
			GivenUp{Reason: reason.Poison, Detail: fmt.Sprintf("%d nodes were lost while running it, the last one last", MaxLosses+1)}, nil},

		// Reports of nodes.
		{"finish", running, Finish{Epoch: 2, Exit: &exit, Result: result, Usage: usage}, noon,
			AttemptFinished{Attempt: 1, Epoch: 2, Exit: &exit, Result: result, Usage: usage}, nil},
		{"finish although a cancel was asked for", cancelling, Finish{Epoch: 2}, noon, AttemptFinished{Attempt: 1, Epoch: 2}, nil},
		{"finish under an old epoch", running, Finish{Epoch: 1}, noon, nil, ErrFenced},
		{"finish twice", finished, Finish{Epoch: 2}, noon, nil, ErrFenced},
		{"finish after release", released, Finish{Epoch: 2}, noon, nil, ErrFenced},
		{"fail and retry", running, Fail{Epoch: 2, Class: reason.Exit, Exit: &exit, Message: "m", Usage: usage}, noon,
			AttemptFailed{Attempt: 1, Epoch: 2, Class: reason.Exit, Exit: &exit, Message: "m", Usage: usage,
				Retry: &RetryPlan{Attempt: 2, Due: noon.Add(10 * time.Second)}}, nil},
		{"fail again and wait longer", after(retrying, AttemptStarted{Attempt: 2, Node: "n1", Offer: 1}), Fail{Epoch: 4, Class: reason.Exit}, noon,
			AttemptFailed{Attempt: 2, Epoch: 4, Class: reason.Exit, Retry: &RetryPlan{Attempt: 3, Due: noon.Add(20 * time.Second)}}, nil},
		{"fail for a reason that is not retried", running, Fail{Epoch: 2, Class: reason.Memory}, noon,
			AttemptFailed{Attempt: 1, Epoch: 2, Class: reason.Memory, Reason: "no retry on memory"}, nil},
		{"fail for good", running, Fail{Epoch: 2, Class: reason.Exit, Final: true}, noon,
			AttemptFailed{Attempt: 1, Epoch: 2, Class: reason.Exit, Reason: "the task said that no other attempt can mend it"}, nil},
		{"fail and ask for a pause", running, Fail{Epoch: 2, Class: reason.Exit, RetryAfter: time.Minute}, noon,
			AttemptFailed{Attempt: 1, Epoch: 2, Class: reason.Exit, Reason: "the task asked for a pause of 1m0s", RetryAfter: value.Duration(time.Minute),
				Retry: &RetryPlan{Attempt: 2, Due: noon.Add(time.Minute)}}, nil},
		{"fail when no retry is left", []Event{withinBound, started, failed, AttemptStarted{Attempt: 2}}, Fail{Epoch: 4, Class: reason.Exit}, noon,
			AttemptFailed{Attempt: 2, Epoch: 4, Class: reason.Exit, Reason: "its retries are used up: retry.max is 1"}, nil},
		{"losses use up no retry", after(pending, append(lose(2), started)...), Fail{Epoch: 6, Class: reason.Exit}, noon,
			AttemptFailed{Attempt: 1, Epoch: 6, Class: reason.Exit, Retry: &RetryPlan{Attempt: 2, Due: noon.Add(10 * time.Second)}}, nil},
		{"fail although a cancel was asked for", cancelling, Fail{Epoch: 2, Class: reason.Exit, Exit: &exit}, noon,
			CancelConfirmed{Reason: "not needed", Epoch: 2, Exit: &exit}, nil},
		{"fail under an old epoch", running, Fail{Epoch: 1}, noon, nil, ErrFenced},
		{"stopped", cancelling, Stopped{Epoch: 2, Exit: &exit}, noon, CancelConfirmed{Reason: "not needed", Epoch: 2, Exit: &exit}, nil},
		{"stopped under an old epoch", cancelling, Stopped{Epoch: 1}, noon, nil, ErrFenced},
		{"release", running, Release{Epoch: 2, Reason: "shutdown"}, noon, AttemptReleased{Attempt: 1, Epoch: 2, Reason: "shutdown"}, nil},
		{"release although a cancel was asked for", cancelling, Release{Epoch: 2}, noon, CancelConfirmed{Reason: "not needed", Epoch: 2}, nil},
		{"release under an old epoch", running, Release{Epoch: 1}, noon, nil, ErrFenced},
		{"lose", running, Lose{Epoch: 2, Reason: "gone"}, noon, AttemptLost{Attempt: 1, Epoch: 2, Reason: "gone"}, nil},
		{"lose by an account", running, Lose{Epoch: 2, Reason: "gone", Account: by(2, "s1", lease).Account}, noon, AttemptLost{Attempt: 1, Epoch: 2, Reason: "gone"}, nil},
		{"lose what holds its lease", running, Lose{Epoch: 2, Reason: "gone", Account: by(2, "s1", lease-1).Account}, noon, nil, ErrLeased},
		{"lose what was adopted meanwhile", running, Lose{Epoch: 2, Reason: "gone", Account: by(2, "s0", lease).Account}, noon, nil, ErrLeased},
		{"lose once too often", poisoned, Lose{Epoch: uint64(len(poisoned))}, noon,
			GivenUp{Reason: reason.Poison, Detail: fmt.Sprintf("%d nodes were lost while running it, the last one last", MaxLosses+1)}, nil},
		{"lose what was to be cancelled", cancelling, Lose{Epoch: 2}, noon,
			GivenUp{Reason: reason.Lost, Detail: "cancel was requested, and n1 did not confirm the end of the process"}, nil},
		{"lose what is finished", finished, Lose{Epoch: 2}, noon, nil, ErrFenced},
		{"report late", finished, ReportLate{Epoch: 1, Node: "n1", Said: result}, noon, AttemptLate{Epoch: 1, Node: "n1", Said: result}, nil},
		{"report late of what nobody knows", nil, ReportLate{Epoch: 1}, noon, AttemptLate{Epoch: 1}, nil},

		// Requests of people and schedulers.
		{"cancel what waits", pending, Cancel{Reason: "r"}, noon, CancelConfirmed{Reason: "r"}, nil},
		{"cancel what is scheduled", scheduled, Cancel{Reason: "r"}, noon, CancelConfirmed{Reason: "r"}, nil},
		{"cancel between attempts", retrying, Cancel{Reason: "r"}, noon, CancelConfirmed{Reason: "r"}, nil},
		{"cancel what runs", running, Cancel{Reason: "r"}, noon, CancelRequested{Reason: "r", Deadline: noon.Add(3*time.Second + StopMargin)}, nil},
		{"cancel what runs without a grace of its own", []Event{Submitted{Work: Work{Spec: bounded}}, started}, Cancel{}, noon,
			CancelRequested{Deadline: noon.Add(job.DefaultStop + StopMargin)}, nil},
		{"cancel without knowing the spec", []Event{nil, started}, Cancel{}, noon, CancelRequested{Deadline: noon.Add(job.DefaultStop + StopMargin)}, nil},
		{"cancel twice", cancelling, Cancel{}, noon, nil, nil},
		{"cancel what is cancelled", cancelled, Cancel{}, noon, nil, nil},
		{"cancel what is finished", finished, Cancel{}, noon, nil, ErrEnded},
		{"cancel what is abnormal", abnormal, Cancel{}, noon, nil, ErrEnded},
		{"cancel what nobody knows", nil, Cancel{}, noon, nil, ErrUnknown},
		{"expire what waits", pending, Expire{Detail: "d"}, noon, GivenUp{Reason: reason.Expired, Detail: "d"}, nil},
		{"expire between attempts", retrying, Expire{Detail: "d"}, noon, GivenUp{Reason: reason.Expired, Detail: "d"}, nil},
		{"expire what runs", running, Expire{}, noon, nil, ErrNotWaiting},
		{"expire what is finished", finished, Expire{}, noon, nil, ErrNotWaiting},
		{"give up what waits", pending, GiveUp{Reason: reason.Unplaced, Detail: "d"}, noon, GivenUp{Reason: reason.Unplaced, Detail: "d"}, nil},
		{"give up what runs", running, GiveUp{Reason: reason.Lost}, noon, GivenUp{Reason: reason.Lost}, nil},
		{"give up what is finished", finished, GiveUp{}, noon, nil, ErrEnded},
		{"reopen what is finished", finished, Reopen{Reason: "r"}, noon, Reopened{Reason: "r"}, nil},
		{"reopen what is abnormal", abnormal, Reopen{Reason: "r"}, noon, Reopened{Reason: "r"}, nil},
		{"reopen what runs", running, Reopen{}, noon, nil, ErrRunning},
		{"reopen what waits", pending, Reopen{}, noon, nil, ErrRunning},
		{"reopen what nobody knows", nil, Reopen{}, noon, nil, ErrUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Decide(given(c.given...), c.when, c.now)
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
	task := given(after(inError, Reopened{Reason: "again"}, AttemptStarted{Attempt: 2, Node: "n1", Offer: 1})...)
	e, err := Decide(task, Fail{Epoch: task.Epoch, Class: reason.Exit}, noon)
	if f, ok := e.(AttemptFailed); err != nil || !ok || f.Retry == nil || f.Retry.Due != noon.Add(10*time.Second) {
		t.Errorf("got %+v, %v; want the first retry", e, err)
	}
}

func TestDelayFallsByChance(t *testing.T) {
	jittery := work
	jittery.Spec = &job.Spec{Handler: "noop", Retry: job.Retry{Max: 1, Min: value.Duration(10 * time.Second), Jitter: 0.5}}
	e, err := Decide(given(Submitted{Work: jittery}, started), Fail{Epoch: 2, Class: reason.Exit, Chance: 0.5}, noon)
	if f, ok := e.(AttemptFailed); err != nil || !ok || f.Retry == nil || f.Retry.Due != noon.Add(7500*time.Millisecond) {
		t.Errorf("got %+v, %v; want a retry after 7.5s", e, err)
	}
}

type foreign struct{ Command }

// In every state every command is either decided or refused for a documented reason, and every
// decision takes effect.
func TestDecideMatrix(t *testing.T) {
	documented := []error{ErrUnknown, ErrEnded, ErrRunning, ErrStale, ErrFenced, ErrNotWaiting, ErrNotDead, ErrLeased}
	seen := map[State]bool{}
	for name, h := range histories {
		task := given(h.events...)
		if task.State != h.state {
			t.Errorf("%s: the task is %s, want %s", name, task.State, h.state)
		}
		seen[task.State] = true
		for _, c := range allCommands(task) {
			for _, now := range []time.Time{{}, noon, noon.Add(24 * time.Hour)} {
				e, err := Decide(task, c, now)
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
				next := Evolve(task, Recorded{Seq: task.Seq + 1, Chain: true, At: noon, Event: e})
				if _, late := e.(AttemptLate); !late && reflect.DeepEqual(state(next), state(task)) {
					t.Errorf("%s, %+v: %+v changed nothing", name, c, e)
				}
				if task.State.Terminal() {
					_, again := e.(Reopened)
					_, seen := e.(Dismissed)
					if _, late := e.(AttemptLate); !again && !late && !seen {
						t.Errorf("%s, %+v: %T follows on the end", name, c, e)
					}
				}
			}
		}
		if e, err := Decide(task, foreign{}, noon); err == nil {
			t.Errorf("%s: a foreign command gave %+v", name, e)
		}
	}
	for _, s := range States() {
		if !seen[s] && s != Held { // no history of this test ends held
			t.Errorf("no history ends in %s", s)
		}
	}
}

// state returns the parts of a task that decisions depend on, without its place in the log.
func state(t Task) [4]any { return [4]any{t.State, t.Turn, t.Epoch, t.Dismissed} }

func allCommands(t Task) []Command {
	all := []Command{Cancel{}, Expire{}, GiveUp{}, Reopen{}, Dismiss{}, ReportLate{}}
	for _, epoch := range []uint64{0, t.Epoch, t.Epoch + 1} {
		all = append(all, Finish{Epoch: epoch}, Fail{Epoch: epoch, Class: reason.Exit}, Fail{Epoch: epoch, Final: true},
			Stopped{Epoch: epoch}, Release{Epoch: epoch}, Lose{Epoch: epoch}, ReportLate{Epoch: epoch})
	}
	for _, turn := range []uint64{0, t.Turn, t.Turn + 1} {
		for _, offer := range []uint64{0, t.Offer, t.Offer + 1} {
			all = append(all, Claim{Node: "n2", Session: "s2", Offer: offer, After: turn},
				Claim{Node: "n2", Session: "s2", Offer: offer, After: turn, Rate: queue.Rate{Queue: "default", Since: 99}},
				Claim{Node: "n2", Session: "s2", Offer: offer, After: turn, Account: &Account{Epoch: t.Epoch, Session: t.Session, Now: noon}},
				Claim{Node: "n2", Session: "s2", Offer: offer, After: turn, Account: &Account{Epoch: t.Epoch, Session: t.Session, Now: noon, Claimed: noon, Lease: 1}})
		}
	}
	return all
}

// A held task accepts the commands of any waiting task.
func TestHeld(t *testing.T) {
	held := given(scheduled...)
	held.State = Held
	for _, c := range []Command{Claim{}, Cancel{}, Expire{}, GiveUp{}} {
		if e, err := Decide(held, c, noon); e == nil || err != nil {
			t.Errorf("%T of a held task: %v, %v", c, e, err)
		}
	}
	if _, missing := NextOffer(&held); missing {
		t.Error("a held task misses an offer")
	}
	if d := Owes(held, Surroundings{}, settings); d.Who == "nobody" {
		t.Error("nobody owes anything on a held task")
	}
}

// A duty of an earlier life of the task ends nothing.
func TestWhatWasJudgedHoldsForItsHead(t *testing.T) {
	k := Task{State: Pending, Head: 7}
	on := k.Head
	expire := Judged{Command: Expire{Detail: "late"}, On: &on}
	if e, err := k.Decide(expire, noon); err != nil || e != (GivenUp{Reason: reason.Expired, Detail: "late"}) {
		t.Errorf("at its head: %v, %v", e, err)
	}
	k.Head = 9
	if e, err := k.Decide(expire, noon); !errors.Is(err, ErrMovedOn) {
		t.Errorf("at another head: %v, %v", e, err)
	}
}
