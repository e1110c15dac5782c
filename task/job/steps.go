package job

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"millrace/task/value"
)

// Step is one task of a job with steps. Fields of [Spec] that it does not set have a job's
// defaults. It inherits the labels, parameters, queue, priority and fair key of the task whose step
// it is, but no rule.
type Step struct {
	// Name is its name among the steps: 1 to 64 letters, digits, '_' or '-', unique in a job.
	Name string `json:"name,omitempty" redact:"keep" names:"step"`
	// Needs are the steps that must end before it starts. Default: none, it starts at once.
	Needs []StepNeed `json:"needs,omitempty" alone:"text"`
	// Rule says how many of them must end as required. Default [NeedAll].
	Rule string `json:"rule,omitempty" redact:"word" words:"all,any,none"`
	// Params are its default parameters; the task's own win over them.
	Params map[string]json.RawMessage `json:"params,omitempty" redact:"data"`
	// Queue is the queue in which it waits. Default: the queue of the task.
	Queue string `json:"queue,omitempty" redact:"keep" names:"queue"`
	Spec
}

// StepNeed is a step for which another one waits.
type StepNeed struct {
	// Step is the other one's name.
	Step string `json:"step" redact:"keep" names:"step" short:"text"`
	// When is the required end. Default [WhenSuccess].
	When string `json:"when,omitempty" redact:"word" words:"success,failure,cancel,trouble,end"`
}

// Handlers are steps that run when all others have ended, depending on how these ended. They have
// no name and no needs of their own. Handling a failure does not undo it. The other fields say what
// makes tasks of a job instead.
type Handlers struct {
	// Success runs if no step failed or was cancelled.
	Success *Step `json:"success,omitempty"`
	// Failure runs if one ended in error or abnormal.
	Failure *Step `json:"failure,omitempty"`
	// Cancel runs if one was cancelled, alone or with the whole task; the cancel does not stop it.
	Cancel *Step `json:"cancel,omitempty"`
	// Exit runs in any case. A cancel of the task does not stop it either.
	Exit *Step `json:"exit,omitempty"`
	// Job is another job: each end of a task of it makes a task of this one.
	Job string `json:"job,omitempty" redact:"keep" names:"job"`
	// Ends are the ends that do. Default: finished.
	Ends []string `json:"ends,omitempty" redact:"word" words:"finished,error,cancelled,abnormal" alone:"text"`
	// Subject is one of NATS, or several by wildcards: each message makes a task of this job.
	Subject string `json:"subject,omitempty" redact:"keep"`
	// Stream is the JetStream stream whose messages those are. Default: the one that stores the subject;
	// without one, each message is heard by one server, or by none.
	Stream string `json:"stream,omitempty" redact:"keep"`
	// File is the absolute path of files on nodes, with * and ? of shells: each version of one makes a
	// task of this job on its node, when nothing has changed for Quiet. Workers look only where they are
	// told to.
	File string `json:"file,omitempty" redact:"keep"`
	// Quiet is how long a file must be as it is. Default 5s.
	Quiet value.Duration `json:"quiet,omitempty" least:"0"`
	// When is a condition: an end, a message, a file or a webhook for which it does not hold makes no task.
	// Package condition has its language. At most [MaxWhen] bytes. Default: each makes one.
	When string `json:"when,omitempty" redact:"hide"`
}

// MaxWhen bounds [Handlers.When].
const MaxWhen = 1000

// PayloadParam is the parameter that gets all of what triggered a task, if the job declares it, or none. Its members
// are EndMembers for the end of another task, and FileMembers for a file.
const PayloadParam = "payload"

var (
	EndMembers  = []string{"task", "job", "state", "reason", "message", "result"}
	FileMembers = []string{"file", "size", "modified", "node"}
)

// Ends lists the values of [Handlers.Ends].
var Ends = value.WordsOf[Handlers]("ends")

// After is the job whose ends make tasks of this one; "" for none.
func (h *Handlers) After() string {
	if h == nil {
		return ""
	}
	return h.Job
}

// Hears tells whether messages make tasks of the job.
func (h *Handlers) Hears() bool { return h != nil && (h.Subject != "" || h.Stream != "") }

// Finds tells whether files make tasks of the job.
func (h *Handlers) Finds() bool { return h != nil && h.File != "" }

