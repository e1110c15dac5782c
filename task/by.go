package task

import (
	"time"

	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/value"
)

// By holds the inputs of a decision, beside the history of its subject and the time of the fact.
// With them any reader can make the decision again, with the function that made it. Facts that
// decide nothing, and decisions that need only the history, have none.
type By struct {
	// Rule is one of the Rule constants; "" where the type of the fact already tells the rule.
	Rule string `json:"rule,omitempty" redact:"word"`
	// Seen is the log sequence up to which nodes, queues and settings were known, and tasks too for
	// decisions of limits; 0 if the decision used none of them.
	Seen uint64 `json:"seen,omitempty"`
	// Cut says that the decision reached its size limit and left the rest to the next one.
	Cut bool `json:"cut,omitempty"`
	// Closed are the admission chains on which the decision depends but whose ends were unknown.
	Closed []limit.Scope `json:"closed,omitempty" redact:"keep"`
	// Task is the last message known of the task, where an offer that is not on the task's chain
	// may have come since; 0 where that does not matter.
	Task uint64 `json:"task,omitempty"`
	// Node is the last fact known of the node that runs the task, or is to run it, where it was
	// read separately; it may be later than Seen. 0 for none.
	Node uint64 `json:"node,omitempty"`
	// Queue is the last fact known of the queue in which the task waits; 0 if it was not read.
	Queue uint64 `json:"queue,omitempty"`
	// Offer is the claimed offer, where no attempt names it: each of two births of one id has its
	// own bounds. For a decision on a planned run it is the fire that led to the decision.
	Offer uint64 `json:"offer,omitempty"`
	// Beats says that the session that runs the task had a heartbeat, regardless of its facts.
	Beats bool `json:"beats,omitempty"`
	// Limit is the counter without a free place; "" if limits were not consulted.
	Limit string `json:"limit,omitempty" redact:"counter"`
	// At is the time that the decision used, where it differs from the fact's own. By [RuleWatch]
	// it is the planned run whose fire has not come.
	At time.Time `json:"at,omitzero"`
	// Ends holds the last known message of each task that is needed, claimed the key before, or was
	// open in a schedule's ledger, in their order; 0 where none was known. By the rule per_node it
	// holds the attempts that ran on the node.
	Ends []uint64 `json:"ends,omitempty"`
	// Unique says when other tasks block a claim of a unique key; nil for the default.
	Unique *job.Unique `json:"unique,omitempty"`
	// Unmade says that children without a birth by Seen count as cancelled, because none would be
	// made.
	Unmade bool `json:"unmade,omitempty"`
	// Circuit is the last known fact of the job's breaker, 0 for none. Policy is the breaker in the
	// spec of the task that asked, or that ended last.
	Circuit uint64         `json:"circuit,omitempty"`
	Policy  *limit.Breaker `json:"policy,omitempty"`
	// Calendar is the revision of the calendar that the task's window names; 0 if there was none.
	Calendar uint64 `json:"calendar,omitempty"`
	// Flap says when a node counts as coming and going too often. Alone says that no other node
	// served one of its queues.
	Flap  *FlapBounds `json:"flap,omitempty"`
	Alone bool        `json:"alone,omitempty"`
	// Self is the node that decided. Peer is the node to which it leaves the task in preference to
	// all others. Both are nil where no node decided.
	Self *Known `json:"self,omitempty"`
	Peer *Known `json:"peer,omitempty"`
	// Ran is the node on which the task, its job or its key ran last; "" if unknown.
	Ran string `json:"ran,omitempty" redact:"keep"`
	// Drawn is the random number that was drawn, in [0,1); 0 if none was.
	Drawn float64 `json:"drawn,omitempty"`
	// Final says that the task reported its failure as final: no other attempt can mend it.
	Final bool `json:"final,omitempty"`
	// Since is when the decider began to see no node that would take the work; zero if that did not
	// matter. By the rule per_node it is when the last task that the node has postponed comes again, if
	// the task waits behind that.
	Since time.Time `json:"since,omitzero"`
	// Looked is how many nodes were looked at and took no work, where the end of the task says so; nil
	// if some did, or in facts of versions that did not say it.
	Looked *int `json:"looked,omitempty"`
	// Bounds are the settings of the decider; nil if they did not matter.
	Bounds *Bounds `json:"bounds,omitempty"`
	// Lease is the evidence by which a lease was found to have ended; nil if that was not needed.
	Lease *LeaseBy `json:"lease,omitempty"`
}

