package task

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/task/breaker"
	"millrace/task/limit"
	"millrace/task/param"
	"millrace/task/value"
	"millrace/task/where"
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
	// Breaker keeps tasks from starting while many of the job's fail. Default: none does.
	Breaker *breaker.Breaker `json:"breaker,omitempty"`
	// Window names the calendar in whose hours tasks start. Default: they start at any time.
	Window string `json:"window,omitempty"`
	// Place says where the task may run. Default: wherever its queue is served.
	Place Place `json:"place,omitzero"`
	// PerNode bounds how many of its tasks run on one node at a time. Default: no bound but the slots.
	PerNode limit.PerNodes `json:"per_node,omitzero"`
	// Slots is how many slots of a worker it takes while it runs. Default 1, at most [MaxSlots].
	Slots int `json:"slots,omitempty"`
	// Signal is a word from outside that has to come before the task may run; nil for none.
	Signal *Signal `json:"signal,omitempty"`
	// OnDisconnect is what becomes of an attempt whose worker cannot confirm in time that
	// the task is still its own: [DisconnectStop], the default, or [DisconnectContinue].
	OnDisconnect string `json:"on_disconnect,omitempty"`
	// OnRestart is what becomes of an attempt whose worker ends before it: [RestartStop],
	// the default, or [RestartAdopt].
	OnRestart string `json:"on_restart,omitempty"`
	// Files are those that an attempt finds around it. Default none.
	Files *Files `json:"files,omitempty"`
	// Setup are lines for "sh -c" that make of the files what the command needs, for example
	// install dependencies. They run once on each node for each version of the files and
	// each text of the lines; every attempt gets what they have left.
	Setup []string `json:"setup,omitempty"`
	// Artifacts are kept of what an attempt leaves in its working directory. Default none.
	Artifacts *Artifacts `json:"artifacts,omitempty"`
	// Concurrency bounds how many of its tasks are under way at once. Default: no bound.
	Concurrency limit.Concurrencies `json:"concurrency,omitzero"`
	// Budget bounds how many of its tasks start in a day, or how long they run in all. Default: no bound.
	Budget limit.Budgets `json:"budget,omitzero"`
	// Rate bounds how often its tasks start. Default: no bound.
	Rate limit.Rates `json:"rate,omitzero"`
	// Unique refuses a task while there is another one with the same key. Default: none is refused.
	Unique Unique `json:"unique,omitzero"`
	// Resources bounds what an attempt may use of its node.
	Resources Resources `json:"resources,omitzero"`
	// Keep says how long what it prints and produces is kept. Default: as servers are told.
	Keep Keep `json:"keep,omitzero"`
	// Each runs it once for each value of a list. Default: once.
	Each *Each `json:"each,omitempty"`
	// Steps are tasks of which one of the spec consists, in place of Run and Handler. At most [MaxChildren].
	Steps []Step `json:"steps,omitempty"`
	// On are steps that run when all others have ended. Default none.
	On *Handlers `json:"on,omitempty"`
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

// MaxSlots bounds [Spec.Slots].
const MaxSlots = 1024

// Cost is Slots or its default.
func (s *Spec) Cost() int {
	if s == nil {
		return 1
	}
	return max(s.Slots, 1)
}

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

// MaxVariable is how long an argument, and a variable with its name, must be less than, in bytes.
// It is the bound of Linux. Parameters may be longer: a program finds those in a file.
const MaxVariable = 128 << 10

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
	Pending value.Duration `json:"pending,omitempty"`
	// Run is how long one attempt may take. Default: no bound.
	Run value.Duration `json:"run,omitempty"`
	// Extend is how much longer an attempt may take altogether if its program asks for
	// more time (EXTEND). Default: as long as Run once more.
	Extend value.Duration `json:"extend,omitempty"`
	// Total is how long the whole may take, all waits, attempts and retries included: from the due time
	// on, or from when nothing but its queue and limits keeps it, or from the last reopening. When it passes, what waits ends as
	// abnormal/timeout, an attempt is stopped and fails with class timeout, and of a task with
	// children all are cancelled, and it ends as error/timeout. Default: no bound.
	Total value.Duration `json:"total,omitempty"`
	// Idle is how long an attempt may be silent: print no line and report nothing. When it
	// passes, the attempt fails with class timeout. Default: no bound.
	Idle value.Duration `json:"idle,omitempty"`
	// Heartbeat is how long a program may send no message of the protocol other than LOG;
	// HEARTBEAT is the one that says nothing else. When it passes, the attempt fails
	// with class timeout. Default: no bound.
	Heartbeat value.Duration `json:"heartbeat,omitempty"`
	// Stop is the grace between the polite request to stop and the forced end.
	// Default [DefaultStop].
	Stop value.Duration `json:"stop,omitempty"`
	// Setup is how long the lines of setup may take together where they run. It counts within Run.
	// Default [DefaultSetup].
	Setup value.Duration `json:"setup,omitempty"`
}

// DefaultSetup is how long the setup of a task may take that says nothing about it.
const DefaultSetup = 15 * time.Minute

// DefaultStop is the grace of a task that names none.
const DefaultStop = 10 * time.Second

// Grace is Stop or its default.
func (t Timeout) Grace() time.Duration {
	if t.Stop == 0 {
		return DefaultStop
	}
	return t.Stop.Std()
}

