package birth

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/param"
	"millrace/task/placement"
	"millrace/task/value"
)

// ErrNoTask means that no task can be made from the named source: it does not exist, or cannot be
// read.
var ErrNoTask = errors.New("no task can be made")

// NoTask returns an error with the text of err that wraps both err and [ErrNoTask].
func NoTask(err error) error { return noTask{err} }

type noTask struct{ error }

func (e noTask) Unwrap() []error { return []error{e.error, ErrNoTask} }

// Submission asks for a task: of a job, or ad hoc.
type Submission struct {
	// ID is the task's id; "" for a new one. Submitting the same ID again makes no second task.
	ID task.ID `json:"id,omitempty" redact:"keep"`
	// Fresh says that this process has just drawn the ID and shared it with no other process. No
	// other submission can use it, so the birth needs no place on the task's chain.
	Fresh bool `json:"-"`
	// Job names a stored definition. Either it or Spec is set.
	Job string `json:"job,omitempty" redact:"keep"`
	// Spec is the work of a submission without a job.
	Spec *job.Spec `json:"spec,omitempty"`
	// Params override those of the job and must fit its declarations.
	Params map[string]json.RawMessage `json:"params,omitempty" redact:"data"`
	// Texts are parameters as a person types them; they win over Params. Each is parsed as the type
	// that the job declares. An undeclared one is JSON if it parses as JSON, else text.
	Texts map[string]string `json:"texts,omitempty" redact:"hide"`
	// Labels override those of the job.
	Labels map[string]string `json:"labels,omitempty" redact:"hide"`
	// Queue replaces the job's. Default [placement.DefaultQueue].
	Queue string `json:"queue,omitempty" redact:"keep"`
	// Delay and At say when the task is due; at most one is set. Default: at once.
	Delay value.Duration `json:"delay,omitempty" least:"0"`
	At    time.Time      `json:"at,omitzero"`
	// Pending, Run and Retries replace the spec's timeout.pending, timeout.run and retry.max, if set; 0
	// is for any time, and for no retry.
	Pending *value.Duration `json:"pending_timeout,omitempty"`
	Run     *value.Duration `json:"run_timeout,omitempty"`
	Retries *int            `json:"retries,omitempty"`
	// Assign replaces the spec's timeout.assign, if set; 0 is for any time.
	Assign *value.Duration `json:"assign_timeout,omitempty"`
	// Total replaces the spec's timeout.total, if set; 0 is for any time.
	Total *value.Duration `json:"total_timeout,omitempty"`
	// Nodes and NoNode replace the spec's place.nodes and place.no_node, if set.
	Nodes  []string `json:"nodes,omitempty" redact:"keep"`
	NoNode string   `json:"no_node,omitempty" redact:"word"`
	// Priority replaces the job's, if set: [placement.MinPriority] to [placement.MaxPriority], the larger the more urgent.
	Priority int `json:"priority,omitempty"`
	// Title says in a line what the task is for, to people. At most [MaxTitle] bytes without control
	// characters. Default: none.
	Title string `json:"title,omitempty" redact:"hide"`
	// FairKey names the owner of the task for fair sharing: workers serve the keys in a queue in
	// turn. It replaces the value of the job's fair. At most [MaxFairKey] bytes. Default: none.
	FairKey string `json:"fair_key,omitempty" redact:"hide"`
	// Place replaces parts of the spec's place. Mode, nodes, each, labels and count are replaced
	// together if any of them is set; every other part is replaced by itself.
	Place *job.Place `json:"place,omitempty"`
	// Overrides replace rules of the spec, if set.
	job.Overrides
	// Unique replaces the spec's, if set.
	Unique *job.Unique `json:"unique,omitempty"`
	// Collapse replaces the spec's, if set.
	Collapse *job.Collapse `json:"collapse,omitempty"`
	// Needs are tasks that must end first. Default: none.
	Needs *task.Needs `json:"needs,omitzero"`
	// Signal replaces the spec's, if set.
	Signal *job.Signal `json:"signal,omitzero"`
	// Window replaces the spec's, if set: the name of a calendar, or "" for none.
	Window *string `json:"window,omitempty" redact:"keep"`
	// Files replaces the spec's, if set.
	Files *job.Files `json:"files,omitempty"`
	// Group and Parent tie tasks together. Millrace only shows them.
	Group  string  `json:"group,omitempty" redact:"hide"`
	Parent task.ID `json:"parent,omitempty" redact:"keep"`
	// Trace is the submitter's span, as a W3C traceparent: 00-<trace id>-<span id>-<flags>.
	// Default: none.
	Trace string `json:"trace,omitempty" redact:"keep"`
	// Origin is the schedule that makes the task; zero for none.
	task.Origin
}

