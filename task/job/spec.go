package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"millrace/task/limit"
	"millrace/task/param"
	"millrace/task/value"
)

// Spec says what to run and under which rules. A task has a copy from its submission, so a change
// of the job does not affect it. A Spec is never modified once it is part of a fact.
type Spec struct {
	// Run is the child process to start. Either it or Handler is set.
	Run *Run `json:"run,omitempty"`
	// Handler names a function that a program of a worker has registered.
	Handler string `json:"handler,omitempty" redact:"keep" names:"handler"`
	// Timeout bounds the parts of the task's life.
	Timeout Timeout `json:"timeout,omitzero" like:"{run: 30m}"`
	// Retry says when and how often another attempt follows a failed one.
	Retry Retry `json:"retry,omitzero" like:"{max: 3}"`
	// Breaker keeps tasks from starting while many of the job's tasks fail. Default: no breaker.
	Breaker *limit.Breaker `json:"breaker,omitempty" like:"{failures: 5, within: 1m}"`
	// Window names the calendar in whose hours tasks start. Default: at any time.
	Window string `json:"window,omitempty" redact:"keep" names:"calendar"`
	// Place says where the task may run. Default: on any node that serves its queue.
	Place Place `json:"place,omitzero" like:"{nodes: [node-1]}"`
	// PerNode bounds how many of its tasks run on one node at a time. Default: only the slots bound
	// it.
	PerNode limit.PerNodes `json:"per_node,omitzero" like:"{max: 1}"`
	// Slots is how many slots of a worker it occupies while it runs. Default 1, at most [MaxSlots].
	Slots int `json:"slots,omitempty"`
	// Signal must come from outside before the task may run; nil for none.
	Signal *Signal `json:"signal,omitempty"`
	// OnDisconnect is what happens to an attempt whose worker cannot confirm its lease in time:
	// [DisconnectStop], the default, or [DisconnectContinue].
	OnDisconnect string `json:"on_disconnect,omitempty" redact:"word" words:"stop,continue"`
	// OnRestart is what happens to an attempt whose worker ends first: [RestartStop], the default,
	// or [RestartAdopt].
	OnRestart string `json:"on_restart,omitempty" redact:"word" words:"stop,adopt"`
	// Files are provided to each attempt. Default none.
	Files *Files `json:"files,omitempty"`
	// Setup are lines for "sh -c" that prepare the files for the command, for example install
	// dependencies. They run once per node, version of the files and text of the lines. Every
	// attempt gets their result.
	Setup []string `json:"setup,omitempty" redact:"hide" alone:"text"`
	// Artifacts are the files kept from an attempt's working directory. Default none.
	Artifacts *Artifacts `json:"artifacts,omitempty"`
	// Concurrency bounds how many of its tasks are under way at once. Default: no bound.
	Concurrency limit.Concurrencies `json:"concurrency,omitzero" like:"{max: 5}"`
	// Budget bounds how many of its tasks start in a day, or how long they run in total. Default:
	// no bound.
	Budget limit.Budgets `json:"budget,omitzero" like:"{starts: 1000} or {run: 8h}"`
	// Rate bounds how often its tasks start. Default: no bound.
	Rate limit.Rates `json:"rate,omitzero" like:"{limit: 10, per: 1m}"`
	// Unique refuses a task while another one has the same key. Default: no key.
	Unique Unique `json:"unique,omitzero" like:"{key: nightly}"`
	// Collapse makes one task of submissions that come shortly after each other. Default: each makes its own.
	Collapse *Collapse `json:"collapse,omitempty" like:"{key: reindex, quiet: 10s}"`
	// Resources bounds what an attempt may use of its node.
	Resources Resources `json:"resources,omitzero" like:"{memory: 512MiB}"`
	// Keep says how long it is kept after its end, and what it has left. Default: the server's settings.
	Keep Keep `json:"keep,omitzero"`
	// Returns is a JSON Schema (draft 2020-12), as of a parameter, for its result; no result is null. An attempt
	// whose result does not fit fails for good. Default: any result.
	Returns json.RawMessage `json:"returns,omitempty" redact:"drop" read:"mapping"`
	// Each runs it once for each value of a list. Default: it runs once.
	Each *Each `json:"each,omitempty"`
	// Steps are the tasks of a spec that has neither Run nor Handler. At most [MaxChildren].
	Steps []Step `json:"steps,omitempty" alone:"none"`
	// On are steps that run after all others have ended. Default none.
	On *Handlers `json:"on,omitempty" like:"{failure: {run: ./alert.sh}}"`
}

