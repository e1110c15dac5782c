package jobfile_test

import (
	"strings"
	"testing"

	"millrace/task/jobfile"
)

// A file with a sign of YAML where text was meant says what to do, in no words of a library, and
// names fields as they stand in the file.
func TestParseSaysWhatToDo(t *testing.T) {
	for text, want := range map[string]string{
		"schedule: {cron: * * * * *}": "put it in quotes: text that begins with * is an alias", "schedule:\n  cron: */5 * * * *": "put it in quotes: text that begins with *",
		"schedule: */5 * * * *": "put it in quotes", "run: *.py": "put it in quotes", "run: [ls, *]": "put it in quotes", "run: *x": "put text that begins with * in quotes",
		"run: @daily": "put it in quotes: text that begins with @", "run: `date`": "put it in quotes: text that begins with `", "run: & x": "put it in quotes: text that begins with &",
		"run: &x": "put it in quotes: text that begins with &", "run: !x": "put text that begins with ! in quotes", "run: %d": "put text that begins with % in quotes", "labels: {t: !a}": "put it in quotes: text that begins with !",
		"run: > x": "put it in quotes: text that begins with | or >", "run: 'it's'": "put the whole text in quotes", "run: echo: x": "put text with one in quotes", "run: - x": "put text that begins with - in quotes",
		"run: [a": "write ]", "run: {shell: a": "write }", "run: \"x": "is not closed", "run: \"\\q\"": "two", "\trun: x": "indent with spaces", "x": "no field",
		"Timeout: {run: 1h}": "unknown field `Timeout`: did you mean `timeout`?", "run-as: x": "unknown field `run-as`: use `run.user`", "retry: {Max-Delay: 1h}": "unknown field `retry.Max-Delay`: did you mean `retry.max_delay`?",
		"timeout: {Run: 1h}": "unknown field `timeout.Run`: did you mean `timeout.run`?", "steps: [{name: b, Run: x}]": "unknown field `steps[0].Run`: did you mean `steps[0].run`?",
		"schedule: {name: b, every: 1h}": "stands in a list", "timeout: {run: 0}": "timeout.run: want more than zero", "resources: {memory: 0}": "resources.memory: want more than zero", "resources: {cpu: 0}": "more than zero",
		"rate: {limit: 1, per: 1m, burst: 0}": "want 1 or more", "resources: {pids: 0}": "want 1 or more", "concurrency: {max: 0}": "want 1 or more",
		"Nonsense-Field: x": "unknown field `Nonsense-Field`", "breaker: {failures: 1, half_open: 0}": "want 1 or more", "schedule: {every: 1m, overlap: queue, depth: 0}": "want 1 or more",
	} {
		_, err := jobfile.Parse("", []byte("name: a\n"+text+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "this is not YAML") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"run: [echo, '*']", "labels: {a: &x b, c: *x}\nrun: x", "timeout: {run: 1d12h}\nrun: x", "schedule: {every: 7d}\nrun: x"} {
		if _, err := jobfile.Parse("", []byte("name: a\n"+text+"\n")); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}