// Calm is how long a file must be as it is.
func (h *Handlers) Calm() time.Duration { return cmp.Or(h.Quiet.Std(), 5*time.Second) }

// Unfinished tells whether a file of a name is not meant to be read, or not yet.
func Unfinished(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".part") || strings.HasSuffix(name, ".tmp")
}

// Filters tells whether the job has a condition of what makes its tasks.
func (h *Handlers) Filters() bool { return h != nil && h.When != "" }

// Triggers tells whether it says what makes tasks of the job.
func (h *Handlers) Triggers() bool { return h.After() != "" || h.Hears() || h.Finds() || h.Filters() }

// Circle names the jobs by which one follows its own ends, from it to itself; nil if it does not. After tells which
// job another one follows, "" for none.
func Circle(name string, after func(name string) (string, error)) ([]string, error) {
	path := []string{name}
	for is := name; ; {
		var err error
		if is, err = after(is); err != nil || is == "" || slices.Contains(path[1:], is) {
			return nil, err
		}
		if path = append(path, is); is == name {
			return path, nil
		}
	}
}

// Counts tells whether the end of a task in a state makes another one.
func (h *Handlers) Counts(state string) bool {
	if len(h.Ends) == 0 {
		return state == Ends[0]
	}
	return slices.Contains(h.Ends, state)
}

// validateTriggers refuses an invalid job to follow, or messages that cannot be heard.
func (h *Handlers) validateTriggers(own string) error {
	if err := cmp.Or(h.validateMessages(), h.validateFile()); err != nil {
		return err
	}
	switch {
	case h != nil && len(h.When) > MaxWhen:
		return fmt.Errorf("on.when has %d bytes, want at most %d", len(h.When), MaxWhen)
	case h == nil || h.Job == "" && len(h.Ends) == 0:
		return nil
	case h.Job == "":
		return errors.New("on.ends says which ends of another job count; set on.job")
	case h.Job == own:
		return errors.New("on.job is the job itself, which would never come to an end")
	}
	for _, end := range h.Ends {
		if !slices.Contains(Ends, end) {
			return fmt.Errorf("on.ends: %q is none of %s", end, value.List(Ends))
		}
	}
	if err := value.ValidName("job", h.Job); err != nil {
		return fmt.Errorf("on.job: %w", err)
	}
	return nil
}

// validateMessages refuses a subject or a stream that can have no messages for a job. Millrace's own are
// among them: each task would make another one.
func (h *Handlers) validateMessages() error {
	if h == nil {
		return nil
	}
	tokens := strings.Split(h.Subject, ".")
	for i, token := range tokens {
		if h.Subject != "" && (token == "" || strings.ContainsFunc(token, unicode.IsSpace) || token == ">" && i < len(tokens)-1) {
			return fmt.Errorf("on.subject is %q, want words with dots between them, of which * is any and a last > is all that follow", h.Subject)
		}
	}
	switch first := tokens[0]; {
	case h.Stream == "" && (first == "*" || first == ">"):
		return fmt.Errorf("on.subject is %q, which takes what is not meant for jobs; begin it with a word, or set stream", h.Subject)
	case first == "mr" || strings.HasPrefix(first, "$") || strings.HasPrefix(first, "_INBOX"):
		return fmt.Errorf("on.subject is %q, and %s is for Millrace or NATS itself; choose another one", h.Subject, first)
	case strings.ContainsAny(h.Stream, " \t\r\n.*>/\\"), len(h.Stream) > 255:
		return fmt.Errorf("on.stream is %q, which is no name of a stream", h.Stream)
	case strings.HasPrefix(h.Stream, "MR_"), strings.HasPrefix(h.Stream, "KV_MR_"):
		return fmt.Errorf("on.stream is %s, which is Millrace's own; for its events there are job and notify", h.Stream)
	}
	return nil
}

// validateFile refuses a path at which no worker can look.
func (h *Handlers) validateFile() error {
	switch {
	case h == nil || h.File == "" && h.Quiet == 0:
		return nil
	case h.File == "":
		return errors.New("on.quiet is for how long a file must be as it is; set on.file")
	case !path.IsAbs(h.File) || path.Clean(h.File) != h.File:
		return fmt.Errorf("on.file is %q, want an absolute path without . and .., such as /in/*.csv", h.File)
	case h.Quiet < 0:
		return fmt.Errorf("on.quiet is %v, want 0 or more", h.Quiet)
	}
	if _, err := path.Match(h.File, ""); err != nil {
		return fmt.Errorf("on.file is %q: a [ has no ]", h.File)
	}
	return nil
}

