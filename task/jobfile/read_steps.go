package jobfile

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"

	"millrace/task/job"
)

// spec returns the fields of a spec that are not read by their type.
func (r *reader) spec(s *job.Spec) setters {
	return setters{
		"slots":         into(&s.Slots, r.atLeastOne),
		"setup":         into(&s.Setup, r.lines),
		"on_disconnect": r.words(&s.OnDisconnect, job.Disconnects),
		"on_restart":    r.words(&s.OnRestart, job.Restarts),
	}
}

func (r *reader) steps(v entry) []job.Step {
	if v.kind != list || len(v.items) == 0 {
		r.want(v, "a list of steps such as [{name: build, run: make}]")
		return nil
	}
	steps := make([]job.Step, len(v.items))
	for i, n := range v.items {
		at := entry{n, fmt.Sprintf("%s[%d]", v.path, i), n.pos}
		r.where[at.path] = n.pos
		steps[i] = r.step(at)
		if _, named := n.field("name"); !named && n.kind == mapping {
			r.refuse(at, "name is missing: a step needs one")
		}
	}
	return steps
}

// step reads a step, or a handler, which has no name.
func (r *reader) step(v entry) (s job.Step) {
	special := r.spec(&s.Spec)
	special["rule"] = r.words(&s.Rule, job.NeedRules)
	fields := r.fields(&s, special)
	maps.DeleteFunc(fields, func(name string, _ func(entry)) bool { return ofJobs[name] })
	r.object(v, "a step such as {name: build, run: make}", fields)
	return s
}

func (r *reader) stepNeeds(v entry) []job.StepNeed {
	if v.kind == text {
		return []job.StepNeed{{Step: r.name(v, "step")}}
	}
	if v.kind != list || len(v.items) == 0 {
		r.want(v, "the name of a step, or a list such as [build, {step: test, when: end}]")
		return nil
	}
	needs := make([]job.StepNeed, len(v.items))
	for i, n := range v.items {
		at := entry{n, fmt.Sprintf("%s[%d]", v.path, i), n.pos}
		if n.kind == text {
			needs[i].Step = r.name(at, "step")
			continue
		}
		r.object(at, "the name of a step, or a mapping such as {step: test, when: end}", r.fields(&needs[i], setters{
			"when": r.words(&needs[i].When, job.Whens),
		}))
	}
	return needs
}

func (r *reader) each(v entry) *job.Each {
	var e job.Each
	if v.kind == list {
		e.Values = r.values(v)
		return &e
	}
	r.object(v, "a list of values, or a mapping such as {param: files}", r.fields(&e, setters{
		"param": into(&e.Param, r.line),
	}))
	return &e
}

func (r *reader) values(v entry) (all []json.RawMessage) {
	if v.kind != list || len(v.items) == 0 {
		r.want(v, "a list of values that is not empty")
		return nil
	}
	for i, n := range v.items {
		all = append(all, r.appendJSON(nil, entry{n, fmt.Sprintf("%s[%d]", v.path, i), n.pos}))
	}
	return all
}

func (r *reader) handler(v entry) *job.Step {
	step := r.step(v)
	return &step
}

// inStep matches the path of a step or handler.
var inStep = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:steps\[\d+\]|on\.(?:success|failure|cancel|exit))(?:\.|$)`)
})

// shape is the entry of the [vocabulary] for the object at a path: the fields of a step have the
// same names as those of a job.
func shape(path string) string {
	rest := inStep().ReplaceAllString(path, "")
	switch {
	case paramItem().MatchString(path):
		return "params"
	case strings.HasPrefix(path, "schedule[") || strings.HasPrefix(path, "timetable["):
		return "timetable"
	case rest == path:
		return path
	case rest == "":
		return "steps"
	case needItem().MatchString(rest):
		return "steps.needs"
	}
	return rest
}

var (
	needItem  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^needs\[\d+\]$`) })
	paramItem = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^params\[\d+\]$`) })
)
