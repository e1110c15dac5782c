package task

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"millrace/task/reason"
	"millrace/task/value"
)

// Breaker keeps the tasks of a job from starting while the job fails: a circuit
// breaker. When Failures attempts have failed within a time it opens, and what
// would start is held back. After the cooldown it is half open: a few may start, as
// trials. If they finish it closes, and if one fails it opens again.
type Breaker struct {
	// Failures is how many failed attempts of the job's tasks open it; at least 1. Attempts that
	// were lost or given back are none.
	Failures int `json:"failures"`
	// Within is the time in which that many must fail. Default 1m.
	Within value.Duration `json:"within,omitempty"`
	// Cooldown is how long it stays open, and how long trials may take. Default 1m.
	Cooldown value.Duration `json:"cooldown,omitempty"`
	// HalfOpen is how many trials start when the cooldown is over; all must finish. Default 1.
	HalfOpen int `json:"half_open,omitempty"`
	// OnOpen is what becomes of tasks that would start meanwhile. Default hold.
	OnOpen string `json:"on_open,omitempty"`
}

// Values of [Breaker.OnOpen].
const (
	// OnOpenHold has them wait until the cooldown is over.
	OnOpenHold = "hold"
	// OnOpenFail ends them as abnormal/breaker.
	OnOpenFail = "fail"
)

// OnOpens lists the values of [Breaker.OnOpen].
var OnOpens = []string{OnOpenHold, OnOpenFail}

// Defaults of [Breaker].
const (
	DefaultBreakerWithin   = time.Minute
	DefaultBreakerCooldown = time.Minute
)

func (b *Breaker) within() time.Duration {
	if b.Within == 0 {
		return DefaultBreakerWithin
	}
	return b.Within.Std()
}

func (b *Breaker) cooldown() time.Duration {
	if b.Cooldown == 0 {
		return DefaultBreakerCooldown
	}
	return b.Cooldown.Std()
}

func (b *Breaker) trials() int { return max(b.HalfOpen, 1) }

func (b *Breaker) validate() error {
	switch {
	case b == nil:
		return nil
	case b.Failures < 1:
		return fmt.Errorf("breaker.failures is %d, want at least 1", b.Failures)
	case b.HalfOpen < 0:
		return fmt.Errorf("breaker.half_open is %d, want 1 or more", b.HalfOpen)
	case b.OnOpen != "" && !slices.Contains(OnOpens, b.OnOpen):
		return fmt.Errorf("breaker.on_open is %q, want %s or %s", b.OnOpen, OnOpenHold, OnOpenFail)
	}
	return cmp.Or(value.NotBelowZero("breaker.within", b.Within), value.NotBelowZero("breaker.cooldown", b.Cooldown))
}

// CircuitState is how a breaker stands.
type CircuitState string

// The states of a breaker.
const (
	// CircuitClosed lets all tasks start.
	CircuitClosed CircuitState = "closed"
	// CircuitOpen lets none start.
	CircuitOpen CircuitState = "open"
	// CircuitHalfOpen lets a few start, as trials.
	CircuitHalfOpen CircuitState = "half_open"
)

// Circuit is the sum of the facts about a job's breaker. Each fact says all that
// follows from it, so the last one is enough to know how it stands.
type Circuit struct {
	State CircuitState `json:"state"`
	// Reason is why, in words.
	Reason string `json:"reason,omitempty"`
	// Since is when the state began, and From the sequence of the fact; of a half open one of
	// which only the last fact was read, those of the last trial.
	Since time.Time `json:"since,omitzero"`
	From  uint64    `json:"from,omitempty"`
	// Until is when an open one becomes half open, and when trials of which
	// nothing was heard count for nothing, so that others may start.
	Until time.Time `json:"until,omitzero"`
	// Left is how many trials may still start.
	Left int `json:"left,omitempty"`
	// Head is the sequence of the last fact: what the next one must expect. 0 for none.
	Head uint64 `json:"head,omitempty"`
}

// BreakerEvent is a fact about the breaker of a job. The set is closed.
type BreakerEvent interface{ isBreakerEvent() }

