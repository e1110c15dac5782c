package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Spec says what to run and under which rules. A task carries the copy that was
// in force when it was submitted, so a change of the job does not change it.
// A Spec is never modified once it is part of a fact.
type Spec struct {
	// Run is the child process to start. Either it or Handler is set.
	Run *Run `json:"run,omitempty"`
	// Handler names a Go function that a worker program has registered.
	Handler string `json:"handler,omitempty"`
	// Timeout bounds the parts of the task's life.
	Timeout Timeout `json:"timeout,omitzero"`
	// Retry says when and how often a failed attempt is followed by another.
	Retry Retry `json:"retry,omitzero"`
	// Place says where the task may run. Default: wherever its queue is served.
	Place Place `json:"place,omitzero"`
	// OnDisconnect is what becomes of an attempt whose worker cannot confirm in time that
	// the task is still its own: [DisconnectStop], the default, or [DisconnectContinue].
	OnDisconnect string `json:"on_disconnect,omitempty"`
	// Resources bounds what an attempt may use of its node.
	Resources Resources `json:"resources,omitzero"`
}

// What becomes of an attempt whose worker loses its connection.
const (
	// DisconnectStop ends it before anybody else can have started the task.
	DisconnectStop = "stop"
	// DisconnectContinue lets it go on. Meanwhile somebody else may take the task over and
	// run it as well: at most one result counts, but what the command does to the world
	// may be done twice.
	DisconnectContinue = "continue"
)

// Disconnects lists the values of [Spec.OnDisconnect].
var Disconnects = []string{DisconnectStop, DisconnectContinue}

// Continues tells whether an attempt goes on while its worker is disconnected. A spec that
// is not known stops.
func (s *Spec) Continues() bool { return s != nil && s.OnDisconnect == DisconnectContinue }

// Run describes a child process. Exactly one of Argv and Shell is set.
type Run struct {
	// Argv is the program and its arguments, handed over as they are.
	Argv []string `json:"argv,omitempty"`
	// Shell is a line for "sh -c".
	Shell string `json:"shell,omitempty"`
	// Dir is the working directory; by default a fresh one, removed afterwards.
	Dir string `json:"dir,omitempty"`
	// Env is added to the worker's environment and wins over it.
	Env map[string]string `json:"env,omitempty"`
	// Stdin is what the process finds as its standard input. Default none.
	Stdin string `json:"stdin,omitempty"`
	// User runs the process as another user of the node, by name or number, with
	// that user's groups. The worker must be allowed to. Default: the worker's own user.
	User string `json:"user,omitempty"`
	// EnvClear leaves the worker's environment out, but for the variables that Inherit
	// names and PATH, HOME, USER, LANG and TZ. Default: all of it is handed on.
	EnvClear bool `json:"env_clear,omitempty"`
	// Inherit names variables of the worker that pass EnvClear.
	Inherit []string `json:"inherit,omitempty"`
	// EnvFiles are files on the node with lines NAME=value, relative to Dir. The
	// last one wins, and Env wins over all of them.
	EnvFiles []string `json:"env_files,omitempty"`
	// Secrets are variables whose values are read on the node when the attempt
	// starts. They win over Env. Values are replaced in all that the process says.
	Secrets map[string]Secret `json:"secrets,omitempty"`
}

// What a process finds as its standard input.
const (
	// StdinNone is an input that ends at once, so that what reads it to its end ends.
	StdinNone = "none"
	// StdinOpen is an input that stays open and brings messages, such as CANCEL.
	StdinOpen = "open"
)

// Timeout bounds the parts of a task's life. Zero means: the default named.
type Timeout struct {
	// Pending is how long the task may wait to be started, from its due time on.
	// When it passes, the task is abnormal/expired. Default: no bound as long as a node serves
	// the queue, and the start deadline of the settings while none does.
	Pending Duration `json:"pending,omitempty"`
	// Run is how long one attempt may take. Default: no bound.
	Run Duration `json:"run,omitempty"`
	// Extend is how much longer an attempt may take altogether if its program asks for
	// more time (EXTEND). Default: as long as Run once more.
	Extend Duration `json:"extend,omitempty"`
	// Idle is how long an attempt may be silent: print no line and report nothing. When it
	// passes, the attempt fails with class timeout. Default: no bound.
	Idle Duration `json:"idle,omitempty"`
	// Heartbeat is how long a program may send no message of the protocol other than LOG;
	// HEARTBEAT is the one that says nothing else. When it passes, the attempt fails
	// with class timeout. Default: no bound.
	Heartbeat Duration `json:"heartbeat,omitempty"`
	// Stop is the grace between the polite request to stop and the forced end.
	// Default [DefaultStop].
	Stop Duration `json:"stop,omitempty"`
}

