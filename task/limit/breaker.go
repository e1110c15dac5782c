package limit

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"millrace/task/value"
)

// Breaker is a circuit breaker: it keeps the tasks of a job from starting while the job fails. It
// opens after Failures failed attempts within a time and holds back further starts. After the
// cooldown it is half open: a few tasks may start as trials. If they finish it closes; if one fails
// it opens again.
type Breaker struct {
	// Failures is how many failed attempts of the job's tasks open it; at least 1. Lost and
	// returned attempts do not count.
	Failures int `json:"failures"`
	// Within is the period in which that many must fail. Default 1m.
	Within value.Duration `json:"within,omitempty"`
	// Cooldown is how long it stays open, and how long trials may take. Default 1m.
	Cooldown value.Duration `json:"cooldown,omitempty"`
	// HalfOpen is how many trials start when the cooldown is over; all must finish. Default 1.
	HalfOpen int `json:"half_open,omitempty"`
	// OnOpen is what happens to tasks that would start meanwhile. Default hold.
	OnOpen string `json:"on_open,omitempty" redact:"word" words:"hold,fail"`
}

// Values of [Breaker.OnOpen].
const (
	// OnOpenHold makes them wait until the cooldown is over.
	OnOpenHold = "hold"
	// OnOpenFail ends them as abnormal/breaker.
	OnOpenFail = "fail"
)

// OnOpens lists the values of [Breaker.OnOpen].
var OnOpens = value.WordsOf[Breaker]("on_open")

// Defaults of [Breaker].
const (
	DefaultWithin   = time.Minute
	DefaultCooldown = time.Minute
)

// Words describes in words what the breaker allows.
func (b *Breaker) Words() string {
	text := fmt.Sprintf("opens after %d failures within %v", b.Failures, value.Duration(b.within()))
	if b.OnOpen == OnOpenFail {
		text += ", and fails what would start"
	}
	return text
}

func (b *Breaker) within() time.Duration {
	if b.Within == 0 {
		return DefaultWithin
	}
	return b.Within.Std()
}

func (b *Breaker) cooldown() time.Duration {
	if b.Cooldown == 0 {
		return DefaultCooldown
	}
	return b.Cooldown.Std()
}

func (b *Breaker) trials() int { return max(b.HalfOpen, 1) }

// Validate refuses an invalid breaker, and names the field.
func (b *Breaker) Validate() error {
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

// Admission is the breaker's answer for a task that would start.
type Admission struct {
	// CircuitEvent must be recorded at Head first; then the breaker is asked again. nil if there is
	// nothing to record.
	Event CircuitEvent
	// Trial says that the task may start once Event is recorded.
	Trial bool
	// Hold is what happens to the task; nil if it may start, or if Event comes first.
	Hold *Hold
}

// Asks is what a breaker must know about a task that would start.
type Asks struct {
	Job, Task string
	// StartBy is when the task expires; zero for never.
	StartBy time.Time
}

// Hold is what happens to a task that may not start.
type Hold struct {
	// Fails says that the task ends. Otherwise it waits until Until.
	Fails bool
	Until time.Time
	// Detail explains it in words.
	Detail string
}

// Admit says whether a task of a job may start now. Chance is in [0,1) and spreads the return of
// held tasks over a tenth of the cooldown.
func (b *Breaker) Admit(c Circuit, t Asks, now time.Time, chance float64) Admission {
	fresh := now.Add(b.cooldown())
	switch {
	case c.Closed():
		return Admission{}
	case !now.Before(c.Until):
		// The first claim after the cooldown half-opens it, without a scheduler.
		return Admission{Event: HalfOpened{Reason: c.whyHalfOpen(), Until: fresh, Left: b.trials()}}
	case c.State == StateHalfOpen && c.Left > 0:
		return Admission{Event: Tried{Reason: TrialOf + t.Task, Until: c.Until, Left: c.Left - 1}, Trial: true}
	}
	if b.OnOpen == OnOpenFail {
		return Admission{Hold: &Hold{Fails: true, Detail: b.words(c, t.Job)}}
	}
	until := c.Until
	if c.State == StateHalfOpen { // the trials may be over soon
		until = now.Add(min(max(b.cooldown()/4, time.Second), 30*time.Second, c.Until.Sub(now)))
	}
	until = until.Add(time.Duration(chance * float64(b.cooldown()) / 10).Truncate(time.Microsecond))
	if !t.StartBy.IsZero() && t.StartBy.Before(until) {
		until = t.StartBy // it expires then, and not later
	}
	return Admission{Hold: &Hold{Until: until, Detail: b.words(c, t.Job)}}
}

// TrialOf, followed by the task's id, is the reason of a fact that a task starts as a trial.
const TrialOf = "trial: task "

func (b *Breaker) words(c Circuit, job string) string {
	if c.State == StateHalfOpen {
		return fmt.Sprintf("the breaker of job %s is half open, and its trials run", job)
	}
	return fmt.Sprintf("the breaker of job %s is open until %s: %s", job, value.Clock(c.Until), c.Reason)
}

// Judge returns the fact that follows for a breaker from the ends of its job's attempts; nil if
// none does.
func (b *Breaker) Judge(c Circuit, o *Outcomes, now time.Time) CircuitEvent {
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
		return Opened{Until: now.Add(b.cooldown()), Reason: fmt.Sprintf("%d attempts failed within %v, the last one with %s", n, b.within(), o.last)}
	case c.State == StateOpen:
		if now.Before(c.Until) {
			return nil
		}
		return HalfOpened{Reason: c.whyHalfOpen(), Until: now.Add(b.cooldown()), Left: b.trials()}
	case o.broken > 0:
		return Opened{Until: now.Add(b.cooldown()), Reason: "a trial failed with " + o.last}
	case o.tried >= b.trials():
		return Closed{Reason: closedWords(o.tried, b.trials())}
	}
	return nil
}
