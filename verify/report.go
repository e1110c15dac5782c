package verify

import "millrace/verify/book"

// The parts of a report, from package book.
type (
	Rule        = book.Rule
	Finding     = book.Finding
	Report      = book.Report
	RuleReport  = book.RuleReport
	Status      = book.Status
	Difference  = book.Difference
	Differences = book.Differences
)

// The statuses of a rule.
const (
	StatusOK       = book.StatusOK
	StatusBroken   = book.StatusBroken
	StatusNothing  = book.StatusNothing
	StatusUnknown  = book.StatusUnknown
	StatusNotAsked = book.StatusNotAsked
)

// The promises.
const (
	Deadlines   = book.Deadlines   // I-1
	OneEnd      = book.OneEnd      // I-2
	OneEpoch    = book.OneEpoch    // I-3
	Limits      = book.Limits      // I-4
	ExitSeen    = book.ExitSeen    // I-5
	OneTask     = book.OneTask     // I-6
	CauseFirst  = book.CauseFirst  // I-7
	ReadModel   = book.ReadModel   // I-8
	Survival    = book.Survival    // I-9
	NoScheduler = book.NoScheduler // I-10
	Decisions   = book.Decisions   // I-11
)

// Rules lists all rules.
func Rules() []Rule { return book.Rules() }

// ParseRule parses I-1 to I-11, in either case. The error lists the rules.
func ParseRule(s string) (Rule, error) { return book.ParseRule(s) }
