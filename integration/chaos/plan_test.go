package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/internal/testkit"
)

func frame(scenario string) Frame {
	return Frame{Seed: 1, Scenario: scenario, Duration: 40 * time.Second, Workers: 3, Schedulers: 2, Lease: 6 * time.Second, Silence: 6 * time.Second}
}

// A seed that once found something must find it again: the plan that follows from a frame is part
// of what the command promises.
func TestPlansAreGolden(t *testing.T) {
	var b strings.Builder
	for _, name := range ScenarioNames() {
		steps, err := Plan(frame(name))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s\n", name)
		for _, s := range steps {
			fmt.Fprintf(&b, "  %s\n", s)
		}
	}
	path := filepath.Join("testdata", "plans.txt")
	if *testkit.Update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the plans are\n%swant\n%s", &b, want)
	}
}

func TestPlansHold(t *testing.T) {
	for _, name := range append(ScenarioNames(), "all") {
		for _, shape := range []Frame{
			frame(name),
			{Scenario: name, Duration: 8 * time.Second, Workers: 1, Schedulers: 1, Lease: 2 * time.Second, Silence: 2 * time.Second},
			{Scenario: name, Duration: 10 * time.Minute, Workers: 8, Schedulers: 3, Lease: 30 * time.Second, Silence: 15 * time.Second},
		} {
			for seed := range uint64(20) {
				f := shape
				f.Seed = seed
				steps, err := Plan(f)
				if err != nil {
					t.Fatal(err)
				}
				if len(steps) == 0 {
					t.Errorf("%+v: no steps", f)
				}
				checkSteps(t, f, steps)
				again, err := Plan(f)
				if err != nil || !reflect.DeepEqual(steps, again) {
					t.Errorf("%+v: another plan the second time", f)
				}
			}
		}
	}
}

func checkSteps(t *testing.T, f Frame, steps []Step) {
	t.Helper()
	n := size{f.Workers, f.Schedulers}
	for i, s := range steps {
		if err := s.validate(n); err != nil {
			t.Errorf("%+v: %s: %v", f, s, err)
		}
		if s.End() > f.Duration {
			t.Errorf("%+v: %s: ends after the end", f, s)
		}
		if i > 0 && s.At < steps[i-1].At {
			t.Errorf("%+v: %s: out of order", f, s)
		}
		if b, clashes := clash(s, steps[:i], n); clashes {
			t.Errorf("%+v: %s: clashes with %s", f, s, b)
		}
	}
}

func TestPlanDependsOnTheSeed(t *testing.T) {
	for _, name := range ScenarioNames() {
		f := frame(name)
		one, err := Plan(f)
		if err != nil {
			t.Fatal(err)
		}
		differs := false
		for f.Seed = 2; f.Seed < 6; f.Seed++ {
			other, err := Plan(f)
			if err != nil {
				t.Fatal(err)
			}
			differs = differs || !reflect.DeepEqual(one, other)
		}
		if !differs {
			t.Errorf("%s is the same for five seeds", name)
		}
	}
}

// Faults that are to be noticed last long enough.
func TestPausesOutlastLeases(t *testing.T) {
	f := frame("pause")
	f.Duration = 10 * time.Minute
	steps, err := Plan(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps[:len(steps)-1] { // the last one ends with the plan
		if s.For.Std() <= f.Lease {
			t.Errorf("%s: not longer than the lease, %v", s, f.Lease)
		}
	}
}

func TestPlanRefuses(t *testing.T) {
	for want, change := range map[string]func(*Frame){
		"there is no scenario":  func(f *Frame) { f.Scenario = "earthquake" },
		"want at least 5s":      func(f *Frame) { f.Duration = time.Second },
		"number of workers is":  func(f *Frame) { f.Workers = 0 },
		"schedulers make no se": func(f *Frame) { f.Lease = 0 },
	} {
		f := frame("kill")
		change(&f)
		if _, err := Plan(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestMembers(t *testing.T) {
	n := size{workers: 2, schedulers: 1}
	for target, want := range map[Target][]Target{
		"server":      {"server"},
		"workers":     {"worker-1", "worker-2"},
		"schedulers":  {"scheduler-1"},
		"all":         {"server", "scheduler-1", "worker-1", "worker-2"},
		"worker-2":    {"worker-2"},
		"callers":     {"callers"},
		"worker-3":    nil,
		"scheduler-2": nil,
		"worker":      nil,
		"":            nil,
	} {
		if got := n.members(target); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", target, got, want)
		}
	}
}
