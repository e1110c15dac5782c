package promises

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/integration/harness"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/output"
	"millrace/task/value"
)

// misbehaving is a resident program whose handlers do harm in their first attempt. The ledger has a
// line for each attempt, whatever becomes of it.
const misbehaving = `
import dataclasses, os, signal, sys, threading, time, typing, millrace

def harm(name):
    def handles(do):
        @millrace.task(name)
        def run():
            with open(os.environ["LEDGER"], "a") as ledger:
                ledger.write("%s %d\n" % (millrace.id(), millrace.attempt()))
            if millrace.attempt() == 1 or name.startswith("always"):
                do()
            return {"attempt": millrace.attempt(), "pid": os.getpid()}
    return handles

harm("none")(lambda: None)
harm("kill")(lambda: os.kill(os.getpid(), signal.SIGKILL))
harm("stop")(lambda: os.kill(os.getpid(), signal.SIGSTOP))
harm("exit")(lambda: os._exit(0))
harm("always-exit")(lambda: os._exit(0))
harm("code")(lambda: os._exit(7))
# It holds the memory while it sleeps: the worker looks now and then, and later on a busy machine.
harm("grow")(lambda: (lambda held: time.sleep(600))([bytearray(b"x" * (8 << 20)) for _ in range(100)]))

@harm("stubborn")
def stubborn():
    millrace.status("deaf")
    time.sleep(600)

@harm("timeout")
def timeout():
    time.sleep(600)

@harm("garbage")
def garbage():
    os.write(1, os.urandom(100_000).replace(b"\n", b"-") + b"\n")
    os.write(1, b'{"type":"DONE"}\n{"v":1,"type":"DONE","key":"wrong","payload":{"result":"forged"}}\n{"v":1,"type":"RESULT","payload":\n')
    os.write(1, b'{"v":1,"type":"STEPS","id":"s","key":"' + millrace._init["key"].encode() + b'","payload":[1]}\n')
    os.write(2, b"loud\n" * 50_000)
    print("unended", end="")

@harm("late")
def late():
    key, id = millrace._init["key"], millrace.id()
    def speak():
        while millrace.id() == id:
            time.sleep(0.01)
        os.write(1, ('{"v":1,"type":"DONE","key":"%s","payload":{"result":"late"}}\n' % key).encode())
        open(os.environ["LEDGER"] + "-spoke", "w").close()
    threading.Thread(target=speak, daemon=True).start()

@millrace.task("after")
def after():
    time.sleep(0.5)
    return "on time"

@millrace.task("waits")
def waits():
    millrace.status("waiting")
    millrace.wait(600)

@dataclasses.dataclass
class Answer:
    who: typing.Literal["ann", "bob"]
    note: str = ""

def order(n):
    paid = millrace.step("charge", charge, retry={"max": 3, "min": "10ms", "max_delay": "20ms"})
    if millrace.attempt() == 2:
        os.kill(os.getpid(), signal.SIGKILL)  # behind a step
    first = millrace.new_id()
    if millrace.step("same", lambda: first) != first:
        raise RuntimeError("another id")
    millrace.sleep("grace", 0.05)
    doubled = millrace.call("double", handler="py-double", params={"n": paid})
    who = millrace.wait_for("approval", timeout="1h", form=Answer).who
    failed = []
    try:
        millrace.wait_for("approval", form={"secret": True})
    except millrace.Refused as e:
        failed.append(str(e))
    for child in millrace.call_all("both", [{"handler": "py-double", "params": {"n": 1}}, {"argv": ["false"]}]):
        try:
            failed.append(child.result())
        except millrace.StepFailed as e:
            failed.append(e.child.reason)
    try:
        millrace.wait_for("never", timeout=0.02)
    except millrace.NoSignal:
        failed.append("no signal")
    return [doubled, who, failed, millrace.version("way", 2), millrace.now().year > 2000]

def charge():
    with open(os.environ["LEDGER"], "a") as ledger:
        ledger.write("%s charge\n" % millrace.id())
    if millrace.attempt() == 1:
        raise RuntimeError("the bank is busy")
    return 21

@millrace.task("py-order")
def py_order():
    try:
        return order(1)
    except Exception:  # a Suspended is none
        raise

@millrace.task("py-double")
def double(n: int):
    return 2 * n

@millrace.task("py-changed")
def changed():
    millrace.step("a" if millrace.attempt() == 1 else "b", lambda: 1)
    raise RuntimeError("again")

@millrace.task("py-large")
def large():
    millrace.step("large", lambda: [open(os.environ["LEDGER"], "a").write("%s large\n" % millrace.id()), "x" * (64 << 10)])

@millrace.task("extends")
def extends():
    return millrace.extend("1m", wait=True)

millrace.run()
`

