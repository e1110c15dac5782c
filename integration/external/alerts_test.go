package external

import (
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/template"
)

func rules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	text, err := os.ReadFile("../../examples/monitoring/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(text, false, model.UTF8Validation, language, slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	var all []rulefmt.Rule
	for _, g := range groups.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no rules")
	}
	return all
}

var labelInText = regexp.MustCompile(`\$labels\.(\w+)`)

// Each rule parses, asks only for series that exist, and says what to do.
func TestAlertsAskForWhatThereIs(t *testing.T) {
	headings := sections(t, "../../docs/alerts.md")
	var names []string
	for _, r := range rules(t) {
		for _, p := range problems(r.Expr) {
			t.Errorf("%s: %s", r.Alert, p)
		}
		if slices.Contains(names, r.Alert) || !strings.HasPrefix(r.Alert, "Millrace") {
			t.Errorf("%s is there twice, or does not say that it is Millrace's", r.Alert)
		}
		names = append(names, r.Alert)
		if s := r.Labels["severity"]; s != "warning" && s != "critical" {
			t.Errorf("%s has the severity %q", r.Alert, s)
		}
		page, section, _ := strings.Cut(r.Annotations["runbook"], "#")
		if page != "docs/alerts.md" || !headings[section] {
			t.Errorf("%s leads to %q, which is no section of docs/alerts.md", r.Alert, r.Annotations["runbook"])
		}
		if r.Annotations["summary"] == "" || len(r.Annotations["description"]) < 20 {
			t.Errorf("%s does not say what has happened and what to do", r.Alert)
		}
	}
}

// sections are the headings of a page, in the form of links to them.
func sections(t *testing.T, page string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	fenced := false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		title := strings.TrimSpace(strings.TrimLeft(line, "#"))
		if fenced || !strings.HasPrefix(line, "#") {
			continue
		}
		link := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z':
				return r
			}
			return -1
		}, strings.ToLower(title))
		found[link] = true
	}
	return found
}

