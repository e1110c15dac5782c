package task

import (
	"time"

	"millrace/task/breaker"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/reason"
	"millrace/task/value"
)

// By is what a decision was made by, beside the history of what it is about and the time at which it was
// made: that is the fact's own. With it everybody can make the decision again, with the function
// that made it. Facts that decide nothing, and decisions for which the history is enough, have none.
type By struct {
	// Rule says which rule decided, one of the Rule constants; "" where the fact itself tells.
	Rule string `json:"rule,omitempty"`
	// Seen is the sequence up to which nodes, queues and settings were known, and where limits decide, tasks; 0 for
	// none of it.
	Seen uint64 `json:"seen,omitempty"`
	// Cut says that more would have followed, and was left to the next decision.
	Cut bool `json:"cut,omitempty"`
	// Closed are chains of admissions on which the decision depends, and whose ends were not known.
	Closed []limit.Scope `json:"closed,omitempty"`
	// Task is the last message that was known of the task, where an offer may have come since that is not on its
	// chain; 0 where that does not count.
	Task uint64 `json:"task,omitempty"`
	// Node is the last fact that was known of the node that runs the task, or is to, where that was
	// read for its own sake: it may be later than Seen. 0 for none.
	Node uint64 `json:"node,omitempty"`
	// Queue is the last fact that was known of the queue in which the task waits; 0 if nobody looked.
	Queue uint64 `json:"queue,omitempty"`
	// Offer is what was claimed, where no attempt names it: of two births of one id, each has bounds of its own. A
	// decision on a tick names the fire that it follows from.
	Offer uint64 `json:"offer,omitempty"`
	// Beats says that the session that runs the task had a heartbeat, whatever its facts said.
	Beats bool `json:"beats,omitempty"`
	// Limit is the counter that had no place; "" if that was not asked.
	Limit string `json:"limit,omitempty"`
	// At is the time by which it was decided, where that is not the fact's own; by [RuleWatch] the tick whose fire has not come.
	At time.Time `json:"at,omitzero"`
	// Ends are, for each task that is needed, or has claimed the key before, or was open by the ledger of a schedule, in
	// their order, the last message that was known of it; 0 where nothing was. By [RulePerNode] they are the attempts that ran on the node.
	Ends []uint64 `json:"ends,omitempty"`
	// Unique is when others are in the way of a claim of a unique key; nil for the default.
	Unique *job.Unique `json:"unique,omitempty"`
	// Unmade says that children of which there was no birth by Seen count as cancelled: nobody was going to make them.
	Unmade bool `json:"unmade,omitempty"`
	// Circuit is the last fact of the job's breaker that was known, 0 for none, and Policy the breaker as the task had
	// it that asked, or that ended last.
	Circuit uint64           `json:"circuit,omitempty"`
	Policy  *breaker.Breaker `json:"policy,omitempty"`
	// Calendar is the revision of the calendar that the task's window names; 0 if there was none.
	Calendar uint64 `json:"calendar,omitempty"`
	// Flap is when a node comes and goes too often, and Alone says that nobody else served one of its queues.
	Flap  *FlapBounds `json:"flap,omitempty"`
	Alone bool        `json:"alone,omitempty"`
	// Self is the node that decided, and Peer the one to which it leaves the task rather than to any other; nil
	// where no node did.
	Self *Known `json:"self,omitempty"`
	Peer *Known `json:"peer,omitempty"`
	// Ran is the node on which the task, its job or its key ran last; "" if nobody knew.
	Ran string `json:"ran,omitempty"`
	// Drawn is the chance that was drawn, in [0,1); 0 if none was.
	Drawn float64 `json:"drawn,omitempty"`
	// Final says that the task itself said that no other attempt can mend it.
	Final bool `json:"final,omitempty"`
	// Since is since when who decided has seen nobody who would take the work; zero if that did not count. By
	// [RulePerNode] it is when the last one comes again that the node has postponed, if the task waits for that.
	Since time.Time `json:"since,omitzero"`
	// Bounds are the settings of who decided; nil if they did not count.
	Bounds *Bounds `json:"bounds,omitempty"`
	// Lease is by what the end of a lease was found; nil if none had to be.
	Lease *LeaseBy `json:"lease,omitempty"`
}

