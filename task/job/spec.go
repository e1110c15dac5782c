package job

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"millrace/task/breaker"
	"millrace/task/limit"
	"millrace/task/value"
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

// Text is the command in a form for people: the shell line, the arguments, or the handler's name.
func (s *Spec) Text() string {
	switch {
	case s == nil:
		return ""
	case len(s.Steps) > 0:
		return "steps " + strings.Join(s.StepNames(), ", ")
	case s.Run == nil:
		return s.Handler
	case s.Run.Shell != "":
		return s.Run.Shell
	}
	return strings.Join(s.Run.Argv, " ")
}
