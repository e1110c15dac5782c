package jobfile

import (
	"cmp"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"millrace/task/job"
	"millrace/task/param"
	"millrace/task/value"
)

// reserved are fields with a meaning in Millrace that this version does not support.
var reserved = map[string]bool{
	"code": true, "if": true, "steps.if": true,
	"timeout.start": true,
}

// foreign maps names from other tools to the fields with the same effect here. An entry with an
// object's path holds in that object, one without a path anywhere.
var foreign = map[string][]string{
	"bundle": {"files.bundle"}, "install": {"setup"}, "before_script": {"setup"}, "auto_install": {"setup"}, "outputs": {"artifacts"},
	"displayname": {"title"}, "display_name": {"title"},
	"category": {"group"},
	"tags":     {"labels"}, "metadata": {"labels"},
	"payload": {"params"}, "inputs": {"params"}, "parameters": {"params"},
	"params.choices": {"params.enum"}, "params.options": {"params.enum"}, "params.minimum": {"params.min"}, "params.maximum": {"params.max"},
	"params.required": {"params.optional"}, "params.format": {"params.schema"}, "params.items": {"params.schema"}, "params.properties": {"params.schema"},
	"args": {"params", "run.argv"}, "run.args": {"run.argv"},
	"command": {"run.argv", "run.shell"}, "cmd": {"run.argv", "run.shell"}, "exec": {"run.argv", "run.shell"}, "script": {"run.shell"},
	"run_as": {"run.user"}, "runas": {"run.user"}, "cwd": {"run.dir"}, "working_dir": {"run.dir"}, "workdir": {"run.dir"}, "working_directory": {"run.dir"},
	"environment": {"run.env"}, "dotenv": {"run.env_files"},
	"starts_at": {"schedule.start"}, "expires_at": {"schedule.end"}, "overlap_policy": {"schedule.overlap"}, "concurrency_policy": {"schedule.overlap"},
	"tz": {"schedule.timezone"}, "time_zone": {"schedule.timezone"}, "interval": {"schedule.every"},
	"approval": {"signal"}, "approve": {"signal"}, "needs": {"steps.needs"}, "depends": {"steps.needs"}, "depends_on": {"steps.needs"}, "tasks": {"steps"}, "jobs": {"steps"}, "handler_on": {"on"},
	"foreach": {"each"}, "with_items": {"each"}, "matrix": {"each"}, "on.abort": {"on.cancel"}, "on.always": {"on.exit"}, "on.if": {"on.when"}, "on.filter": {"on.when"},
	"mem_limit": {"resources.memory"}, "memory_limit": {"resources.memory"}, "max_output_size": {"resources.output"}, "retention": {"keep"},
	"max_active_runs": {"concurrency.max"}, "rate_limits": {"rate.limit"}, "concurrency_key": {"concurrency.key"},
	"quota": {"budget"}, "budget.tasks": {"budget.starts"}, "budget.limit": {"budget.starts"}, "budget.seconds": {"budget.run"}, "budget.period": {"budget.per"}, "budget.zone": {"budget.timezone"},
	"distinct_hosts": {"per_node"}, "max_per_node": {"per_node"}, "idempotency": {"unique.key"}, "idempotency_key": {"unique.key"},
	"timeout_sec": {"timeout.run"}, "timeout_seconds": {"timeout.run"}, "execution_timeout": {"timeout.run"}, "timeout.execution": {"timeout.run"},
	"schedule_timeout": {"timeout.pending"}, "timeout.schedule": {"timeout.pending"},
	"node": {"place.nodes"}, "node_ids": {"place.nodes"}, "worker": {"place.nodes"}, "hosts": {"place.nodes"},
	"retries": {"retry.max"}, "max_retries": {"retry.max"}, "max_tries": {"retry.max"}, "max_attempts": {"retry.max"},
	"attempts": {"retry.max"}, "tries": {"retry.max"}, "retry_policy": {"retry.max"}, "retry.limit": {"retry.max"},
	"retry.interval": {"retry.min"}, "retry.interval_sec": {"retry.min"}, "retry.delay": {"retry.min"}, "retry.max_interval": {"retry.max_delay"},
}

// below lists the fields of an object of a job; "" is the job itself.
func below(object string) []string {
	f, _ := fieldNamed(reflect.TypeFor[job.Job](), object)
	for f.Type != nil && (f.Type.Kind() == reflect.Pointer || f.Type.Kind() == reflect.Slice) {
		f.Type = f.Type.Elem()
	}
	switch {
	case object == "":
		return namesIn(reflect.TypeFor[job.Job]())
	case f.Type == reflect.TypeFor[param.Params]():
		return namesIn(reflect.TypeFor[param.Param]())
	case f.Type == nil || f.Type.Kind() != reflect.Struct:
		return nil
	}
	return namesIn(f.Type)
}

// shape is the path of an object without indexes, and as a step's fields were a job's.
func shape(path string) string {
	path = index().ReplaceAllString(path, "")
	for _, step := range []string{"steps", "on.success", "on.failure", "on.cancel", "on.exit"} {
		if rest, ok := strings.CutPrefix(path, step+"."); ok {
			return cmp.Or(map[string]string{"needs": "steps.needs"}[rest], rest)
		} else if path == step {
			return "steps"
		}
	}
	return path
}

var index = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\[\d+\]`) })

// refusal explains why a field of the object at path is refused, and suggests another one of its
// fields, or of others, where it can.
func refusal(path, name string, fields []string) string {
	quoted := "`" + excerpt(join(path, name)) + "`"
	whole, written := path, name
	path, name = shape(path), fold(name)
	at := join(path, name)
	if reserved[at] {
		return "field " + quoted + " is not supported by this version"
	}
	there, ok := foreign[at]
	if !ok {
		there, ok = foreign[name]
	}
	if ok {
		if reserved[there[0]] {
			return "unknown field " + quoted + ": this belongs to `" + there[0] + "`, which is not supported by this version"
		}
		return "unknown field " + quoted + ": use `" + strings.Join(there, "` or `") + "`"
	}
	switch {
	case slices.Contains(fields, name): // in another spelling
		return "unknown field " + quoted + ": did you mean `" + join(whole, name) + "`?"
	case at == "schedule.name":
		return "unknown field " + quoted + ": a schedule with a name of its own stands in a list: write `- {name: …}`"
	}
	// The right field at a wrong indentation.
	if path == "" {
		for _, object := range []string{"run", "retry", "breaker", "timeout", "place", "resources", "keep", "concurrency", "budget", "rate", "unique", "schedule"} {
			if slices.Contains(below(object), name) {
				return "unknown field " + quoted + ": did you mean `" + join(object, name) + "`?"
			}
		}
	} else if slices.Contains(below(""), name) || reserved[name] {
		return "unknown field " + quoted + ": `" + name + "` is a field of the job itself, at the left margin"
	}
	return unlisted(whole, written, fields)
}

// unlisted refuses a field that the object does not have.
func unlisted(path, name string, fields []string) string {
	quoted := "`" + excerpt(join(path, name)) + "`"
	if meant := value.Word(name, fields); meant != "" {
		return "unknown field " + quoted + ": did you mean `" + join(path, meant) + "`?"
	}
	return "unknown field " + quoted + ": the fields here are " + strings.Join(fields, ", ")
}

// fold spells a name as this format does: other tools write Max-Delay.
func fold(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "_")) }