// stepping is a durable function in Node that does what py-order does.
const stepping = `
const fs = require('fs')
const millrace = require('millrace')

millrace.task('js-double', ({ n }) => 2 * n)
millrace.task('js-order', async (params, { id, attempt }) => {
  const paid = await millrace.step('charge', async () => {
    fs.appendFileSync(process.env.LEDGER, id + ' charge\n')
    if (attempt === 1) throw new Error('the bank is busy')
    return 21
  }, { retry: { max: 3, min: '10ms', max_delay: '20ms' } })
  if (attempt === 2) process.kill(process.pid, 'SIGKILL')
  const first = await millrace.newId()
  if (await millrace.step('same', () => first) !== first) throw new Error('another id')
  await millrace.sleep('grace', 0.05)
  const doubled = await millrace.call('double', { handler: 'js-double', params: { n: paid } })
  const { who } = await millrace.waitFor('approval', '1h', [{ name: 'who', enum: ['ann', 'bob'] }, { name: 'note', type: 'string', optional: true }])
  const failed = []
  await millrace.waitFor('approval', '1h', { secret: true }).catch(err => failed.push(err.message))
  for (const child of await millrace.callAll('both', [{ handler: 'js-double', params: { n: 1 } }, { argv: ['false'] }])) {
    try {
      failed.push(child.result())
    } catch (err) {
      failed.push(err.child.reason)
    }
  }
  await millrace.waitFor('never', 0.02).catch(err => {
    if (!(err instanceof millrace.NoSignal)) throw err
    failed.push('no signal')
  })
  return [doubled, who, failed, await millrace.version('way', 2), (await millrace.now()).getUTCFullYear() > 2000]
})
millrace.task('js-changed', async (params, { attempt }) => {
  await millrace.step(attempt === 1 ? 'a' : 'b', () => 1)
  throw new Error('again')
})
millrace.task('js-large', async (params, { id }) => {
  await millrace.step('large', () => {
    fs.appendFileSync(process.env.LEDGER, id + ' large\n')
    return 'x'.repeat(64 << 10)
  })
})
millrace.run()
`

// TestResidentPrograms: programs that stay alive run handlers in Python and Node; whatever they do,
// each of their tasks ends, with no attempt more than its policy allows.
func TestResidentPrograms(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"python3", "node"} {
		if interpreter(t, name) == "" {
			if os.Getenv("CI") != "" {
				t.Fatalf("%s is missing", name)
			}
			return
		}
	}
	p := harness.New(t, time.Minute)
	p.Let("MILLRACE_NODE_TTL", "1m") // no attempt here is to be given back because the machine is busy: some count them
	p.Let("PYTHONPATH", library(t, "python"))
	p.Let("PYTHONDONTWRITEBYTECODE", "1")
	p.Let("NODE_PATH", library(t, "node"))
	p.Let("LEDGER", p.Path("ledger"))
	p.Write("misbehaving.py", misbehaving)
	p.Write("stepping.js", stepping)
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	dev := p.Dev("--slots", "4", "--program-silence", "10s", "--program-memory", "200MiB",
		"--program", "python3 misbehaving.py", "--program", "python3 "+examples+"/report.py", "--program", "node "+examples+"/digest.js", "--program", "node stepping.js", "--program", "python3 "+examples+"/order.py")
	w := &programs{p, p.Connect(), ""}
	t.Run("all", func(t *testing.T) {
		for name, run := range map[string]func(*programs, *testing.T){
			"harm": (*programs).harm, "garbage": (*programs).garbage, "stops": (*programs).stops, "kept": (*programs).kept, "steps": (*programs).steps, "examples": (*programs).examples, "clients": (*programs).clients,
		} {
			t.Run(name, func(t *testing.T) { t.Parallel(); run(w, t) })
		}
	})
	dev.Stop()
}

