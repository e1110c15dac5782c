package node

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seq uint64) time.Time { return noon.Add(time.Duration(seq) * time.Second) }

func given(events ...Event) Node {
	n := Node{ID: "n1"}
	for i, e := range events {
		n = Evolve(n, Recorded{Seq: uint64(i + 1), At: at(uint64(i + 1)), Event: e})
	}
	return n
}

var (
	profile    = Profile{Host: "h", PID: 7, Version: "v1", Labels: map[string]string{"a": "b"}, Slots: 4, Queues: []string{"default", "images"}}
	registered = []Event{Registered{Session: "s1", Profile: profile}}
	online     = append(registered[:1:1], WentOnline{Session: "s1", Reason: "beat"})
	draining   = append(online[:2:2], Drained{Session: "s1", Reason: "maintenance"})
	offline    = append(online[:2:2], WentOffline{Session: "s1", Reason: "silent"})

	histories = map[string][]Event{"nothing": nil, "garbage": {nil}, "registered": registered, "online": online, "draining": draining, "offline": offline}
)

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name  string
		given []Event
		when  Command
		then  Event
		err   error
	}{
		{"the first start", nil, Register{Session: "s1", Profile: profile}, Registered{Session: "s1", Profile: profile}, nil},
		{"registered already", registered, Register{Session: "s1"}, nil, nil},
		{"registered already, and offline", offline, Register{Session: "s1"}, nil, nil},
		{"a new session", online, Register{Session: "s2"}, Registered{Session: "s2"}, nil},
		{"the first beat", registered, Beat{Session: "s1"}, WentOnline{Session: "s1", Reason: "its heartbeat was stored"}, nil},
		{"one more beat", online, Beat{Session: "s1"}, nil, nil},
		{"a beat while draining", draining, Beat{Session: "s1"}, nil, nil},
		{"a beat after silence", offline, Beat{Session: "s1"}, WentOnline{Session: "s1", Reason: "its heartbeat was stored"}, nil},
		{"a beat of another session", online, Beat{Session: "s0"}, nil, ErrSuperseded},
		{"a beat of who never registered", nil, Beat{Session: "s1"}, nil, ErrSuperseded},
		{"drain", online, Drain{Session: "s1", Reason: "r"}, Drained{Session: "s1", Reason: "r"}, nil},
		{"drain twice", draining, Drain{Session: "s1"}, nil, nil},
		{"drain what is offline", offline, Drain{Session: "s1"}, nil, nil},
		{"drain another session", online, Drain{Session: "s0"}, nil, ErrSuperseded},
		{"leave", online, Leave{Session: "s1", Reason: "r"}, WentOffline{Session: "s1", Reason: "r"}, nil},
		{"leave when drained", draining, Leave{Session: "s1", Reason: "r"}, WentOffline{Session: "s1", Reason: "r"}, nil},
		{"leave twice", offline, Leave{Session: "s1"}, nil, nil},
		{"leave of another session", online, Leave{Session: "s0"}, nil, ErrSuperseded},
		{"vanish", online, Vanish{Session: "s1", Reason: "r"}, WentOffline{Session: "s1", Reason: "r"}, nil},
		{"vanish while draining", draining, Vanish{Session: "s1", Reason: "r"}, WentOffline{Session: "s1", Reason: "r"}, nil},
		{"vanish twice", offline, Vanish{Session: "s1"}, nil, nil},
		{"an old session vanishes", online, Vanish{Session: "s0"}, nil, nil},
		{"vanish of who never registered", nil, Vanish{}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Decide(given(c.given...), c.when)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Fatalf("got the error %v, want %v", err, c.err)
			}
			if !reflect.DeepEqual(got, c.then) {
				t.Errorf("got %+v, want %+v", got, c.then)
			}
		})
	}
}

type foreign struct{ Command }

// In every state every command is decided or refused for a documented reason;
// what follows takes effect, and then it holds.
func TestDecideMatrix(t *testing.T) {
	for name, events := range histories {
		n := given(events...)
		for _, session := range []string{"", "s1", "s2"} {
			for _, c := range []Command{Register{Session: session}, Beat{session}, Drain{Session: session}, Leave{Session: session}, Vanish{Session: session}} {
				e, err := Decide(n, c)
				if err != nil && (!errors.Is(err, ErrSuperseded) || e != nil) {
					t.Errorf("%s, %+v: %v, %v", name, c, e, err)
				}
				if e == nil {
					continue
				}
				then := Evolve(n, Recorded{Seq: n.Head + 1, At: noon, Event: e})
				if then.State == n.State && then.Session == n.Session {
					t.Errorf("%s, %+v: %+v changed nothing", name, c, e)
				}
				if again, err := Decide(then, c); again != nil || err != nil {
					t.Errorf("%s, %+v, twice: %v, %v; want that it holds", name, c, again, err)
				}
			}
		}
		if e, err := Decide(n, foreign{}); err == nil {
			t.Errorf("%s: a foreign command gave %+v", name, e)
		}
	}
}