// The rules that [By.Rule] names.
const (
	// RuleClaim: what a claim of the task led to ([Claim]).
	RuleClaim = "claim"
	// RuleOwn: the word of the node that ran the attempt.
	RuleOwn = "own"
	// RuleBreaker: the breaker of the task's job ([breaker.Breaker.Admit]).
	RuleBreaker = "breaker"
	// RuleWindow: the window of the task (schedule.Window).
	RuleWindow = "window"
	// RulePerNode: the node runs as many tasks as the task lets run on one ([Crowd]).
	RulePerNode = "per_node"
	// RulePrefer: other nodes are better ([Task.HandsOver]).
	RulePrefer = "prefer"
	// RuleMeans: a node that cannot run the task leaves it to those that can ([Task.PassesOn]).
	RuleMeans = "means"
	// RuleDead: an offer that was handed out too often ([Undelivered]).
	RuleDead = "dead"
	// RuleLimit: a limit that has no place for the task ([Refuse]).
	RuleLimit = "limit"
	// RuleDuty: a duty that nobody had met ([Owes]).
	RuleDuty = "duty"
	// RuleStranger: a child of a parent is a task that the parent has not made ([Task.Strange]).
	RuleStranger = "stranger"
	// RuleLapsed: who claimed a unique key before was not born, or had it claimed for another life, and that was waited for.
	RuleLapsed = "lapsed"
	// RuleWatch: a tick whose fire has not come in time.
	RuleWatch = "watch"
	// RuleRelease: a tick that waited for the tasks of earlier ones.
	RuleRelease = "release"
	// RuleBirth: the birth of a tick's task was refused after the tick had got one.
	RuleBirth = "birth"
	// RuleBeats: of the nodes only those counted whose heartbeat lived.
	RuleBeats = "beats"
)

// Known is a node as it was known: At is its last fact.
type Known struct {
	Node string `json:"node"`
	At   uint64 `json:"at,omitempty"`
}

// Bounds are the [Settings] on which decisions depend.
type Bounds struct {
	StartDeadline value.Duration `json:"start_deadline,omitempty"`
	AckWait       value.Duration `json:"ack_wait,omitempty"`
	Slack         value.Duration `json:"slack,omitempty"`
	Timer         value.Duration `json:"timer,omitempty"`
}

// FlapBounds are the settings by which a node is quarantined and released, as package node has them.
type FlapBounds struct {
	Limit   float64 `json:"limit,omitempty"`
	Release float64 `json:"release,omitempty"`
}

// Bounds are those of the settings.
func (s Settings) Bounds() *Bounds {
	return &Bounds{value.Duration(s.StartDeadline), value.Duration(s.AckWait), value.Duration(s.Slack), value.Duration(s.Timer)}
}

// Settings are those of which these are the bounds.
func (b *Bounds) Settings() Settings {
	if b == nil {
		return Settings{}
	}
	return Settings{StartDeadline: b.StartDeadline.Std(), AckWait: b.AckWait.Std(), Slack: b.Slack.Std(), Timer: b.Timer.Std()}
}

// LeaseBy is what an [Account] was drawn up from. All times are the server's.
type LeaseBy struct {
	// Node is the last fact of the node that was known.
	Node uint64 `json:"node,omitempty"`
	// At is when it was asked what time it is, before anything else.
	At time.Time `json:"at,omitzero"`
	// Lasts is how long a lease lasts after the log last heard of it.
	Lasts value.Duration `json:"lasts,omitempty"`
	// Beat is when the node's heartbeat was stored, or if there was none, the mark of its end; zero if
	// there was no mark either.
	Beat time.Time `json:"beat,omitzero"`
	// Session is whose heartbeat it was; "" if there was none.
	Session string `json:"session,omitempty"`
	// Named says that the heartbeat named the attempt, and TTL how long it said that it lasts.
	Named bool           `json:"named,omitempty"`
	TTL   value.Duration `json:"ttl,omitempty"`
	// RanOut says that the mark was of a heartbeat that ran out; else the node had taken it back.
	RanOut bool `json:"ran_out,omitempty"`
}

// Judged is a command to which somebody came by more than the history of the task.
type Judged struct {
	Command
	By By
	// On is the head of the chain of which it was judged, if it holds for no other: a task that has moved on
	// since may owe something else, or nothing. nil if the command says itself what it is good for.
	On *uint64
}

// DecidedBy is what the event that follows from a command on the task was decided by; nil if the
// task itself and the time are all. It is asked before the event is applied.
func (t *Task) DecidedBy(c Command, e Event) *By {
	switch c := c.(type) {
	case Judged:
		by := c.By
		if own := t.DecidedBy(c.Command, e); own != nil {
			by.Lease = own.Lease
		}
		return &by
	case Fail:
		return t.failedBy(c, e)
	case Claim:
		if _, ends := e.(GivenUp); ends {
			by := &By{Rule: RuleClaim, Offer: c.Offer}
			if t.Live() {
				return c.Account.by(by)
			}
			if e.(GivenUp).Reason == reason.Unplaced {
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

// endedBy are the ends of the needed tasks, nil if somebody has simply said so.
func endedBy(ends []uint64) *By {
	if len(ends) == 0 {
		return nil
	}
	return &By{Ends: ends}
}

// by adds what the account was drawn up from to what a decision was made by.
func (a *Account) by(b *By) *By {
	from := a.From
	b.Lease = &from
	return b
}

// failedBy is the chance and the last word of a task, where its policy asks for them.
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
