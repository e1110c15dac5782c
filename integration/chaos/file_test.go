package chaos

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/task/value"
)

func seconds(n int) value.Duration { return value.Duration(time.Duration(n) * time.Second) }

func TestParseSteps(t *testing.T) {
	const file = `# an outage
steps:
  - {at: 5s, fault: delay, target: worker-2, for: 3s}
  - at: 2s
    fault: kill
    target: all
    for: 1s
  - {at: 9s, fault: throttle, target: workers, for: 500ms, rate: 1000}
  - {at: 9s, fault: drop, target: scheduler-1, for: 1s, every: 2}
`
	got, err := ParseSteps("outage.yaml", []byte(file), 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := []Step{
		{At: seconds(2), Fault: Kill, Target: All, For: seconds(1)},
		{At: seconds(5), Fault: Delay, Target: "worker-2", For: seconds(3), Delay: value.Duration(200 * time.Millisecond)},
		{At: seconds(9), Fault: Throttle, Target: Workers, For: value.Duration(500 * time.Millisecond), Rate: 1000},
		{At: seconds(9), Fault: Drop, Target: "scheduler-1", For: seconds(1), Every: 2},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
}

// Every mistake is named with its line.
func TestParseStepsRefuses(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"not YAML":       {"steps: [", "f.yaml: "},
		"empty":          {"", "0 YAML documents"},
		"two documents":  {"steps: []\n---\nsteps: []\n", "2 YAML documents"},
		"no steps":       {"steps: []\n", "f.yaml:1: steps: the list is empty"},
		"other field":    {"stesp: []\n", "f.yaml:1: unknown field `stesp`"},
		"not a list":     {"steps: 3\n", "f.yaml:1: steps: want a list"},
		"not a step":     {"steps:\n  - kill\n", "f.yaml:2: want fields"},
		"unknown field":  {"steps:\n  - {at: 1s, fault: kill, target: all, for: 1s, form: 2s}\n", "f.yaml:2: unknown field `form`"},
		"missing field":  {"steps:\n  - {at: 1s, fault: kill, target: all}\n", "f.yaml:2: the step has no field `for`"},
		"no duration":    {"steps:\n  - at: 1s\n    for: soon\n    fault: kill\n    target: all\n", "f.yaml:3: for: "},
		"unknown fault":  {"steps:\n  - {at: 1s, fault: melt, target: all, for: 1s}\n", `f.yaml:2: there is no fault "melt"`},
		"unknown target": {"steps:\n\n  - {at: 1s, fault: kill, target: worker-9, for: 1s}\n", `f.yaml:3: there is no target "worker-9"`},
		"link of server": {"steps:\n  - {at: 1s, fault: cut, target: server, for: 1s}\n", "f.yaml:2: cut is a fault of a link"},
		"older pusher":   {"steps:\n  - {at: 1s, fault: older, target: pusher, for: 1s}\n", "f.yaml:2: older is a fault of servers and workers"},
		"odd field":      {"steps:\n  - {at: 1s, fault: cut, target: workers, for: 1s, rate: 3}\n", "f.yaml:2: delay belongs to the faults delay and stall, rate to throttle"},
		"no number":      {"steps:\n  - {at: 1s, fault: throttle, target: workers, for: 1s, rate: much}\n", `f.yaml:2: rate: "much" is no whole number`},
		"two at once": {
			"steps:\n  - {at: 1s, fault: cut, target: worker-1, for: 3s}\n  - {at: 2s, fault: kill, target: workers, for: 1s}\n",
			"f.yaml:3: workers has another fault at that time, from the step on line 2",
		},
		"several mistakes": {"steps:\n  - {at: 1s}\n  - {fault: kill}\n", "f.yaml:3: "},
	} {
		t.Run(name, func(t *testing.T) {
			steps, err := ParseSteps("f.yaml", []byte(c.file), 2, 2)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, %v, want %q", steps, err, c.want)
			}
		})
	}
}

func FuzzParseSteps(f *testing.F) {
	f.Add([]byte("steps:\n  - {at: 1s, fault: kill, target: all, for: 1s}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		steps, err := ParseSteps("f.yaml", text, 2, 2)
		if err != nil {
			return
		}
		for i, s := range steps {
			if err := s.validate(size{2, 2}); err != nil {
				t.Errorf("%s: %v", s, err)
			}
			if _, clashes := clash(s, steps[:i], size{2, 2}); clashes {
				t.Errorf("%s clashes", s)
			}
		}
	})
}