// BreakerOpened says that too many attempts have failed.
type BreakerOpened struct {
	Reason string    `json:"reason,omitzero"`
	Until  time.Time `json:"until,omitzero"`
}

// BreakerHalfOpened says that the cooldown is over.
type BreakerHalfOpened struct {
	Reason string    `json:"reason,omitzero"`
	Until  time.Time `json:"until,omitzero"`
	// Left is how many trials may start.
	Left int `json:"left,omitzero"`
}

// BreakerTried says that a task starts as a trial.
type BreakerTried struct {
	// Reason names the task.
	Reason string    `json:"reason,omitzero"`
	Until  time.Time `json:"until,omitzero"`
	Left   int       `json:"left,omitzero"`
}

// BreakerClosed says that all may start again.
type BreakerClosed struct {
	Reason string `json:"reason,omitzero"`
}

func (BreakerOpened) isBreakerEvent()     {}
func (BreakerHalfOpened) isBreakerEvent() {}
func (BreakerTried) isBreakerEvent()      {}
func (BreakerClosed) isBreakerEvent()     {}

// EvolveCircuit adds the fact at a sequence to what is known of a breaker. It is
// total; a fact at or below Head changes nothing, and one that is not understood only Head.
func EvolveCircuit(c Circuit, seq uint64, at time.Time, e BreakerEvent) Circuit {
	if seq <= c.Head {
		return c
	}
	c.Head = seq
	begin := func(state CircuitState) { c.State, c.Since, c.From = state, at, seq }
	switch e := e.(type) {
	case BreakerOpened:
		begin(CircuitOpen)
		c.Reason, c.Until, c.Left = e.Reason, e.Until, 0
	case BreakerHalfOpened:
		begin(CircuitHalfOpen)
		c.Reason, c.Until, c.Left = e.Reason, e.Until, e.Left
	case BreakerTried:
		if c.State != CircuitHalfOpen {
			begin(CircuitHalfOpen)
		}
		c.Reason, c.Until, c.Left = e.Reason, e.Until, e.Left
	case BreakerClosed:
		begin(CircuitClosed)
		c.Reason, c.Until, c.Left = e.Reason, time.Time{}, 0
	}
	if c.State == "" {
		c.State = CircuitClosed
	}
	return c
}

// Closed tells whether all tasks may start.
func (c Circuit) Closed() bool { return c.State == CircuitClosed || c.State == "" }

// Admission is what a breaker says to a task that would start.
type Admission struct {
	// Event must be recorded at Head before anything else; then the breaker is asked again. nil if
	// there is nothing to record.
	Event BreakerEvent
	// Trial says that with Event recorded the task may start.
	Trial bool
	// Hold is what becomes of the task; nil if it may start, or Event comes first.
	Hold Command
}

// Admit says whether a task of a job may start now. Chance is in [0,1) and
// spreads the return of what is held, over a tenth of the cooldown.
func (b *Breaker) Admit(c Circuit, t Task, now time.Time, chance float64) Admission {
	fresh := now.Add(b.cooldown())
	switch {
	case c.Closed():
		return Admission{}
	case !now.Before(c.Until):
		// Nobody had to wait for a scheduler to say so.
		return Admission{Event: BreakerHalfOpened{Reason: c.whyHalfOpen(), Until: fresh, Left: b.trials()}}
	case c.State == CircuitHalfOpen && c.Left > 0:
		return Admission{Event: BreakerTried{Reason: "trial: task " + string(t.ID), Until: c.Until, Left: c.Left - 1}, Trial: true}
	}
	if b.OnOpen == OnOpenFail {
		return Admission{Hold: GiveUp{Reason: reason.Breaker, Detail: b.words(c, t.Job)}}
	}
	until := c.Until
	if c.State == CircuitHalfOpen { // the trials may be over soon
		until = now.Add(min(max(b.cooldown()/4, time.Second), 30*time.Second, c.Until.Sub(now)))
	}
	until = until.Add(time.Duration(chance * float64(b.cooldown()) / 10).Truncate(time.Microsecond))
	if !t.StartBy.IsZero() && t.StartBy.Before(until) {
		until = t.StartBy // it expires then, and not later
	}
	return Admission{Hold: Postpone{After: t.Turn, Reason: reason.Breaker, Detail: b.words(c, t.Job), Due: until}}
}