// DefaultStop is the grace of a task that names none.
const DefaultStop = 10 * time.Second

// Grace is Stop or its default.
func (t Timeout) Grace() time.Duration {
	if t.Stop == 0 {
		return DefaultStop
	}
	return t.Stop.Std()
}

// Kinds of back-off between attempts.
const (
	BackoffExponential = "exponential" // min, 2·min, 4·min, …
	BackoffLinear      = "linear"      // min, 2·min, 3·min, …
	BackoffFixed       = "fixed"       // min, min, min, …
)

// Retry says when a failed attempt is followed by another.
type Retry struct {
	// Max is how many failed attempts may be followed by another. Default 0: none.
	Max int `json:"max,omitempty"`
	// Backoff is how the delay grows. Default exponential.
	Backoff string `json:"backoff,omitempty"`
	// Min is the first delay. Default 1s.
	Min Duration `json:"min,omitempty"`
	// MaxDelay caps the delay. Default 1h.
	MaxDelay Duration `json:"max_delay,omitempty"`
	// Jitter is the share of the delay that is left to chance: 0 for none, 1 for
	// anything between nothing and the whole delay. Default 0.
	Jitter float64 `json:"jitter,omitempty"`
	// On limits retries to these classes of failure. Default: all.
	On []string `json:"on,omitempty"`
	// NotOn excludes these classes of failure.
	NotOn []string `json:"not_on,omitempty"`
}

// Defaults of [Retry].
const (
	DefaultRetryMin      = time.Second
	DefaultRetryMaxDelay = time.Hour
)

// Allows tells whether a failure of this class may be followed by another
// attempt when failures attempts have failed, this one included.
func (r Retry) Allows(class string, failures int) bool {
	if failures > r.Max || slices.Contains(r.NotOn, class) {
		return false
	}
	return len(r.On) == 0 || slices.Contains(r.On, class)
}

// Delay is the wait after the given number of failures, from 1. Chance is in
// [0,1) and decides where in the share left to it the delay falls.
func (r Retry) Delay(failures int, chance float64) time.Duration {
	first, limit := r.Min.Std(), r.MaxDelay.Std()
	if first == 0 {
		first = DefaultRetryMin
	}
	if limit == 0 {
		limit = DefaultRetryMaxDelay
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
			if delay > limit/2 { // to double it could overflow
				delay = limit
			} else {
				delay *= 2
			}
		}
	}
	delay = min(delay, limit)
	return delay - time.Duration(r.Jitter*chance*float64(delay))
}

// Classes of failure, for [Retry.On] and [Retry.NotOn].
var Classes = []string{ReasonExit, ReasonTimeout, ReasonMemory, ReasonKilled, ReasonSystem, ReasonNetwork, ReasonTask, ReasonUser}

// Validate refuses what cannot be run and names the field in a job file's spelling.
func (s *Spec) Validate() error {
	switch {
	case s.Run == nil && s.Handler == "":
		return errors.New("nothing to run: set run.argv, run.shell or handler")
	case s.Run != nil && s.Handler != "":
		return errors.New("run and handler are both set; a job has one of them")
	case s.Run != nil:
		if err := s.Run.validate(); err != nil {
			return err
		}
	default:
		if err := ValidName("handler", s.Handler); err != nil {
			return err
		}
	}
	if err := s.Timeout.validate(); err != nil {
		return err
	}
	if err := s.Place.validate(); err != nil {
		return err
	}
	if s.OnDisconnect != "" && !slices.Contains(Disconnects, s.OnDisconnect) {
		return fmt.Errorf("on_disconnect is %q, want %s or %s", s.OnDisconnect, DisconnectStop, DisconnectContinue)
	}
	if err := s.Resources.validate(); err != nil {
		return err
	}
	return s.Retry.validate()
}

