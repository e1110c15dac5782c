package promises

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"millrace/events/jet/rights"
	"millrace/integration/harness"
	api "millrace/service/answers"
)

// moment is how long ago or ahead something is, with the room that its column has for it.
var moment = regexp.MustCompile(` *([0-9-]{10} [0-9:]{8} \+00:00|\([^()]* ago\)|\b(in )?([0-9.]+(ms|[smhd]))+\b( ago)?) *`)
var spaces = regexp.MustCompile(` +`)

// A viewer and a submitter use the command line: what the service does for them they see as an
// operator does, and of all else it says which role it takes.
func TestCommandsByRole(t *testing.T) {
	t.Parallel()
	const account = "asking"
	p, _, as, server, worker := realm(t, account)
	defer server.Stop()
	defer worker.Stop()
	p.Write("job.yaml", `name: hello
title: says hello
timetable: [{cron: "0 3 * * *"}]
breaker: {failures: 3, within: 1h, cooldown: 1m}
artifacts: [out.txt]
run:
  messages: open
  shell: 'echo left > out.txt; echo hello; echo "{\"type\":\"INSERT_DATA\",\"payload\":{\"data\":{\"n\":1}}}"; echo "{\"type\":\"RESULT\",\"payload\":7}"'
`)
	p.Write("office.yaml", "name: office\nrules: [{closed: 12-24..12-26}]\n")
	if err := os.Mkdir(p.Path("app"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.Write("app/main.sh", "echo app\n")
	p.Run("job", "apply", "-f", "job.yaml")
	p.Run("calendar", "apply", "office.yaml")
	p.Run("files", "push", "app", "--name", "app")
	p.Run("queue", "limit", "bulk", "3")
	p.Run("monitor", "add", "watched", "--cron", "30 2 1 1 *")
	id := strings.Fields(p.Run("run", "hello"))[0]
	p.Run("task", "wait", id)
	p.Write("steps.yaml", "name: steps\nsteps:\n  - {name: a, run: echo one}\n  - {name: b, needs: [a], run: echo two}\n")
	p.Run("job", "apply", "-f", "steps.yaml")
	whole := strings.Fields(p.Run("run", "steps"))[0]
	p.Run("task", "wait", whole)
	held := strings.Fields(p.Run("run", "--signal", "go", "--", "true"))[0]

	var asked []string
	for _, e := range api.Endpoints() {
		asked = append(asked, e.Asked...)
	}
	covered := map[string]bool{}
	for _, line := range []string{
		"task ls -o json", "task ls --job hello --counts", "task ls --at 20 --names", "task show ID", "task show ID -o json", "task show ID --at 20", "task why HELD", "task why ID -o json",
		"task why HELD --chain", "task tree WHOLE", "task diff ID HELD", "task wait ID WHOLE", "task events ID", "task attempts ID", "task trace ID",
		"task logs ID", "task logs WHOLE", "task logs ID -f", "task logs --job hello --tail 1", "task artifacts ID", "task data ID", "task data ls WHOLE", "task data tail ID", "task data export ID",
		"data ls ID", "data ls --job hello", "data tail ID -f", "data export ID", "dlq ls", "events tail --no-follow -n 20", "events show 20", "events show 20 -o json", "events export --to 20", "diff --at 20 --at 30",
		"replay -c first", "whatif --set retry.max=5", "node ls --names", "node show here --at 20", "node events here", "node wait here -o json", "queue ls --at 30", "queue show bulk", "limit ls", "limit show queue:bulk",
		"job ls", "job ls --names", "job show hello", "job history hello", "job diff hello steps", "job breaker show hello", "calendar ls", "calendar show office", "calendar history office", "calendar diff office --at 40",
		"schedule ls --names", "schedule ls", "schedule grid", "schedule grid hello --by hour", "schedule show hello", "schedule next hello", "schedule next", "schedule diff hello --at 40", "files ls", "files ls app", "files show app", "files diff app app",
		"plan hello", "plan HELD", "node ping", "verify --rule I-3", "horizon", "attention", "mcp",
	} {
		args := strings.Fields(strings.NewReplacer("ID", id, "WHOLE", whole, "HELD", held).Replace(line))
		for _, path := range asked {
			if line == path || strings.HasPrefix(line, path+" ") {
				covered[path] = true
			}
		}
		var both string
		if !harness.Poll(harness.Patience/4, func() bool { // on a busy machine the log may grow between the two
			as(rights.Operator, "")
			want := p.Try(args...)
			as(rights.Viewer, "")
			got := p.Try(args...)
			if strings.HasPrefix(line, "node ping") || strings.HasPrefix(line, "verify") { // it takes time, and is judged less
				want.Out = got.Out
			}
			for _, r := range []*string{&want.Out, &got.Out} { // columns are as wide as their times
				*r = spaces.ReplaceAllString(moment.ReplaceAllString(*r, "(then)"), " ")
			}
			both = fmt.Sprintf("typed by an operator: exit code %d\n%s%s\ntyped by a viewer: exit code %d\n%s%s", want.Code, want.Out, want.Errs, got.Code, got.Out, got.Errs)
			return got.Code == want.Code && got.Out == want.Out
		}) {
			t.Errorf("millrace %s, %s", line, both)
		}
	}
	for line, word := range map[string]string{"task show": id, "job show": "hello", "run": "hello", "schedule show": "hello", "calendar show": "office", "queue show": "bulk", "node show": "here", "files show": "app", "events show": "20"} {
		args := append(append([]string{"__complete"}, strings.Fields(line)...), "")
		p.Until("a viewer is offered what an operator is: "+line, func() bool { // each has a part of a second
			as(rights.Operator, "")
			want := p.Run(args...)
			as(rights.Viewer, "")
			return strings.Contains(want, word) && p.Run(args...) == want
		})
	}
	for _, path := range asked {
		if !covered[path] && path != "run" && path != "ping" && path != "task copy" && path != "dlq show" && path != "archive rm" && path != "task approve" && path != "task reject" { // which are refused, below, or typed by whom an approval names
			t.Errorf("no viewer has typed millrace %s", path)
		}
	}
	said := func(args []string, takes string, role rights.Role) {
		t.Helper()
		as(role, "")
		want := "millrace: this takes the role " + takes + "; the user " + roleUser(account, role, "") + " is a " + string(role)
		if line := strings.Join(args, " "); role == rights.Viewer && (strings.HasPrefix(line, "task artifacts") || strings.HasPrefix(line, "files pull")) {
			want += "\nhint: viewers get what files contain over HTTP: GET /api/v1/files/VERSION/content; the version of artifacts is their digest in `millrace task artifacts -o json`"
		}
		if r := p.Try(args...); r.Code != 5 || r.Errs != want {
			t.Errorf("millrace %q: exit code %d, %s%s\nwant %s", args, r.Code, r.Out, r.Errs, want)
		}
	}
	const segment = "000000000001-000000000002-9f86d081884c7d65.jsonl.zst"
	p.Write("app/"+segment, "what it holds is read by nobody here")
	for _, line := range []string{"task cancel " + held, "node drain here", "queue pause bulk", "job rm --yes hello", "token ls", "task artifacts " + id + " --cat out.txt", "files pull app x", "archive rm --yes --archive app " + segment} {
		said(strings.Fields(line), "operator", rights.Viewer)
	}
	said([]string{"run", "--", "true"}, "submitter or operator", rights.Viewer)
	said([]string{"ping", "watched"}, "submitter or operator", rights.Viewer)

	as(rights.Submitter, "")
	if out := p.Run("run", "--wait", "hello", "-p", "x=1"); !strings.Contains(out, "result 7") {
		t.Errorf("run --wait prints %s", out)
	}
	if out := p.Run("run", "--follow", "--", "echo", "heard"); !strings.Contains(out, "heard") {
		t.Errorf("run --follow prints %s", out)
	}
	p.Run("run", "--count", "3", "--wait", "--", "true")
	p.Run("ping", "watched", "fail", "--exit", "3")
	if r := p.Try("run", "--wait", "--", "sh", "-c", "exit 9"); r.Code != 9 {
		t.Errorf("run --wait of a failure: exit code %d, %s", r.Code, r.Errs)
	}
	own := strings.Fields(p.Run("run", "steps"))[0]
	p.Run("task", "wait", own)
	mine := strings.Fields(p.Run("run", "hello"))[0]
	p.Run("task", "wait", mine)
	for line, want := range map[string]string{"task show " + mine: "finished", "task why " + mine: "finished", "task logs " + mine: "hello", "task logs " + own: "two", "task logs -f " + own: "two", "task data " + mine: `{"n":1}`, "data ls " + mine: "yes"} {
		if out := p.Run(strings.Fields(line)...); !strings.Contains(out, want) {
			t.Errorf("millrace %s prints %s, want %s", line, out, want)
		}
	}
	p.Run("task", "copy", mine)
	for _, line := range []string{"task logs " + id, "task wait " + id, "task why " + id, "task data " + id} {
		if r := p.Try(strings.Fields(line)...); r.Code != 5 || !strings.Contains(r.Errs, "was submitted by somebody else") {
			t.Errorf("millrace %s: exit code %d, %s%s", line, r.Code, r.Out, r.Errs)
		}
	}
	for _, line := range []string{"task ls", "node ls", "events tail", "job ls", "task events " + mine, "task tree " + own} {
		said(strings.Fields(line), "viewer or operator", rights.Submitter)
	}
	said([]string{"run", "--files", "./app", "--", "true"}, "operator", rights.Submitter)
	said([]string{"task", "cancel", mine}, "operator", rights.Submitter)
}

// Whom an approval names gives or refuses it in any role. Of several steps that wait, its name finds the one that is
// meant, and never one for which others are asked.
func TestNamedByRole(t *testing.T) {
	t.Parallel()
	const account = "named"
	p, _, as, server, worker := realm(t, account)
	defer server.Stop()
	defer worker.Stop()
	viewer, submitter := roleUser(account, rights.Viewer, ""), roleUser(account, rights.Submitter, "")
	var steps strings.Builder
	for name, who := range map[string]string{"a": viewer, "b": viewer, "c": submitter, "d": "nobody"} {
		fmt.Fprintf(&steps, "  - {name: %s, run: echo, signal: {name: sign, who: [%q], form: [{name: when, enum: [now]}]}}\n", name, who)
	}
	p.Write("both.yaml", "name: both\nsteps:\n"+steps.String())
	p.Run("job", "apply", "-f", "both.yaml")
	run := strings.Fields(p.Run("run", "both"))[0]
	p.Until("its steps wait", func() bool { return strings.Count(p.Run("task", "tree", run), "held") == 4 })
	refused := func(code int, says string, args ...string) {
		t.Helper()
		if r := p.Try(append([]string{"task"}, args...)...); r.Code != code || !strings.Contains(r.Errs, says) {
			t.Errorf("millrace task %q: exit code %d, %s; want %d, %s", args, r.Code, r.Errs, code, says)
		}
	}
	as(rights.Viewer, "")
	refused(2, "several steps of task", "approve", run)
	refused(2, "several steps of task", "reject", run, "--name", "sign")
	refused(2, "when is missing: want now", "approve", run, "--name", "a")
	refused(5, "asks others for its approval", "approve", run, "--name", "c", "--answer", "when=now")
	refused(5, "asks others for its approval", "reject", run, "--name", "d")
	refused(5, `signal "e"`, "approve", run, "--name", "e")
	p.Run("task", "approve", run, "--name", "a", "--answer", "when=now")
	refused(5, `signal "a"`, "approve", run, "--name", "a", "--answer", "when=now")
	p.Run("task", "reject", run, "--name", "b", "--reason", "too late")
	as(rights.Submitter, "")
	refused(5, "asks others for its approval", "reject", run, "--name", "d")
	p.Run("task", "approve", run, "--name", "c", "--answer", "when=now")
	as(rights.Operator, "")
	refused(5, "nobody may give or refuse it", "approve", run, "--answer", "when=now")
	p.Until("what they said has counted", func() bool {
		tree := p.Run("task", "tree", run)
		return strings.Count(tree, "finished") == 2 && strings.Contains(tree, "rejected by "+viewer+": too late") && strings.Contains(tree, "held")
	})
}
