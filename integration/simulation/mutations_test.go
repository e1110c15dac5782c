package simulation

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/node"
	"millrace/worker/claim"
)

// enough seeds to find any of the mutations.
const enough = 3000

// searched calls try with up to enough seeds until one succeeds, and tells whether any did. It
// begins with a seed that is known to succeed and tries those before it last: a search is short
// while that holds, and always complete.
func searched(known uint64, try func(seed uint64) bool) bool {
	for i := range uint64(enough) {
		if try((known + i) % enough) {
			return true
		}
	}
	return false
}

// A simulation that finds no fault proves something only if it finds planted ones: each of these
// histories lacks one rule, and the promise that depends on it must be found broken.
func TestMutations(t *testing.T) {
	for _, m := range []struct {
		name    string
		lacks   variant
		promise error
		// verify is the rule by which package verify finds it; 0 if it cannot, for it trusts no
		// clock.
		verify verify.Rule
		// known is a seed that finds it.
		known uint64
	}{
		{"the log ignores the expected sequence", variant{log: func(p *port) events.Log { return unchecked{p} }}, errI3, verify.OneEpoch, 23},
		{"a fenced result is recorded all the same", variant{protocol: func(p *claim.Protocol) protocol { return unfenced{p} }}, errI3, verify.OneEpoch, 76},
		{"an offer that is delivered ends a lease", variant{protocol: func(p *claim.Protocol) protocol { return credulous(p) }}, errOverlap, verify.OneEpoch, 9},
		{"heartbeats name nothing", variant{nameless: true}, errOverlap, 0, 779},
		{"a node that beats holds all its leases", variant{protocol: func(p *claim.Protocol) protocol { return trustful(p) }}, errI2, verify.OneEnd, 131},
		{"any offer takes an attempt over", variant{protocol: func(p *claim.Protocol) protocol { return grabbing{p} }}, errI3, verify.OneEpoch, 28},
		{"the offer is acknowledged before what follows is durable", variant{protocol: func(p *claim.Protocol) protocol { return hasty{p} }}, errI2, verify.OneEnd, 121},
		{"a birth without an answer counts as recorded", variant{log: func(p *port) events.Log { return trusting{p} }}, errI2, verify.Survival, 19},
		{"a running task is cancelled without its exit", variant{log: func(p *port) events.Log { return brusque{p} }}, errI5, verify.ExitSeen, 9},
		{"an admission does not expect the chain of a second counter", variant{log: func(p *port) events.Log { return forgetful{p} }, crowded: true}, errI4, verify.Limits, 613},
		{"an admission leaves out the chain of a second counter", variant{log: func(p *port) events.Log { return halving{p} }, crowded: true}, errI4, verify.Limits, 621},
		{"timers fire at once", variant{log: func(p *port) events.Log { return impatient{p} }}, errI7, 0, 2},
		{"an offer that is owed is not placed", variant{log: func(p *port) events.Log { return remiss{p, "offer"} }}, errI2, verify.OneEnd, 7},
		{"whoever owes an offer leaves it to the sweep", variant{log: func(p *port) events.Log { return lazy(p, "offer") }}, errOwed, 0, 251},
		{"whoever owes a timer leaves it to the sweep", variant{log: func(p *port) events.Log { return lazy(p, "timer") }}, errOwed, 0, 37},
		{"a timer that is owed is not set", variant{log: func(p *port) events.Log { return remiss{p, "timer"} }}, errI2, verify.OneEnd, 3},
		{"a timer of a task that has ended is left", variant{log: func(p *port) events.Log { return remiss{p, "disarm"} }}, errOwed, 0, 296},
		{"nobody admits", variant{log: func(p *port) events.Log { return remiss{p, "admission"} }}, errI2, verify.OneEnd, 0},
		{"nobody says that an attempt is lost", variant{log: func(p *port) events.Log { return remiss{p, string(events.AttemptLost)} }}, errI2, verify.OneEnd, 574},
		{"nobody ends what waits for too long", variant{log: func(p *port) events.Log { return remiss{p, string(events.TaskAbnormal)} }}, errI2, verify.OneEnd, 2},
		{"nobody moves what waits for a node that is gone", variant{log: func(p *port) events.Log { return remiss{p, string(events.TaskReassigned)} }}, errI2, verify.OneEnd, 32},
		{"nobody says that a node is silent", variant{log: func(p *port) events.Log { return remiss{p, string(events.NodeOffline)} }}, errI2, verify.OneEnd, 12},
		{"nobody reopens the steps of a retried parent", variant{log: func(p *port) events.Log { return selfish{p} }, families: true, length: longFamilies.length}, errI2, verify.OneEnd, 9},
		{"a retried parent ends before its steps are reopened", variant{log: func(p *port) events.Log { return heedless{p} }, families: true, length: longFamilies.length}, errRetry, verify.Decisions, 0},
		{"the next offer is placed before its cause", variant{protocol: func(p *claim.Protocol) protocol { return eager{p} }}, errI7, verify.CauseFirst, 1},
	} {
		t.Run(m.name, func(t *testing.T) {
			if !searched(m.known, func(seed uint64) bool {
				h := play(t, seed, m.lacks)
				if !errors.Is(h.failure, m.promise) {
					return false
				}
				t.Logf("found by seed %d: %v", seed, h.failure)
				if found := h.rulesFound(t); m.verify != 0 && !slices.Contains(found, m.verify) {
					t.Errorf("package verify finds %v broken, want %v\n%s", found, m.verify, telling(h.stories[h.blamed]))
				}
				return true
			}) {
				t.Errorf("%d seeds did not find that %v", enough, m.promise)
			}
		})
	}
}

