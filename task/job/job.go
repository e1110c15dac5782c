package job

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"time"

	"millrace/task/param"
	"millrace/task/placement"
	"millrace/task/value"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of one document of a job file, for editors.
// Package jobfile reads the documents that it accepts, except for rules that a schema cannot
// express: durations out of range, duplicate names, bounds on size.
func Schema() []byte { return bytes.Clone(schema) }

// Job is a named definition of what to run. The store that holds it assigns its revision.
type Job struct {
	// Name is 1 to 64 letters, digits, '_' or '-'.
	Name string `json:"name" redact:"keep" names:"job"`
	// Title and Description say to people what the job is for. Owner is who answers for it. Group is
	// where lists of jobs put it.
	Title       string `json:"title,omitempty" redact:"hide"`
	Description string `json:"description,omitempty" redact:"hide"`
	Owner       string `json:"owner,omitempty" redact:"hide"`
	Group       string `json:"group,omitempty" redact:"hide"`
	// Labels are copied to each task; a submission may add to them.
	Labels map[string]string `json:"labels,omitempty" redact:"hide"`
	// Params are its parameters, as defaults or as declarations.
	Params param.Params `json:"params,omitzero"`
	// Queue is the queue in which its tasks wait. Default [placement.DefaultQueue].
	Queue string `json:"queue,omitempty" redact:"keep" names:"queue"`
	// Priority is the priority of its tasks: [placement.MinPriority] to [placement.MaxPriority]; larger is
	// more urgent. Default [placement.DefaultPriority].
	Priority int `json:"priority,omitempty" read:"priority"`
	// Fair names the label, or else the parameter, whose value is the fair key of a task: workers
	// serve the keys in a queue in turn. Default: no fair key.
	Fair string `json:"fair,omitempty" redact:"keep" read:"line"`
	// Schedule makes a task of the job at each planned run; nil for none. The schedule has the job's name.
	Schedule *Schedule `json:"schedule,omitempty" list:"timetable"`
	// Timetable are several schedules in place of the one, each with a name of its own. A job file
	// takes the list as schedule, too.
	Timetable []NamedSchedule `json:"timetable,omitempty" alone:"none"`
	// Notify are who is told of what becomes of its tasks. Default: whom the servers' own rules name.
	Notify []Notify `json:"notify,omitempty" like:"{on: [failure, recovery], to: oncall}"`
	Spec
}

// Validate refuses an invalid job and names the field.
func (j *Job) Validate() error {
	return value.JoinFaults(placement.ValidLabels(j.Labels), j.Idle(), j.ungiven(), j.validate(j.Params.Validate()))
}

// ungiven refuses parameters to which a trigger of the job gives no value: each of its tasks would be refused.
func (j *Job) ungiven() error {
	var all []error
	for i := range j.Params.Declared {
		d := &j.Params.Declared[i]
		switch {
		case len(d.Default) > 0 || d.Optional || d.Name == PayloadParam:
		case j.On.After() != "" && !slices.Contains(EndMembers, d.Name):
			all = append(all, fmt.Errorf("params[%d].default is missing: the ends of job %s give it no other value", i, j.On.Job))
		case j.On.Finds() && !slices.Contains(FileMembers, d.Name):
			all = append(all, fmt.Errorf("params[%d].default is missing: the files of the job give it no other value", i))
		}
	}
	return value.JoinFaults(all...)
}

// ValidateStored is [Job.Validate] for a job that an earlier version may have stored: labels had
// commas then, and declarations no bounds of cost. Such a job runs on as it is, and is refused when
// somebody stores it again.
func (j *Job) ValidateStored() error { return j.validate(j.Params.ValidateStored()) }

func (j *Job) validate(params []error) error {
	var queue, priority error
	if j.Queue != "" {
		queue = value.ValidName("queue", j.Queue)
	}
	if j.Priority != 0 {
		priority = placement.ValidPriority(j.Priority)
	}
	return value.JoinFaults(value.ValidName("job", j.Name), queue, priority, j.validateParams(params), ValidNotify(j.Notify), j.On.validateTriggers(j.Name), j.Spec.Validate(), j.CheckVariables(known(&j.Params)))
}

// validateParams refuses invalid declarations of parameters, and invalid values that the job itself
// gives them, beside the faults that its parameters have.
func (j *Job) validateParams(faults []error) error {
	for i := range j.Params.Declared {
		if d := &j.Params.Declared[i]; (j.Schedule != nil || len(j.Timetable) > 0) && len(d.Default) == 0 && !d.Optional {
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

// NoticeQueue is the queue of notices, which servers work off, and NoticeHandler the handler that sends one.
// MonitorQueue and MonitorHandler are those of planned runs that wait for a ping.
const (
	NoticeQueue    = "millrace-notices"
	NoticeHandler  = "millrace-notice"
	MonitorQueue   = "millrace-monitors"
	MonitorHandler = "millrace-monitor"
)

// Monitors tells whether tasks of the spec run nothing, and wait for a ping of what runs elsewhere.
func (s *Spec) Monitors() bool { return s != nil && s.Handler == MonitorHandler }

// Notify says who is told of what becomes of the tasks of a job, a schedule or a queue.
type Notify struct {
	// On is of what. Default: failure and recovery.
	On []string `json:"on,omitempty" redact:"word" words:"failure,recovery,missed,overdue,waiting,breaker" alone:"text"`
	// To names targets that the operator of the servers has defined (setting notify).
	To []string `json:"to,omitempty" redact:"keep" alone:"text"`
	// Remind tells what waits for a person again, so often while nobody acts: at least 1m. Default: once.
	Remind value.Duration `json:"remind,omitempty"`
}

// NoticeKinds are the values of [Notify.On]: a task without a parent failed; the next one of its job finished;
// a planned run has no task; a deadline has passed; a task waits for an approval; the job's breaker is open.
var NoticeKinds = value.WordsOf[Notify]("on")

// Words says whom it tells of what.
func (n *Notify) Words() string {
	words := value.List(n.To)
	if len(n.On) > 0 {
		words += " of " + value.List(n.On)
	}
	if n.Remind > 0 {
		words += ", again every " + n.Remind.String()
	}
	return words
}

// ValidNotify refuses wishes without a target, or of kinds that are neither [NoticeKinds] nor others.
func ValidNotify(all []Notify, others ...string) error {
	kinds := slices.Concat(NoticeKinds, others)
	for i := range all {
		n := &all[i]
		if len(n.To) == 0 {
			return fmt.Errorf("notify[%d].to is missing: name a target of the servers", i)
		}
		if n.Remind != 0 && n.Remind.Std() < time.Minute {
			return fmt.Errorf("notify[%d].remind is %v, want at least 1m", i, n.Remind)
		}
		for _, kind := range n.On {
			if !slices.Contains(kinds, kind) {
				return fmt.Errorf("notify[%d].on: %q is none of %s", i, kind, value.List(kinds))
			}
		}
		for _, to := range n.To {
			if err := value.ValidName("target", to); err != nil {
				return fmt.Errorf("notify[%d].to: %w", i, err)
			}
		}
	}
	return nil
}
