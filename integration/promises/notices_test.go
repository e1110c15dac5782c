package promises

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/integration/harness"
	"millrace/internal/testkit"
	"millrace/task/job"
)

// told is a webhook that keeps what it gets.
type told struct {
	*httptest.Server
	hangs atomic.Bool

	mu  sync.Mutex
	all []map[string]any // guarded by mu
}

func newTold(t *testing.T) *told {
	t.Helper()
	h := &told{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if h.hangs.Load() {
			<-r.Context().Done()
			return
		}
		var is map[string]any
		if err := json.Unmarshal(body, &is); err != nil {
			t.Errorf("the webhook got %s: %v", body, err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.all = append(h.all, is)
	}))
	t.Cleanup(h.Close)
	return h
}

// of returns the messages of a kind about a job.
func (h *told) of(kind, about string) (found []map[string]any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, is := range h.all {
		if is["kind"] == kind && is["job"] == about {
			found = append(found, is)
		}
	}
	return found
}

// TestNoticesSurviveTheirServer kills the server while a webhook hangs, and then after a failure of which it may
// have planned nothing yet. Whoever is to be told of both gets to know.
func TestNoticesSurviveTheirServer(t *testing.T) {
	t.Parallel()
	p, hook := harness.New(t, 2*time.Second), newTold(t)
	p.MayRepair("the server is killed")
	p.Write("notify.yaml", "targets: {oncall: {webhook: '"+hook.URL+"', collect: 0s}}\nrules: [{on: [failure, recovery], to: [oncall]}]\n")
	p.Write("job.yaml", "name: backup\nrun: 'echo one; echo two; exit 7'\n---\nname: other\nrun: exit 3\n")
	hook.hangs.Store(true)
	server := p.Server("--notify", "notify.yaml")
	p.Worker("w")
	p.Run("job", "apply", "-f", "job.yaml")
	p.Try("run", "backup", "--wait")
	p.Until("the notice is being sent", func() bool {
		return strings.Contains(p.Run("task", "ls", "--queue", job.NoticeQueue), "running")
	})
	p.Try("run", "other", "--wait")
	server.Kill()
	hook.hangs.Store(false)
	url := p.URL
	p.URL = "" // it brings its own, at the same port
	port := url[strings.LastIndex(url, ":")+1:]
	p.Start("server", "--data", harness.Data, "--port", port, "--notify", "notify.yaml")
	p.URL = url
	for name, exit := range map[string]float64{"backup": 7, "other": 3} {
		p.Until("the failure of "+name+" is told", func() bool { return len(hook.of("failure", name)) > 0 })
		if is := hook.of("failure", name)[0]; is["exit"] != exit || name == "backup" && fmt.Sprint(is["lines"]) != "[one two]" || is["count"] != 1.0 {
			t.Errorf("told is %v", is)
		}
	}
	p.Write("job.yaml", "name: backup\nrun: 'true'\n")
	p.Run("job", "apply", "-f", "job.yaml")
	p.Run("run", "backup", "--wait")
	p.Until("the recovery is told", func() bool { return len(hook.of("recovery", "backup")) == 1 })
	if n := len(hook.of("recovery", "other")); n > 0 {
		t.Errorf("of a job that fails still, %d recoveries are told", n)
	}
	// A schedule of a command is told of as a job is.
	up := filepath.Join(p.Dir, "up")
	p.Run("schedule", "add", "pulse", "--every", "240h", "--", "test", "-e", up)
	p.Run("schedule", "run", "pulse")
	p.Until("its failure is told", func() bool { return len(hook.of("failure", "test -e "+up)) == 1 })
	p.Write("up", "")
	p.Run("schedule", "run", "pulse")
	p.Until("its recovery is told", func() bool { return len(hook.of("recovery", "test -e "+up)) == 1 })
}

// TestManyFailuresAreFewNotices has as many tasks fail as the machine can start within a while, of one cause.
func TestManyFailuresAreFewNotices(t *testing.T) {
	t.Parallel()
	many := testkit.Size(300, 10_000)
	p, hook := harness.New(t, 5*time.Second), newTold(t)
	p.Write("notify.yaml", "targets: {oncall: {webhook: '"+hook.URL+"', collect: 0s}}\nrules: [{on: [failure], to: [oncall]}]\n")
	p.Dev("--notify", "notify.yaml", "--slots", "16")
	p.Try("run", "--count", fmt.Sprint(many), "--wait", "--", "false")
	p.Until("a failure is told", func() bool { return len(hook.of("failure", "false")) > 0 })
	if n := len(hook.of("failure", "false")); n > 4 {
		t.Errorf("%d messages of one cause, want two for each hour that the test saw", n)
	}
}