// credulous takes every delivery for the end of a lease: its accounts are of a day later.
func credulous(p *claim.Protocol) *claim.Protocol {
	p.Accounts = &events.Accounts{Log: p.Accounts.Log, Beats: pulses{p.Accounts.Beats, func(n *node.Pulse) {
		*n = node.Pulse{Now: n.Now.Add(24 * time.Hour)}
	}}, Lease: ackWait}
	return p
}

// trustful takes a heartbeat for a word about everything that its node was seen to run.
func trustful(p *claim.Protocol) *claim.Protocol {
	p.Accounts = &events.Accounts{Log: p.Accounts.Log, Beats: pulses{p.Accounts.Beats, func(n *node.Pulse) {
		for seq := range uint64(1000) {
			n.Beat.Runs = append(n.Beat.Runs, seq)
		}
	}}, Lease: ackWait}
	return p
}

// pulses are heartbeats as a reader sees them that is wrong about them.
type pulses struct {
	events.Pulses
	seen func(*node.Pulse)
}

func (p pulses) Pulse(ctx context.Context, id node.ID) (node.Pulse, error) {
	n, err := p.Pulses.Pulse(ctx, id)
	p.seen(&n)
	return n, err
}

// unchecked records facts whatever the chain's last sequence.
type unchecked struct{ *port }

func (l unchecked) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	for {
		seq, err := l.port.Append(ctx, f, last)
		if !errors.Is(err, events.ErrConflict) {
			return seq, err
		}
		var records []events.Record
		switch {
		case f.Task != "":
			records, err = l.Memory.Task(ctx, f.Task)
		case f.Scope != "":
			_, last, err = l.Memory.Latest(ctx, *f)
		default:
			records, err = l.Memory.Node(ctx, f.Node, 0)
		}
		if err != nil {
			return 0, err
		}
		for _, r := range records {
			if r.Kind == events.KindChain || r.Kind == events.KindNode {
				last = r.Seq
			}
		}
	}
}

// forgetful records admissions whatever the last sequences of the chains, except the first.
type forgetful struct{ *port }

func (l forgetful) AppendAll(ctx context.Context, facts []*events.Fact, last []uint64) (uint64, error) {
	for i := 1; i < len(facts); i++ {
		if facts[i-1].Scope != "" {
			_, last[i], _ = l.Memory.Latest(ctx, *facts[i])
		}
	}
	return l.port.AppendAll(ctx, facts, last)
}

// halving records facts of several chains only up to the first that has a scope.
type halving struct{ *port }

func (l halving) AppendAll(ctx context.Context, facts []*events.Fact, last []uint64) (uint64, error) {
	first := slices.IndexFunc(facts, func(f *events.Fact) bool { return f.Scope != "" })
	return l.port.AppendAll(ctx, facts[:first+1], last[:first+1])
}

// unfenced writes a result that was refused.
type unfenced struct{ *claim.Protocol }

func (p unfenced) Report(ctx context.Context, t *task.Task, o *events.Offer, c task.Command) error {
	err := p.Protocol.Report(ctx, t, o, c)
	if !errors.Is(err, task.ErrFenced) {
		return err
	}
	event, _ := t.Decide(c, p.Recorder.Now())
	now, loadErr := p.Recorder.Load(ctx, t.ID)
	if event == nil || loadErr != nil {
		return err
	}
	_, err = p.Recorder.Log.Append(ctx, p.Recorder.Fact(t.ID, event), now.Head)
	return err
}

