package jobfile

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"

	"millrace/task"
)

// spec are the fields of a job that say what runs and under which rules.
func (r *reader) spec(s *task.Spec) setters {
	return setters{
		"run":           func(v value) { s.Run = r.run(v) },
		"handler":       func(v value) { s.Handler = r.name(v, "handler") },
		"timeout":       func(v value) { s.Timeout = r.timeout(v) },
		"retry":         func(v value) { s.Retry = r.retry(v) },
		"breaker":       func(v value) { s.Breaker = r.breaker(v) },
		"window":        func(v value) { s.Window = r.name(v, ofCalendar) },
		"place":         func(v value) { s.Place = r.place(v) },
		"slots":         func(v value) { s.Slots = r.atLeastOne(v) },
		"files":         func(v value) { s.Files = r.files(v) },
		"setup":         func(v value) { s.Setup = r.lines(v) },
		"artifacts":     func(v value) { s.Artifacts = r.artifacts(v) },
		"resources":     func(v value) { s.Resources = r.resources(v) },
		"keep":          func(v value) { s.Keep = r.keep(v) },
		"signal":        func(v value) { s.Signal = r.signal(v) },
		"on_disconnect": func(v value) { s.OnDisconnect = r.oneOf(v, task.Disconnects) },
		"on_restart":    func(v value) { s.OnRestart = r.oneOf(v, task.Restarts) },
		"concurrency":   func(v value) { s.Concurrency = r.concurrency(v) },
		"rate":          func(v value) { s.Rate = r.rate(v) },
		"unique":        func(v value) { s.Unique = r.unique(v) },
		"each":          func(v value) { s.Each = r.each(v) },
		"steps":         func(v value) { s.Steps = r.steps(v) },
		"on":            func(v value) { s.On = r.handlers(v) },
	}
}

func (r *reader) steps(v value) []task.Step {
	if v.kind != list || len(v.items) == 0 {
		r.want(v, "a list of steps such as [{name: build, run: make}]")
		return nil
	}
	steps := make([]task.Step, len(v.items))
	for i, n := range v.items {
		at := value{n, fmt.Sprintf("%s[%d]", v.path, i), n.pos}
		r.where[at.path] = n.pos
		steps[i] = r.step(at)
		if _, named := n.field("name"); !named && n.kind == mapping {
			r.refuse(at, "name is missing: a step needs one")
		}
	}
	return steps
}

// step reads a step, or a handler, which is one without a name.
func (r *reader) step(v value) (s task.Step) {
	fields := r.spec(&s.Spec)
	for _, name := range []string{"steps", "on", "unique", "breaker"} {
		delete(fields, name)
	}
	maps.Copy(fields, setters{
		"name":   func(v value) { s.Name = r.name(v, "step") },
		"needs":  func(v value) { s.Needs = r.stepNeeds(v) },
		"rule":   func(v value) { s.Rule = r.oneOf(v, task.NeedRules) },
		"params": func(v value) { s.Params = r.params(v) },
		"queue":  func(v value) { s.Queue = r.name(v, "queue") },
	})
	r.object(v, "a step such as {name: build, run: make}", fields)
	return s
}

func (r *reader) stepNeeds(v value) []task.StepNeed {
	if v.kind == text {
		return []task.StepNeed{{Step: r.name(v, "step")}}
	}
	if v.kind != list || len(v.items) == 0 {
		r.want(v, "the name of a step, or a list such as [build, {step: test, when: end}]")
		return nil
	}
	needs := make([]task.StepNeed, len(v.items))
	for i, n := range v.items {
		at := value{n, fmt.Sprintf("%s[%d]", v.path, i), n.pos}
		if n.kind == text {
			needs[i].Step = r.name(at, "step")
			continue
		}
		r.object(at, "the name of a step, or a mapping such as {step: test, when: end}", setters{
			"step": func(v value) { needs[i].Step = r.name(v, "step") },
			"when": func(v value) { needs[i].When = r.oneOf(v, task.Whens) },
		})
	}
	return needs
}

func (r *reader) each(v value) *task.Each {
	var e task.Each
	values := func(v value) (all []json.RawMessage) {
		if v.kind != list || len(v.items) == 0 {
			r.want(v, "a list of values that is not empty")
			return nil
		}
		for i, n := range v.items {
			all = append(all, r.appendJSON(nil, value{n, fmt.Sprintf("%s[%d]", v.path, i), n.pos}))
		}
		return all
	}
	if v.kind == list {
		e.Values = values(v)
		return &e
	}
	r.object(v, "a list of values, or a mapping such as {param: files}", setters{
		"values": func(v value) { e.Values = values(v) },
		"param":  func(v value) { e.Param = r.line(v) },
		"result": func(v value) { e.Result = r.name(v, "step") },
	})
	return &e
}

func (r *reader) handlers(v value) *task.Handlers {
	var h task.Handlers
	one := func(to **task.Step) func(value) {
		return func(v value) {
			step := r.step(v)
			*to = &step
		}
	}
	r.object(v, "a mapping such as {failure: {run: ./alert.sh}}", setters{
		"success": one(&h.Success), "failure": one(&h.Failure), "cancel": one(&h.Cancel), "exit": one(&h.Exit),
	})
	return &h
}

// inStep is the path of a step or handler, and what follows of it.
var inStep = regexp.MustCompile(`^(?:steps\[\d+\]|on\.(?:success|failure|cancel|exit))(?:\.|$)`)

// shape is the entry of the [vocabulary] for the object at a path: what a step has of a job is
// called the same there.
func shape(path string) string {
	rest := inStep.ReplaceAllString(path, "")
	switch {
	case rest == path:
		return path
	case rest == "":
		return "steps"
	case needItem.MatchString(rest):
		return "steps.needs"
	}
	return rest
}

var needItem = regexp.MustCompile(`^needs\[\d+\]$`)