// With returns the submission with the set fields of another in place of its own. Parameters and
// labels are merged, name by name.
func (s Submission) With(over Submission) Submission {
	is, set := reflect.ValueOf(&s).Elem(), reflect.ValueOf(over)
	for _, at := range reflect.VisibleFields(set.Type()) {
		i := at.Index
		switch f := set.FieldByIndex(i); {
		case f.IsZero() || at.Anonymous:
		case f.Kind() == reflect.Map && !is.FieldByIndex(i).IsZero():
			all := reflect.MakeMap(f.Type())
			for _, of := range []reflect.Value{is.FieldByIndex(i), f} {
				for k, v := range of.Seq2() {
					all.SetMapIndex(k, v)
				}
			}
			is.FieldByIndex(i).Set(all)
		default:
			is.FieldByIndex(i).Set(f)
		}
	}
	if len(s.Texts) > 0 && len(over.Params) > 0 { // texts win, but not over a value that is set later
		s.Texts = maps.Clone(s.Texts)
		maps.DeleteFunc(s.Texts, func(name, _ string) bool {
			_, value := over.Params[name]
			_, text := over.Texts[name]
			return value && !text
		})
	}
	return s
}

// Of makes the event of a submission. Job is the definition that it names, and revision its
// revision in the store; both are zero for an ad-hoc submission. The error names the invalid field
// and the accepted values.
func Of(s Submission, job *job.Job, revision uint64, now time.Time) (task.Submitted, error) {
	var e task.Submitted
	if err := s.giveSpec(&e, job); err != nil {
		return e, err
	}
	e.Revision = revision
	if err := s.giveRoute(&e, job); err != nil {
		return e, err
	}
	if err := s.giveParams(&e, job); err != nil {
		return e, err
	}
	if err := s.giveWords(&e, job); err != nil {
		return e, err
	}
	if s.Needs != nil {
		if err := s.Needs.Validate(); err != nil {
			return e, err
		}
		e.Needs = s.Needs
	}
	e.Holds = e.FirstHolds()
	var err error
	if e.Due, err = s.due(now); err != nil {
		return e, err
	}
	if c := e.Spec.Collapse; c != nil {
		switch {
		case s.Delay != 0 || !s.At.IsZero():
			return e, errors.New("collapse says when the task is due; leave delay and at out")
		case s.Needs != nil:
			return e, errors.New("collapse does not go with needs: a task that waits for others has no time to move")
		}
		if e.Params, err = c.Collects(e.Params); err != nil {
			return e, err
		}
		e.Due = c.Due(now, now)
	}
	if err := checkLists(&e.Work); err != nil {
		return e, err
	}
	e.Spelled = e.Spec.Keyed()
	if err := e.ValidKeys(); err != nil {
		return e, err
	}
	if _, err := e.UniqueKey(); err != nil {
		return e, err
	}
	if _, err := e.StickyName(); err != nil {
		return e, err
	}
	bound(&e, value.Later(now, e.Due))
	return e, nil
}

// giveSpec sets what the task does: what its job says, or its own spec, with the submission's
// replacements.
func (s *Submission) giveSpec(e *task.Submitted, job *job.Job) error {
	switch {
	case job != nil && s.Spec != nil:
		return errors.New("job and spec are both set; a submission has one of them")
	case job != nil:
		spec := job.Spec
		e.Job, e.Spec, e.Group, e.Labels = job.Name, &spec, job.Group, job.Labels
	case s.Spec != nil:
		if s.Spec.On.Triggers() {
			return errors.New("on: what is set there makes tasks of a job; apply a job")
		}
		if s.Spec.Guarded() {
			return errors.New("breaker: it counts the failures of a job's tasks; apply a job and submit that")
		}
		spec := *s.Spec
		e.Spec = &spec
	default:
		return errors.New("nothing to run: set job, or spec with run or handler")
	}
	if !s.overrides(e.Spec) && s.Spec == nil {
		e.Spec = job.Spec.Unfolded() // mostly shared, so it is encoded once
		return nil
	}
	err := e.Spec.Validate()
	e.Spec = e.Spec.Unfolded()
	return err
}