// Values of [Spec.OnDisconnect]: what happens to an attempt whose worker loses its connection.
const (
	// DisconnectStop ends it before another node can have started the task.
	DisconnectStop = "stop"
	// DisconnectContinue lets it run. Meanwhile another node may take the task over and run it as
	// well: at most one result counts, but the command's effects on the world may happen twice.
	DisconnectContinue = "continue"
)

// Disconnects lists the values of [Spec.OnDisconnect].
var Disconnects = value.WordsOf[Spec]("on_disconnect")

// Continues tells whether an attempt continues while its worker is disconnected. With an unknown
// spec it stops.
func (s *Spec) Continues() bool { return s != nil && s.OnDisconnect == DisconnectContinue }

// MaxSlots bounds [Spec.Slots].
const MaxSlots = 1024

// Cost returns Slots or its default.
func (s *Spec) Cost() int {
	if s == nil {
		return 1
	}
	return max(s.Slots, 1)
}

// Validate refuses a spec that cannot run and names the field in a job file's spelling.
func (s *Spec) Validate() error {
	return value.JoinFaults(
		s.validateParent(), s.validateWork(), s.Timeout.validate(), s.validateRules(), s.Unique.validate(), s.validateCollapse(), s.Signal.validate(),
		s.validateDisconnect(), s.validateReturns(), s.validateFiles(), s.validateRestart(), s.Resources.validate(), s.Keep.validate(), s.Retry.validate())
}

func (s *Spec) validateReturns() error {
	if err := param.ValidResult(s.Returns); err != nil {
		return fmt.Errorf("returns: %w", err)
	}
	return nil
}

// Fits refuses a result that Returns does not allow; the error says where, and what is wanted there.
func (s *Spec) Fits(result json.RawMessage) error {
	if s == nil || len(s.Returns) == 0 {
		return nil
	}
	return param.HoldResult(s.Returns, result)
}

// validateWork refuses a spec without exactly one thing to run.
func (s *Spec) validateWork() error {
	switch {
	case len(s.Steps) > 0:
		return nil
	case s.Run == nil && s.Handler == "":
		return errors.New("nothing to run: set run.argv, run.shell, run.program or handler, or steps")
	case s.Run != nil && s.Handler != "":
		return errors.New("run and handler are both set; a job has one of them")
	case s.Run != nil:
		return s.Run.validate()
	}
	return value.ValidName("handler", s.Handler)
}

func validSlots(n int) error {
	if n < 0 || n > MaxSlots {
		return fmt.Errorf("slots is %d, want 1 to %d", n, MaxSlots)
	}
	return nil
}

func (s *Spec) validateDisconnect() error {
	if s.OnDisconnect != "" && !slices.Contains(Disconnects, s.OnDisconnect) {
		return fmt.Errorf("on_disconnect is %q, want %s or %s", s.OnDisconnect, DisconnectStop, DisconnectContinue)
	}
	return nil
}

// Text is the command for display: the shell line, the arguments, or the handler's name.
func (s *Spec) Text() string {
	switch {
	case s == nil:
		return ""
	case len(s.Steps) > 0:
		return "steps " + strings.Join(s.StepNames(), ", ")
	case s.Monitors():
		return "monitor"
	case s.Run == nil:
		return s.Handler
	case s.Run.Image != "" && s.Run.Shell+strings.Join(s.Run.Argv, "") == "":
		return s.Run.Image
	case s.Run.Shell != "":
		return s.Run.Shell
	case s.Run.Program != "":
		return strings.TrimSpace(s.Run.Program + " " + s.Run.Handler)
	}
	return strings.Join(s.Run.Argv, " ")
}