// calm is an installation in which all is well for half an hour: two servers with the same metrics,
// one of which restarts meanwhile, and a worker.
const calm = `load 1m
  millrace_horizon_held_seconds{by="task",instance="s1"} 7200+60x30
  millrace_task_oldest_pending_seconds{queue="default",instance="s1",job="millrace"} 0 20 290 0 0x30
  millrace_queue_depth{queue="default",instance="s1",job="millrace"} 0 3 5 0 0x30
  millrace_queue_depth{queue="idle",instance="s1",job="millrace"} 0x34
  millrace_queue_nodes{queue="default",instance="s1",job="millrace"} 2x34
  millrace_queue_unserved_tasks{queue="default",instance="s1",job="millrace"} 0x34
  millrace_queue_nodes{queue="idle",instance="s1",job="millrace"} 0x34
  millrace_task_oldest_pending_seconds{queue="shut",instance="s1",job="millrace"} 0+60x34
  millrace_queue_closed{queue="shut",why="paused",instance="s1",job="millrace"} 0x34
  millrace_queue_closed{queue="shut",why="window",instance="s1",job="millrace"} 1x34
  millrace_queue_depth{queue="shut",instance="s1",job="millrace"} 3x34
  millrace_queue_nodes{queue="shut",instance="s1",job="millrace"} 1x34
  millrace_queue_closed{queue="idle",why="paused",instance="s1",job="millrace"} 1x34
  millrace_start_deadline_expired_total{queue="default",instance="s1",job="millrace"} 7x34
  millrace_tasks_stuck{kind="running",instance="s1",job="millrace"} 0x34
  millrace_sweep_repairs_total{kind="offer",instance="s1",job="millrace"} 3x34
  millrace_dead_letters{kind="task",instance="s1",job="millrace"} 0x34
  millrace_tasks_ended_total{queue="default",state="finished",reason="none",instance="s1",job="millrace"} 0+100x20 0+100x14
  millrace_tasks_ended_total{queue="default",state="abnormal",reason="lost",instance="s1",job="millrace"} 1x34
  millrace_tasks_ended_total{queue="default",state="abnormal",reason="user",instance="s1",job="millrace"} 0+1x34
  millrace_restart_impact_tasks_total{reason="lost",instance="s1",job="millrace"} 0 2 4 4x31
  millrace_restart_impact_tasks_total{reason="released",instance="s1",job="millrace"} 0+10x34
  millrace_node_connections_total{node="n1",kind="start",instance="s1",job="millrace"} 1 1 1 2x31
  millrace_node_connections_total{node="n1",kind="start",instance="s2",job="millrace"} 1 1 1 2x31
  millrace_node_connections_total{node="n1",kind="return",instance="s1",job="millrace"} 0 0 2 2x31
  millrace_node_heartbeat_gap_seconds_bucket{le="7.5",instance="s1",job="millrace"} 0+12x34
  millrace_node_heartbeat_gap_seconds_bucket{le="+Inf",instance="s1",job="millrace"} 0+12x34
  millrace_node_reconnect_to_ready_seconds_bucket{until="ready",le="5",instance="s1",job="millrace"} 0+1x34
  millrace_node_reconnect_to_ready_seconds_bucket{until="ready",le="+Inf",instance="s1",job="millrace"} 0+1x34
  millrace_worker_lease_renewals_total{outcome="ok",instance="w1",job="millrace"} 0+60x34
  millrace_worker_lease_renewals_total{outcome="error",instance="w1",job="millrace"} 0 1 2 2x31
  millrace_worker_fetching{instance="w1",job="millrace"} 0 0 1 1x31
  millrace_read_model_lag_seconds{instance="s1",job="millrace"} 0 100 0 0x31
  millrace_read_model_sequence{instance="s1",job="millrace"} 0+100x34
  millrace_scheduler_last_look_timestamp_seconds{loop="sweep",instance="s1",job="millrace"} 0+60x34
  millrace_scheduler_last_look_timestamp_seconds{loop="sweep",instance="s2",job="millrace"} 0x34
  millrace_log_unreadable_total{instance="s1",job="millrace"} 2x34
  millrace_schedule_missed_total{reason="missed",instance="s1",job="millrace"} 4x34
  millrace_schedule_missed_total{reason="overlap",instance="s1",job="millrace"} 0+1x34
  millrace_schedule_lag_seconds_bucket{le="5",instance="s1",job="millrace"} 0+60x34
  millrace_schedule_lag_seconds_bucket{le="+Inf",instance="s1",job="millrace"} 0+60x34
  millrace_breaker_state{breaker="crawl",instance="s1",job="millrace"} 0 2 2 1 0x30
  millrace_limit_waiting{limit="job:crawl",instance="s1",job="millrace"} 0 5x33
  millrace_limit_in_use{limit="job:crawl",instance="s1",job="millrace"} 0 2x33
  millrace_limit_waiting{limit="rate:crawl",instance="s1",job="millrace"} 5x34
  millrace_limit_waiting{limit="key:crawl",instance="s1",job="millrace"} 0 1 0x32
  millrace_limit_in_use{limit="key:crawl",instance="s1",job="millrace"} 0x34
  millrace_connection_up{connection="millrace worker",instance="w1",job="millrace"} 1 0 1 1x31
  millrace_log_writable{instance="s1",job="millrace"} 1 0 1 1x31
  millrace_store_bytes{stream="output",instance="s1",job="millrace"} 100x34
  millrace_store_limit_bytes{stream="output",instance="s1",job="millrace"} 100x34
  millrace_store_bytes{stream="records",instance="s1",job="millrace"} 10 90 90 20x31
  millrace_store_limit_bytes{stream="records",instance="s1",job="millrace"} 100x34
  millrace_store_bytes{stream="log",instance="s1",job="millrace"} 0+100x34
  millrace_store_bytes{stream="all",instance="s1",job="millrace"} 300x34
  millrace_store_limit_bytes{stream="all",instance="s1",job="millrace"} 1000x34
  millrace_store_disk_free_bytes{instance="s1",job="millrace"} 600 40 40 600x31
  millrace_monitor_failures_total{source="tasks",instance="s1",job="millrace"} 0 1 1 1x31
  up{instance="s1",job="millrace"} 1x34
  up{instance="other",job="node"} 0x34
`