// Latest returns the highest sequence of the log that the inputs name; 0 if they name none. It lies
// before the fact.
func (b *By) Latest() uint64 {
	latest := max(b.Seen, b.Task, b.Node, b.Queue, b.Offer, b.Circuit)
	for _, seq := range b.Ends {
		latest = max(latest, seq)
	}
	for _, known := range []*Known{b.Self, b.Peer} {
		if known != nil {
			latest = max(latest, known.At)
		}
	}
	if b.Lease != nil {
		latest = max(latest, b.Lease.Node)
	}
	return latest
}

// The rules that [By.Rule] names, beside those of [job.Rules], which have their names there.
const (
	// RuleClaim: the outcome of a claim of the task ([Claim]).
	RuleClaim = "claim"
	// RuleOwn: the report of the node that ran the attempt.
	RuleOwn = "own"
	// RulePrefer: other nodes are better ([duties.HandsOver]).
	RulePrefer = "prefer"
	// RuleMeans: a node that cannot run the task passes it on to nodes that can ([duties.PassesOn]).
	RuleMeans = "means"
	// RuleDead: an offer that was handed out too often ([Undelivered]).
	RuleDead = "dead"
	// RuleLimit: a limit that has no place for the task ([Refuse]).
	RuleLimit = "limit"
	// RuleDuty: an unmet duty ([duties.Owes]).
	RuleDuty = "duty"
	// RuleStranger: a task that the parent did not make has the id of one of its children
	// ([birth.Strange]).
	RuleStranger = "stranger"
	// RuleLapsed: an earlier claimant of a unique key was never born, or claimed it for another
	// life, and the wait for it has passed.
	RuleLapsed = "lapsed"
	// RuleWatch: a tick whose fire did not come in time.
	RuleWatch = "watch"
	// RuleRelease: a tick that waited for the tasks of earlier ones.
	RuleRelease = "release"
	// RulePause: a tick that was due before its schedule was paused, and had no decision.
	RulePause = "pause"
	// RuleHand: a run by hand that counts for the overlap of its schedule.
	RuleHand = "hand"
	// RuleBirth: the birth of a tick's task was refused after the tick had a task.
	RuleBirth = "birth"
	// RuleBeats: only nodes with a live heartbeat counted.
	RuleBeats = "beats"
	// RuleHorizon: the log has forgotten the task, whose birth was offered again.
	RuleHorizon = "horizon"
)

// Known is a node as the decider knew it: At is its last known fact.
type Known struct {
	// Node is the node's id, and At the sequence of the last fact about it that was known.
	Node string `json:"node" redact:"keep"`
	At   uint64 `json:"at,omitempty"`
}

// Bounds are the settings on which decisions depend: most are [duties.Settings].
type Bounds struct {
	// StartDeadline, AckWait, Slack and Timer are those of the settings by then.
	StartDeadline value.Duration `json:"start_deadline,omitempty"`
	AckWait       value.Duration `json:"ack_wait,omitempty"`
	Slack         value.Duration `json:"slack,omitempty"`
	Timer         value.Duration `json:"timer,omitempty"`
	// RetireAfter is the setting node_retire_after by then.
	RetireAfter value.Duration `json:"retire_after,omitempty"`
}

// FlapBounds are the settings by which a node is quarantined and released, as package node has them.
type FlapBounds struct {
	// Limit and Release are the flap_limit and flap_release of the settings by then.
	Limit   float64 `json:"limit,omitempty"`
	Release float64 `json:"release,omitempty"`
}

