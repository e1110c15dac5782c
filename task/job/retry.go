package job

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/task/value"
)

// Kinds of back-off between attempts.
const (
	BackoffExponential = "exponential" // min, 2·min, 4·min, …
	BackoffLinear      = "linear"      // min, 2·min, 3·min, …
	BackoffFixed       = "fixed"       // min, min, min, …
)

// Retry says when another attempt follows a failed one. Attempts that were lost with their node or
// given back are not failures: another attempt always follows them at once, and they do not count
// here.
type Retry struct {
	// Max is how many failed attempts may be followed by another, since the birth or the last
	// reopening: a task with max 3 fails at most four times. Default 0: no retries.
	Max int `json:"max,omitempty" least:"0"`
	// Backoff is how the delay grows. Default exponential.
	Backoff string `json:"backoff,omitempty" redact:"word" words:"exponential,linear,fixed"`
	// Min is the first delay. Default 1s.
	Min value.Duration `json:"min,omitempty"`
	// MaxDelay caps every delay, including one that the task asked for. Default 1h.
	MaxDelay value.Duration `json:"max_delay,omitempty"`
	// Jitter is the random share of the delay: 0 for none, 1 (full jitter) for anything between 0
	// and the whole delay. Default 0.
	Jitter float64 `json:"jitter,omitempty" least:"0"`
	// On limits retries to these failures: classes ("network"), or codes of class exit ("exit=75",
	// "exit=64-78"). Default: all.
	On []string `json:"on,omitempty" redact:"keep" words:"exit,timeout,memory,killed,system,network,task,user" read:"failure"`
	// NotOn excludes these failures, and wins over On.
	NotOn []string `json:"not_on,omitempty" redact:"keep" words:"exit,timeout,memory,killed,system,network,task,user" read:"failure"`
	// AvoidNode leaves the next attempt to nodes on which no attempt of the task has failed, as
	// long as one that may run it beats and takes work, for at most AvoidWait. Default false.
	AvoidNode bool `json:"avoid_node,omitempty"`
	// AvoidWait bounds how long the next attempt is left to other nodes, which may be busy. Then
	// any of its nodes takes it. Default [DefaultAvoidWait].
	AvoidWait value.Duration `json:"avoid_wait,omitempty"`
	// Budget bounds all retries together: no retry is made whose due time is later than this after
	// the start of the first attempt. Waiting for a free slot does not count. Default: no bound.
	Budget value.Duration `json:"budget,omitempty"`
}

// Defaults of [Retry].
const (
	DefaultRetryMin      = time.Second
	DefaultRetryMaxDelay = time.Hour
)

// DefaultAvoidWait is how long the nodes on which a task has failed leave it to others, if the task
// sets no time ([Retry.AvoidWait]).
const DefaultAvoidWait = time.Minute

// Failure is the input of [Retry.Plan].
type Failure struct {
	Class string
	Exit  *int
	// Final says that the task ruled out another attempt.
	Final bool
	// After is the delay that the task asks for instead of the back-off; 0 for none.
	After time.Duration
	// Chance is in [0,1) and places the delay within its jitter.
	Chance float64
	// Failures counts the failures since the birth or the last reopening, including this one. Begun
	// is when the first attempt since then started.
	Failures int
	Begun    time.Time
	// At is when it failed.
	At time.Time
}

// Plan returns when another attempt follows a failure, with the reason in words. With again false
// no attempt follows, and the words say why. The words are "" where the policy is plain: no retries
// were asked for, or the back-off decided the delay.
func (r Retry) Plan(f Failure) (due time.Time, words string, again bool) {
	switch {
	case r.Max == 0:
		return due, "", false
	case f.Final:
		return due, "the task said that no other attempt can mend it", false
	case f.Failures > r.Max:
		return due, fmt.Sprintf("its retries are used up: retry.max is %d", r.Max), false
	case !r.Covers(f.Class, f.Exit):
		return due, "no retry on " + failureName(f.Class, f.Exit), false
	}
	delay := r.Delay(f.Failures, f.Chance)
	if f.After > 0 {
		delay = min(f.After, r.maxDelay())
		words = fmt.Sprintf("the task asked for a pause of %v", value.Duration(f.After))
		if delay < f.After {
			words += fmt.Sprintf("; retry.max_delay is %v", value.Duration(delay))
		}
	}
	due = f.At.Add(delay)
	if budget := r.Budget.Std(); budget > 0 && !f.Begun.IsZero() && due.After(f.Begun.Add(budget)) {
		return time.Time{}, fmt.Sprintf("the next attempt would be due in %v, beyond the retry budget of %v", value.Duration(delay), r.Budget), false
	}
	return due, words, true
}