// trouble makes each alert fire, with these labels and this value.
var trouble = map[string]struct{ load, want string }{
	"MillracePendingTooLong": {`millrace_task_oldest_pending_seconds{queue="gpu",instance="s1"} 0+60x34
  millrace_task_oldest_pending_seconds{queue="gpu",instance="s2"} 0+60x34`, `{queue="gpu"} 1800`},
	"MillraceBreakerOpen": {`millrace_breaker_state{breaker="crawl",instance="s1"} 0 2 1 2x31
  millrace_breaker_state{breaker="index",instance="s1"} 0x34`, `{breaker="crawl"} 2`},
	"MillraceQueuePaused": {`millrace_queue_depth{queue="gpu",instance="s1"} 4x34
  millrace_queue_closed{queue="gpu",why="paused",instance="s1"} 1x34`, `{queue="gpu"} 4`},
	"MillraceQueueUnserved":          {`millrace_queue_unserved_tasks{queue="gpu",instance="s1"} 4x34`, `{queue="gpu"} 4`},
	"MillraceStartDeadlinesExpiring": {`millrace_start_deadline_expired_total{queue="gpu",instance="s1"} 0x25 5x9`, `{queue="gpu"}`},
	"MillraceTasksStuck":             {`millrace_tasks_stuck{kind="retrying",instance="s1"} 2x34`, `{kind="retrying"} 2`},
	"MillraceSweepRepairs":           {`millrace_sweep_repairs_total{kind="offer",instance="s1"} 0x25 1x9`, `{kind="offer"}`},
	"MillraceTasksLost":              {`millrace_tasks_ended_total{queue="gpu",state="abnormal",reason="poison",instance="s1"} 0x25 1x9`, `{queue="gpu", reason="poison"}`},
	"MillraceDeadLetters":            {`millrace_dead_letters{kind="message",instance="s1"} 2x34`, `{kind="message"} 2`},
	"MillraceLossesUp":               {`millrace_restart_impact_tasks_total{reason="taken_over",instance="s1"} 0+2x34`, `{reason="taken_over"} 30`},
	"MillraceNodeFlapping": {`millrace_node_connections_total{node="n9",kind="start",instance="s1"} 0x20 1 2 3x12
  millrace_node_connections_total{node="n9",kind="return",instance="s1"} 0x20 1 2 3x12`, `{node="n9"}`},
	"MillraceHeartbeatsLate": {`millrace_node_heartbeat_gap_seconds_bucket{le="10",instance="s1"} 0+6x34
  millrace_node_heartbeat_gap_seconds_bucket{le="15",instance="s1"} 0+7x34
  millrace_node_heartbeat_gap_seconds_bucket{le="+Inf",instance="s1"} 0+7x34`, `{}`},
	"MillraceNodesSlowToReady": {`millrace_node_reconnect_to_ready_seconds_bucket{until="ready",le="10",instance="s1"} 0x34
  millrace_node_reconnect_to_ready_seconds_bucket{until="ready",le="20",instance="s1"} 0+1x34
  millrace_node_reconnect_to_ready_seconds_bucket{until="ready",le="+Inf",instance="s1"} 0+1x34`, `{until="ready"}`},
	"MillraceLeaseRenewalsFailing": {`millrace_worker_lease_renewals_total{outcome="error",instance="w1"} 0+2x34`, `{instance="w1"} 10`},
	"MillraceWorkerNotFetching":    {`millrace_worker_fetching{instance="w1"} 1x20 0x14`, `{instance="w1"} 0`},
	"MillraceReadModelBehind":      {`millrace_read_model_lag_seconds{instance="s1"} 0x20 0+60x14`, `{instance="s1"}`},
	"MillraceSchedulerStalled": {`millrace_scheduler_last_look_timestamp_seconds{loop="sweep",instance="s1"} 600x34
  millrace_scheduler_last_look_timestamp_seconds{loop="sweep",instance="s2"} 0x34`, `{loop="sweep"} 1200`},
	"MillraceLimitStalled": {`millrace_limit_waiting{limit="job:index",instance="s1"} 7x34
  millrace_limit_in_use{limit="job:index",instance="s1"} 0x34`, `{limit="job:index"} 7`},
	"MillraceScheduleMissed": {`millrace_schedule_missed_total{reason="stranger",instance="s1"} 0x25 3x9`, `{reason="stranger"}`},
	"MillraceScheduleLate": {`millrace_schedule_lag_seconds_bucket{le="5",instance="s1"} 0x34
  millrace_schedule_lag_seconds_bucket{le="10",instance="s1"} 0+60x34
  millrace_schedule_lag_seconds_bucket{le="+Inf",instance="s1"} 0+60x34`, `{}`},
	"MillraceLogUnreadable": {`millrace_log_unreadable_total{instance="s1"} 0x25 1x9`, `{}`},
	"MillraceLogMute": {`millrace_log_writable{instance="s1"} 1x20 0x14
  millrace_log_writable{instance="s2"} 1x34`, `{instance="s1"} 0`},
	"MillraceStoreFilling": {`millrace_store_bytes{stream="records",instance="s1"} 270x34
  millrace_store_limit_bytes{stream="records",instance="s1"} 300x34
  millrace_store_bytes{stream="output",instance="s1"} 300x34
  millrace_store_limit_bytes{stream="output",instance="s1"} 300x34`, `{stream="records"} 0.9`},
	"MillraceLogHeldBack": {`millrace_horizon_held_seconds{by="task",instance="s1"} 6e6x34
  millrace_horizon_held_seconds{by="task",instance="s2"} 0x34`, `{by="task"} 6e+06`},
	"MillraceDiskFilling": {`millrace_store_disk_free_bytes{instance="s1"} 40x34
  millrace_store_limit_bytes{stream="all",instance="s1"} 1000x34`, `{instance="s1"} 0.04`},
	"MillraceConnectionDown": {`millrace_connection_up{connection="millrace worker",instance="w1"} 1x20 0x14`, `{connection="millrace worker", instance="w1"} 0`},
	"MillraceFiguresMissing": {`millrace_monitor_failures_total{source="tasks",instance="s1"} 0+1x34`, `{instance="s1", source="tasks"} 5`},
	"MillraceGoroutinesGrow": {`go_goroutines{instance="s1",job="millrace"} 100x14 9000x20`, `{instance="s1", job="millrace"} 9000`},
	"MillraceDown":           {`up{instance="w1",job="millrace-workers"} 1x20 0x14`, `{instance="w1", job="millrace-workers"} 0`},
	"MillraceNoServer":       {`millrace_read_model_sequence{instance="s1"} 5x10 stale`, `{} 1`},
}

