package metrics

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"millrace/task/quota"
)

// All keys of a limit are one series, for any number of keys.
func TestLimitsAreBounded(t *testing.T) {
	rate := func(left int) *quota.RateState { return &quota.RateState{Limit: 5, Left: left} }
	list := []quota.CounterState{
		{Name: "job:crawl", Max: 3, InUse: 3, Waiting: 7},
		{Name: "key:/site", Max: 2, InUse: 1},
		{Name: "rate:crawl", Waiting: 4, Rate: rate(0)},
		{Name: "rate:index/a", Rate: rate(2)}, {Name: "rate:index/b", Rate: rate(3), Waiting: 1},
	}
	for i := range 1000 {
		list = append(list, quota.CounterState{Name: fmt.Sprintf("key:crawl/http://customer/%d", i), Max: 1, InUse: i % 2, Waiting: 1})
	}
	l := NewLimits()
	seen := func() string {
		var lines []string
		l.Collect(func(f *Family, value float64, _ *Histogram, labels ...string) {
			lines = append(lines, fmt.Sprintf("%s%v%v", strings.TrimPrefix(f.Name, "millrace_limit_"), labels, value))
		})
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	if got := seen(); got != "" {
		t.Errorf("without a scheduler there are %s", got)
	}
	l.Watch(func() []quota.CounterState { return list })
	want := `in_use[job:crawl]3
in_use[key:]1
in_use[key:crawl]500
places[job:crawl]3
places[key:]2
places[key:crawl]1000
rate_left[rate:crawl]0
rate_left[rate:index]5
waiting[job:crawl]7
waiting[key:]0
waiting[key:crawl]1000
waiting[rate:crawl]4
waiting[rate:index]1`
	if got := seen(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	list = nil
	for i := range 3 * MaxLimits {
		list = append(list, quota.CounterState{Name: fmt.Sprintf("job:%d", i), Max: 1})
	}
	if n := strings.Count(seen(), "places"); n > MaxLimits+1 {
		t.Errorf("there are %d series", n)
	}
}
