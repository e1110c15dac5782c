package node

import (
	"strings"
	"testing"
	"time"

	"millrace/task"
)

// Only names that are never given again look generated.
func TestGenerated(t *testing.T) {
	for id, want := range map[ID]bool{
		"web-7d9f8c6b5-x2x9z":                    true,
		"my-app-web-6d4cf56db6-bcd24":            true,
		"report-28123456-x2x9z":                  true,
		"3f2a9c1b7d4e":                           true,
		"e2865641be9786":                         true,
		"i-0abc1234":                             true,
		"i-0abcdef1234567890":                    true,
		"w-0e37df36-f698-11e6-8dd4-cb9ced3df976": true,
		"web-0":                                  false, // a stateful set gives it again
		"web-12":                                 false,
		"host-2":                                 false,
		"ip-10-0-0-1":                            false,
		"i-robot":                                false,
		"gpu1":                                   false,
		"worker-srv24":                           false,
		"rack-prd25-srv24":                       false,
		"build-20260301":                         false,
		"node-a":                                 false,
		"laptop":                                 false,
		"cafe":                                   false,
		"3f2a9c1b7d4e0":                          false,
		"00000000-0000-0000-0000-00000000000g":   false,
		"frankfurt-production-machine":           false,
	} {
		if Generated(id) != want {
			t.Errorf("%s: %v", id, !want)
		}
	}
}

// A node that stays offline retires by itself, unless an operator's word keeps it: an order, or labels.
func TestForget(t *testing.T) {
	const day = 24 * time.Hour
	offline := func(id ID, more ...Event) Node {
		n := Node{ID: id}
		for i, e := range append([]Event{Registered{Session: "s"}, WentOnline{Session: "s"}, WentOffline{Session: "s"}}, more...) {
			n = Evolve(n, Recorded{Seq: uint64(i + 1), At: noon.Add(time.Duration(i) * time.Hour), Actor: "ann", Event: e})
		}
		return n
	}
	went := noon.Add(2 * time.Hour) // when it went
	for name, c := range map[string]struct {
		n     Node
		after time.Duration
		at    time.Time
		kept  string
	}{
		"offline":            {offline("host"), day, went.Add(day), ""},
		"a generated name":   {offline("3f2a9c1b7d4e"), day, went.Add(time.Hour), ""},
		"one, with less":     {offline("3f2a9c1b7d4e"), time.Minute, went.Add(time.Minute), ""},
		"off":                {offline("3f2a9c1b7d4e"), 0, time.Time{}, ""},
		"cordoned":           {offline("host", Changed{Order: OrderCordon, Reason: "repair"}), day, time.Time{}, "cordoned by ann: repair"},
		"drained":            {offline("host", Changed{Order: OrderDrain}), day, time.Time{}, "drained by ann"},
		"uncordoned later":   {offline("host", Changed{Order: OrderCordon}, Changed{Order: OrderServe}), day, noon.Add(4*time.Hour + day), ""},
		"labelled":           {offline("host", Labelled{Labels: map[string]*string{"rack": new("r1")}}), day, time.Time{}, "labels"},
		"alive":              {offline("host", WentOnline{Session: "s", Connection: 2}), day, time.Time{}, ""},
		"retired":            {offline("host", WasRetired{}), day, time.Time{}, ""},
		"never there":        {Node{ID: "host"}, day, time.Time{}, ""},
		"started, not there": {offline("host", Registered{Session: "s2"}), day, noon.Add(3*time.Hour + day), ""},
	} {
		at, kept := c.n.Retires(c.after)
		if !at.Equal(c.at) || !strings.Contains(kept, c.kept) || c.kept == "" && kept != "" {
			t.Errorf("%s: %v, %q; want %v, %q", name, at, kept, c.at, c.kept)
		}
		last := c.at
		if last.IsZero() {
			last = noon.Add(1000 * day)
		}
		for when, due := range map[time.Time]bool{last.Add(-time.Nanosecond): false, last: !c.at.IsZero()} {
			e, err := Decide(c.n, Forget{At: when, After: c.after})
			if (e != nil) != due || err != nil {
				t.Errorf("%s, at %v: %+v, %v", name, when, e, err)
			}
		}
		duty := Owes(c.n, Settings{TTL: time.Minute, RetireAfter: c.after})
		if c.n.LinkReason != firstReason && c.n.State == Offline && (!duty.By.Equal(c.at) || !strings.Contains(duty.Else, c.kept)) {
			t.Errorf("%s: its duty is %+v", name, duty)
		}
	}
	e, _ := Decide(offline("3f2a9c1b7d4e"), Forget{At: went.Add(day), After: day})
	if e != (WasRetired{Reason: "it has been offline for 1h0m0s, and its name looks generated"}) {
		t.Errorf("it is %+v", e)
	}
	by := DecidedBy(Forget{At: noon, After: day})
	if by == nil || !by.At.Equal(noon) || by.Bounds == nil || by.Bounds.RetireAfter.Std() != day {
		t.Errorf("it is decided by %+v", by)
	}
}

// The wait of tasks that no node took begins anew when an order ends: a node that was cordoned takes
// work since then, not since it was ready.
func TestTakesSince(t *testing.T) {
	n := Node{ID: "a"}
	for i, e := range []Event{Registered{Session: "s", Profile: Profile{Queues: []string{"q"}}}, WentOnline{Session: "s"}, BecameReady{Session: "s"},
		Changed{Order: OrderCordon}, Changed{Order: OrderServe}} {
		n = Evolve(n, Recorded{Seq: uint64(i + 1), At: noon.Add(time.Duration(i) * time.Minute), Event: e})
	}
	free := noon.Add(4 * time.Minute)
	w := NewFleet([]Node{n}, 5, noon.Add(time.Hour))
	for _, route := range []task.Work{{Route: "q.5"}, {Route: "@a.5"}} {
		if around := w.Around(&task.Task{State: task.Pending, Work: route}); around.Serving != 1 || !around.Served.Equal(free) {
			t.Errorf("%s: served by %d since %v, want %v", route.Route, around.Serving, around.Served, free)
		}
	}
}
