package promises

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"millrace/integration/harness"
	"millrace/ipc"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/output"
	"millrace/task/value"
)

// TestPrograms runs programs that speak to Millrace, all on one server: the transcripts of
// docs/ipc.md, the libraries, and programs that misbehave.
func TestPrograms(t *testing.T) {
	t.Parallel()
	p := harness.New(t, time.Minute)
	p.Let("MILLRACE_NODE_TTL", "1m") // no attempt here is to be given back because the machine is busy: some count them
	secret := "tiger-" + fmt.Sprint(os.Getpid())
	p.Write("secret", secret+"\n")
	p.Write("vars.env", "FROM_FILE=file\nBOTH=file\n# a remark\nQUOTED=two $words \\\n")
	p.Let("WORKERS_OWN", "own")
	dev := p.Dev("--slots", "16")
	w := &programs{p, p.Connect(), secret}
	t.Run("all", func(t *testing.T) {
		for name, run := range map[string]func(*programs, *testing.T){
			"transcripts": (*programs).transcripts, "python": (*programs).python, "node": (*programs).node, "shell": (*programs).shell,
			"surroundings": (*programs).surroundings, "bounds": (*programs).bounds, "time": (*programs).time, "goes on": (*programs).goesOn, "children": (*programs).children, "too long": (*programs).tooLong, "large": (*programs).large, "passed on": (*programs).passedOn,
		} {
			t.Run(name, func(t *testing.T) { t.Parallel(); run(w, t) })
		}
	})
	dev.Stop()
}

type programs struct {
	p      *harness.Place
	c      *client.Client
	secret string
}

