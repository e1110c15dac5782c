package chaos

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/limit"
)

// A third of a load stands under limits, under every policy, and none of these tasks is refused.
func TestLimitsOfALoad(t *testing.T) {
	kinds := map[string]int{}
	for _, o := range workload(3, 2*time.Minute, 10, 0, 6*time.Second) {
		s := o.submission
		label := s.Labels[labelLimit]
		if (label != "") != s.Spec.Limited() {
			t.Errorf("a task of kind %q has limits: %v", label, s.Spec.Limited())
		}
		if _, err := birth.Of(s, nil, 0, noon); err != nil {
			t.Error(err)
		}
		kinds[label]++
	}
	want := []string{"", "both", "cancel-old", "fail", "rate", "skip", "wait"}
	if got := slices.Sorted(maps.Keys(kinds)); !slices.Equal(got, want) || kinds[""] < 600 || kinds[""] > 960 {
		t.Errorf("%v", kinds)
	}
}

// The judge compares what ran with the limits: at most Max tasks at once, and no start before the
// rate allows it.
func TestJudgeLimits(t *testing.T) {
	two := &job.Spec{Concurrency: []limit.Concurrency{{Max: 2, Key: "/k"}}}
	slow := &job.Spec{Rate: []limit.Rate{{Limit: 2, Burst: 2, Key: "/r"}}} // one in half a second
	tasks := map[task.ID]limited{"a": {two, 1}, "b": {two, 1}, "c": {two, 1}, "p": {slow, 1}, "q": {slow, 1}, "r": {slow, 1}, "s": {slow, 9}}
	never := func(*Stint) float64 { return math.Inf(1) }
	for _, c := range []struct {
		name, runs string
		suspended  func(*Stint) float64
		broken     string
		most       int
	}{
		{"two at a time", "begins a n 1 10\nbegins b n 2 10\nends a n 1 12\nbegins c n 3 12\nends b n 2 13\n", never, "", 2},
		{"three", "begins a n 1 10\nbegins b n 2 10\nbegins c n 3 11\nends a n 1 12\nends b n 2 12\n", never, "the limit /k of 2", 3},
		{"one task twice", "begins a n 1 10\nbegins a n 2 11\nbegins b n 3 11\nends a n 1 12\nends a n 2 12\n", never, "", 2},
		{"the worker of one was suspended", "begins a n 1 10\nbegins b n 2 10\nbegins c n 3 11\nends a n 1 12\nends b n 2 12\n",
			func(s *Stint) float64 {
				if s.Task == "a" {
					return 10.5
				}
				return math.Inf(1)
			}, "", 2},
		{"who stands under none", "begins x n 1 10\nbegins y n 2 10\nbegins z n 3 10\n", never, "", 0},
		{"a burst, and then one in half a second", "begins p n 1 1.1\nbegins q n 2 1.1\nbegins r n 3 1.6\n", never, "", 0},
		{"what was admitted waits for a worker", "begins p n 1 7\nbegins q n 2 7\nbegins r n 3 7\n", never, "", 0},
		{"too soon", "begins p n 1 1.1\nbegins q n 2 1.1\nbegins r n 3 1.2\n", never, "the rate /r was exceeded", 0},
		{"before it was asked for", "begins p n 1 7\nbegins q n 2 7\nbegins r n 3 7\nbegins s n 4 8\n", never, "the rate /r was exceeded", 0},
		{"a second attempt takes nothing", "begins p n 1 1\nbegins p n 2 1.1\nbegins p n 3 1.1\nbegins q n 4 1.1\n", never, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			all, err := ReadStints(c.runs)
			if err != nil {
				t.Fatal(err)
			}
			r, broken := judgeLimits(all, tasks, c.suspended)
			text := strings.Join(broken, "\n")
			if (text == "") != (c.broken == "") || !strings.Contains(text, c.broken) || r.Most["/k"] != c.most || r.Exceeded != len(broken) {
				t.Errorf("%q, %+v; want %q and %d at once", text, r, c.broken, c.most)
			}
		})
	}
}
