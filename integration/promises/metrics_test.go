package promises

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/integration/harness"
	"millrace/task"
)

// endpoint is where a process serves its figures and its health.
type endpoint struct {
	place *harness.Place
	base  string
	http  http.Client
}

var metricsURL = regexp.MustCompile(`"url":"(http://[^"]+)/metrics"`)

// metrics is the endpoint that a process has said it has.
func metricsOf(s *harness.Process) *endpoint {
	s.Place.Helper()
	e := &endpoint{place: s.Place, http: http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	s.Until("the address of the metrics is said", func() bool {
		m := metricsURL.FindStringSubmatch(s.Said.String())
		if m != nil {
			e.base = m[1]
		}
		return m != nil
	})
	return e
}

func (e *endpoint) get(path string) (code int, body string) {
	e.place.Helper()
	ctx, cancel := context.WithTimeout(e.place.Context(), harness.Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base+path, nil)
	if err != nil {
		e.place.Fatal(err)
	}
	answer, err := e.http.Do(request)
	if err != nil {
		e.place.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		e.place.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// is waits until a page answers with a code.
func (e *endpoint) is(path string, code int) {
	e.place.Helper()
	e.place.Until(fmt.Sprintf("%s is %d", path, code), func() bool {
		got, _ := e.get(path)
		return got == code
	})
}

// value returns the value of a series; a missing series is an error.
func (e *endpoint) value(series string) float64 {
	e.place.Helper()
	_, body := e.get("/metrics")
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				e.place.Fatalf("%s: %v", line, err)
			}
			return v
		}
	}
	e.place.Fatalf("there is no series %s in\n%s", series, body)
	return 0
}

// reaches waits until a series has a value.
func (e *endpoint) reaches(series string, want float64) {
	e.place.Helper()
	last := 0.0
	e.place.Until(fmt.Sprintf("%s is %v", series, want), func() bool {
		last = e.value(series)
		return last == want
	})
}