// LeaseBy holds the evidence behind an [Account]. All times are the server's.
type LeaseBy struct {
	// Node is the last known fact of the node.
	Node uint64 `json:"node,omitempty"`
	// At is the server's time, read before anything else.
	At time.Time `json:"at,omitzero"`
	// Lasts is the length of a lease, counted from when the log last heard of the attempt.
	Lasts value.Duration `json:"lasts,omitempty"`
	// Beat is when the server stored the node's heartbeat or, without a heartbeat, the mark of its
	// end; zero if there was neither.
	Beat time.Time `json:"beat,omitzero"`
	// Session is the session of that heartbeat; "" if there was none.
	Session string `json:"session,omitempty" redact:"keep"`
	// Named says that the heartbeat named the attempt. TTL is its announced lifetime.
	Named bool           `json:"named,omitempty"`
	TTL   value.Duration `json:"ttl,omitempty"`
	// RanOut says that the heartbeat expired. False means that the node withdrew it.
	RanOut bool `json:"ran_out,omitempty"`
}

// Judged is a command whose decision used more than the history of the task.
type Judged struct {
	Command
	By By
}

// Unmoved is a command that holds only for the chain on which it was decided: a task that has moved
// on may owe something else, or nothing. Then it is refused with [ErrMovedOn].
type Unmoved struct {
	Command
	// Head is the [Task.Head] of that chain.
	Head uint64
}

// DecidedBy returns the inputs of the event that follows from a command on the task; nil if the
// event depends only on the task and the time. Call it before applying the event.
func (t *Task) DecidedBy(c Command, e Event) *By {
	switch c := c.(type) {
	case Judged:
		by := c.By
		if own := t.DecidedBy(c.Command, e); own != nil {
			by.Lease = own.Lease
		}
		return &by
	case Unmoved:
		return t.DecidedBy(c.Command, e)
	case Fail:
		return t.failedBy(c, e)
	case Claim:
		if _, ends := e.(GivenUp); ends {
			by := &By{Rule: RuleClaim, Offer: c.Offer}
			if t.Live() {
				return c.Account.by(by)
			}
			if e.(GivenUp).Reason == value.Unplaced {
				by.Self = &Known{c.Node, c.At}
			}
			return by
		}
		if t.Live() {
			return c.Account.by(&By{})
		}
	case Unhold:
		return endedBy(c.Ends)
	case Skip:
		return endedBy(c.Ends)
	case HandOver:
		return &By{Rule: RulePrefer, Self: &c.Self, Peer: &c.Peer, Ran: c.Ran}
	case PassOn:
		return &By{Rule: RuleMeans, Self: &c.Self}
	case Lose:
		if _, lost := e.(CancelConfirmed); c.Account == nil && !lost {
			return &By{Rule: RuleOwn}
		}
		if _, cancelled := e.(CancelConfirmed); c.Account != nil && !cancelled {
			return c.Account.by(&By{})
		}
	}
	return nil
}

// endedBy records the ends of the needed tasks; nil if a person opened the hold by hand.
func endedBy(ends []uint64) *By {
	if len(ends) == 0 {
		return nil
	}
	return &By{Ends: ends}
}

// by adds the evidence of the account to the inputs of a decision.
func (a *Account) by(b *By) *By {
	from := a.From
	b.Lease = &from
	return b
}

// failedBy records the random number and the final flag, where the retry policy uses them.
func (t *Task) failedBy(c Fail, e Event) *By {
	if _, failed := e.(AttemptFailed); !failed || t.Spec == nil || t.Spec.Retry.Max == 0 {
		return nil
	}
	by := By{Final: c.Final}
	if t.Spec.Retry.Jitter > 0 {
		by.Drawn = c.Chance
	}
	if !by.Final && by.Drawn == 0 {
		return nil
	}
	return &by
}
