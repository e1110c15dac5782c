package queue

import (
	"reflect"
	"testing"
	"time"

	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/value"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	four, none, bad := 4, 0, -1
	night, always, noName := "night", "", "a b"
	rate, noRate, keyed := limit.Rate{Limit: 100, Per: value.Duration(time.Minute), Burst: 5}, limit.Rate{}, limit.Rate{Limit: 1, Key: "a"}
	told := []job.Notify{{On: []string{"failure", Unserved}, To: []string{"oncall"}}}
	paused := Queue{Name: "q", Head: 1, Paused: &Pause{Since: noon, By: "ann", Reason: "closed"}}
	brief := Queue{Name: "q", Head: 1, Paused: &Pause{Since: noon, Until: noon.Add(time.Hour)}}
	for _, c := range []struct {
		name string
		q    Queue
		c    Command
		at   time.Time
		want Event
	}{
		{"pause", Queue{}, PauseFor{Reason: "closed"}, noon, Paused{Reason: "closed"}},
		{"pause for a while", Queue{}, PauseFor{For: time.Hour}, noon, Paused{Until: noon.Add(time.Hour)}},
		{"pause again", paused, PauseFor{Reason: "closed"}, noon, nil},
		{"pause for another reason", paused, PauseFor{Reason: "fire"}, noon, Paused{Reason: "fire"}},
		{"pause what was paused for a while", brief, PauseFor{}, noon.Add(time.Hour), Paused{}},
		{"resume", paused, Resume{Reason: "open"}, noon, Resumed{Reason: "open"}},
		{"resume what is not paused", Queue{}, Resume{}, noon, nil},
		{"resume what has resumed by itself", brief, Resume{}, noon.Add(time.Hour), nil},
		{"limit", Queue{MaxWaiting: 9}, Limit{Running: &four}, noon, Limited{Running: 4, Waiting: 9}},
		{"bound", Queue{Limit: 2}, Limit{Waiting: &four}, noon, Limited{Running: 2, Waiting: 4}},
		{"no limit", Queue{Limit: 4, MaxWaiting: 1}, Limit{Running: &none, Waiting: &none}, noon, Limited{}},
		{"the same limit", Queue{Limit: 4}, Limit{Running: &four}, noon, nil},
		{"rate", Queue{Limit: 4, MaxWaiting: 1}, Limit{Rate: &rate}, noon, Limited{Running: 4, Waiting: 1, Rate: rate}},
		{"a limit beside a rate", Queue{Rate: rate}, Limit{Running: &four}, noon, Limited{Running: 4, Rate: rate}},
		{"no rate", Queue{Limit: 4, Rate: rate}, Limit{Rate: &noRate}, noon, Limited{Running: 4}},
		{"the same rate", Queue{Rate: rate}, Limit{Rate: &rate}, noon, nil},
		{"window", Queue{Limit: 4, Rate: rate}, Limit{Window: &night}, noon, Limited{Running: 4, Rate: rate, Valve: Valve{Window: "night"}}},
		{"a limit beside a window", Queue{Valve: Valve{Window: "night"}}, Limit{Running: &four}, noon, Limited{Running: 4, Valve: Valve{Window: "night"}}},
		{"no window", Queue{Limit: 4, Valve: Valve{Window: "night"}}, Limit{Window: &always}, noon, Limited{Running: 4}},
		{"the same window", Queue{Valve: Valve{Window: "night"}}, Limit{Window: &night}, noon, nil},
		{"who is told", Queue{Limit: 4}, Limit{Notify: told}, noon, Limited{Running: 4, Notify: told}},
		{"a limit beside who is told", Queue{Notify: told}, Limit{Running: &four}, noon, Limited{Running: 4, Notify: told}},
		{"nobody is told any more", Queue{Notify: told}, Limit{Notify: []job.Notify{}}, noon, Limited{}},
		{"the same are told", Queue{Notify: told}, Limit{Notify: told}, noon, nil},
	} {
		got, err := Decide(c.q, c.c, c.at)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
	for _, c := range []Command{PauseFor{For: -1}, Limit{Running: &bad}, Limit{Rate: &keyed}, Limit{Rate: &limit.Rate{Limit: -1}}, Limit{Rate: &limit.Rate{Burst: 3}}, Limit{Window: &noName}, Limit{Notify: []job.Notify{{On: []string{"failure"}}}}, Limit{Notify: []job.Notify{{On: []string{"node"}, To: []string{"oncall"}}}}} {
		if _, err := Decide(Queue{}, c, noon); err == nil {
			t.Errorf("%+v is not refused", c)
		}
	}
	q := Queue{Name: "q"}
	for i, e := range []Event{Paused{Reason: "closed"}, Limited{Running: 4}, Limited{Running: -3, Waiting: 7}, Purged{Ended: 3}, nil} {
		q = Evolve(q, uint64(i+1), noon, "ann", e)
	}
	if q.Head != 5 || q.Limit != 0 || q.MaxWaiting != 7 || !reflect.DeepEqual(q.Paused, paused.Paused) {
		t.Errorf("the facts add up to %+v", q)
	}
	if q = Evolve(q, 5, noon, "bob", Resumed{}); q.Paused == nil {
		t.Error("a fact counted twice")
	}
	for i, window := range []string{"night", "a b", "night", ""} {
		q = Evolve(q, uint64(i+6), noon, "ann", Limited{Valve: Valve{Window: window}})
		if want := []string{"night", "", "night", ""}[i]; q.Window != want {
			t.Errorf("after the window %q it has %q, want %q", window, q.Window, want)
		}
	}
	for i, e := range []Limited{{Notify: told}, {Notify: []job.Notify{{}}}} {
		q = Evolve(q, uint64(i+10), noon, "ann", e)
		if !reflect.DeepEqual(q.Notify, [][]job.Notify{told, nil}[i]) {
			t.Errorf("after %+v it tells %+v", e, q.Notify)
		}
	}
}

func TestBoundsInWords(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]Limited{
		"any number may run at once; any number may wait":                                                        {},
		"at most 4 may run at once; at most 9 may wait":                                                          {Running: 4, Waiting: 9},
		"any number may run at once; any number may wait; tells a, b; tells c of failure, queue":                 {Notify: []job.Notify{{To: []string{"a", "b"}}, {On: []string{"failure", "queue"}, To: []string{"c"}}}},
		"any number may run at once; any number may wait; 100 in 1m0s, 5 at once may start; in the window night": {Rate: limit.Rate{Limit: 100, Per: value.Duration(time.Minute), Burst: 5}, Valve: Valve{Window: "night"}},
	} {
		if is := e.Words(); is != want {
			t.Errorf("%+v: %q, want %q", e, is, want)
		}
	}
}