func handlerTask(name string, retries int) birth.Submission {
	return birth.Submission{Spec: &job.Spec{Handler: name, Retry: job.Retry{Max: retries, Min: value.Duration(time.Millisecond)}}}
}

// attempts are those that the ledger has of a task.
func (w *programs) attempts(t *testing.T, id task.ID) (n int) {
	t.Helper()
	ledger, err := os.ReadFile(w.p.Path("ledger"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(ledger), string(id)+" ")
}

// harm: a program that ends, hangs or takes too much in a task costs that task an attempt, says
// why, and is replaced.
func (w *programs) harm(t *testing.T) {
	for name, class := range map[string]string{"kill": value.Exit, "exit": value.Exit, "code": value.Exit, "stop": value.Timeout, "grow": value.Memory, "timeout": value.Timeout} {
		for by, spec := range map[string]func(*job.Spec){"worker": func(*job.Spec) {}, "job": w.named} {
			t.Run(name+" by "+by, func(t *testing.T) {
				t.Parallel()
				s := handlerTask(name, 1)
				if name == "timeout" {
					s.Spec.Timeout = job.Timeout{Run: value.Duration(10 * time.Second), Stop: value.Duration(time.Second)}
				}
				spec(s.Spec)
				ended := w.end(t, s)
				wantEnd(t, ended, task.Finished, "")
				if n := w.attempts(t, ended.ID); n != 2 || ended.Attempt != 2 {
					t.Errorf("attempt %d; the ledger has %d", ended.Attempt, n)
				}
				records, err := w.c.History(t.Context(), ended.ID)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range records {
					if f, ok := r.Fact.Event.(task.AttemptFailed); ok && f.Class != class && !(name == "kill" && f.Class == value.Killed) {
						t.Errorf("the first attempt failed with %s (%s), want %s", f.Class, f.Message, class)
					}
				}
			})
		}
	}
	ended := w.end(t, handlerTask("always-exit", 2))
	wantEnd(t, ended, task.Error, value.Exit)
	if n := w.attempts(t, ended.ID); n != 3 || !strings.Contains(ended.Message, "exited with code 0 in the middle of the task") {
		t.Errorf("%d attempts, %s", n, ended.Message)
	}
}

// named has the spec of a handler of misbehaving.py name that program, which no flag of the worker does.
func (w *programs) named(s *job.Spec) {
	s.Run = &job.Run{Program: "exec python3 " + w.p.Path("misbehaving.py"), Handler: s.Handler, Env: map[string]string{"SECOND": "1"}}
	s.Handler, s.Resources.Memory = "", 200<<20
}

// kept: a program that a job names stays alive, with its folder, its environment and its secrets, for tasks that are
// the same but for the handler; one that says what is wrong with a job ends its task for good.
func (w *programs) kept(t *testing.T) {
	w.p.Write("secret", "hunter2\n")
	w.p.Write("small.py", `
import os, millrace
@millrace.task("one")
def one(n: int):
    print("the secret is", os.environ["SECRET"])
    return [os.getpid(), os.getcwd(), os.environ.get("COLOUR"), os.environ.get("MILLRACE_TASK"), n]
@millrace.task("two")
def two():
    return millrace.spawn(handler="one", params={"n": 2}, wait=True)
millrace.run()
`)
	with := func(handler, colour string) birth.Submission {
		return birth.Submission{Params: map[string]json.RawMessage{"n": json.RawMessage(`1`)}, Spec: &job.Spec{Run: &job.Run{
			Program: "exec python3 " + w.p.Path("small.py"), Handler: handler, Env: map[string]string{"COLOUR": colour}, Secrets: map[string]job.Secret{"SECRET": {File: w.p.Path("secret")}}}}}
	}
	first := w.end(t, with("one", "red"))
	wantEnd(t, first, task.Finished, "")
	var is [5]any
	if err := json.Unmarshal(first.Result, &is); err != nil || is[2] != "red" || is[3] != nil || is[4] != 1.0 {
		t.Errorf("it gave %s, %v", first.Result, err)
	}
	if lines := w.lines(t, first.ID, output.Stdout); len(lines) != 1 || lines[0] != "the secret is [secret]" {
		t.Errorf("it printed %q", lines)
	}
	if again := w.end(t, with("one", "red")); string(again.Result) != string(first.Result) {
		t.Errorf("the second task ran as %s, the first as %s", again.Result, first.Result)
	}
	if blue := w.end(t, with("one", "blue")); string(blue.Result) == string(first.Result) {
		t.Errorf("one with another environment ran as %s", blue.Result)
	}
	s := with("two", "red")
	s.Params = nil
	two := w.end(t, s)
	wantEnd(t, two, task.Finished, "")
	child, err := w.c.Wait(t.Context(), task.ID(strings.Trim(string(two.Result), `"`)))
	if err != nil || child.State != task.Finished {
		t.Errorf("the child is %s: %s, %v", child.State, child.Message, err)
	}
	for handler, want := range map[string]string{"": "has the handlers one, two", "three": `has no handler "three"`} {
		s := with(handler, "red")
		s.Spec.Retry.Max = 3
		if ended := w.end(t, s); ended.State != task.Error || ended.Attempt != 1 || !strings.Contains(ended.Message, want) {
			t.Errorf("%q: %s after %d attempts: %s", handler, ended.State, ended.Attempt, ended.Message)
		}
	}
	s = with("one", "red")
	s.Spec.Run.Program = "exec python3 " + w.p.Path("there-is-none.py")
	if ended := w.end(t, s); ended.State != task.Error || !strings.Contains(ended.Message, "there-is-none.py") {
		t.Errorf("%s: %s", ended.State, ended.Message)
	}
}

// garbage: what is no message of this task is text or nothing, and ends and changes nothing; what a
// task has printed is complete, and its own.
func (w *programs) garbage(t *testing.T) {
	ended := w.end(t, handlerTask("garbage", 0))
	wantEnd(t, ended, task.Finished, "")
	var result struct{ Attempt, PID int }
	if err := json.Unmarshal(ended.Result, &result); err != nil || result.Attempt != 1 {
		t.Errorf("result %s, %v", ended.Result, err)
	}
	if ended.Usage == nil || ended.Usage.Refused != 1 {
		t.Errorf("used %+v, want one message refused: that of an unknown type", ended.Usage)
	}
	if loud := w.lines(t, ended.ID, output.Stderr); len(loud) != 50_000 {
		t.Errorf("%d lines of its standard error, want 50000", len(loud))
	}
	if lines := w.lines(t, ended.ID, output.Stdout); lines[len(lines)-1] != "unended" {
		t.Errorf("its last line is %q", lines[len(lines)-1])
	}
	if !harness.Poll(harness.Patience, func() bool { // until two have run on the same program
		wantEnd(t, w.end(t, handlerTask("late", 0)), task.Finished, "")
		if next := w.end(t, handlerTask("after", 0)); string(next.Result) != `"on time"` {
			t.Errorf("%s is %s with %s", next.ID, next.State, next.Result)
		}
		_, err := os.Stat(w.p.Path("ledger-spoke"))
		return err == nil
	}) {
		t.Error("the late DONE was not sent")
	}
}

// stops: a task that is cancelled ends, whether its handler listens or not; its time can be extended.
func (w *programs) stops(t *testing.T) {
	for _, name := range []string{"waits", "stubborn"} {
		s := handlerTask(name, 0)
		s.Spec.Timeout.Stop = value.Duration(2 * time.Second)
		r, err := w.c.Submit(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if !harness.Poll(harness.Patience, func() bool {
			live, err := w.c.Live(t.Context(), r.ID)
			return err == nil && live.Message != ""
		}) {
			t.Fatalf("%s says nothing", name)
		}
		if _, err := w.c.Cancel(t.Context(), r.ID, "a person asked"); err != nil {
			t.Fatal(err)
		}
		ended, err := w.c.Wait(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		wantEnd(t, ended, task.Cancelled, ended.Reason)
	}
	s := handlerTask("extends", 0)
	s.Spec.Timeout.Run, s.Spec.Timeout.Extend = value.Duration(20*time.Second), value.Duration(time.Minute)
	ended := w.end(t, s)
	wantEnd(t, ended, task.Finished, "")
	if ended.Extended.IsZero() || !strings.HasPrefix(string(ended.Result), `"20`) {
		t.Errorf("extended to %v; it was told %s", ended.Extended, ended.Result)
	}
}

// steps: a function with steps does each once, in Python as in Node, though its program is killed behind one; the log
// has the same of both. Code that comes to other steps is noticed, and no step is done again for a result that cannot
// be kept.
func (w *programs) steps(t *testing.T) {
	var came [2]string
	t.Run("languages", func(t *testing.T) {
		for i, language := range []string{"py", "js"} {
			t.Run(language, func(t *testing.T) {
				t.Parallel()
				came[i] = w.order(t, language)
				ended := w.end(t, handlerTask(language+"-changed", 3))
				wantEnd(t, ended, task.Error, value.Task)
				if ended.Attempt != 2 || !strings.Contains(ended.Message, `step 1 was step "a", and now is step "b"`) {
					t.Errorf("attempt %d: %s", ended.Attempt, ended.Message)
				}
				ended = w.end(t, handlerTask(language+"-large", 3))
				wantEnd(t, ended, task.Error, value.Task)
				if n := w.attempts(t, ended.ID); n != 1 {
					t.Errorf("the step was done %d times: %s", n, ended.Message)
				}
			})
		}
	})
	if came[0] != came[1] || !strings.HasPrefix(came[0], "step charge, id , step same, sleep grace, call double, await approval, call both, await never, ") {
		t.Errorf("Python came to %s\nNode to        %s", came[0], came[1])
	}
}

// order has a function run in a language, and returns to which steps it came.
func (w *programs) order(t *testing.T, language string) string {
	r, err := w.c.Submit(t.Context(), handlerTask(language+"-order", 1))
	if err != nil {
		t.Fatal(err)
	}
	if !harness.Poll(harness.Patience, func() bool {
		now, err := w.c.Task(t.Context(), r.ID)
		return err != nil || now.AwaitsSignal() || now.State.Terminal()
	}) {
		t.Fatal("it waits for no signal")
	}
	for data, want := range map[string]string{``: "who is missing", `{"who":"eve"}`: `who is "eve", want ann or bob`, `{"who":"ann","why":1}`: `"why" is not one`} {
		if _, err := w.c.Signal(t.Context(), r.ID, json.RawMessage(data), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the answer %s: %v, want %s", data, err, want)
		}
	}
	if _, err := w.c.Signal(t.Context(), r.ID, json.RawMessage(`{"who":"ann"}`), ""); err != nil {
		t.Fatal(err)
	}
	ended, err := w.c.Wait(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	wantEnd(t, ended, task.Finished, "")
	if got := string(ended.Result); got != `[42,"ann",["form has the secret value, and an answer stays in the log for all to read: name its file in params of the job",2,"exit","no signal"],2,true]` {
		t.Errorf("it gave %s", got)
	}
	if n := w.attempts(t, ended.ID); n != 2 { // one failed, and one did it
		t.Errorf("it was charged %d times", n)
	}
	var came strings.Builder
	for _, s := range ended.Durable.Steps {
		came.WriteString(s.Kind + " " + s.Name + ", ")
	}
	return came.String()
}

// examples: those in the folder do what they say.
func (w *programs) examples(t *testing.T) {
	s := handlerTask("report", 0)
	s.Params = map[string]json.RawMessage{"name": json.RawMessage(`"sales"`), "rows": json.RawMessage(`[3,4,5]`)}
	ended := w.end(t, s)
	wantEnd(t, ended, task.Finished, "")
	if string(ended.Result) != `{"name":"sales","sum":12}` || len(w.records(t, ended.ID)) != 3 {
		t.Errorf("result %s, records %q", ended.Result, w.records(t, ended.ID))
	}
	if got := w.lines(t, ended.ID, output.Stdout); len(got) != 1 || got[0] != "added up sales" {
		t.Errorf("printed %q", got)
	}
	s.Params["rows"] = json.RawMessage(`3`)
	s.Spec.Retry.Max = 3
	if ended = w.end(t, s); ended.Reason != value.User || ended.Attempt != 1 || !strings.Contains(ended.Message, "rows is 3, want list") {
		t.Errorf("attempt %d: %s, %s", ended.Attempt, ended.Reason, ended.Message)
	}
	s = handlerTask("order", 0)
	s.Params = map[string]json.RawMessage{"total": json.RawMessage(`20`)}
	r, err := w.c.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if !harness.Poll(harness.Patience, func() bool {
		_, err := w.c.Signal(t.Context(), r.ID, json.RawMessage(`"ann"`), "")
		return err == nil
	}) {
		t.Error("it waits for no signal")
	}
	if ended, err = w.c.Wait(t.Context(), r.ID); err != nil || !strings.HasPrefix(string(ended.Result), `{"paid":20,"label":`) || !strings.HasSuffix(string(ended.Result), ` BY ANN"}`) {
		t.Errorf("%s: %s, %s; %v", ended.State, ended.Result, ended.Message, err)
	}
	s = birth.Submission{Params: map[string]json.RawMessage{"texts": json.RawMessage(`["a b", "c", "d e f"]`)}}
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	s.Spec = &job.Spec{Run: &job.Run{Program: "exec python3 " + examples + "/words.py", Handler: "count"}}
	if ended = w.end(t, s); string(ended.Result) != `{"total":6}` {
		t.Errorf("%s: %s, %s", ended.State, ended.Result, ended.Message)
	}
	s = handlerTask("digest", 0)
	s.Params = map[string]json.RawMessage{"text": json.RawMessage(`"hello"`)}
	if ended = w.end(t, s); string(ended.Result) != `{"digest":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}` {
		t.Errorf("%s: %s, %s", ended.State, ended.Result, ended.Message)
	}
	s = handlerTask("countdown", 0)
	s.Params = map[string]json.RawMessage{"from": json.RawMessage(`1`)}
	if ended = w.end(t, s); string(ended.Result) != `"liftoff"` {
		t.Errorf("%s: %s, %s", ended.State, ended.Result, ended.Message)
	}
}

const pythonClient = `
import dataclasses, json, sys, millrace_http as m
url, token = sys.argv[1:]
c = m.Client(url, token)
id = c.submit(handler="digest", params={"text": "hello"}, labels={"by": "client"})
assert c.submit(id=id, handler="digest", params={"text": "hello"}, labels={"by": "client"}) == id
assert c.result(id, 60)["digest"].startswith("2cf24d")
assert c.get(id).labels == {"by": "client"} and c.get(id).state == "finished"
assert [l.text for l in c.output(id) if l.stream == "stdout"] == ["5 characters"]
r = c.submit(handler="report", params={"name": "a", "rows": [1, 2]})
c.wait(r, 60)
assert [x["sum"] for x in c.records(r)] == [1, 3]
f = c.submit(shell="exit 3")
try:
    c.result(f, 60)
    raise SystemExit("a failure is none")
except m.Failed as e:
    assert e.task.reason == "exit", e.task
assert c.retry(f).id == f
w = c.submit(handler="countdown", params={"from": 600})
c.cancel(w, "enough")
assert c.wait(w, 60).state == "cancelled"
assert {t.id for t in c.list("label:by=client")} == {id}, list(c.list("label:by=client"))
assert len(list(c.list(limit=2))) == 2
try:
    c.get("01JNA0TASK0000000000000000")
    raise SystemExit("no such task is one")
except m.Problem as e:
    assert e.status == 404, e.status
print(json.dumps({"operations": m.OPERATIONS, "task": [f.name for f in dataclasses.fields(m.Task)], "line": [f.name for f in dataclasses.fields(m.Line)]}))
`

const nodeClient = `
const assert = require('assert')
const { Client, Failed, Problem, OPERATIONS } = require('millrace-http')
const all = async list => { const them = []; for await (const one of list) them.push(one); return them }
async function main (url, token) {
  const c = new Client(url, { token })
  const id = await c.submit({ handler: 'digest', params: { text: 'hello' }, labels: { by: 'node-client' } })
  assert.strictEqual(await c.submit({ id, handler: 'digest', params: { text: 'hello' }, labels: { by: 'node-client' } }), id)
  assert((await c.result(id, 60)).digest.startsWith('2cf24d'))
  assert.strictEqual((await c.get(id)).state, 'finished')
  assert.deepStrictEqual((await all(c.output(id))).filter(l => l.stream === 'stdout').map(l => l.text), ['5 characters'])
  const r = await c.submit({ handler: 'report', params: { name: 'a', rows: [1, 2] } })
  await c.wait(r, 60)
  assert.deepStrictEqual((await all(c.records(r))).map(x => x.sum), [1, 3])
  const f = await c.submit({ shell: 'exit 3' })
  await assert.rejects(c.result(f, 60), err => err instanceof Failed && err.task.reason === 'exit')
  assert.strictEqual((await c.retry(f)).id, f)
  const w = await c.submit({ handler: 'countdown', params: { from: 600 } })
  await c.cancel(w, 'enough')
  assert.strictEqual((await c.wait(w, 60)).state, 'cancelled')
  assert.deepStrictEqual((await all(c.list('label:by=node-client'))).map(t => t.id), [id])
  assert.strictEqual((await all(c.list('', 2))).length, 2)
  await assert.rejects(c.get('01JNA0TASK0000000000000000'), err => err instanceof Problem && err.status === 404)
  const text = require('fs').readFileSync(require.resolve('millrace-http'), 'utf8')
  const fields = name => [...text.match(new RegExp('{{([^}]*)}} ' + name))[1].matchAll(/(\w+)\??: /g)].map(m => m[1])
  console.log(JSON.stringify({ operations: OPERATIONS, task: fields('Task'), line: fields('Line') }))
}
main(...process.argv.slice(1)).catch(err => { console.error(err); process.exit(1) })
`

// clients: the small HTTP clients do what they say, and know only what the OpenAPI document has.
func (w *programs) clients(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(w.p.Path("data/" + name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	url, token := read("http.url"), read("http.token")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/openapi.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct {
			Schemas map[string]struct{ Properties map[string]json.RawMessage }
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	for name, argv := range map[string][]string{"python": {"python3", "-c", pythonClient, url, token}, "node": {"node", "-e", nodeClient, url, token}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
			cmd.Env = w.p.Env
			var errs strings.Builder
			cmd.Stderr = &errs
			printed, err := cmd.Output()
			var is struct {
				Operations map[string][2]string
				Task, Line []string
			}
			if err != nil || json.Unmarshal(printed, &is) != nil {
				t.Fatalf("%v\n%s%s", err, printed, errs.String())
			}
			for name, o := range is.Operations {
				if _, ok := doc.Paths["/api/v1"+o[1]][strings.ToLower(o[0])]; !ok {
					t.Errorf("%s: the document has no %s %s", name, o[0], o[1])
				}
			}
			for schema, fields := range map[string][]string{"task.Task": is.Task, "output.Line": is.Line} {
				if len(fields) < 4 || !slices.Contains(fields, map[string]string{"task.Task": "state", "output.Line": "text"}[schema]) {
					t.Errorf("%s has the fields %v", schema, fields)
				}
				for _, field := range fields {
					if _, ok := doc.Components.Schemas[schema].Properties[field]; !ok {
						t.Errorf("the document's %s has no %s", schema, field)
					}
				}
			}
		})
	}
}