// giveRoute sets where the task waits.
func (s *Submission) giveRoute(e *task.Submitted, job *job.Job) error {
	queue := s.Queue
	if queue == "" && job != nil {
		queue = job.Queue
	}
	queue = cmp.Or(queue, placement.DefaultQueue)
	if err := value.ValidName("queue", queue); err != nil {
		return err
	}
	priority, err := s.priority(job)
	if err != nil {
		return err
	}
	if e.Spec.Placed() && e.Spec.Place.Queue == "" { // so that a reader of the task alone knows its fallback
		spec := *e.Spec
		spec.Place.Queue = queue
		e.Spec = &spec
	} else if e.Spec.Placed() {
		queue = e.Spec.Place.Queue
	}
	e.Route = e.Spec.HomeRoute(queue, priority)
	return nil
}

// giveParams sets the task's parameters and labels: those of the job, and over them the
// submission's.
func (s *Submission) giveParams(e *task.Submitted, job *job.Job) error {
	var params param.Params
	if job != nil {
		params = job.Params
	}
	set, err := s.paramsFor(&params)
	if err != nil {
		return err
	}
	if e.Params, err = param.Merge(params.Values(), set); err != nil {
		return err
	}
	e.Secrets = params.Secrets()
	if e.Params != nil && e.Spec.NamesVariables() {
		var all map[string]json.RawMessage
		if err := json.Unmarshal(e.Params, &all); err != nil {
			return fmt.Errorf("params: %w", value.Plainly(err))
		}
		if err := e.Spec.CheckVariables(all); err != nil {
			return err
		}
	}
	if len(s.Labels) > 0 {
		labels := maps.Clone(e.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, s.Labels)
		e.Labels = labels
	}
	return nil
}

// giveWords sets what names the task and ties it to others.
func (s *Submission) giveWords(e *task.Submitted, job *job.Job) (err error) {
	e.Group = cmp.Or(s.Group, e.Group)
	if e.Title, err = s.title(); err != nil {
		return err
	}
	if e.FairKey, err = s.fairKey(job, &e.Work); err != nil {
		return err
	}
	if s.Trace != "" && !ValidTrace(s.Trace) {
		return fmt.Errorf("trace is %q, want a traceparent: 00-, 32 hexadecimal digits, -, 16 of them, -, 2 of them", s.Trace)
	}
	e.Parent, e.Trace, e.Origin = s.Parent, s.Trace, s.Origin
	return nil
}

// MaxTitle is the largest length of a title, in bytes.
const MaxTitle = 256

// title is the title that the submission gives.
func (s *Submission) title() (string, error) {
	switch {
	case len(s.Title) > MaxTitle:
		return "", fmt.Errorf("title has %d bytes, want at most %d", len(s.Title), MaxTitle)
	case !utf8.ValidString(s.Title), strings.ContainsFunc(s.Title, unicode.IsControl):
		return "", fmt.Errorf("title is %q, want one line of text", s.Title)
	}
	return s.Title, nil
}

// MaxFairKey is the largest length of a fair key, in bytes.
const MaxFairKey = 256

func (s *Submission) priority(job *job.Job) (int, error) {
	p := s.Priority
	if p == 0 && job != nil {
		p = job.Priority
	}
	if p == 0 {
		return placement.DefaultPriority, nil
	}
	return p, placement.ValidPriority(p)
}

// fairKey is the key that the submission names, or the value of the name in the job's fair.
func (s *Submission) fairKey(job *job.Job, w *task.Work) (string, error) {
	key := s.FairKey
	if key == "" && job != nil && job.Fair != "" {
		key = valueOf(w, job.Fair)
	}
	if len(key) > MaxFairKey {
		return "", fmt.Errorf("fair_key has %d bytes, want at most %d", len(key), MaxFairKey)
	}
	return key, nil
}

// valueOf is the value of a label, or else of a parameter; "" if there is neither.
func valueOf(w *task.Work, name string) string {
	if v, ok := w.Labels[name]; ok {
		return v
	}
	var params map[string]json.RawMessage
	if json.Unmarshal(w.Params, &params) != nil {
		return ""
	}
	return value.Spell(params[name])
}

// checkLists refuses work whose lists are known by now and are not lists.
func checkLists(w *task.Work) error {
	if e := w.Spec.Each; e != nil {
		if e.Result != "" {
			return errors.New("each.result: this is no step, and needs none")
		}
		if _, err := e.Items(w.Params, w.Inputs); err != nil {
			return err
		}
	}
	for i := range w.Spec.Steps {
		step := &w.Spec.Steps[i]
		if step.Each == nil || step.Each.Param == "" || w.Spec.Each != nil && step.Each.Param == task.ItemParam {
			continue
		}
		if _, err := step.Each.Items(param.Over(step.Params, w.Params), nil); err != nil {
			return fmt.Errorf("steps[%d].%w", i, err)
		}
	}
	return nil
}

