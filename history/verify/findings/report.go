package findings

import (
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/node"
)

// Finding is one broken promise.
type Finding struct {
	// Rule is the promise that is broken, such as I-3.
	Rule Rule `json:"rule"`
	// Task or Node is the subject; both may be empty.
	Task task.ID `json:"task,omitempty"`
	Node node.ID `json:"node,omitempty"`
	// Seqs are the messages to look at. The one that breaks the promise comes last.
	Seqs []uint64 `json:"seqs,omitempty"`
	// What describes the fault.
	What string `json:"what"`
	// Look says where to look further.
	Look string `json:"look"`

	// The following fields are about a decision with another result under other settings.

	// Type is the type of the fact that records it, About the subject, and At the time of the
	// decision.
	Type  events.Type `json:"-"`
	About string      `json:"-"`
	At    time.Time   `json:"-"`
	// Never says that no fact records it: the decision would have been made by At.
	Never bool `json:"-"`
	// Job says that About is a job.
	Job bool `json:"-"`
	// Differs are the fields with another result, if the rest is the same.
	Differs Differences `json:"-"`
}

// Status is the result of a rule.
type Status string

// The statuses of a rule.
const (
	StatusOK       Status = "ok"
	StatusBroken   Status = "broken"
	StatusNothing  Status = "nothing to check"
	StatusUnknown  Status = "could not check"
	StatusNotAsked Status = "not asked"
)

// RuleReport is the result of one rule.
type RuleReport struct {
	// Rule is the rule's name, such as I-3, and Promise what it promises. Status is its result.
	Rule    Rule   `json:"rule"`
	Promise string `json:"promise"`
	Status  Status `json:"status"`
	// Checked counts the checked Things.
	Checked int    `json:"checked"`
	Things  string `json:"things"`
	// Unjudged counts the decisions among them that were not judged; Note says why. Other rules
	// have none.
	Unjudged int `json:"unjudged,omitempty"`
	// Violations counts all findings, including those that were not kept.
	Violations int `json:"violations"`
	// Note is a remark beside the status.
	Note string `json:"note,omitempty"`
}

// Report is the outcome.
type Report struct {
	// From is the beginning of the range: 1 for the beginning of the log. First and Last are the
	// sequences of the first and the last message read, 0 for none.
	From  uint64 `json:"from"`
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Now is the time for which deadlines were judged.
	Now time.Time `json:"now"`
	// Facts counts the readable facts, Probes the messages that are probes.
	Facts  int `json:"facts"`
	Probes int `json:"probes"`
	// Tasks counts the tasks in the range, and Open those that have not ended.
	Tasks int `json:"tasks"`
	Open  int `json:"open"`
	// Poison counts the unreadable messages, and PoisonSeqs has the first of them.
	Poison     int      `json:"poison"`
	PoisonSeqs []uint64 `json:"poison_seqs,omitempty"`
	// Unknown counts the facts of unknown types.
	Unknown map[events.Type]int `json:"unknown,omitempty"`
	// Backwards counts the messages that the log stored, by its own clock, more than the margin before
	// an earlier one, and BackwardsSeqs has the first of them.
	Backwards     int      `json:"backwards,omitempty"`
	BackwardsSeqs []uint64 `json:"backwards_seqs,omitempty"`
	// Repairs counts the offers that a scheduler placed in place of another component.
	Repairs int `json:"repairs"`
	// Violations counts the findings of all Rules, including those that were not kept.
	Violations int          `json:"violations"`
	Rules      []RuleReport `json:"rules"`
	// Findings are the kept findings of all rules.
	Findings []Finding `json:"findings"`
}

// UnknownFacts is the sum of Unknown.
func (r *Report) UnknownFacts() int {
	n := 0
	for _, k := range r.Unknown {
		n += k
	}
	return n
}
