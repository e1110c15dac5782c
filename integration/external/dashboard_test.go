package external

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

type panel struct {
	ID      int    `json:"id"`
	Type    string `json:"type"`
	Title   string `json:"title"`
	GridPos struct {
		X, Y, W, H int
	} `json:"gridPos"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
}

// The dashboard asks only for series that exist, and no panel hides another.
func TestDashboardAsksForWhatThereIs(t *testing.T) {
	text, err := os.ReadFile("../../examples/monitoring/grafana/millrace.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []panel `json:"panels"`
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "5m", `=~"$queue"`, `=~".*"`)
	asked, ids := "", map[int]bool{}
	for i, p := range board.Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("%s has the id %d of another panel", p.Title, p.ID)
		}
		ids[p.ID] = true
		for _, other := range board.Panels[:i] {
			a, b := p.GridPos, other.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H || a.X+a.W > 24 {
				t.Errorf("%s and %s overlap, or do not fit", p.Title, other.Title)
			}
		}
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 || p.FieldConfig.Defaults.Unit == "" {
			t.Errorf("%s shows nothing, or without a unit", p.Title)
		}
		for _, target := range p.Targets {
			for _, problem := range problems(variables.Replace(target.Expr)) {
				t.Errorf("%s: %s\n%s", p.Title, problem, target.Expr)
			}
			asked += target.Expr + "\n"
		}
	}
	if strings.Contains(variables.Replace(asked), "$") {
		t.Error("there is a variable that nobody sets")
	}
}

// The checks must find mistakes.
func TestProblemsAreFound(t *testing.T) {
	for expr, want := range map[string]string{
		`max by (queue) (millrace_queue_depth)`:                            "",
		`millrace_queue_dept`:                                              "no series",
		`millrace_task_run_seconds`:                                        "no series", // a histogram has only its parts
		`millrace_queue_depth{node="n1"}`:                                  "no label node",
		`rate(millrace_task_attempts_total{outcome="finish"}[5m])`:         "can be finish",
		`rate(millrace_task_attempts_total{outcome=~"lost|released"}[5m])`: "",
		`sum by (le) (millrace_queue_depth)`:                               "groups",
		`sum by (le) (rate(millrace_task_run_seconds_bucket[5m]))`:         "",
		`millrace_queue_depth > 0 and on (node) millrace_queue_nodes`:      "matches",
		`max by (queue) (millrace_queue_depth`:                             "parse error",
		`up{job="x"} == 0 or process_resident_memory_bytes{instance="x"}`:  "",
	} {
		got := strings.Join(problems(expr), "; ")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: found %q, want %q", expr, got, want)
		}
	}
}