// The metrics agree with what has run.
func TestMetrics(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	dev := p.Dev("--name", "here", "--metrics", "127.0.0.1:0")
	m := metricsOf(dev)
	m.is("/readyz", http.StatusOK)
	m.is("/healthz", http.StatusOK)
	c := p.Connect()

	for _, key := range []string{"a", "a", "a", "b"} {
		p.Submit("true", "--queue", "limited", "--concurrency", "2", "--key", key)
	}
	p.Run("queue", "limit", "rated", "--rate", "5/1s", "--burst", "3")
	p.Run("run", "--shell", "true", "--count", "20")
	failing := p.Submit("exit 3")
	retried := p.Submit(`test "$MILLRACE_ATTEMPT" = 2`, "--retries", "1")
	waiting := p.Submit("true", "--queue", "nobody")
	p.Await(c, failing, task.Error)
	p.Await(c, retried, task.Finished)
	m.reaches(`millrace_tasks{queue="default",state="finished"}`, 21)

	for series, want := range map[string]float64{
		`millrace_tasks_submitted_total{queue="default"}`:                            22,
		`millrace_tasks_ended_total{queue="default",reason="none",state="finished"}`: 21,
		`millrace_tasks_ended_total{queue="default",reason="exit",state="error"}`:    1,
		`millrace_tasks_ended_total{queue="default",reason="lost",state="abnormal"}`: 0,
		`millrace_task_attempts_started_total{queue="default"}`:                      23,
		`millrace_task_attempts_total{outcome="finished"}`:                           21,
		`millrace_task_attempts_total{outcome="failed"}`:                             2,
		`millrace_task_attempt_failures_total{class="exit"}`:                         2,
		`millrace_task_pending_age_seconds_count{queue="default"}`:                   23,
		`millrace_task_run_seconds_count{queue="default"}`:                           23,
		`millrace_tasks{queue="default",state="error"}`:                              1,
		`millrace_queue_nodes{queue="default"}`:                                      1,
		`millrace_queue_depth{queue="nobody"}`:                                       1,
		`millrace_queue_nodes{queue="nobody"}`:                                       0,
		`millrace_limit_in_use{limit="key:queue.limited"}`:                           3,
		`millrace_limit_places{limit="key:queue.limited"}`:                           4,
		`millrace_limit_waiting{limit="key:queue.limited"}`:                          1,
		`millrace_limit_rate_left{limit="rate:queue:rated"}`:                         3,
		`millrace_limit_waiting{limit="rate:queue:rated"}`:                           0,
		`millrace_nodes{state="ready"}`:                                              1,
		`millrace_node_connections_total{kind="start",node="here"}`:                  1,
		`millrace_worker_fetching`:                                                   1,
		`millrace_sweep_repairs_total{kind="offer"}`:                                 0,
		`millrace_tasks_stuck{kind="orphaned"}`:                                      0,
		`millrace_log_unreadable_total`:                                              0,
		`millrace_read_model_lag_seconds`:                                            0,
		`millrace_connection_up{connection="millrace projector"}`:                    1,
	} {
		if got := m.value(series); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	m.reaches(`millrace_queue_depth{queue="default"}`, 0)
	if age := m.value(`millrace_task_oldest_pending_seconds{queue="nobody"}`); age <= 0 {
		t.Errorf("the task that nobody takes has waited for %v", age)
	}
	p.Run("task", "cancel", string(waiting))
	m.reaches(`millrace_tasks_ended_total{queue="nobody",reason="user",state="cancelled"}`, 1)
	if m.value("millrace_worker_heartbeats_total{outcome=\"ok\"}") < 1 || m.value("millrace_node_heartbeats") != 1 {
		t.Error("no heartbeats are counted")
	}
	dev.Stop()

	// Counters begin anew, at 0 for the series that were there before; gauges do not.
	dev = p.Dev("--name", "here", "--metrics", "0")
	m = metricsOf(dev)
	m.is("/readyz", http.StatusOK)
	for series, want := range map[string]float64{
		`millrace_tasks_submitted_total{queue="nobody"}`: 0, `millrace_tasks{queue="default",state="finished"}`: 21,
	} {
		if got := m.value(series); got != want {
			t.Errorf("after the restart %s is %v, want %v", series, got, want)
		}
	}
	if r := p.Try("server", "--data", "other", "--metrics", strings.TrimPrefix(m.base, "http://")); r.Code != 5 || !strings.Contains(r.Errs, "--metrics") {
		t.Errorf("a second process at the same address ends with %d: %s", r.Code, r.Errs)
	}
	dev.Stop()
}

// A worker alone is ready while it can fetch, and its metrics show what a restart would cost.
func TestMetricsOfAWorker(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	server := p.Server("--metrics", "127.0.0.1:0")
	m := metricsOf(server)
	worker := p.Worker("w1", "--metrics", "127.0.0.1:0", "--grace", "1h")
	w := metricsOf(worker)
	w.is("/readyz", http.StatusOK)
	c := p.Connect()
	id := p.Submit(harness.StayUntilGo, "--dir", p.Dir)
	p.Await(c, id, task.Running)
	w.reaches(`millrace_worker_slots{state="busy"}`, 1)
	p.Until("a lease is renewed", func() bool { return w.value(`millrace_worker_lease_renewals_total{outcome="ok"}`) > 0 })
	worker.Kill()

	second := p.Worker("w2")
	p.Await(c, id, task.Finished)
	// Its heartbeat and its lease run out at about the same time; which is seen first is chance.
	p.Until("the attempt counts as cut short by the restart", func() bool {
		const series = "millrace_restart_impact_tasks_total"
		return m.value(series+`{reason="lost"}`)+m.value(series+`{reason="taken_over"}`) == 1
	})
	m.reaches(`millrace_node_offline_total{node="w1",reason="silent"}`, 1)
	m.reaches(`millrace_nodes{state="offline"}`, 1)
	m.is("/readyz", http.StatusOK)
	second.Stop()
	m.reaches(`millrace_node_offline_total{node="w2",reason="goodbye"}`, 1)

	// Without a server a worker keeps running and reports what is wrong.
	third := p.Worker("w3", "--metrics", "127.0.0.1:0")
	w = metricsOf(third)
	w.is("/healthz", http.StatusOK)
	server.Kill()
	w.is("/healthz", http.StatusServiceUnavailable)
	if code, words := w.get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(words, "connection to NATS: down") {
		t.Errorf("/readyz is %d: %s", code, words)
	}
	// A worker has two connections, and is not healthy as soon as one of them is down.
	w.reaches(`millrace_connection_up{connection="millrace worker"}`, 0)
	third.Kill()
}

// An operator who exposes the metrics beyond the machine is warned.
func TestMetricsBeyondLoopback(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	dev := p.Dev("--metrics", "0.0.0.0:0")
	dev.Until("it warns", func() bool { return strings.Contains(dev.Said.String(), "beyond this machine") })
	dev.Stop()
}