// TestQuietHours has a task fail while the calendar of one target is closed, which its queue names. The other one,
// which a rule names, is told at once, and the notice of the first waits until the calendar opens. A third is
// told of the tasks of a schedule, which names it.
func TestQuietHours(t *testing.T) {
	t.Parallel()
	p, hook := harness.New(t, 2*time.Second), newTold(t)
	opens := time.Now().UTC().AddDate(0, 0, 2).Format("01-02")
	p.Write("awake.yaml", "name: awake\nrules: [{open: '"+opens+"'}]\notherwise: closed\n")
	p.Write("notify.yaml", "targets:\n  oncall: {webhook: '"+hook.URL+"', collect: 0s}\n  night: {webhook: '"+hook.URL+"', collect: 0s}\n  sleeper: {webhook: '"+hook.URL+"', collect: 0s, window: awake}\nrules: [{on: [failure], to: [oncall]}, {on: [missed], to: [night]}]\n")
	p.Dev("--notify", "notify.yaml")
	p.Run("calendar", "apply", "awake.yaml")
	p.Run("queue", "limit", "default", "--notify", "oncall", "--notify", "sleeper=failure,queue")
	p.Run("queue", "limit", "other", "--notify", "oncall=queue")
	p.Run("run", "--queue", "other", "--", "true")
	p.Try("run", "--wait", "--", "false")
	p.Until("who is awake is told", func() bool { return len(hook.of("failure", "false")) > 0 })
	p.Until("the notice for the sleeper waits", func() bool {
		return strings.Contains(p.Run("task", "ls", "--queue", job.NoticeQueue, "--state", "scheduled"), "outside of the window awake")
	})
	p.Until("a queue that no worker serves is told", func() bool { return len(hook.of("queue", "other")) > 0 })
	p.Run("schedule", "add", "once", "--delay", "1s", "--notify", "night=failure,remind=1h", "--", "/bin/false")
	if out := p.Run("schedule", "show", "once"); !strings.Contains(out, "night of failure") {
		t.Errorf("it is not said whom the schedule tells:\n%s", out)
	}
	p.Write("after.yaml", "name: after\non: {job: nobody}\nrun: 'true'\n")
	p.Run("job", "apply", "-f", "after.yaml")
	p.Until("a trigger that makes no tasks is told", func() bool { return len(hook.of("missed", "after")) > 0 })
	p.Until("whom a rule and whom the schedule names are told", func() bool { return len(hook.of("failure", "/bin/false")) == 2 })
	p.Until("the others are done", func() bool {
		return strings.Contains(p.Run("task", "ls", "--queue", job.NoticeQueue, "--state", "finished"), "5 tasks")
	})
	if n := len(hook.of("failure", "false")); n != 1 {
		t.Errorf("%d messages went out, want that of who is awake", n)
	}
}

// TestNoticesHaveButtons presses links as somebody does who has the message and no account, after the server that
// sent it was killed. Whoever looks at mail before its reader changes nothing.
func TestNoticesHaveButtons(t *testing.T) {
	t.Parallel()
	p, hook := harness.New(t, 2*time.Second), newTold(t)
	p.MayRepair("the server is killed")
	p.Write("notify.yaml", "targets: {oncall: {webhook: '"+hook.URL+"', collect: 0s, buttons: true}}\nrules: [{on: [failure, waiting], to: [oncall]}]\n")
	p.Write("job.yaml", "name: backup\nrun: 'test -f "+p.Path("disk")+" || exit 7'\n---\nname: ship\nsignal: boss\nrun: 'true'\n")
	server := p.Server("--http", "127.0.0.1:0", "--notify", "notify.yaml")
	p.Worker("w")
	p.Run("job", "apply", "-f", "job.yaml")
	p.Try("run", "backup", "--wait")
	p.Run("run", "ship")
	links := func(kind, about string) map[string]string {
		p.Until(about+" is told", func() bool { return len(hook.of(kind, about)) > 0 })
		all := map[string]string{}
		actions, _ := hook.of(kind, about)[0]["actions"].([]any)
		for _, one := range actions {
			is, _ := one.(map[string]any)
			all[fmt.Sprint(is["do"])] = fmt.Sprint(is["link"])
		}
		return all
	}
	retry, approve := links("failure", "backup")["retry"], links("waiting", "ship")["approve"]
	server.Kill()
	url, port := p.URL, p.URL[strings.LastIndex(p.URL, ":")+1:]
	p.URL = ""
	p.Start("server", "--data", harness.Data, "--port", port, "--http", strings.SplitN(strings.TrimPrefix(retry, "http://"), "/", 2)[0])
	p.URL = url
	asks := func(method, link string) (status int, page string) {
		r, err := http.NewRequestWithContext(t.Context(), method, link, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/html")
		p.Until("the server answers", func() bool {
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				return false
			}
			defer func() { _ = answer.Body.Close() }()
			text, err := io.ReadAll(answer.Body)
			status, page = answer.StatusCode, string(text)
			return err == nil && status < 500
		})
		return status, page
	}
	for _, link := range []string{retry, approve} {
		for _, method := range []string{http.MethodHead, http.MethodGet, http.MethodGet} {
			if status, page := asks(method, link); status != 200 || method == http.MethodGet && !strings.Contains(page, "notice:oncall") {
				t.Fatalf("%s %s is answered with %d: %s", method, link, status, page)
			}
		}
		if status, _ := asks(http.MethodPost, link+"A"); status != 404 {
			t.Errorf("a forged link is answered with %d", status)
		}
	}
	if out := p.Run("task", "ls", "--roots", "--state", "error,held"); !strings.Contains(out, "backup") || !strings.Contains(out, "ship") {
		t.Errorf("who only looks has changed something: %s", out)
	}
	p.Write("disk", "")
	for link, did := range map[string]string{retry: "retried", approve: "approved"} {
		for range 2 { // the answer leads to the page, which says it
			if status, page := asks(http.MethodPost, link); status != 200 || !strings.Contains(page, "It was "+did) {
				t.Errorf("it is answered with %d: %s", status, page)
			}
		}
	}
	p.Until("both have finished", func() bool {
		out := p.Run("task", "ls", "--roots", "--state", "finished")
		return strings.Contains(out, "backup") && strings.Contains(out, "ship")
	})
	p.Run("verify")
	for _, link := range []string{retry, approve} {
		secret := link[strings.LastIndex(link, "-")+1:]
		if out := p.Run("events", "export"); strings.Contains(out, secret) || !strings.Contains(out, "notice:oncall") {
			t.Error("the log has the secret of a link, or not who acted")
		}
	}
}