// Validate refuses what cannot be run and names the field in a job file's spelling.
func (s *Spec) Validate() error {
	return value.JoinFaults(
		s.validateParent(), s.validateWork(), s.Timeout.validate(), s.validateRules(), s.Unique.validate(), s.Signal.validate(),
		s.validateDisconnect(), s.validateFiles(), s.validateRestart(), s.Resources.validate(), s.Keep.validate(), s.Retry.validate())
}

// validateWork refuses a spec that does not run one thing.
func (s *Spec) validateWork() error {
	switch {
	case len(s.Steps) > 0:
		return nil
	case s.Run == nil && s.Handler == "":
		return errors.New("nothing to run: set run.argv, run.shell or handler, or steps")
	case s.Run != nil && s.Handler != "":
		return errors.New("run and handler are both set; a job has one of them")
	case s.Run != nil:
		return s.Run.validate()
	}
	return value.ValidName("handler", s.Handler)
}

func (s *Spec) validateSlots() error {
	if s.Slots < 0 || s.Slots > MaxSlots {
		return fmt.Errorf("slots is %d, want 1 to %d", s.Slots, MaxSlots)
	}
	return nil
}

func (s *Spec) validateDisconnect() error {
	if s.OnDisconnect != "" && !slices.Contains(Disconnects, s.OnDisconnect) {
		return fmt.Errorf("on_disconnect is %q, want %s or %s", s.OnDisconnect, DisconnectStop, DisconnectContinue)
	}
	return nil
}

func (t Timeout) validate() error {
	return cmp.Or(
		value.NotBelowZero("timeout.pending", t.Pending), value.NotBelowZero("timeout.run", t.Run), value.NotBelowZero("timeout.extend", t.Extend), value.NotBelowZero("timeout.total", t.Total),
		value.NotBelowZero("timeout.idle", t.Idle), value.NotBelowZero("timeout.heartbeat", t.Heartbeat), value.NotBelowZero("timeout.stop", t.Stop), value.NotBelowZero("timeout.setup", t.Setup))
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
		if n := len(k) + 1 + len(v); n >= MaxVariable {
			return fmt.Errorf("run.env: %s has %d bytes with its name, and a program can be given at most %d: put the value into a file, or into params", k, n, MaxVariable-1)
		}
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return fmt.Errorf("run.env: %q=%q cannot be an environment variable", k, v)
		}
	}
	if err := r.validateSurroundings(); err != nil {
		return err
	}
	for _, a := range append(slices.Clone(r.Argv), r.Shell, r.Dir, r.User) {
		if len(a) >= MaxVariable {
			return fmt.Errorf("run: an argument or the shell line has %d bytes, and a program can be given at most %d: put it into a file, or into params", len(a), MaxVariable-1)
		}
		if strings.ContainsRune(a, 0) {
			return fmt.Errorf("run: %q holds a zero byte, which no process can be given", a)
		}
	}
	return nil
}

// Text is the command in a form for people: the shell line, the arguments, or the handler's name.
func (s *Spec) Text() string {
	switch {
	case s == nil:
		return ""
	case len(s.Steps) > 0:
		return "steps " + strings.Join(s.stepNames(), ", ")
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
	// Params are its parameters: their defaults, or what each may be.
	Params param.Params `json:"params,omitzero"`
	// Queue is where its tasks wait. Default [where.DefaultQueue].
	Queue string `json:"queue,omitempty"`
	// Priority is that of its tasks: [where.MinPriority] to [where.MaxPriority], the larger the more
	// urgent. Default [where.DefaultPriority].
	Priority int `json:"priority,omitempty"`
	// Fair names the label, or else the parameter, whose value is the fair key of a task:
	// keys that wait in a queue are served in turn. Default: tasks have none.
	Fair string `json:"fair,omitempty"`
	// Schedule makes a task of the job at its ticks; nil for none. It is a schedule of the job's name.
	Schedule *Schedule `json:"schedule,omitempty"`
	Spec
}

// Validate refuses a job that could not be stored or run and names the field.
func (j *Job) Validate() error {
	var queue, priority, labels error
	if j.Queue != "" {
		queue = value.ValidName("queue", j.Queue)
	}
	if j.Priority != 0 {
		priority = where.ValidPriority(j.Priority)
	}
	if _, nameless := j.Labels[""]; nameless {
		labels = errors.New("labels: a label has no name")
	}
	return value.JoinFaults(value.ValidName("job", j.Name), queue, priority, labels, j.validateParams(), j.Spec.Validate())
}

// validateParams refuses parameters that cannot be declared so, and values which the job itself gives them and they may not have.
func (j *Job) validateParams() error {
	faults := j.Params.Validate()
	for i := range j.Params.Declared {
		if d := &j.Params.Declared[i]; j.Schedule != nil && len(d.Default) == 0 && !d.Optional {
			faults = append(faults, fmt.Errorf("params[%d].default is missing: the schedule of the job gives it no other value", i))
		}
	}
	for i := range j.Steps {
		step := &j.Steps[i]
		for _, name := range slices.Sorted(maps.Keys(step.Params)) {
			if d := j.Params.Find(name); d != nil {
				faults = append(faults, value.Under(fmt.Sprintf("steps[%d].params.%s: ", i, name), d.Check(step.Params[name])))
			}
		}
	}
	return value.JoinFaults(faults...)
}
