package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/ipc"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/output"
	"millrace/task/value"
	"millrace/worker"
	"millrace/worker/process/child"
)

// kept are the worker's variables that a clean environment keeps.
var kept = []string{"PATH", "HOME", "USER", "LANG", "TZ"}

// environment builds the variables of an attempt, in this order: the worker's own, those that
// describe the task, its parameters, files, the spec's, secrets. It also returns the values of the secrets. An
// error says which file cannot be read. params are the task's parameters as its program gets them; nil for a program that
// runs several tasks, whose variables describe none.
func (t *Tasks) environment(a *worker.Attempt, params json.RawMessage, dir string, as *account) (env, secrets []string, err error) {
	run := a.Task.Spec.Run
	own := child.WorkersOwn()
	env = make([]string, 0, len(own)+len(run.Env)+12)
	switch {
	case run.Image != "": // which has variables of its own
		env = inherited(env, own, run.Inherit)
	case run.EnvClear:
		env = inherited(env, own, append(slices.Clip(kept), run.Inherit...))
	default:
		env = append(env, own...)
	}
	if run.Image == "" {
		env = append(env, as.variables()...)
	}
	if params != nil {
		if env, err = describe(env, t.Node, a, params); err != nil {
			return nil, nil, err
		}
	}
	for _, file := range run.EnvFiles {
		pairs, err := readEnvFile(inDir(dir, file), as)
		if err != nil {
			return nil, nil, err
		}
		for _, p := range pairs {
			env = append(env, p.Name+"="+p.Value)
		}
		if note := quoted(file, pairs); note != "" {
			a.Output.Line(output.System, note)
		}
	}
	for k, v := range run.Env {
		env = append(env, k+"="+v)
	}
	for name, s := range run.Secrets {
		value, err := readSecret(inDir(dir, s.File), as)
		if err != nil {
			return nil, nil, fmt.Errorf("run.secrets: %s: %w", name, err)
		}
		env, secrets = append(env, name+"="+value), append(secrets, value)
	}
	return env, secrets, nil
}

// describe adds the variables that describe the task.
func describe(env []string, node string, a *worker.Attempt, params json.RawMessage) ([]string, error) {
	run := a.Task.Spec.Run
	env = append(env,
		"MILLRACE_IPC="+strconv.Itoa(ipc.Version),
		"MILLRACE_TASK="+string(a.Task.ID),
		"MILLRACE_ATTEMPT="+strconv.Itoa(a.Task.Attempt),
		"MILLRACE_EPOCH="+strconv.FormatUint(a.Task.Epoch, 10),
		"MILLRACE_NODE="+node,
		"MILLRACE_QUEUE="+a.Task.QueueName(),
		"MILLRACE_TIME="+logicalTime(&a.Task).Format(time.RFC3339Nano),
		"MILLRACE_PARAMS="+string(value.Legible(params)),
	)
	if run.Stdin == job.StdinOpen {
		env = append(env, "MILLRACE_STDIN=open")
	}
	if a.Task.Job != "" {
		env = append(env, "MILLRACE_JOB="+a.Task.Job)
	}
	if a.Task.Schedule != "" {
		env = append(env, "MILLRACE_SCHEDULE="+a.Task.Schedule, "MILLRACE_TICK="+a.Task.Tick.UTC().Format(time.RFC3339Nano))
	}
	if parent := a.Traceparent(); parent != "" {
		env = append(env, "TRACEPARENT="+parent)
	}
	if !a.Deadline.IsZero() {
		env = append(env, "MILLRACE_DEADLINE="+a.Deadline.UTC().Format(time.RFC3339Nano))
	}
	if item, ok := a.Task.Item(); ok {
		env = append(env, "MILLRACE_ITEM="+item)
	}
	if len(a.Task.Inputs) > 0 {
		env = append(env, "MILLRACE_NEEDS="+string(value.Legible(a.Task.Inputs)))
	}
	if last := a.Last(); len(last) > 0 {
		env = append(env, "MILLRACE_CHECKPOINT="+string(value.Legible(last)))
	}
	if run.ParamsEnv {
		var all map[string]json.RawMessage
		if err := json.Unmarshal(value.Legible(params), &all); err != nil {
			return nil, fmt.Errorf("params: %w", value.Plainly(err))
		}
		variables, err := job.Variables(all)
		if err != nil {
			return nil, err
		}
		env = append(env, variables...)
	}
	return env, nil
}

// inherited adds those of the worker's variables that have certain names.
func inherited(env, own, names []string) []string {
	for _, e := range own {
		if name, _, _ := strings.Cut(e, "="); slices.Contains(names, name) {
			env = append(env, e)
		}
	}
	return env
}