// Covers tells whether the policy retries this kind of failure.
func (r Retry) Covers(class string, exit *int) bool {
	is := func(what string) bool { return matchesFailure(what, class, exit) }
	return !slices.ContainsFunc(r.NotOn, is) && (len(r.On) == 0 || slices.ContainsFunc(r.On, is))
}

// exitPrefix begins the names of exit codes in [Retry.On].
const exitPrefix = value.Exit + "="

// matchesFailure tells whether an entry of [Retry.On] matches a failure.
func matchesFailure(what, class string, exit *int) bool {
	if what == class {
		return true
	}
	from, to, ok := exitCodes(what)
	return ok && class == value.Exit && exit != nil && from <= *exit && *exit <= to
}

// exitCodes reads "exit=75" or "exit=64-78".
func exitCodes(what string) (from, to int, ok bool) {
	text, ok := strings.CutPrefix(what, exitPrefix)
	if !ok {
		return 0, 0, false
	}
	first, last, isRange := strings.Cut(text, "-")
	from, err := strconv.Atoi(first)
	if to = from; err == nil && isRange {
		to, err = strconv.Atoi(last)
	}
	return from, to, err == nil && 0 < from && from <= to && to <= 255
}

// failureName is a failure in the spelling of [Retry.On].
func failureName(class string, exit *int) string {
	if class == value.Exit && exit != nil {
		return exitPrefix + strconv.Itoa(*exit)
	}
	return class
}

func (r Retry) maxDelay() time.Duration {
	if r.MaxDelay == 0 {
		return DefaultRetryMaxDelay
	}
	return r.MaxDelay.Std()
}

// Delay is the wait after the given number of failures, from 1. Chance is in [0,1) and places the
// delay within its random share, to the microsecond.
func (r Retry) Delay(failures int, chance float64) time.Duration {
	first, limit := r.Min.Std(), r.maxDelay()
	if first == 0 {
		first = DefaultRetryMin
	}
	n := max(failures, 1)
	delay := first
	switch r.Backoff {
	case BackoffFixed:
	case BackoffLinear:
		if n > int(limit/first) {
			delay = limit
		} else {
			delay = first * time.Duration(n)
		}
	default:
		for i := 1; i < n && delay < limit; i++ {
			if delay > limit/2 { // doubling it could overflow
				delay = limit
			} else {
				delay *= 2
			}
		}
	}
	delay = min(delay, limit)
	return delay - time.Duration(r.Jitter*chance*float64(delay)).Truncate(time.Microsecond)
}

// Classes of failure, for [Retry.On] and [Retry.NotOn].
var Classes = value.WordsOf[Retry]("on")

// ValidFailure refuses an invalid entry of [Retry.On]. An entry is a class, or "exit=" with a code
// or a range of codes, 1 to 255.
func ValidFailure(what string) error {
	if slices.Contains(Classes, what) {
		return nil
	}
	if strings.HasPrefix(what, exitPrefix) {
		if _, _, ok := exitCodes(what); ok {
			return nil
		}
		return fmt.Errorf("%q names no exit codes; want exit=75 or exit=64-78, from 1 to 255", what)
	}
	return fmt.Errorf("there is no class of failure %q; there are %s, and exit=75 for a code", what, value.List(Classes))
}

func (r Retry) validate() error {
	if r.Max < 0 {
		return fmt.Errorf("retry.max is %d, want 0 or more", r.Max)
	}
	if err := cmp.Or(value.NotBelowZero("retry.min", r.Min), value.NotBelowZero("retry.max_delay", r.MaxDelay),
		value.NotBelowZero("retry.budget", r.Budget),
		value.NotBelowZero("retry.avoid_wait", r.AvoidWait)); err != nil {
		return err
	}
	if !(r.Jitter >= 0 && r.Jitter <= 1) { // so that it refuses NaN, too
		return fmt.Errorf("retry.jitter is %v, want 0 to 1", r.Jitter)
	}
	if r.AvoidWait > 0 && !r.AvoidNode {
		return errors.New("retry.avoid_wait says for how long other nodes are to take it; set retry.avoid_node as well")
	}
	switch r.Backoff {
	case "", BackoffExponential, BackoffLinear, BackoffFixed:
	default:
		return fmt.Errorf("retry.backoff is %q, want %s, %s or %s", r.Backoff, BackoffExponential, BackoffLinear, BackoffFixed)
	}
	for field, list := range map[string][]string{"retry.on": r.On, "retry.not_on": r.NotOn} {
		for _, what := range list {
			if err := ValidFailure(what); err != nil {
				return fmt.Errorf("%s: %w", field, err)
			}
		}
	}
	return nil
}

// ShunnedFor is how long the task is left to other nodes.
func (r *Retry) ShunnedFor() time.Duration {
	if r.AvoidWait == 0 {
		return DefaultAvoidWait
	}
	return r.AvoidWait.Std()
}
