package node

import (
	"strings"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/placement"
	"millrace/task/value"
)

// However often a node's process restarts, the tasks of each session may start elsewhere when that
// session would have fallen silent, and at the latest 3 s after its successor came.
func TestGone(t *testing.T) {
	at := func(s float64) time.Time {
		return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(s * float64(time.Second)))
	}
	var n Node
	for seq, r := range []struct {
		session   string
		at, until time.Time
	}{
		{"first", at(0), time.Time{}},
		{"second", at(10), at(12)},   // its heartbeat would have lasted another 2 s
		{"third", at(11), at(17)},    // and that of the second for 6 s: a heartbeat is not awaited that long
		{"fourth", at(12), at(11.5)}, // the third had no heartbeat any more
		{"fifth", at(20), time.Time{}},
	} {
		n = Evolve(n, Recorded{Seq: uint64(2*seq + 1), At: r.at, Event: Registered{Session: r.session, Until: r.until}})
		n = Evolve(n, Recorded{Seq: uint64(2*seq + 2), At: r.at, Event: WentOnline{Session: r.session}})
		for session, want := range map[string][]time.Time{
			"first":  {{}, at(12), at(12), at(14), at(12)},
			"second": {{}, {}, at(14), at(14), at(12)},
			"third":  {{}, {}, {}, at(12), at(12)},
			"fourth": {{}, {}, {}, {}, at(23)},
			"fifth":  {{}, {}, {}, {}, {}},
		} {
			if seq == 0 && session != r.session || want[seq].IsZero() && session != r.session {
				continue // it has not begun
			}
			got := n.Gone(session)
			if session != r.session && got.After(n.Started.Add(Succession)) || got != want[seq] {
				t.Errorf("after the %s session the %s is gone since %v, want %v", r.session, session, got, want[seq])
			}
		}
	}
}

// A task is suspect as soon as a heartbeat of its node is missing, with the time at which it moves
// if no other comes.
func TestDoubts(t *testing.T) {
	const ttl = 6 * time.Second
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ready := Node{ID: "a", State: Ready, Session: "s1", Started: now.Add(-time.Hour)}
	with := func(state State, since time.Time) Node {
		n := ready
		n.State, n.Since = state, since
		return n
	}
	beat := func(ago time.Duration) map[ID]Heartbeat {
		return map[ID]Heartbeat{"a": {Session: "s1", At: now.Add(-ago)}}
	}
	says := func(ago time.Duration, every, ttl int) map[ID]Heartbeat {
		b := beat(ago)
		h := b["a"]
		h.Every, h.TTL = value.Duration(every)*value.Duration(time.Second), value.Duration(ttl)*value.Duration(time.Second)
		b["a"] = h
		return b
	}
	succeeded := ready
	succeeded.Session, succeeded.Started = "s2", now.Add(-time.Second)
	running := task.Task{State: task.Running, Node: "a", Session: "s1"}
	waiting := task.Task{State: task.Pending, Work: task.Work{Route: placement.NodeRoute("a", 5)}}
	never := time.Time{}

	for name, c := range map[string]struct {
		task      task.Task
		nodes     []Node
		beats     map[ID]Heartbeat
		want      string // "" for no doubt
		since, by time.Time
	}{
		"all is well":                     {running, []Node{ready}, beat(2 * time.Second), "", never, never},
		"one heartbeat is missing":        {running, []Node{ready}, beat(5 * time.Second), "late with its heartbeat", now.Add(-5 * time.Second), now.Add(time.Second)},
		"of a slow node, all is well":     {running, []Node{ready}, says(7*time.Second, 5, 15), "", never, never},
		"of a slow node, one is missing":  {running, []Node{ready}, says(8*time.Second, 5, 15), "late with its heartbeat", now.Add(-8 * time.Second), now.Add(7 * time.Second)},
		"of a quick node, one is missing": {running, []Node{ready}, says(3100*time.Millisecond, 2, 6), "late with its heartbeat", now.Add(-3100 * time.Millisecond), now.Add(2900 * time.Millisecond)},
		"of a quick node, all is well":    {running, []Node{ready}, says(2900*time.Millisecond, 2, 6), "", never, never},
		"its heartbeat has run out":       {running, []Node{ready}, nil, "has run out", never, now},
		"it is offline":                   {running, []Node{with(Offline, now.Add(-time.Second))}, nil, "is offline", now.Add(-time.Second), now.Add(-time.Second)},
		"it is retired":                   {running, []Node{with(Retired, now)}, nil, "is retired", now, now},
		"another session has begun":       {running, []Node{succeeded}, map[ID]Heartbeat{"a": {Session: "s2", At: now}}, "begun another session", now.Add(2 * time.Second), now.Add(2 * time.Second)},
		"it drains, and beats":            {running, []Node{with(Draining, now)}, beat(0), "", never, never},
		"nobody is called that":           {waiting, nil, nil, "no worker has registered", never, never},
		"it waits for one that works":     {waiting, []Node{ready}, beat(0), "", never, never},
		"it waits for one that left":      {waiting, []Node{with(Offline, now.Add(-time.Hour))}, nil, "is offline", now.Add(-time.Hour), never},
		"any node may take it":            {task.Task{State: task.Pending, Work: task.Work{Route: placement.QueueRoute("q", 5)}}, nil, nil, "", never, never},
		"it has ended there":              {task.Task{State: task.Finished, Node: "a", Session: "s1"}, []Node{with(Offline, now)}, nil, "", never, never},
		"it is cancelling there":          {task.Task{State: task.Cancelling, Node: "a", Session: "s1"}, []Node{with(Offline, now)}, nil, "is offline", now, now},
		"a parent is on no node":          {task.Task{State: task.Running}, nil, nil, "", never, never},
	} {
		got := NewDoubts(c.nodes, c.beats, now, Settings{TTL: ttl}).Of(&c.task)
		switch {
		case got == nil && c.want == "":
		case got == nil || c.want == "":
			t.Errorf("%s: doubt is %v, want %q", name, got, c.want)
		case !strings.Contains(got.Reason, c.want) || !got.Since.Equal(c.since) || !got.By.Equal(c.by):
			t.Errorf("%s: doubt is %v since %v by %v, want %q since %v by %v", name, got.Reason, got.Since, got.By, c.want, c.since, c.by)
		}
	}
}

func TestSilent(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	s := Settings{TTL: 15 * time.Second}
	for _, c := range []struct {
		state State
		beat  time.Duration // its age; below zero for none
		want  bool
	}{
		{Ready, 3 * time.Second, false}, {Ready, 15 * time.Second, false}, {Ready, 36 * time.Second, true}, {Ready, -1, true},
		{Online, 36 * time.Second, true}, {Draining, 36 * time.Second, true}, {Quarantined, 36 * time.Second, true},
		{Offline, -1, false}, {Retired, -1, false},
	} {
		var last time.Time
		if c.beat >= 0 {
			last = now.Add(-c.beat)
		}
		if got := (&Node{State: c.state}).Silent(last, now, s); got != c.want {
			t.Errorf("%v with a heartbeat %v ago: silent %v, want %v", c.state, c.beat, got, c.want)
		}
	}
}