// logicalTime is the time that a task is for: the tick of its schedule, its due time, or when it
// was submitted.
func logicalTime(t *task.Task) time.Time {
	if !t.Tick.IsZero() {
		return t.Tick.UTC()
	}
	if t.Attempt <= 1 && !t.Due.IsZero() {
		return t.Due.UTC()
	}
	return t.SubmittedAt.UTC()
}

func inDir(dir, file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(dir, file)
}

// maxEnvFile bounds a file of variables, in bytes; the kernel takes no larger environment anyway.
const maxEnvFile = 1 << 20

// readEnvFile returns the variables of a file. The task's user must be allowed to read it. An error
// names the file and the line, and never holds any of the text: that may be a password, and the
// error goes into the log.
func readEnvFile(name string, as *account) ([]value.Pair, error) {
	f, err := as.open(name)
	if err != nil {
		return nil, fmt.Errorf("run.env_files: %w: put the file on this node, or correct its name", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxEnvFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("run.env_files: %w", err)
	case len(text) > maxEnvFile:
		return nil, fmt.Errorf("run.env_files: %s has more than %d bytes", name, maxEnvFile)
	}
	pairs, err := value.Pairs(string(text))
	if err != nil {
		return nil, fmt.Errorf("run.env_files: %s: %w", name, err)
	}
	return pairs, nil
}

// quoted says which values of a file begin and end with a quote; "" if none do. Other programs that
// read such files leave these quotes out.
func quoted(file string, pairs []value.Pair) string {
	var names []string
	for _, p := range pairs {
		if p.Quoted() {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("the quotes around %s in %s are part of the value, as all else that stands behind the =: leave them out if the program must not get them", strings.Join(names, ", "), file)
}

// knownSecrets returns the values of a task's secrets that can be read. A relative file is resolved
// from dir.
func knownSecrets(t *task.Task, dir string, as *account) (values []string) {
	add := func(file string) {
		if value, err := readSecret(inDir(dir, file), as); err == nil {
			values = append(values, value)
		}
	}
	for _, s := range t.Spec.Run.Secrets {
		add(s.File)
	}
	for _, file := range t.SecretParams() {
		add(file)
	}
	return values
}

// openParams returns the parameters of a task with each secret file replaced by its text, and those
// texts. An error says which file cannot be read.
func openParams(t *task.Task, dir string, as *account) (params json.RawMessage, secrets []string, err error) {
	files := t.SecretParams()
	if len(files) == 0 {
		return t.ParamsObject(), nil, nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(t.Params, &all); err != nil {
		return nil, nil, fmt.Errorf("params: %w", value.Plainly(err))
	}
	for name, file := range files {
		secret, err := readSecret(inDir(dir, file), as)
		if err != nil {
			return nil, nil, fmt.Errorf("parameter %s: %w", name, err)
		}
		if all[name], err = value.JSON(secret); err != nil {
			return nil, nil, fmt.Errorf("parameter %s is no text", name)
		}
		secrets = append(secrets, secret)
	}
	params, err = value.JSON(all)
	return params, secrets, err
}

// readSecret returns the text of a file without its final line end. The task's user must be allowed
// to read it. Errors never hold any of the text.
func readSecret(name string, as *account) (string, error) {
	f, err := as.open(name)
	if err != nil {
		return "", fmt.Errorf("%w: put the file on this node and let the user of the task read it", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, job.MaxSecret+1))
	switch {
	case err != nil:
		return "", err
	case len(text) > job.MaxSecret:
		return "", fmt.Errorf("%s has more than %d bytes", name, job.MaxSecret)
	case strings.ContainsRune(string(text), 0):
		return "", errors.New(name + " holds a zero byte, which no variable can")
	}
	value, ended := strings.CutSuffix(string(text), "\n")
	if ended {
		value = strings.TrimSuffix(value, "\r")
	}
	if n := len(value); n > 0 && n < minRedacted {
		return "", fmt.Errorf("%s has %d of the %d bytes that a secret needs at least: a shorter one cannot be told from other text and hidden; set what need not be hidden in run.env", name, n, minRedacted)
	}
	return value, nil
}

// withProgram adds to an environment where this program is, so that a task can call `millrace ipc`:
// its path, and at the end of PATH its folder. A folder that any user may write to stays out, for
// what lies there could be anything.
func (t *Tasks) withProgram(env []string) []string {
	if t.Program == "" {
		return env
	}
	env = append(env, "MILLRACE_EXE="+t.Program)
	dir := filepath.Dir(t.Program)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o002 != 0 || strings.ContainsRune(dir, os.PathListSeparator) {
		return env
	}
	for _, e := range slices.Backward(env) { // the last value counts
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			if !slices.Contains(filepath.SplitList(path), dir) {
				env = append(env, e+string(os.PathListSeparator)+dir)
			}
			break
		}
	}
	return env
}