func TestOpenSince(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		said []Event // a minute from one to the next
		want time.Time
	}{
		"never paused":            {nil, time.Time{}},
		"paused":                  {[]Event{Paused{}}, time.Time{}},
		"resumed":                 {[]Event{Paused{}, Resumed{}}, noon.Add(time.Minute)},
		"resumed, but not paused": {[]Event{Resumed{}}, time.Time{}},
		"bounded since":           {[]Event{Paused{}, Resumed{}, Limited{Running: 1}}, noon.Add(time.Minute)},
		"paused for a while":      {[]Event{Paused{Until: noon.Add(5 * time.Minute)}}, noon.Add(5 * time.Minute)},
		"paused for longer":       {[]Event{Paused{Until: noon.Add(time.Hour)}}, time.Time{}},
		"resumed before its end":  {[]Event{Paused{Until: noon.Add(5 * time.Minute)}, Resumed{}}, noon.Add(time.Minute)},
	} {
		q := Queue{Name: "q"}
		for i, e := range c.said {
			q = Evolve(q, uint64(i+1), noon.Add(time.Duration(i)*time.Minute), "ann", e)
		}
		if got := q.OpenSince(noon.Add(10 * time.Minute)); !got.Equal(c.want) {
			t.Errorf("%s: open since %v, want %v", name, got, c.want)
		}
	}
}