// grabbing takes a live attempt over without asking whose lease expired.
type grabbing struct{ *claim.Protocol }

func (p grabbing) Claim(ctx context.Context, o *events.Offer, t *task.Task) (bool, error) {
	now, err := p.Recorder.Load(ctx, o.Fact.Task)
	if err != nil || !now.Live() {
		return p.Protocol.Claim(ctx, o, t)
	}
	*t = now
	f := p.Recorder.Fact(t.ID, task.AttemptStarted{
		Attempt: t.Attempt + 1, Node: string(p.Node), Session: p.Session, Offer: o.Seq, TookOver: &task.TookOver{Epoch: t.Epoch},
	})
	seq, err := p.Recorder.Log.Append(ctx, f, t.Head)
	if err != nil {
		return false, err
	}
	t.Apply(task.Recorded{Seq: seq, Chain: true, At: f.At, Event: f.Event.(task.Event)})
	return true, nil
}

// hasty acknowledges first and settles then.
type hasty struct{ *claim.Protocol }

func (p hasty) Report(ctx context.Context, t *task.Task, o *events.Offer, c task.Command) error {
	if err := o.Ack(); err != nil {
		return err
	}
	return p.Protocol.Report(ctx, t, o, c)
}

// trusting believes that a birth was recorded.
type trusting struct{ *port }

func (l trusting) Place(ctx context.Context, f *events.Fact) (uint64, error) {
	seq, err := l.port.Place(ctx, f)
	if _, birth := f.Event.(task.Submitted); birth && errors.Is(err, events.ErrUnknown) {
		return 1, nil
	}
	return seq, err
}

// brusque makes a request to stop the end of the task.
type brusque struct{ *port }

func (l brusque) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	if e, ok := f.Event.(task.CancelRequested); ok {
		cancelled := *f
		cancelled.Event, cancelled.Type = task.CancelConfirmed{Reason: e.Reason}, events.TaskCancelled
		f = &cancelled
	}
	return l.port.Append(ctx, f, last)
}

// impatient does not wait until an offer is due.
type impatient struct{ *port }

func (l impatient) Arm(ctx context.Context, f *events.Fact) error {
	_, err := l.port.Place(ctx, f)
	return err
}

// eager places the offer of the next attempt before the fact that it follows from.
type eager struct{ *claim.Protocol }

func (p eager) Report(ctx context.Context, t *task.Task, o *events.Offer, c task.Command) error {
	event, err := t.Decide(c, p.Recorder.Now())
	if err != nil {
		return err
	}
	next := task.Evolve(*t, task.Recorded{Seq: t.Head + 1, Chain: true, At: p.Recorder.Now(), Event: event})
	if err := p.Recorder.Settle(ctx, &next); err != nil {
		return err
	}
	return p.Protocol.Report(ctx, t, o, c)
}

// remiss leaves one kind of duty undone: it believes that an owed offer or timer exists, or reports
// that a fact cannot be recorded.
type remiss struct {
	*port
	what string
}

// lazy is remiss with all but schedulers.
func lazy(p *port, what string) events.Log {
	if strings.HasPrefix(p.actor.name, "sched-") {
		return p
	}
	return remiss{p, what}
}

func (l remiss) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	if l.leaves(f) {
		return 0, l.actor.call(&call{kind: read, op: "leave out " + string(f.Type), task: f.Task, do: func() error { return context.Canceled }})
	}
	return l.port.Append(ctx, f, last)
}

func (l remiss) AppendAll(ctx context.Context, facts []*events.Fact, last []uint64) (uint64, error) {
	if slices.ContainsFunc(facts, l.leaves) {
		return 0, l.actor.call(&call{kind: read, op: "leave out several facts", do: func() error { return context.Canceled }})
	}
	return l.port.AppendAll(ctx, facts, last)
}

func (l remiss) leaves(f *events.Fact) bool {
	return l.what == string(f.Type) || l.what == "admission" && f.Scope != ""
}

func (l remiss) Place(ctx context.Context, f *events.Fact) (uint64, error) {
	if _, offer := f.Event.(task.Queued); offer && l.what == "offer" {
		return 1, nil
	}
	return l.port.Place(ctx, f)
}

func (l remiss) Arm(ctx context.Context, f *events.Fact) error {
	if l.what == "timer" {
		return nil
	}
	return l.port.Arm(ctx, f)
}

func (l remiss) Disarm(ctx context.Context, id task.ID, before uint64) error {
	if l.what == "disarm" {
		return nil
	}
	return l.port.Disarm(ctx, id, before)
}