// Check refuses what no store could make right: of a submission of a command or handler all that is
// wrong, of one of a job its own rules. The error is that of [Of].
func (s *Submission) Check() error {
	if err := placement.ValidLabels(s.Labels); err != nil {
		return err
	}
	if s.Job == "" && s.Spec != nil {
		if err := s.Spec.Idle(); err != nil {
			return err
		}
		_, err := Of(*s, nil, 0, time.Time{})
		return err
	}
	var rules job.Spec
	s.Overrides.Onto(&rules)
	for i := range job.Rules {
		if r := &job.Rules[i]; r.Has(&rules) {
			if err := r.Check(&rules); err != nil {
				return err
			}
		}
	}
	return nil
}

// Fits refuses parameters that the job does not allow. The error names each invalid or missing one,
// with the accepted values.
func (s *Submission) Fits(job *job.Job) error {
	_, err := s.paramsFor(&job.Params)
	return err
}

// paramsFor returns the parameters that it sets of a job's.
func (s *Submission) paramsFor(p *param.Params) (map[string]json.RawMessage, error) {
	set, wrong := p.Read(s.Params, s.Texts)
	return set, value.JoinFaults(append(wrong, p.Missing(set)...)...)
}

// overrides applies the submission's replacements to the spec and tells whether there were any.
func (s *Submission) overrides(spec *job.Spec) bool {
	if s.Pending != nil {
		spec.Timeout.Pending = *s.Pending
	}
	if s.Assign != nil {
		spec.Timeout.Assign = *s.Assign
	}
	if s.Run != nil {
		spec.Timeout.Run = *s.Run
	}
	if s.Total != nil {
		spec.Timeout.Total = *s.Total
	}
	if s.Retries != nil {
		spec.Retry.Max = *s.Retries
	}
	if len(s.Nodes) > 0 {
		p := &spec.Place
		p.Mode, p.Nodes, p.Each, p.Count, p.Spread, p.Late = "", s.Nodes, false, 0, "", ""
		p.Unprefer()
	}
	if s.NoNode != "" {
		spec.Place.NoNode = s.NoNode
	}
	if s.Files != nil {
		spec.Files = s.Files
	}
	if s.Signal != nil {
		spec.Signal = s.Signal
	}
	if s.Window != nil {
		spec.Window = *s.Window
	}
	if s.Unique != nil {
		spec.Unique = *s.Unique
	}
	if s.Collapse != nil {
		spec.Collapse = s.Collapse
	}
	if s.Place != nil {
		spec.Place = spec.Place.With(s.Place)
	}
	ruled := s.Overrides.Onto(spec)
	return ruled || s.Pending != nil || s.Assign != nil || s.Run != nil || s.Total != nil || s.Retries != nil || len(s.Nodes) > 0 || s.NoNode != "" || s.Place != nil ||
		s.Files != nil || s.Signal != nil || s.Window != nil || s.Unique != nil || s.Collapse != nil
}

func (s *Submission) due(now time.Time) (time.Time, error) {
	switch {
	case s.Delay != 0 && !s.At.IsZero():
		return time.Time{}, errors.New("delay and at are both set; choose one")
	case s.Delay < 0:
		return time.Time{}, fmt.Errorf("delay is %v, want 0 or more", s.Delay)
	case s.Delay > 0:
		return now.Add(s.Delay.Std()), nil
	case s.At.After(now):
		return s.At, nil
	}
	return time.Time{}, nil
}

// traceparent matches version 00 of the W3C Trace Context header of that name.
var traceparent = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`) })

// ValidTrace tells whether a text is a valid trace context, with a trace id and a span id other
// than zero.
func ValidTrace(text string) bool {
	return traceparent().MatchString(text) && strings.Trim(text[3:35], "0") != "" && strings.Trim(text[36:52], "0") != ""
}

// bound sets the bounds of a birth that may begin at a time.
func bound(e *task.Submitted, from time.Time) {
	e.BoundWhole(from)
	if p := e.Spec.Timeout.Pending.Std(); p > 0 && !e.WaitsForOthers() {
		e.StartBy = from.Add(p)
	}
}
