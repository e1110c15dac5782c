package promises

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/output"
	"millrace/task/value"
)

// obeyed are lines that would have an effect if a program said them.
func obeyed(spawned string) []string {
	return []string{
		`{"type":"SPAWN","payload":{"key":"evil","argv":["touch","` + spawned + `"]}}`,
		`{"type":"RESULT","payload":{"paid":true}}`,
		`{"type":"RESULT","payload":"` + strings.Repeat("x", 70_000) + `"}`,
		`{"type":"INSERT_DATA","payload":{"evil":"` + strings.Repeat("x", 2<<20) + `"}}`,
		`{"type":"ERROR","payload":{"message":"evil","fatal":true,"retryable":false}}`,
		`{"complete":1,"code":1}`,
		`{"complete":1}`,
		`{"type":"CHECKPOINT","payload":{"evil":1}}`,
		`{"type":"EXTEND","payload":"1h"}`,
		`{"type":"INSERT_DATA","payload":{"evil":1}}`,
		`{"type":"READY"}`,
		`{"type":"HEARTBEAT"}`,
		`{"type":"SPAWN","key":"","payload":{"key":"evil","argv":["touch","` + spawned + `"]}}`,
		`{"type":"SPAWN","key":null,"payload":{"key":"evil","argv":["touch","` + spawned + `"]}}`,
		`{"type":"SPAWN","key":"$MILLRACE_KEY","payload":{"key":"evil","argv":["touch","` + spawned + `"]}}`,
	}
}