// What an alert says of a queue also holds for tasks that wait for one node.
func TestAlertsSpeakOfNodes(t *testing.T) {
	for _, r := range rules(t) {
		for _, words := range []string{r.Annotations["summary"], r.Annotations["description"]} {
			if !strings.Contains(words, "$labels.queue") {
				continue
			}
			for queue, bad := range map[string]string{"gpu": "node gpu", "node w3": "queue node w3"} {
				text := "{{ $labels := .Labels }}{{ $value := .Value }}" + words
				data := template.AlertTemplateData(map[string]string{"queue": queue, "reason": "lost"}, nil, "", promql.Sample{F: 301})
				said, err := template.NewTemplateExpander(t.Context(), text, r.Alert, data, 0, nil, &url.URL{}, nil).Expand()
				if err != nil || strings.Contains(said, bad) || strings.Contains(said, "--queue node") || !strings.Contains(said, queue) && strings.Contains(words, "{{ else }}in queue") {
					t.Errorf("%s says of %s: %s, %v", r.Alert, queue, said, err)
				}
			}
		}
	}
}

// looked is when the rules are looked at: at the end of half an hour.
const looked = 30 * time.Minute

// Each alert fires, after its time, when there is a reason, and has the labels that its text uses.
func TestAlertsFire(t *testing.T) {
	for _, r := range rules(t) {
		t.Run(r.Alert, func(t *testing.T) {
			c, ok := trouble[r.Alert]
			if !ok {
				t.Fatal("no series here make it fire: add them")
			}
			load := "load 1m\n  " + c.load + "\n"
			firing := evaluate(t, load, r, looked)
			if len(firing) != 1 {
				t.Fatalf("it fires as %v, want once", firing)
			}
			if got := describe(firing[0]); !strings.HasPrefix(got, c.want) {
				t.Errorf("it fires as %s, want %s", got, c.want)
			}
			words := r.Annotations["summary"] + r.Annotations["description"]
			for _, m := range labelInText.FindAllStringSubmatch(words, -1) {
				if firing[0].Metric.Get(m[1]) == "" {
					t.Errorf("its words name the label %s, which it does not have", m[1])
				}
			}
			// And all the time that it asks for, or it would never get so far.
			if before := evaluate(t, load, r, looked-time.Duration(r.For)); len(before) != 1 {
				t.Errorf("it does not hold for the %v before", r.For)
			}
		})
	}
	for name := range trouble {
		if !slices.ContainsFunc(rules(t), func(r rulefmt.Rule) bool { return r.Alert == name }) {
			t.Errorf("there is no alert %s", name)
		}
	}
}

// No alert fires at any minute while all is well; its condition may hold for less than its time. A
// calm that lacks a series of an alert would prove nothing.
func TestAlertsAreSilent(t *testing.T) {
	for _, r := range rules(t) {
		firing := 0
		for at := time.Minute; at <= looked; at += time.Minute {
			if len(evaluate(t, calm, r, at)) == 0 {
				firing = 0
				continue
			}
			if firing++; time.Duration(firing)*time.Minute > time.Duration(r.For) {
				t.Errorf("%s fires after %v: %v", r.Alert, at, evaluate(t, calm, r, at))
				break
			}
		}
		for _, name := range regexp.MustCompile(`\b(millrace_\w+|up)\b`).FindAllString(r.Expr, -1) {
			if !strings.Contains(calm, "\n  "+name+"{") {
				t.Errorf("%s asks for %s, of which the calm has no series", r.Alert, name)
			}
		}
	}
}

func evaluate(t *testing.T, load string, r rulefmt.Rule, at time.Duration) promql.Vector {
	t.Helper()
	store := promqltest.LoadedStorage(t, load)
	defer store.Close()
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	q, err := engine.NewInstantQuery(t.Context(), store, nil, r.Expr, time.Unix(0, 0).Add(at))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	v, err := q.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(v)
}

// describe is a series without its name, and its value.
func describe(s promql.Sample) string {
	return fmt.Sprintf("%s %v", s.Metric.DropReserved(func(name string) bool { return name == model.MetricNameLabel }), s.F)
}