func (c Circuit) whyHalfOpen() string {
	if c.State == CircuitHalfOpen {
		return "nothing was heard of the trials"
	}
	return "the cooldown is over"
}

func (b *Breaker) words(c Circuit, job string) string {
	if c.State == CircuitHalfOpen {
		return fmt.Sprintf("the breaker of job %s is half open, and its trials run", job)
	}
	return fmt.Sprintf("the breaker of job %s is open until %s: %s", job, value.Clock(c.Until), c.Reason)
}

// Outcomes are the ends of attempts of a job's tasks, as far as its breaker asks for them.
type Outcomes struct {
	// failed are the last failures, the oldest first, at most as many as open the breaker.
	failed []time.Time
	last   string // what the last one said
	// tried and broken count the trials that finished and that failed.
	tried, broken int
}

// Outcome is the end of an attempt.
type Outcome struct {
	At time.Time
	// Epoch is the sequence at which it started: an attempt of before the half open
	// state is no trial, whatever the clocks say.
	Epoch uint64
	// Failed says that it failed, and What how; else it finished.
	Failed bool
	What   string
}

// OutcomeOf is the end of the attempt of an epoch that a fact records; false if it is none that counts.
func OutcomeOf(e Event, at time.Time, epoch uint64) (Outcome, bool) {
	o := Outcome{At: at, Epoch: epoch}
	switch e := e.(type) {
	case AttemptFinished:
	case AttemptFailed:
		o.Failed, o.What = true, e.Class
		if e.Class == reason.Exit && e.Exit != nil {
			o.What = fmt.Sprintf("exit %d", *e.Exit)
		}
	default:
		return o, false
	}
	return o, true
}

// Add counts an end. Circuit is how the breaker stood then.
func (o *Outcomes) Add(b *Breaker, c Circuit, e Outcome) {
	if c.State == CircuitHalfOpen && e.Epoch > c.From {
		if e.Failed {
			o.broken++
		} else {
			o.tried++
		}
	}
	if !e.Failed {
		return
	}
	o.last = e.What
	o.failed = append(o.failed, e.At)
	if over := len(o.failed) - b.Failures; over > 0 {
		o.failed = slices.Delete(o.failed, 0, over)
	}
}

// Moved says that the breaker is in another state, or in one anew: trials begin to
// count anew, and after it has closed failures do.
func (o *Outcomes) Moved(c Circuit) {
	o.tried, o.broken = 0, 0
	if c.Closed() {
		o.failed = nil
	}
}

// Enough tells whether as many trials have finished as a closing names, and as the breaker asks for.
func (o *Outcomes) Enough(b *Breaker, e BreakerClosed) bool {
	for n := b.trials(); n <= o.tried; n++ {
		if e.Reason == closedWords(n, b.trials()) {
			return o.broken == 0
		}
	}
	return false
}

func closedWords(tried, of int) string { return fmt.Sprintf("%d of %d trials finished", tried, of) }

// Judge says what follows for a breaker from how the attempts of its job's tasks
// ended; nil if nothing does.
func (b *Breaker) Judge(c Circuit, o *Outcomes, now time.Time) BreakerEvent {
	switch {
	case c.Closed():
		from := now.Add(-b.within())
		n := 0
		for _, at := range o.failed {
			if at.After(from) {
				n++
			}
		}
		if n < b.Failures {
			return nil
		}
		return BreakerOpened{Until: now.Add(b.cooldown()), Reason: fmt.Sprintf("%d attempts failed within %v, the last one with %s", n, b.within(), o.last)}
	case c.State == CircuitOpen:
		if now.Before(c.Until) {
			return nil
		}
		return BreakerHalfOpened{Reason: c.whyHalfOpen(), Until: now.Add(b.cooldown()), Left: b.trials()}
	case o.broken > 0:
		return BreakerOpened{Until: now.Add(b.cooldown()), Reason: "a trial failed with " + o.last}
	case o.tried >= b.trials():
		return BreakerClosed{Reason: closedWords(o.tried, b.trials())}
	}
	return nil
}
