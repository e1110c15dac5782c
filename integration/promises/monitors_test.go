package promises

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"millrace/integration/harness"
	"millrace/task/job"
)

// runs are the runs of a monitor as `task ls` lists them.
func runs(p *harness.Place, name string, filter ...string) string {
	return p.Run(append([]string{"task", "ls", "--job", name}, filter...)...)
}

// TestMonitorsTellOfSilence has a monitor hear nothing, and then an ok that is late; somebody is told of both.
func TestMonitorsTellOfSilence(t *testing.T) {
	t.Parallel()
	p, hook := harness.New(t, 2*time.Second), newTold(t)
	p.Write("notify.yaml", "targets: {oncall: {webhook: '"+hook.URL+"', collect: 0s}}\nrules: [{on: [failure, recovery, waiting], to: [oncall]}]\n")
	p.Dev("--notify", "notify.yaml", "--http", "127.0.0.1:0")
	p.Run("monitor", "add", "backup", "--cron", "30 2 1 1 *", "--grace", "1s")
	p.Run("schedule", "run", "backup")
	p.Until("the silence is told", func() bool { return len(hook.of("failure", "backup")) == 1 })
	if is := runs(p, "backup"); !strings.Contains(is, "silent") || !strings.Contains(is, "no ping within 1s of") {
		t.Errorf("the run is\n%s", is)
	}
	p.Run("ping", "backup")
	p.Until("the recovery is told", func() bool { return len(hook.of("recovery", "backup")) == 1 })

	// With more time, it waits for its program: for no person.
	p.Run("monitor", "add", "backup", "--cron", "30 2 1 1 *", "--grace", "1h")
	id := strings.Fields(p.Run("schedule", "run", "backup"))[0]
	if why := p.Run("task", "why", id); !strings.Contains(why, "millrace ping backup") || !strings.Contains(why, "error/silent") {
		t.Errorf("it waits for\n%s", why)
	}
	if needs := p.Run("attention"); strings.Contains(needs, "approval") {
		t.Errorf("a person is asked for\n%s", needs)
	}
	got := p.Try("ping", "backup", "--", "sh", "-c", "echo one; echo two >&2; exit 7")
	if got.Code != 7 || got.Out != "one" || !strings.Contains(got.Errs, "two") {
		t.Errorf("a program that is watched ends with %+v", got)
	}
	p.Until("the failure is told", func() bool { return len(hook.of("failure", "backup")) == 2 })
	if is := hook.of("failure", "backup")[1]; is["exit"] != 7.0 || !strings.Contains(is["text"].(string), "two") {
		t.Errorf("told is %v", is)
	}
	if logs := p.Run("task", "logs", id); !strings.Contains(logs, "one") || !strings.Contains(logs, "two") {
		t.Errorf("the run has printed\n%s", logs)
	}
	if n := len(hook.of("waiting", "backup")); n > 0 {
		t.Errorf("%d notices say that a monitor waits for an approval", n)
	}

	// A monitor that is paused is not silent.
	p.Run("monitor", "add", "sync", "--every", "1h", "--grace", "1s")
	p.Run("monitor", "add", "brief", "--cron", "30 2 1 1 *", "--grace", "1s")
	p.Run("schedule", "pause", "brief")
	p.Run("schedule", "run", "brief")
	p.Until("the run of a paused monitor ends", func() bool { return strings.Contains(runs(p, "brief"), "cancelled") })
	p.Write("job.yaml", "name: other\nrun: 'true'\n")
	p.Run("job", "apply", "-f", "job.yaml")
	if refused := p.Try("monitor", "add", "other", "--every", "1h"); refused.Code != 5 || !strings.Contains(refused.Errs, "is no monitor") {
		t.Errorf("a job becomes a monitor: %+v", refused)
	}
}

// TestPingsSurviveServers sends pings twice, out of order, and while the server is dead.
func TestPingsSurviveServers(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.MayRepair("the server is killed")
	server := p.Server("--http", "127.0.0.1:0")
	p.Run("monitor", "add", "backup", "--cron", "30 2 1 1 *", "--grace", "1h")
	token := strings.TrimSpace(p.Run("token", "add", "db1", "--role", "pinger"))
	address, err := os.ReadFile(p.Path(harness.Data + "/http.url"))
	if err != nil {
		t.Fatal(err)
	}
	send := func(method, path, body, token string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSpace(string(address))+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		text, _ := io.ReadAll(got.Body)
		return got.StatusCode, string(text)
	}
	for path, want := range map[string]string{"/ping/nothing": "no-monitor", "/ping/backup/done": "want start, ok, fail", "/ping/backup/300": "want 0 to 255", "/api/v1/tasks": "urn:millrace:role"} {
		if status, body := send("GET", path, "", token); status/100 != 4 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, _ := send("GET", "/ping/backup", "", "mr_wrong"); status != http.StatusUnauthorized {
		t.Errorf("whoever has no token gets %d", status)
	}
	p.Run("schedule", "run", "backup")
	for range 2 {
		for _, path := range []string{"/start", "/start"} {
			if status, body := send("GET", "/ping/backup"+path, "", token); status != http.StatusOK {
				t.Fatalf("%s: %d %s", path, status, body)
			}
		}
	}
	for _, path := range []string{"/ok", "", "/ok", "/start"} {
		if status, body := send("POST", "/ping/backup"+path, strings.Repeat("much\n", 200_000), token); status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, status, body)
		}
	}
	p.Until("it has ended once", func() bool {
		return strings.Contains(runs(p, "backup", "--state", "finished"), "1 task") && strings.Contains(runs(p, "backup"), "1 task")
	})
	for range 3 { // the job fails, and says so twice
		if status, body := send("POST", "/ping/backup/3", "no space left\n", token); status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
	}
	p.Until("it has failed once", func() bool { return strings.Contains(runs(p, "backup", "--state", "error"), "1 task") })

	p.Run("schedule", "run", "backup")
	server.Kill()
	if got := p.Try("ping", "backup", "--patience", "1s", "--", "echo", "it runs"); got.Code != 0 || got.Out != "it runs" || !strings.Contains(got.Errs, "was not told") {
		t.Errorf("while no server is there it is %+v", got)
	}
	if got := p.Try("ping", "backup", "--patience", "1s", "--", "no-such-program"); got.Code != 127 {
		t.Errorf("a program that is not there ends with %+v", got)
	}
	waits := p.Start("ping", "backup", "ok", "--patience", "2m")
	url := p.URL
	p.URL = "" // the server brings its own, at the same port
	p.Start("server", "--data", harness.Data, "--port", url[strings.LastIndex(url, ":")+1:])
	if code := waits.Wait(); code != 0 {
		t.Errorf("a ping that waits for a server ends with %d", code)
	}
	p.URL = url
	p.Until("the run has ended", func() bool { return strings.Contains(runs(p, "backup", "--state", "finished"), "2 tasks") })
	if is := p.Run("task", "ls", "--queue", job.MonitorQueue); strings.Count(is, "backup") != 3 {
		t.Errorf("there are other runs:\n%s", is)
	}
	p.Run("verify", "--settled")
}