// Names of the handlers among the children of a task. No step's begins with HandlerPrefix.
const (
	HandlerPrefix = "on-"

	OnSuccess = "on-success"
	OnFailure = "on-failure"
	OnCancel  = "on-cancel"
	OnExit    = "on-exit"
)

// Handler is a handler with its name and the ends of steps that it waits for.
type Handler struct {
	Name, field, Rule, When string
	Step                    *Step
}

// All returns the handlers that are set, in the order of their names above.
func (h *Handlers) All() []Handler {
	if h == nil {
		return nil
	}
	return slices.DeleteFunc([]Handler{
		{OnSuccess, "on.success", NeedNone, WhenTrouble, h.Success},
		{OnFailure, "on.failure", NeedAny, WhenFailure, h.Failure},
		{OnCancel, "on.cancel", NeedAny, WhenCancel, h.Cancel},
		{OnExit, "on.exit", NeedAll, WhenEnd, h.Exit},
	}, func(h Handler) bool { return h.Step == nil })
}

// StepNames are the names of all children of a task with steps: the steps and then the handlers.
func (s *Spec) StepNames() []string {
	var names []string
	for i := range s.Steps {
		names = append(names, s.Steps[i].Name)
	}
	for _, h := range s.On.All() {
		names = append(names, h.Name)
	}
	return names
}

// Depths returns, for each step or handler, the length of the longest chain of steps it waits for.
func (s *Spec) Depths() map[string]int {
	depth := map[string]int{}
	for range s.Steps { // the longest possible chain
		for i := range s.Steps {
			step := &s.Steps[i]
			for _, need := range step.Needs {
				depth[step.Name] = max(depth[step.Name], depth[need.Step]+1)
			}
		}
	}
	for _, h := range s.On.All() {
		depth[h.Name] = len(s.Steps)
	}
	return depth
}

// ChangeSteps calls change for each step and handler, on copies, because other specs may share the
// originals. It ends with the first error.
func (s *Spec) ChangeSteps(change func(name string, step *Step) error) error {
	s.Steps = slices.Clone(s.Steps)
	for i := range s.Steps {
		if err := change(s.Steps[i].Name, &s.Steps[i]); err != nil {
			return err
		}
	}
	if s.On == nil {
		return nil
	}
	on := *s.On
	for _, h := range []struct {
		name string
		step **Step
	}{{OnSuccess, &on.Success}, {OnFailure, &on.Failure}, {OnCancel, &on.Cancel}, {OnExit, &on.Exit}} {
		if *h.step == nil {
			continue
		}
		step := **h.step
		if err := change(h.name, &step); err != nil {
			return err
		}
		*h.step = &step
	}
	s.On = &on
	return nil
}

// whole calls see with the spec, and with those of its steps and handlers, which it must not
// change.
func (s *Spec) whole(see func(*Spec)) {
	see(s)
	if len(s.Steps) == 0 && s.On == nil {
		return // as most do; the copy would cost more than all else
	}
	steps := *s
	_ = steps.ChangeSteps(func(_ string, step *Step) error {
		see(&step.Spec)
		return nil
	})
}

// Stepped tells whether the children of a task of the spec are steps.
func (s *Spec) Stepped() bool { return s != nil && s.Each == nil && len(s.Steps) > 0 }

// OwnStep is the step that runs what a job does itself, if that handles its ends without steps.
const OwnStep = "run"

// Unfolded is the spec by which a task of s is made: for a job that runs something itself and has handlers, one with
// a step for what it runs. The handlers, the key, the approval and the total timeout are those of the whole.
func (s *Spec) Unfolded() *Spec {
	if len(s.Steps) > 0 || s.Run == nil && s.Handler == "" || len(s.On.All()) == 0 {
		return s
	}
	own := Step{Name: OwnStep, Spec: *s}
	whole := &Spec{On: s.On, Unique: s.Unique, Collapse: s.Collapse, Signal: s.Signal, Keep: s.Keep, Timeout: Timeout{Total: s.Timeout.Total}}
	own.On, own.Unique, own.Collapse, own.Signal, own.Timeout.Total = nil, Unique{}, nil, nil, 0
	whole.Steps = []Step{own}
	return whole
}

