package limit

import "time"

// CircuitState is the state of a breaker.
type CircuitState string

// The states of a breaker.
const (
	// StateClosed lets all tasks start.
	StateClosed CircuitState = "closed"
	// StateOpen lets none start.
	StateOpen CircuitState = "open"
	// StateHalfOpen lets a few tasks start, as trials.
	StateHalfOpen CircuitState = "half_open"
)

// Circuit is the sum of the facts about a job's breaker. Each fact is complete, so the last one
// alone gives the state.
type Circuit struct {
	// State is closed, open or half_open.
	State CircuitState `json:"state"`
	// Reason explains the state in words.
	Reason string `json:"reason,omitempty"`
	// Since is when the state began, and From the sequence of its fact. For a half open circuit of
	// which only the last fact was read, they are those of the last trial.
	Since time.Time `json:"since,omitzero"`
	From  uint64    `json:"from,omitempty"`
	// Until is when an open circuit becomes half open. For trials it is when silent ones stop
	// counting, so that others may start.
	Until time.Time `json:"until,omitzero"`
	// Left is how many trials may still start.
	Left int `json:"left,omitempty"`
	// Head is the sequence of the last fact, which the next one must expect. 0 for none.
	Head uint64 `json:"head,omitempty"`
}

// CircuitEvent is a fact about the breaker of a job. The set is closed.
type CircuitEvent interface{ isBreakerEvent() }

// Opened records that too many attempts have failed.
type Opened struct {
	Reason string    `json:"reason,omitzero" redact:"hide"`
	Until  time.Time `json:"until,omitzero"`
}

// HalfOpened records that the cooldown is over.
type HalfOpened struct {
	Reason string    `json:"reason,omitzero" redact:"hide"`
	Until  time.Time `json:"until,omitzero"`
	// Left is how many trials may start.
	Left int `json:"left,omitzero"`
}

// Tried records that a task starts as a trial.
type Tried struct {
	// Reason names the task.
	Reason string    `json:"reason,omitzero" redact:"hide"`
	Until  time.Time `json:"until,omitzero"`
	Left   int       `json:"left,omitzero"`
}

// Closed records that all tasks may start again.
type Closed struct {
	Reason string `json:"reason,omitzero" redact:"hide"`
}

func (Opened) isBreakerEvent()     {}
func (HalfOpened) isBreakerEvent() {}
func (Tried) isBreakerEvent()      {}
func (Closed) isBreakerEvent()     {}

// EvolveCircuit adds the fact at a sequence to the state of a breaker. It is total. A fact at or below
// Head changes nothing; an unknown fact changes only Head.
func EvolveCircuit(c Circuit, seq uint64, at time.Time, e CircuitEvent) Circuit {
	if seq <= c.Head {
		return c
	}
	c.Head = seq
	begin := func(state CircuitState) { c.State, c.Since, c.From = state, at, seq }
	switch e := e.(type) {
	case Opened:
		begin(StateOpen)
		c.Reason, c.Until, c.Left = e.Reason, e.Until, 0
	case HalfOpened:
		begin(StateHalfOpen)
		c.Reason, c.Until, c.Left = e.Reason, e.Until, e.Left
	case Tried:
		if c.State != StateHalfOpen {
			begin(StateHalfOpen)
		}
		c.Reason, c.Until, c.Left = e.Reason, e.Until, e.Left
	case Closed:
		begin(StateClosed)
		c.Reason, c.Until, c.Left = e.Reason, time.Time{}, 0
	}
	if c.State == "" {
		c.State = StateClosed
	}
	return c
}

// Closed tells whether all tasks may start.
func (c Circuit) Closed() bool { return c.State == StateClosed || c.State == "" }

func (c Circuit) whyHalfOpen() string {
	if c.State == StateHalfOpen {
		return "nothing was heard of the trials"
	}
	return "the cooldown is over"
}