func (t Timeout) validate() error {
	return notBelowZero(
		named{"timeout.pending", t.Pending}, named{"timeout.run", t.Run}, named{"timeout.extend", t.Extend},
		named{"timeout.idle", t.Idle}, named{"timeout.heartbeat", t.Heartbeat}, named{"timeout.stop", t.Stop})
}

type named struct {
	name string
	d    Duration
}

func notBelowZero(durations ...named) error {
	for _, n := range durations {
		if n.d < 0 {
			return fmt.Errorf("%s is %v, want 0 or more", n.name, n.d)
		}
	}
	return nil
}

func (r *Run) validate() error {
	switch {
	case len(r.Argv) == 0 && r.Shell == "":
		return errors.New("run: set argv (a list) or shell (a line)")
	case len(r.Argv) > 0 && r.Shell != "":
		return errors.New("run: argv and shell are both set; choose one")
	case len(r.Argv) > 0 && r.Argv[0] == "":
		return errors.New("run.argv: the program's name is empty")
	case r.Stdin != "" && r.Stdin != StdinNone && r.Stdin != StdinOpen:
		return fmt.Errorf("run.stdin is %q, want %s or %s", r.Stdin, StdinNone, StdinOpen)
	}
	for k, v := range r.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return fmt.Errorf("run.env: %q=%q cannot be an environment variable", k, v)
		}
	}
	if err := r.validateSurroundings(); err != nil {
		return err
	}
	for _, a := range append(slices.Clone(r.Argv), r.Shell, r.Dir, r.User) {
		if strings.ContainsRune(a, 0) {
			return fmt.Errorf("run: %q holds a zero byte, which no process can be given", a)
		}
	}
	return nil
}

func (r Retry) validate() error {
	if r.Max < 0 {
		return fmt.Errorf("retry.max is %d, want 0 or more", r.Max)
	}
	if err := notBelowZero(named{"retry.min", r.Min}, named{"retry.max_delay", r.MaxDelay}); err != nil {
		return err
	}
	if !(r.Jitter >= 0 && r.Jitter <= 1) { // so that NaN is refused, too
		return fmt.Errorf("retry.jitter is %v, want 0 to 1", r.Jitter)
	}
	switch r.Backoff {
	case "", BackoffExponential, BackoffLinear, BackoffFixed:
	default:
		return fmt.Errorf("retry.backoff is %q, want %s, %s or %s", r.Backoff, BackoffExponential, BackoffLinear, BackoffFixed)
	}
	for _, c := range append(slices.Clone(r.On), r.NotOn...) {
		if !slices.Contains(Classes, c) {
			return fmt.Errorf("retry.on, retry.not_on: there is no class of failure %q; there are %v", c, Classes)
		}
	}
	return nil
}

// Text is the command in a form for people: the shell line, the arguments, or the handler's name.
func (s *Spec) Text() string {
	switch {
	case s == nil:
		return ""
	case s.Run == nil:
		return s.Handler
	case s.Run.Shell != "":
		return s.Run.Shell
	}
	return strings.Join(s.Run.Argv, " ")
}

// Job is a named definition of what to run. Its revision is that of the store it lies in.
type Job struct {
	// Name is 1 to 64 letters, digits, '_' or '-'.
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Owner       string `json:"owner,omitempty"`
	Group       string `json:"group,omitempty"`
	// Labels are copied to each task; a submission may add to them.
	Labels map[string]string `json:"labels,omitempty"`
	// Params are the default parameters; a submission may set some of them anew.
	Params map[string]json.RawMessage `json:"params,omitempty"`
	// Queue is where its tasks wait. Default [DefaultQueue].
	Queue string `json:"queue,omitempty"`
	Spec
}

// Validate refuses a job that could not be stored or run and names the field.
func (j *Job) Validate() error {
	if err := ValidName("job", j.Name); err != nil {
		return err
	}
	if j.Queue != "" {
		if err := ValidName("queue", j.Queue); err != nil {
			return err
		}
	}
	for k := range j.Labels {
		if k == "" {
			return errors.New("labels: a label has no name")
		}
	}
	return j.Spec.Validate()
}
