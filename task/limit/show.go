package limit

import (
	"fmt"
	"strings"
	"time"

	"millrace/task/value"
)

// BudgetState is a budget for display.
type BudgetState struct {
	// Starts is how many may start in the period, and Used how many have; Run is how long they may run, Ran how long those ran
	// that have ended, and Reserved how long those under way may run. 0 of Starts or Run is no bound.
	Starts   int            `json:"starts,omitempty"`
	Used     int            `json:"used"`
	Run      value.Duration `json:"run,omitempty"`
	Ran      value.Duration `json:"ran"`
	Reserved value.Duration `json:"reserved,omitempty"`
	// Since is when the period began, and Resets when the next one begins.
	Since  time.Time `json:"since"`
	Resets time.Time `json:"resets"`
	// Spent says that no task may start now. Unmeasured says that one task under way reserves all
	// of the run time, because the run time of such tasks is unknown.
	Spent      bool `json:"spent,omitempty"`
	Unmeasured bool `json:"unmeasured,omitempty"`
}

// Share is the used share of the budget; 1 is all of it.
func (b *BudgetState) Share() (used float64) {
	if b.Starts > 0 {
		used = float64(b.Used) / float64(b.Starts)
	}
	if b.Run > 0 {
		used = max(used, float64(b.Ran)/float64(b.Run))
	}
	return used
}

// State returns the state of a budget for tasks with the allowance.
func (a Allowance) State(p Period, y Tally, u Underway, now time.Time) *BudgetState {
	y = y.At(p, now)
	reserved, known := u.Reserve(y)
	_, next := p.Bounds(now)
	return &BudgetState{
		Starts:     a.Starts,
		Used:       y.Starts + u.Starts,
		Run:        value.Duration(a.Run),
		Ran:        value.Duration(y.Ran),
		Reserved:   value.Duration(reserved),
		Since:      y.Since,
		Resets:     next,
		Spent:      a.Spent(y, u),
		Unmeasured: a.Run > 0 && !known,
	}
}

// Words describes in words how much of a budget is used up.
func (b *BudgetState) Words() string {
	var used []string
	if b.Starts > 0 {
		used = append(used, fmt.Sprintf("%d of %d starts", b.Used, b.Starts))
	}
	if b.Run > 0 {
		text := fmt.Sprintf("%v of %v", b.Ran, b.Run)
		switch {
		case b.Unmeasured:
			text += ", the rest for the first one, which still runs"
		case b.Reserved > 0:
			text += fmt.Sprintf(", %v for what is under way", b.Reserved)
		}
		used = append(used, text)
	}
	return strings.Join(used, " and ")
}