// Survives tells whether a child of this name continues when its parent is cancelled.
func (s *Spec) Survives(name string) bool {
	return s.Stepped() && s.On != nil && (name == OnCancel && s.On.Cancel != nil || name == OnExit && s.On.Exit != nil)
}

// Outlives tells whether the spec has such a child.
func (s *Spec) Outlives() bool { return s.Survives(OnCancel) || s.Survives(OnExit) }

// validateParent refuses a spec with steps or a list that has fields meant only for tasks that run
// themselves.
func (s *Spec) validateParent() error {
	if err := s.Each.validate(); err != nil {
		return err
	}
	if len(s.Steps) == 0 {
		switch handlers := s.On.All(); {
		case s.On != nil && len(handlers) == 0 && !s.On.Triggers():
			return errors.New("on: nothing is set; want success, failure, cancel, exit, job, subject, stream, file or when")
		case len(handlers) == 0:
			return nil
		case s.Run == nil && s.Handler == "":
			return errors.New("on: nothing runs whose end it could handle; set run, handler or steps")
		case s.Breaker != nil:
			return errors.New("breaker is for a job that runs itself, without handlers")
		default:
			return validateHandlers(handlers, map[string]int{OwnStep: 0})
		}
	}
	if s.Run != nil || s.Handler != "" {
		return errors.New("steps and run or handler are both set; a job has one of them")
	}
	var all error
	type field struct {
		name string
		set  bool
	}
	fields := []field{{"timeout", s.Timeout != Timeout{Total: s.Timeout.Total}}, {"retry", isSet(&s.Retry)}}
	for i := range Rules {
		fields = append(fields, field{Rules[i].Name, Rules[i].Has(s)})
	}
	for _, f := range append(fields,
		field{"on_disconnect", s.OnDisconnect != ""}, field{"on_restart", s.OnRestart != ""}, field{"resources", s.Resources != Resources{}},
		field{"files", s.Files != nil}, field{"setup", len(s.Setup) > 0}, field{"artifacts", s.Artifacts != nil}, field{"returns", len(s.Returns) > 0},
	) {
		if f.set {
			all = value.JoinFaults(all, fmt.Errorf("%s is for what runs, and a job with steps does not itself; set it in the steps", f.name))
		}
	}
	if all != nil {
		return all
	}
	handlers := s.On.All()
	switch {
	case s.On != nil && len(handlers) == 0 && !s.On.Triggers():
		return errors.New("on: nothing is set; want success, failure, cancel, exit, job, subject, stream, file or when")
	case len(handlers) > 0 && len(s.Steps) > MaxNeeds:
		return fmt.Errorf("steps: %d steps, want at most %d beside on: a handler waits for all of them", len(s.Steps), MaxNeeds)
	case len(s.Steps) > MaxChildren:
		return fmt.Errorf("steps: %d steps, want at most %d", len(s.Steps), MaxChildren)
	}
	at := make(map[string]int, len(s.Steps))
	for i := range s.Steps {
		step := &s.Steps[i]
		if err := value.ValidName("step", step.Name); err != nil {
			return fmt.Errorf("steps[%d].name: %w", i, err)
		}
		if first, double := at[step.Name]; double {
			return fmt.Errorf("steps[%d].name: %q is the name of steps[%d] as well", i, step.Name, first)
		}
		if strings.HasPrefix(step.Name, HandlerPrefix) {
			return fmt.Errorf("steps[%d].name: %q: names that begin with on- are those of the handlers", i, step.Name)
		}
		at[step.Name] = i
	}
	for i := range s.Steps {
		if err := s.Steps[i].validate(at); err != nil {
			all = value.JoinFaults(all, value.Under(fmt.Sprintf("steps[%d].", i), err))
		}
	}
	if all = value.JoinFaults(all, validateHandlers(handlers, at)); all != nil {
		return all
	}
	return s.acyclic(at)
}

func validateHandlers(handlers []Handler, at map[string]int) (all error) {
	for _, h := range handlers {
		if h.Step.Name != "" || len(h.Step.Needs) > 0 || h.Step.Rule != "" {
			return fmt.Errorf("%s: a handler has no name, needs or rule: it comes after all steps", h.field)
		}
		if err := h.Step.validate(at); err != nil {
			all = value.JoinFaults(all, value.Under(h.field+".", err))
		}
	}
	return all
}

