package book

import (
	"time"

	"millrace/events"
	"millrace/node"
	"millrace/task"
)

// Finding is one broken promise.
type Finding struct {
	Rule Rule `json:"rule"`
	// Task or Node is what it is about; both may be empty.
	Task task.ID `json:"task,omitempty"`
	Node node.ID `json:"node,omitempty"`
	// Seqs are the messages to look at, the one that breaks the promise last.
	Seqs []uint64 `json:"seqs,omitempty"`
	// What says what is wrong.
	What string `json:"what"`
	// Look says what to look at.
	Look string `json:"look"`

	// What follows is about a decision that comes out differently under other settings.

	// Type is the type of the fact that records it, About what that is about, and At when it was decided.
	Type  events.Type `json:"-"`
	About string      `json:"-"`
	At    time.Time   `json:"-"`
	// Never says that no fact records it: it would have been made by At.
	Never bool `json:"-"`
	// Job says that About is a job.
	Job bool `json:"-"`
	// Differs are the fields that come out differently, if the rest does not.
	Differs Differences `json:"-"`
}

// Status is what came of a rule.
type Status string

// The statuses of a rule.
const (
	StatusOK       Status = "ok"
	StatusBroken   Status = "broken"
	StatusNothing  Status = "nothing to check"
	StatusUnknown  Status = "could not check"
	StatusNotAsked Status = "not asked"
)

// RuleReport is what came of one rule.
type RuleReport struct {
	Rule    Rule   `json:"rule"`
	Promise string `json:"promise"`
	Status  Status `json:"status"`
	// Checked counts the Things that were looked at.
	Checked int    `json:"checked"`
	Things  string `json:"things"`
	// Unjudged counts those of them that were not judged, of which Note says why: decisions only.
	Unjudged int `json:"unjudged,omitempty"`
	// Violations counts all findings, also those that were not kept.
	Violations int `json:"violations"`
	// Note says what the status does not.
	Note string `json:"note,omitempty"`
}

// Report is the outcome.
type Report struct {
	// From is where the range begins: 1 for the beginning of the log. First and
	// Last are the sequences of the first and the last message read, 0 for none.
	From  uint64 `json:"from"`
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Now is the time at which deadlines were judged.
	Now time.Time `json:"now"`
	// Facts counts what was understood, Probes the messages that are none.
	Facts  int `json:"facts"`
	Probes int `json:"probes"`
	// Tasks and Open count the tasks in the range, and those of them that have not ended.
	Tasks int `json:"tasks"`
	Open  int `json:"open"`
	// Poison counts the messages that could not be understood, and PoisonSeqs has the first of them.
	Poison     int      `json:"poison"`
	PoisonSeqs []uint64 `json:"poison_seqs,omitempty"`
	// Unknown counts the facts of types that this version does not know.
	Unknown map[events.Type]int `json:"unknown,omitempty"`
	// Repairs counts the offers that a scheduler placed because whoever should have, did not.
	Repairs    int          `json:"repairs"`
	Violations int          `json:"violations"`
	Rules      []RuleReport `json:"rules"`
	// Findings are of each rule as many as were to be kept.
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