// end submits a task and returns it when it has ended.
func (w *programs) end(t *testing.T, s birth.Submission) task.Task {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	r, err := w.c.Submit(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	ended, err := w.c.Wait(ctx, r.ID)
	if err != nil {
		t.Fatalf("task %s is %s: %v", r.ID, ended.State, err)
	}
	return ended
}

// lines are the texts of a stream of a task; "" for all of them.
func (w *programs) lines(t *testing.T, id task.ID, stream string) (texts []string) {
	t.Helper()
	err := w.c.Output(t.Context(), id, false, func(b output.Lines) error {
		for _, l := range b.Lines {
			if stream == "" || l.Stream == stream {
				texts = append(texts, l.Text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// records are those of a task.
func (w *programs) records(t *testing.T, id task.ID) (items []string) {
	t.Helper()
	err := w.c.Records(t.Context(), id, func(r output.Records) error {
		for _, item := range r.Items {
			items = append(items, string(item))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return items
}

func shellTask(line string) birth.Submission {
	return birth.Submission{Spec: &job.Spec{Run: &job.Run{Shell: line}}}
}

// openTask is a task whose messages count without the key.
func openTask(line string) birth.Submission {
	s := shellTask(line)
	s.Spec.Run.Messages = job.MessagesOpen
	return s
}

func wantEnd(t *testing.T, got task.Task, state task.State, reason string) {
	t.Helper()
	if got.State != state || got.Reason != reason {
		t.Errorf("task %s is %s/%s (%s), want %s/%s", got.ID, got.State, got.Reason, got.Message, state, reason)
	}
}

// transcripts plays every block marked ipc of docs/ipc.md.
func (w *programs) transcripts(t *testing.T) {
	page, err := os.ReadFile("../../docs/ipc.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)### ([^\n]*)\n.*?\n```ipc\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 14 {
		t.Errorf("found %d transcripts", len(blocks))
	}
	for _, b := range blocks {
		t.Run(strings.TrimLeft(b[1], "# "), func(t *testing.T) { t.Parallel(); w.play(t, b[2]) })
	}
}

// play has a shell script play the program's part of a transcript.
func (w *programs) play(t *testing.T, transcript string) {
	const got = "Millrace said: "
	script, heard := "trap '' TERM\n", []string{}
	for line := range strings.Lines(transcript) {
		direction, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch direction {
		case ">":
			script += "cat <<END\n" + text + "\nEND\n"
		case "<":
			script += `IFS= read -r line; printf '` + got + `%s\n' "$line"` + "\n"
			heard = append(heard, text)
		default:
			t.Fatalf("a line of a transcript that nobody says: %s", line)
		}
	}
	s := openTask(script)
	if strings.Contains(transcript, ipc.KeyVar) {
		s = shellTask(script)
	}
	s.Params = map[string]json.RawMessage{"depth": json.RawMessage("2")}
	s.Spec.Timeout = job.Timeout{Run: value.Duration(time.Minute)}
	if len(heard) > 0 {
		s.Spec.Run.Stdin = job.StdinOpen
	}
	if strings.Contains(transcript, `"PING"`) {
		s.Spec.Timeout.Heartbeat = value.Duration(2 * time.Second)
	}
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	r, err := w.c.Submit(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(transcript, `"CANCEL"`) {
		if !harness.Poll(harness.Patience, func() bool { return len(w.lines(t, r.ID, output.Stdout)) > 0 }) {
			t.Fatal("it says nothing")
		}
		if _, err := w.c.Cancel(ctx, r.ID, "a person asked"); err != nil {
			t.Fatal(err)
		}
	}
	if ended, err := w.c.Wait(ctx, r.ID); err != nil || ended.State != task.Finished && ended.State != task.Cancelled {
		t.Fatalf("%s (%s), %v", ended.State, ended.Message, err)
	}
	printed := w.lines(t, r.ID, output.Stdout)
	for i, text := range printed {
		if i >= len(heard) {
			t.Errorf("log text: %s", text)
			continue
		}
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(got+heard[i]), "…", ".*") + "$"
		if !regexp.MustCompile(pattern).MatchString(text) {
			t.Errorf("%s\nwant %s", text, heard[i])
		}
	}
	if len(printed) < len(heard) {
		t.Errorf("it heard %d lines, want %d", len(printed), len(heard))
	}
}

// interpreter finds the interpreter for a library. Where it is missing the library is not tested,
// and the log of the test says so.
func interpreter(t *testing.T, names ...string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil && exec.Command(path, "--version").Run() == nil {
			return path
		}
	}
	t.Logf("NOT TESTED: this machine has none of %v", names)
	return ""
}

func library(t *testing.T, path string) string {
	t.Helper()
	dir, err := filepath.Abs("../../ipc/clients/" + path)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// says checks that every library behaves in the same way for the same program.
func (w *programs) says(t *testing.T, argv []string, env map[string]string) {
	t.Helper()
	s := birth.Submission{Params: map[string]json.RawMessage{"depth": json.RawMessage("2")}}
	s.Spec = &job.Spec{Run: &job.Run{Argv: argv, Env: env, Stdin: job.StdinOpen}, Timeout: job.Timeout{Run: value.Duration(time.Minute)},
		Retry: job.Retry{Max: 1, Min: value.Duration(time.Millisecond)}}
	ended := w.end(t, s)
	wantEnd(t, ended, task.Finished, "")
	if ended.Attempt != 2 || string(ended.Result) != `{"pages":2,"next":8}` {
		t.Errorf("attempt %d, result %s\n%s", ended.Attempt, ended.Result, strings.Join(w.lines(t, ended.ID, ""), "\n"))
	}
	live, err := w.c.Live(t.Context(), ended.ID)
	if err != nil || live.Message != "second" || live.Progress == nil || *live.Progress != 0.5 || live.Metrics["pages"] != 2 {
		t.Errorf("it stands %+v, %v", live, err)
	}
	if got := strings.Join(w.records(t, ended.ID), " "); strings.ReplaceAll(got, ": ", ":") != `{"n":1} {"n":2} {"n":3}` {
		t.Errorf("records %s", got)
	}
	if got := w.lines(t, ended.ID, output.Log); len(got) != 1 || got[0] != "slow" {
		t.Errorf("entries %q", got)
	}
	child := birth.ChildID(ended.ID, "a")
	if c, err := w.c.Wait(t.Context(), child); err != nil || c.Parent != ended.ID || c.State != task.Finished {
		t.Errorf("child %s is %s of %s, %v", child, c.State, c.Parent, err)
	}
	if got := w.lines(t, ended.ID, output.Stdout); len(got) != 2 || got[0] != "plain text" || !strings.HasPrefix(got[1], "refused: ") {
		t.Errorf("printed %q", got)
	}
}

const pythonProgram = `
import sys, millrace
assert millrace.inside() and millrace.params() == {"depth": 2}, millrace.params()
assert millrace.init()["attempt"] == millrace.attempt()
last = millrace.last_checkpoint()
if last is None:
    millrace.data({"n": 1}, wait=True)
    millrace.checkpoint({"next": 8}, wait=True)
    millrace.error("try again", cls="network", retryable=True)
    sys.exit(3)
millrace.ready()
millrace.status("second")
millrace.progress(done=1, total=2)
millrace.metric(pages=2, errors=0)
millrace.log("slow", level="warn", ms=900)
millrace.data([{"n": 2}, {"n": 3}])
millrace.heartbeat()
assert millrace.extend("90s", wait=True)
child = millrace.spawn(key="a", argv=["true"], wait=True)
assert millrace.spawn(key="a", argv=["true"], wait=True) == child
print("plain text")
try:
    millrace.spawn(job="nobody has this", wait=True)
except millrace.Refused as e:
    print("refused: %s" % e)
assert millrace.cancelled() is None
millrace.result({"pages": 2, "next": last["next"]})
`

func (w *programs) python(t *testing.T) {
	if python := interpreter(t, "python3"); python != "" {
		w.says(t, []string{python, "-c", pythonProgram}, map[string]string{"PYTHONPATH": library(t, "python"), "PYTHONDONTWRITEBYTECODE": "1"})
	}
}

const nodeProgram = `
const m = require(process.env.LIBRARY)
const assert = require('assert')
async function main () {
  assert(m.inside())
  assert.deepStrictEqual(m.params(), { depth: 2 })
  assert.strictEqual((await m.init()).attempt, m.attempt())
  const last = m.lastCheckpoint()
  if (!last) {
    await m.data({ n: 1 })
    await m.checkpoint({ next: 8 })
    m.error('try again', { class: 'network', retryable: true })
    process.exit(3)
  }
  m.ready()
  m.status('second')
  m.progress({ done: 1, total: 2 })
  m.metric({ pages: 2, errors: 0 })
  m.log('slow', 'warn', { ms: 900 })
  m.data([{ n: 2 }, { n: 3 }])
  m.heartbeat()
  assert((await m.extend('90s')).until)
  const child = await m.spawn({ key: 'a', argv: ['true'] })
  assert.strictEqual((await m.spawn({ key: 'a', argv: ['true'] })).task, child.task)
  console.log('plain text')
  await m.spawn({ job: 'nobody has this' }).catch(err => console.log('refused: ' + err.message))
  assert.strictEqual(m.cancelled(), null)
  m.result({ pages: 2, next: last.next })
}
main().catch(err => { console.error(err); process.exit(1) })
`

func (w *programs) node(t *testing.T) {
	if node := interpreter(t, "node"); node != "" {
		w.says(t, []string{node, "-e", nodeProgram}, map[string]string{"LIBRARY": library(t, "node/millrace.js")})
	}
}

// The shell reads no answers, so the test passes it the values that other programs ask for.
const shellProgram = `set -e
test "$(millrace ipc param depth)" = 2
if [ -z "$(millrace ipc last)" ]; then
  millrace ipc data '{"n":1}'
  millrace ipc checkpoint '{"next":8}'
  millrace ipc error 'try again' --class network
  exit 3
fi
exec 3>&1
export MILLRACE_IPC_FD=3
millrace ipc ready
millrace ipc status second
millrace ipc progress 1 2
millrace ipc metric pages=2 errors=0
millrace ipc log slow --level warn ms=900
printf '{"n":2}\n{"n":3}\n' | millrace ipc data | cat >/dev/null
millrace ipc heartbeat
millrace ipc extend 90s
millrace ipc spawn --key a -- true
millrace ipc spawn --key a -- true
echo plain text
millrace ipc status too many words || echo "refused: $?"
test "$(millrace ipc last)" = '{"next":8}'
millrace ipc result '{"pages":2,"next":8}'
`

func (w *programs) shell(t *testing.T) { w.says(t, []string{"/bin/sh", "-c", shellProgram}, nil) }

// surroundings: a clean environment, files of variables, secrets, another user.
func (w *programs) surroundings(t *testing.T) {
	s := openTask(`echo "$FROM_FILE|$BOTH|$QUOTED|$WORKERS_OWN|$INTEGRATION_TEST|$KEY"; echo "{\"type\":\"RESULT\",\"payload\":\"<$KEY>\"}"; echo "$KEY" >&2; echo "{\"type\":\"ERROR\",\"payload\":\"key $KEY is bad\"}"; exit 1`)
	s.Spec.Run.EnvFiles, s.Spec.Run.Env = []string{w.p.Path("vars.env")}, map[string]string{"BOTH": "spec"}
	s.Spec.Run.EnvClear, s.Spec.Run.Inherit = true, []string{"INTEGRATION_TEST"}
	s.Spec.Run.Secrets = map[string]job.Secret{"KEY": {File: w.p.Path("secret")}}
	ended := w.end(t, s)
	wantEnd(t, ended, task.Error, value.Task)
	mark := strings.TrimPrefix(w.p.Mark, "INTEGRATION_TEST=")
	all := w.lines(t, ended.ID, "")
	if all[0] != "file|spec|two $words \\||"+mark+"|[secret]" && all[1] != "file|spec|two $words \\||"+mark+"|[secret]" {
		t.Errorf("printed %q", all)
	}
	records, err := w.c.History(t.Context(), ended.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		all = append(all, string(r.Raw))
	}
	if text := strings.Join(all, "\n"); strings.Contains(text, w.secret) || !strings.Contains(ended.Message, "key [secret] is bad") {
		t.Errorf("the secret is shown, or not replaced:\n%s", text)
	}

	s = shellTask("true")
	s.Spec.Run.Secrets = map[string]job.Secret{"KEY": {File: "/no/such/file"}}
	if ended := w.end(t, s); ended.Reason != value.System || !strings.Contains(ended.Message, "/no/such/file") {
		t.Errorf("%s: %s", ended.Reason, ended.Message)
	}

	s = shellTask("id -un; pwd; touch a; echo $HOME")
	s.Spec.Run.User = "nobody"
	ended = w.end(t, s)
	if u, err := user.Current(); err == nil && u.Uid != "0" {
		if u.Username != "nobody" && (ended.Reason != value.System || !strings.Contains(ended.Message, "root")) {
			t.Errorf("%s: %s", ended.Reason, ended.Message)
		}
		return
	}
	// Only the tests' own user may enter their folders; otherwise the task says what is wrong.
	if got := w.lines(t, ended.ID, output.Stdout); ended.State == task.Finished && got[0] != "nobody" || ended.State != task.Finished && !strings.Contains(ended.Message, "cannot start") {
		t.Errorf("%s (%s), printed %q", ended.State, ended.Message, got)
	}
}

// bounds: programs that take too much end with a class of their own, and say how.
func (w *programs) bounds(t *testing.T) {
	s := shellTask(`x=$(head -c 300000000 /dev/zero | tr '\0' x); sleep 1000`)
	s.Spec.Resources.Memory = 32 << 20
	ended := w.end(t, s)
	wantEnd(t, ended, task.Error, value.Memory)
	if ended.Usage == nil || !strings.Contains(ended.Usage.Limits, "memory 32MiB") {
		t.Errorf("used %+v", ended.Usage)
	}

	s = shellTask(`i=0; while [ $i -lt 100 ]; do echo 0123456789; i=$((i+1)); done; sleep 0.2; echo last >&2`)
	s.Spec.Resources.Output = 110
	ended = w.end(t, s)
	wantEnd(t, ended, task.Finished, "")
	if got := w.lines(t, ended.ID, ""); len(got) != 12 || !strings.Contains(got[7], "what follows is dropped") || !strings.Contains(got[8], "91 lines") || !strings.Contains(got[11], "last") {
		t.Errorf("%d lines: %q", len(got), got[max(0, len(got)-3):])
	}

	s = openTask(`echo '{"type":"ERROR","payload":{"message":"in vain","fatal":true,"class":"user"}}'`)
	wantEnd(t, w.end(t, s), task.Error, value.User)
	s = openTask(`echo '{"complete":1,"code":7,"description":"no disk"}'`)
	if ended := w.end(t, s); ended.Reason != value.Task || ended.Message != "no disk" {
		t.Errorf("%s: %s", ended.Reason, ended.Message)
	}
	s = openTask(`head -c 5000 /dev/urandom; printf '{"type":"RESULT","pay'; kill -KILL $$`)
	if ended := w.end(t, s); ended.Reason != value.Killed || ended.Usage.Signal != "SIGKILL" {
		t.Errorf("%s: %s, %+v", ended.Reason, ended.Message, ended.Usage)
	}
}

// time checks that a program that prints without heartbeats is ended, and that one that asks for
// more time gets it.
func (w *programs) time(t *testing.T) {
	s := shellTask(`while :; do echo chat; sleep 0.1; done`)
	s.Spec.Timeout = job.Timeout{Heartbeat: value.Duration(500 * time.Millisecond), Stop: value.Duration(time.Second)}
	if ended := w.end(t, s); ended.Reason != value.Timeout || !strings.Contains(ended.Message, "heartbeat") {
		t.Errorf("%s: %s", ended.Reason, ended.Message)
	}
	s = openTask(`echo '{"type":"EXTEND","payload":"1m"}'; sleep 1.5; echo '{"type":"READY"}'; sleep 0.1`)
	s.Spec.Timeout.Run, s.Spec.Timeout.Extend = value.Duration(time.Second), value.Duration(time.Minute)
	ended := w.end(t, s)
	wantEnd(t, ended, task.Finished, "")
	if u := ended.Usage; ended.Extended.IsZero() || u == nil || u.Setup.Std() < time.Second || u.Run == 0 {
		t.Errorf("extended to %v, used %+v", ended.Extended, u)
	}
	s = openTask(`echo '{"type":"EXTEND","payload":"1h"}'; sleep 1000`)
	s.Spec.Timeout = job.Timeout{Run: value.Duration(500 * time.Millisecond), Stop: value.Duration(time.Second)}
	wantEnd(t, w.end(t, s), task.Error, value.Timeout)
}

// goesOn: a checkpoint outlives its attempt, and a task that is cancelled hears of it.
func (w *programs) goesOn(t *testing.T) {
	s := openTask(`n=${MILLRACE_CHECKPOINT:-0}; n=$((n+1)); echo "{\"type\":\"CHECKPOINT\",\"payload\":$n}"; echo "{\"type\":\"RESULT\",\"payload\":$n}"; [ $n = 3 ]`)
	s.Spec.Retry = job.Retry{Max: 5, Min: value.Duration(time.Millisecond)}
	ended := w.end(t, s)
	wantEnd(t, ended, task.Finished, "")
	if string(ended.Result) != "3" || ended.Attempt != 3 {
		t.Errorf("attempt %d, result %s", ended.Attempt, ended.Result)
	}
	shown := w.p.Run("task", "show", string(ended.ID))
	if !strings.Contains(shown, "3 (attempt 3") {
		t.Errorf("the checkpoint is not shown:\n%s", shown)
	}
}

// children checks that each key makes one child and none twice, whatever the attempt.
func (w *programs) children(t *testing.T) {
	s := openTask(`for k in a b; do echo "{\"type\":\"SPAWN\",\"payload\":{\"key\":\"$k\",\"argv\":[\"true\"]}}"; done
echo '{"type":"SPAWN","payload":{"shell":"true"}}'; [ "$MILLRACE_ATTEMPT" = 2 ]`)
	s.Spec.Retry = job.Retry{Max: 1, Min: value.Duration(time.Millisecond)}
	ended := w.end(t, s)
	wantEnd(t, ended, task.Finished, "")
	for _, key := range []string{"a", "b", "#1"} {
		child, err := w.c.Wait(t.Context(), birth.ChildID(ended.ID, key))
		if err != nil || child.Parent != ended.ID {
			t.Errorf("child %s: %+v, %v", key, child, err)
		}
	}
}