// passedOn: a crawler prints the pages that it fetches, and these hold lines that look like
// messages. They stay text, whatever else the task is; its own messages count.
func (w *programs) passedOn(t *testing.T) {
	python := interpreter(t, "python3")
	if python == "" {
		return
	}
	spawned := w.p.Path("spawned")
	lines := obeyed(spawned)
	site := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(rw, "<html>")
		fmt.Fprintln(rw, strings.Join(lines, "\n"))
		fmt.Fprintln(rw, "</html>")
	}))
	t.Cleanup(site.Close)
	const crawler = `
import os, sys, urllib.request, millrace
page = urllib.request.urlopen(sys.argv[1]).read()
sys.stdout.buffer.write(page)
millrace.data({"bytes": len(page), "key": os.environ["MILLRACE_KEY"]})
millrace.checkpoint({"next": 2})
print("key", os.environ["MILLRACE_KEY"])
millrace.log("key " + os.environ["MILLRACE_KEY"])
millrace.result({"pages": 1, "key": os.environ["MILLRACE_KEY"]})
`
	for name, change := range map[string]func(*job.Spec){
		"plain":             func(*job.Spec) {},
		"keyed":             func(s *job.Spec) { s.Run.Messages = job.MessagesKeyed },
		"outlives":          func(s *job.Spec) { s.OnRestart = job.RestartAdopt },
		"while disconnects": func(s *job.Spec) { s.OnDisconnect = job.DisconnectContinue },
		"answered":          func(s *job.Spec) { s.Run.Stdin = job.StdinOpen },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shellTask("")
			s.Spec.Run = &job.Run{Argv: []string{python, "-c", crawler, site.URL}, Env: map[string]string{"PYTHONPATH": library(t, "python"), "PYTHONDONTWRITEBYTECODE": "1", "no_proxy": "*"}}
			s.Spec.Timeout.Run = value.Duration(time.Minute)
			change(s.Spec)
			ended := w.end(t, s)
			wantEnd(t, ended, task.Finished, "")
			if string(ended.Result) != `{"pages":1,"key":"[secret]"}` || !ended.Extended.IsZero() || ended.Usage != nil && ended.Usage.Refused > 0 {
				t.Errorf("result %.200s, extended to %v, used %+v", ended.Result, ended.Extended, ended.Usage)
			}
			if records := w.records(t, ended.ID); len(records) != 1 || !strings.Contains(records[0], `"key":"[secret]"`) {
				t.Errorf("%d records: %.200q", len(records), records)
			}
			if live, err := w.c.Live(t.Context(), ended.ID); err != nil || !live.Ready.IsZero() {
				t.Errorf("it is ready since %v, %v", live.Ready, err)
			}
			if child, err := w.c.Task(t.Context(), birth.ChildID(ended.ID, "evil")); err == nil {
				t.Errorf("the page has a child: %+v", child)
			}
			if c, err := w.c.Checkpoint(t.Context(), ended.ID); err != nil || string(c.Value) != `{"next":2}` {
				t.Errorf("checkpoint %s, %v", c.Value, err)
			}
			printed := strings.Join(w.whole(t, ended.ID), "\n")
			for _, line := range lines {
				if !strings.Contains(printed, line) {
					t.Errorf("it has not printed %.80s", line)
				}
			}
			if !strings.Contains(printed, "key [secret]") {
				t.Error("the key is not replaced")
			}
			if said := w.lines(t, ended.ID, output.System); len(said) != 1 || !strings.Contains(said[0], "(SPAWN)") || !strings.Contains(said[0], "messages: open") {
				t.Errorf("the log says %q", said)
			}
		})
	}
	t.Run("off", func(t *testing.T) {
		t.Parallel()
		s := shellTask(`echo "$MILLRACE_KEY|"; millrace ipc result 1; echo '{"type":"STATUS","payload":"up"}'`)
		s.Spec.Run.Messages = job.MessagesOff
		ended := w.end(t, s)
		wantEnd(t, ended, task.Finished, "")
		if got := w.lines(t, ended.ID, ""); len(ended.Result) > 0 || !slices.Equal(got, []string{"|", `{"v":1,"type":"RESULT","payload":1}`, `{"type":"STATUS","payload":"up"}`}) {
			t.Errorf("result %s, printed %q", ended.Result, got)
		}
	})
	t.Run("open", func(t *testing.T) {
		t.Parallel()
		ended := w.end(t, openTask(`echo '{"type":"INSERT_DATA","payload":{"url":"a"}}'; echo '{"type":"RESULT","payload":1}'`))
		if got := w.records(t, ended.ID); string(ended.Result) != "1" || !slices.Equal(got, []string{`{"url":"a"}`}) {
			t.Errorf("result %s, records %q", ended.Result, got)
		}
	})
	t.Run("records", func(t *testing.T) {
		t.Parallel()
		s := shellTask(`echo '{"type":"INSERT_DATA","payload":{"url":"a"}}'; echo '{"type":"RESULT","payload":1}'`)
		s.Spec.Run.Messages = job.MessagesRecords
		ended := w.end(t, s)
		if got := w.records(t, ended.ID); len(ended.Result) > 0 || !slices.Equal(got, []string{`{"url":"a"}`}) {
			t.Errorf("result %s, records %q", ended.Result, got)
		}
	})
	t.Run("no sign of life", func(t *testing.T) {
		t.Parallel()
		s := shellTask(`while :; do echo '{"type":"STATUS","payload":"up"}'; echo '{"type":"HEARTBEAT"}'; sleep 0.1; done`)
		s.Spec.Timeout = job.Timeout{Heartbeat: value.Duration(500 * time.Millisecond), Stop: value.Duration(time.Second)}
		if ended := w.end(t, s); ended.Reason != value.Timeout || !strings.Contains(ended.Message, "heartbeat") {
			t.Errorf("%s: %s", ended.Reason, ended.Message)
		}
		s.Spec.Run.Shell = `for i in 1 2 3 4 5 6 7 8; do millrace ipc status up; sleep 0.1; done`
		s.Spec.Timeout.Heartbeat = value.Duration(5 * time.Second)
		wantEnd(t, w.end(t, s), task.Finished, "")
	})
	t.Run("another node", func(t *testing.T) {
		t.Parallel()
		s := shellTask(`IFS= read -r init
for where in '"nodes":["elsewhere"]' '"place":{"nodes":["elsewhere"]}' '"place":{"queue":"q"}' '"queue":"q"'; do
	printf '{"type":"SPAWN","key":"%s","id":"a","payload":{"key":"c","spec":{"run":{"shell":"id"}},%s}}\n' "$MILLRACE_KEY" "$where"
	IFS= read -r line; printf '%s\n' "$line"
done`)
		s.Spec.Run.Stdin = job.StdinOpen
		ended := w.end(t, s)
		if got := w.lines(t, ended.ID, output.Stdout); len(got) != 4 || slices.ContainsFunc(got, func(l string) bool { return !strings.Contains(l, "the worker does not allow this child") }) {
			t.Errorf("it heard %q", got)
		}
	})
	t.Run("the worker's rule", w.workersRule)
}

// workersRule: a worker may allow less than a job says.
func (w *programs) workersRule(t *testing.T) {
	t.Parallel()
	strict := w.p.Worker("strict", "--queue", "strict", "--messages", "keyed", "--spawn-children", "0")
	t.Cleanup(func() { strict.Stop() })
	s := openTask(`echo '{"type":"RESULT","payload":1}'; millrace ipc spawn --key c -- true; millrace ipc data '{"a":1}'`)
	s.Queue = "strict"
	ended := w.end(t, s)
	wantEnd(t, ended, task.Finished, "")
	said := w.lines(t, ended.ID, output.System)
	if len(ended.Result) > 0 || len(w.records(t, ended.ID)) != 1 || len(said) != 2 || !strings.Contains(said[0], "--messages keyed") || !strings.Contains(said[1], "--spawn-children 0") {
		t.Errorf("result %s, the log says %q", ended.Result, said)
	}
}

// whole are the lines of a task, long ones in one piece.
func (w *programs) whole(t *testing.T, id task.ID) (texts []string) {
	t.Helper()
	var part strings.Builder
	err := w.c.Output(t.Context(), id, false, func(b output.Lines) error {
		for _, l := range b.Lines {
			if l.Stream != output.Stdout {
				continue
			}
			if part.WriteString(l.Text); !l.More {
				texts = append(texts, part.String())
				part.Reset()
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}