func TestEvolve(t *testing.T) {
	for name, c := range map[string]struct {
		events []Event
		want   Node
	}{
		"nothing":    {nil, Node{ID: "n1"}},
		"garbage":    {[]Event{nil}, Node{ID: "n1", Head: 1}},
		"registered": {registered, Node{ID: "n1", State: Offline, Reason: "registered, no heartbeat seen yet", Session: "s1", Profile: profile, Head: 1, Since: at(1), Started: at(1)}},
		"online":     {online, Node{ID: "n1", State: Online, Reason: "beat", Session: "s1", Profile: profile, Head: 2, Since: at(2), Started: at(1)}},
		"draining":   {draining, Node{ID: "n1", State: Draining, Reason: "maintenance", Session: "s1", Profile: profile, Head: 3, Since: at(3), Started: at(1)}},
		"offline":    {offline, Node{ID: "n1", State: Offline, Reason: "silent", Session: "s1", Profile: profile, Head: 3, Since: at(3), Started: at(1)}},
		"a new session": {append(draining[:3:3], Registered{Session: "s2"}),
			Node{ID: "n1", State: Offline, Reason: "registered, no heartbeat seen yet", Session: "s2", Head: 4, Since: at(4), Started: at(4)}},
	} {
		if got := given(c.events...); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got\n%+v\nwant\n%+v", name, got, c.want)
		}
	}
}

// What an old session says moves the head and nothing else.
func TestEvolveIgnores(t *testing.T) {
	for name, events := range histories {
		for _, session := range []string{"", "s0"} {
			for _, e := range []Event{nil, WentOnline{Session: session}, Drained{Session: session}, WentOffline{Session: session}} {
				before := given(events...)
				got := Evolve(before, Recorded{Seq: before.Head + 3, At: noon, Event: e})
				before.Head += 3
				if !reflect.DeepEqual(got, before) {
					t.Errorf("%s, %T of session %q: got %+v", name, e, session, got)
				}
			}
		}
	}
}

// Any events in any order: the fold never fails, is idempotent and follows the chain.
func TestEvolveIsTotal(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var n Node
		for range 40 {
			session := []string{"", "s1", "s2"}[rng.IntN(3)]
			e := []Event{nil, Registered{Session: session}, WentOnline{Session: session}, Drained{Session: session}, WentOffline{Session: session}}[rng.IntN(5)]
			r := Recorded{Seq: n.Head + rng.Uint64N(3), At: noon, Event: e}
			before := n
			n = Evolve(n, r)
			switch {
			case r.Seq <= before.Head && !reflect.DeepEqual(n, before):
				t.Fatalf("seed %d: %+v, applied again at %d, changed the node", seed, r, before.Head)
			case r.Seq > before.Head && n.Head != r.Seq:
				t.Fatalf("seed %d: the head is %d after %+v", seed, n.Head, r)
			case !reflect.DeepEqual(Evolve(n, r), n):
				t.Fatalf("seed %d: %+v is not idempotent", seed, r)
			case n.State == Unknown && n.Session != "" || n.State == Online && before.State == Unknown:
				t.Fatalf("seed %d: %+v led from %+v to %+v", seed, r, before, n)
			}
		}
	}
}

func TestServes(t *testing.T) {
	for name, want := range map[string]bool{"nothing": false, "registered": false, "online": true, "draining": false, "offline": false} {
		n := given(histories[name]...)
		if got := n.Serves("images"); got != want {
			t.Errorf("%s: serves is %v", name, got)
		}
		if n.Serves("other") {
			t.Errorf("%s: serves a queue that is not its own", name)
		}
	}
}

func TestState(t *testing.T) {
	for s, want := range map[State]string{Unknown: "unknown", Online: "online", Draining: "draining", Offline: "offline", 99: "state(99)"} {
		if s.String() != want {
			t.Errorf("got %q, want %q", s, want)
		}
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var read State
		if err := json.Unmarshal(text, &read); (err == nil) != (s != 99) || err == nil && read != s {
			t.Errorf("%s is read as %s, %v", text, read, err)
		}
	}
}

func TestID(t *testing.T) {
	for id, good := range map[ID]bool{"n1": true, "rack-3_b": true, "": false, "a.b": false, "-a": false, "*": false} {
		if err := id.Validate(); (err == nil) != good {
			t.Errorf("%q: %v", id, err)
		}
	}
}