// isSet tells whether a field has a value. An empty list is none.
func isSet[T any](v *T) bool {
	is := reflect.ValueOf(v).Elem()
	return !is.IsZero() && (is.Kind() != reflect.Slice || is.Len() > 0)
}

// validate checks a step, given the indexes of all steps by name.
func (s *Step) validate(at map[string]int) error {
	switch {
	case len(s.Steps) > 0 || s.On != nil:
		return errors.New("steps: steps cannot have steps; submit another job from a step instead")
	case s.Unique.Key != "":
		return errors.New("unique is for a whole job, not for a step")
	case s.Collapse != nil:
		return errors.New("collapse is for a whole job, not for a step")
	case s.Breaker != nil:
		return errors.New("breaker is for a job that runs itself, not for a step")
	case s.Rule != "" && len(s.Needs) == 0:
		return errors.New("rule says how to count needs, and there are none")
	case s.Rule != "" && !slices.Contains(NeedRules, s.Rule):
		return fmt.Errorf("rule is %q, want one of %s", s.Rule, value.List(NeedRules))
	case len(s.Needs) > MaxNeeds:
		return fmt.Errorf("needs: %d steps, want at most %d", len(s.Needs), MaxNeeds)
	}
	for i, n := range s.Needs {
		switch _, known := at[n.Step]; {
		case !known:
			return fmt.Errorf("needs: there is no step %q", n.Step)
		case n.When != "" && !slices.Contains(Whens, n.When):
			return fmt.Errorf("needs: when is %q, want one of %s", n.When, value.List(Whens))
		case slices.ContainsFunc(s.Needs[:i], func(o StepNeed) bool { return o.Step == n.Step }):
			return fmt.Errorf("needs: step %q is named twice", n.Step)
		}
	}
	if e := s.Each; e != nil && e.Result != "" && !slices.ContainsFunc(s.Needs, func(n StepNeed) bool { return n.Step == e.Result }) {
		return fmt.Errorf("each.result: %q is not among the needs of the step", e.Result)
	}
	if s.Queue != "" {
		if err := value.ValidName("queue", s.Queue); err != nil {
			return err
		}
	}
	return s.Spec.Validate()
}

// acyclic refuses steps that wait for each other.
func (s *Spec) acyclic(at map[string]int) error {
	waits := make([]int, len(s.Steps))
	by := make([][]int, len(s.Steps))
	var free []int
	for i := range s.Steps {
		if waits[i] = len(s.Steps[i].Needs); waits[i] == 0 {
			free = append(free, i)
		}
		for _, n := range s.Steps[i].Needs {
			by[at[n.Step]] = append(by[at[n.Step]], i)
		}
	}
	for ; len(free) > 0; free = free[1:] {
		for _, i := range by[free[0]] {
			if waits[i]--; waits[i] == 0 {
				free = append(free, i)
			}
		}
	}
	if i := slices.IndexFunc(waits, func(n int) bool { return n > 0 }); i >= 0 {
		return fmt.Errorf("steps[%d].needs: %s", i, s.circle(i, at, waits))
	}
	return nil
}

// circle names the steps of a cycle that is reached from step i by following its needs.
func (s *Spec) circle(i int, at map[string]int, waits []int) string {
	var path []int
	for !slices.Contains(path, i) {
		path = append(path, i)
		for _, n := range s.Steps[i].Needs {
			if waits[at[n.Step]] > 0 {
				i = at[n.Step]
				break
			}
		}
	}
	var names []string
	for _, j := range append(path[slices.Index(path, i):], i) {
		names = append(names, s.Steps[j].Name)
	}
	return "the steps wait for each other: " + strings.Join(names, " needs ")
}

// AllFiles returns the files that a task of the spec may need: its own and those of its steps and
// handlers.
func (s *Spec) AllFiles() []*Files {
	if s == nil {
		return nil
	}
	var all []*Files
	if s.Files != nil {
		all = append(all, s.Files)
	}
	for i := range s.Steps {
		all = append(all, s.Steps[i].AllFiles()...)
	}
	if s.On != nil {
		for _, h := range []*Step{s.On.Success, s.On.Failure, s.On.Cancel, s.On.Exit} {
			if h != nil {
				all = append(all, h.AllFiles()...)
			}
		}
	}
	return all
}
