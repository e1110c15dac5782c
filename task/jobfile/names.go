package jobfile

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// vocabulary are the fields of a job file by the object that holds them, in the
// order in which messages list them.
var vocabulary = map[string][]string{
	"":        {"name", "title", "description", "owner", "group", "labels", "params", "queue", "run", "handler", "timeout", "retry", "breaker", "place", "signal", "on_disconnect"},
	"run":     {"argv", "shell", "dir", "env", "stdin"},
	"timeout": {"pending", "run", "idle", "stop"},
	"retry":   {"max", "backoff", "min", "max_delay", "jitter", "on", "not_on", "avoid_node", "budget"},
	"signal":  {"name", "timeout", "on_timeout"},
	"breaker": {"failures", "within", "cooldown", "half_open", "on_open"},
	"place":   {"mode", "nodes", "no_node", "queue"},
}

// reserved are the fields that have a meaning in Millrace but not in this version.
var reserved = map[string]bool{
	"schedule": true, "priority": true, "concurrency": true, "rate": true, "slots": true,
	"resources": true, "code": true, "files": true, "artifacts": true, "steps": true, "needs": true, "on": true,
	"if": true, "notify": true, "keep": true, "unique": true,
	"run.env_files": true, "run.user": true,
	"timeout.start": true, "timeout.total": true,
	"place.labels": true, "place.count": true, "place.spread": true, "place.sticky": true,
}

// foreign are names that other tools use, and the fields that do the same here.
// An entry with the object's path holds in that object, one without it anywhere.
var foreign = map[string][]string{
	"displayname": {"title"}, "display_name": {"title"},
	"category": {"group"},
	"tags":     {"labels"}, "metadata": {"labels"},
	"payload": {"params"}, "inputs": {"params"}, "parameters": {"params"},
	"args": {"params", "run.argv"}, "run.args": {"run.argv"},
	"command": {"run.argv", "run.shell"}, "cmd": {"run.argv", "run.shell"}, "exec": {"run.argv", "run.shell"}, "script": {"run.shell"},
	"cwd": {"run.dir"}, "working_dir": {"run.dir"}, "workdir": {"run.dir"}, "working_directory": {"run.dir"},
	"environment": {"run.env"}, "dotenv": {"run.env_files"},
	"cron": {"schedule"}, "every": {"schedule"}, "at": {"schedule"}, "timezone": {"schedule"},
	"approval": {"signal"}, "approve": {"signal"}, "depends": {"needs"}, "depends_on": {"needs"},
	"mem_limit": {"resources"}, "max_active_runs": {"concurrency"}, "rate_limits": {"rate"}, "retention": {"keep"},
	"timeout_sec": {"timeout.run"}, "timeout_seconds": {"timeout.run"}, "execution_timeout": {"timeout.run"}, "timeout.execution": {"timeout.run"},
	"schedule_timeout": {"timeout.pending"}, "timeout.schedule": {"timeout.pending"},
	"node": {"place.nodes"}, "node_ids": {"place.nodes"}, "worker": {"place.nodes"}, "hosts": {"place.nodes"},
	"retries": {"retry.max"}, "max_retries": {"retry.max"}, "max_tries": {"retry.max"}, "max_attempts": {"retry.max"},
	"attempts": {"retry.max"}, "tries": {"retry.max"}, "retry_policy": {"retry.max"}, "retry.limit": {"retry.max"},
	"retry.interval": {"retry.min"}, "retry.interval_sec": {"retry.min"}, "retry.delay": {"retry.min"}, "retry.max_interval": {"retry.max_delay"},
}

// refusal says why a field of the object at path is refused, and what to write
// instead where that can be told.
func refusal(path, name string) string {
	quoted := "`" + excerpt(join(path, name)) + "`"
	name = fold(name)
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
	// The right field at a wrong indentation.
	if path == "" {
		for _, object := range []string{"run", "retry", "breaker", "timeout", "place"} {
			if slices.Contains(vocabulary[object], name) {
				return "unknown field " + quoted + ": did you mean `" + join(object, name) + "`?"
			}
		}
	} else if slices.Contains(vocabulary[""], name) || reserved[name] {
		return "unknown field " + quoted + ": `" + name + "` is a field of the job itself, at the left margin"
	}
	if near := nearest(name, vocabulary[path]); near != "" {
		return "unknown field " + quoted + ": did you mean `" + join(path, near) + "`?"
	}
	return "unknown field " + quoted + ": the fields here are " + strings.Join(vocabulary[path], ", ")
}

// nearest returns the word that s is most likely a misspelling of, or "".
func nearest(s string, words []string) string {
	if len(s) > 32 {
		return ""
	}
	s = fold(s)
	best, distance := "", 1+len(s)/3
	for _, w := range words {
		if d := levenshtein.ComputeDistance(s, w); d < distance {
			best, distance = w, d
		}
	}
	return best
}

// fold spells a name as this format does: other tools write Max-Delay.
func fold(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "_")) }
