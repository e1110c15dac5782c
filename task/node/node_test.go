package node

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at is the time of the event with a sequence in a history: a minute after the one before.
func at(seq uint64) time.Time { return noon.Add(time.Duration(seq) * time.Minute) }

func given(events ...Event) Node {
	n := Node{ID: "n1"}
	for i, e := range events {
		n = Evolve(n, Recorded{Seq: uint64(i + 1), At: at(uint64(i + 1)), Actor: "ada", Event: e})
	}
	return n
}

func after(events []Event, more ...Event) []Event { return slices.Concat(events, more) }

var (
	profile    = Profile{Host: "h", PID: 7, Version: "v1", Labels: map[string]string{"a": "b"}, Slots: 4, Queues: []string{"default", "images"}, Probes: true}
	registered = []Event{Registered{Session: "s1", Profile: profile}}
	online     = after(registered, WentOnline{Session: "s1", Reason: "beat", Connection: 1})
	ready      = after(online, BecameReady{Session: "s1", Reason: "proved", Connection: 1, Took: 5})
	draining   = after(ready, Drained{Session: "s1", Reason: "asked to end"})
	offline    = after(ready, WentOffline{Session: "s1", Reason: "silent", Lost: true})
	cordoned   = after(ready, Changed{Order: OrderCordon, Reason: "disk"})
	drained    = after(ready, Changed{Order: OrderDrain, Reason: "disk", Grace: 9})
	caught     = after(ready, WasQuarantined{Reason: "flaps", Until: noon.Add(time.Hour)})
	retired    = after(offline, WasRetired{Reason: "sold"})

	histories = map[string][]Event{
		"nothing": nil, "garbage": {nil}, "registered": registered, "online": online, "ready": ready, "draining": draining, "offline": offline,
		"cordoned": cordoned, "drained": drained, "quarantined": caught, "retired": retired,
	}
)

// The outcomes of a command: an event, none because its state holds, or a refusal.
const (
	holds      = "holds"
	superseded = "superseded"
	unknown    = "unknown"
	isRetired  = "retired"
	alive      = "alive"
	notOnline  = "not online"
)

// Every command in every state.
func TestDecideMatrix(t *testing.T) {
	commands := []struct {
		name string
		c    Command
	}{
		{"register again", Register{Session: "s1"}},
		{"register", Register{Session: "s2"}},
		{"beat", Beat{Session: "s1", Connection: 1}},
		{"beat anew", Beat{Session: "s1", Connection: 2, Reason: "back"}},
		{"beat of others", Beat{Session: "s0", Connection: 1}},
		{"prove", Prove{Session: "s1", Connection: 1}},
		{"prove too late", Prove{Session: "s1", Connection: 0}},
		{"prove of others", Prove{Session: "s0", Connection: 1}},
		{"drain", Drain{Session: "s1"}},
		{"drain of others", Drain{Session: "s0"}},
		{"leave", Leave{Session: "s1"}},
		{"leave of others", Leave{Session: "s0"}},
		{"vanish", Vanish{Session: "s1"}},
		{"vanish of others", Vanish{Session: "s0"}},
		{"serve", Change{}},
		{"cordon", Change{Order: OrderCordon}},
		{"order a drain", Change{Order: OrderDrain, Grace: 9}},
		{"judge", Judge{At: noon.Add(3 * time.Hour)}},
		{"release", Release{}},
		{"retire", Retire{}},
	}
	const (
		isOnline, isReady, isDrained, isOffline = "WentOnline", "BecameReady", "Drained", "WentOffline"
		isRegistered, isChanged                 = "Registered", "Changed"
		isReleased, wasRetired                  = "WasReleased", "WasRetired"
	)
	for state, want := range map[string][]string{
		"nothing":     {isRegistered, isRegistered, superseded, superseded, superseded, superseded, superseded, superseded, superseded, superseded, superseded, superseded, holds, holds, unknown, unknown, unknown, holds, unknown, unknown},
		"garbage":     {isRegistered, isRegistered, superseded, superseded, superseded, superseded, superseded, superseded, superseded, superseded, superseded, superseded, holds, holds, unknown, unknown, unknown, holds, unknown, unknown},
		"registered":  {holds, isRegistered, isOnline, isOnline, superseded, notOnline, notOnline, superseded, holds, superseded, holds, superseded, holds, holds, holds, isChanged, isChanged, holds, holds, wasRetired},
		"online":      {holds, isRegistered, holds, isOnline, superseded, isReady, notOnline, superseded, isDrained, superseded, isOffline, superseded, isOffline, holds, holds, isChanged, isChanged, holds, holds, alive},
		"ready":       {holds, isRegistered, holds, isOnline, superseded, holds, notOnline, superseded, isDrained, superseded, isOffline, superseded, isOffline, holds, holds, isChanged, isChanged, holds, holds, alive},
		"draining":    {holds, isRegistered, holds, isOnline, superseded, holds, notOnline, superseded, holds, superseded, isOffline, superseded, isOffline, holds, holds, isChanged, isChanged, holds, holds, alive},
		"offline":     {holds, isRegistered, isOnline, isOnline, superseded, notOnline, notOnline, superseded, holds, superseded, holds, superseded, holds, holds, holds, isChanged, isChanged, holds, holds, wasRetired},
		"cordoned":    {holds, isRegistered, holds, isOnline, superseded, holds, notOnline, superseded, isDrained, superseded, isOffline, superseded, isOffline, holds, isChanged, holds, isChanged, holds, holds, alive},
		"drained":     {holds, isRegistered, holds, isOnline, superseded, holds, notOnline, superseded, isDrained, superseded, isOffline, superseded, isOffline, holds, isChanged, isChanged, holds, holds, holds, alive},
		"quarantined": {holds, isRegistered, holds, isOnline, superseded, holds, notOnline, superseded, isDrained, superseded, isOffline, superseded, isOffline, holds, holds, isChanged, isChanged, isReleased, isReleased, alive},
		"retired":     {isRegistered, isRegistered, isRetired, isRetired, isRetired, isRetired, isRetired, isRetired, isRetired, isRetired, isRetired, isRetired, holds, holds, isRetired, isRetired, isRetired, holds, isRetired, holds},
	} {
		n := given(histories[state]...)
		for i, c := range commands {
			e, err := Decide(n, c.c)
			if got := outcome(e, err); got != want[i] {
				t.Errorf("%s, %s: %s (%v), want %s", state, c.name, got, err, want[i])
			}
			if e == nil {
				continue
			}
			// The event takes effect, and the command's state holds then.
			then := Evolve(n, Recorded{Seq: n.Head + 1, At: at(n.Head + 1), Event: e})
			same := then
			same.Head = n.Head
			if reflect.DeepEqual(same, n) {
				t.Errorf("%s, %s: %+v changed nothing", state, c.name, e)
			}
			if again, err := Decide(then, c.c); again != nil || err != nil {
				t.Errorf("%s, %s, twice: %+v, %v; want that it holds", state, c.name, again, err)
			}
		}
		if e, err := Decide(n, foreign{}); err == nil {
			t.Errorf("%s: a foreign command gave %+v", state, e)
		}
	}
	for state := range histories {
		if n := given(histories[state]...); n.State.String() != state && !slices.Contains([]string{"nothing", "garbage", "registered", "cordoned", "drained"}, state) {
			t.Errorf("the history called %s leads to %s", state, n.State)
		}
	}
}

type foreign struct{ Command }

func outcome(e Event, err error) string {
	for name, is := range map[string]error{superseded: ErrSuperseded, unknown: ErrUnknown, isRetired: ErrRetired, alive: ErrAlive, notOnline: ErrNotOnline} {
		if errors.Is(err, is) && e == nil {
			return name
		}
	}
	switch {
	case err != nil:
		return err.Error()
	case e == nil:
		return holds
	}
	return strings.TrimPrefix(reflect.TypeOf(e).String(), "node.")
}

// The event carries the fields of its command.
func TestDecideCarries(t *testing.T) {
	for _, c := range []struct {
		given []Event
		when  Command
		then  Event
	}{
		{nil, Register{Session: "s1", Profile: profile}, Registered{Session: "s1", Profile: profile}},
		{registered, Beat{Session: "s1", Connection: 1}, WentOnline{Session: "s1", Connection: 1, Reason: "its heartbeat was stored"}},
		{ready, Beat{Session: "s1", Connection: 2, Reason: "back"}, WentOnline{Session: "s1", Connection: 2, Reason: "back"}},
		{online, Prove{Session: "s1", Reason: "r", Connection: 1, Took: 3, Kept: 1, Stopped: 2, Low: 9},
			BecameReady{Session: "s1", Reason: "r", Connection: 1, Took: 3, Kept: 1, Stopped: 2, Low: 9}},
		{ready, Leave{Session: "s1", Reason: "r", Low: 4}, WentOffline{Session: "s1", Reason: "r", Low: 4}},
		{ready, Vanish{Session: "s1", Reason: "r"}, WentOffline{Session: "s1", Reason: "r", Lost: true}},
		{drained, Change{Order: OrderDrain, Grace: 8, Reason: "r"}, Changed{Order: OrderDrain, Grace: 8, Reason: "r"}},
		{caught, Release{Reason: "r"}, WasReleased{Reason: "r"}},
		{offline, Retire{Reason: "r"}, WasRetired{Reason: "r"}},
	} {
		if got, err := Decide(given(c.given...), c.when); err != nil || !reflect.DeepEqual(got, c.then) {
			t.Errorf("%+v: got %+v, %v, want %+v", c.when, got, err, c.then)
		}
	}
}

func TestEvolve(t *testing.T) {
	base := Node{ID: "n1", Session: "s1", Profile: profile, Started: at(1)}
	with := func(head uint64, change func(*Node)) Node {
		n := base
		n.Head = head
		change(&n)
		return n
	}
	isOnline := func(n *Node) {
		n.Link, n.LinkReason, n.OnlineSince, n.Connection, n.Sessions = Online, "beat", at(2), 1, 1
		n.State, n.Reason, n.Since = Online, "beat", at(2)
	}
	isReady := func(n *Node) {
		isOnline(n)
		n.Link, n.LinkReason, n.ReadySince, n.Took = Ready, "proved", at(3), 5
		n.State, n.Reason, n.Since = Ready, "proved", at(3)
	}
	isOffline := func(n *Node) {
		isReady(n)
		n.Link, n.LinkReason, n.OnlineSince, n.ReadySince = Offline, "silent", zero, zero
		n.State, n.Reason, n.Since = Offline, "silent", at(4)
		n.Ended, n.Lived = 1, duration(2*time.Minute)
	}
	for name, c := range map[string]struct {
		events []Event
		want   Node
	}{
		"nothing": {nil, Node{ID: "n1"}},
		"garbage": {[]Event{nil}, Node{ID: "n1", Head: 1}},
		"registered": {registered, with(1, func(n *Node) {
			n.State, n.Reason, n.Since, n.Link, n.LinkReason = Offline, firstReason, at(1), Offline, firstReason
		})},
		"online":  {online, with(2, isOnline)},
		"ready":   {ready, with(3, isReady)},
		"offline": {offline, with(4, isOffline)},
		"draining": {draining, with(4, func(n *Node) {
			isReady(n)
			n.Leaving, n.LeavingReason = true, "asked to end"
			n.State, n.Reason, n.Since = Draining, "asked to end", at(4)
		})},
		"cordoned": {cordoned, with(4, func(n *Node) {
			isReady(n)
			n.Standing = Standing{Order: OrderCordon, Reason: "disk", By: "ada", Since: at(4)}
		})},
		"drained": {drained, with(4, func(n *Node) {
			isReady(n)
			n.Standing = Standing{Order: OrderDrain, Reason: "disk", By: "ada", Since: at(4), Grace: 9}
			n.State, n.Reason, n.Since = Draining, "drained by ada: disk", at(4)
		})},
		"undrained": {after(drained, Changed{}), with(5, func(n *Node) { isReady(n); n.Since, n.Standing.Since = at(5), at(5) })},
		"quarantined": {caught, with(4, func(n *Node) {
			isReady(n)
			n.Quarantine = &Quarantine{Reason: "flaps", Since: at(4), Until: noon.Add(time.Hour)}
			n.State, n.Reason, n.Since = Quarantined, "flaps", at(4)
		})},
		"released": {after(caught, WasReleased{}), with(5, func(n *Node) { isReady(n); n.Since = at(5) })},
		"retired":  {retired, Node{ID: "n1", Head: 5, Profile: profile, Started: at(1), State: Retired, Reason: "sold", Since: at(5), Link: Offline}},
		"a connection that came back": {after(ready, WentOnline{Session: "s1", Reason: "back", Connection: 2}), with(4, func(n *Node) {
			isReady(n)
			n.Link, n.LinkReason, n.OnlineSince, n.ReadySince, n.Connection, n.Sessions = Online, "back", at(4), zero, 2, 2
			n.State, n.Reason, n.Since = Online, "back", at(4)
			n.Ended, n.Lived = 1, duration(2*time.Minute)
		})},
	} {
		if got := given(c.events...); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got\n%+v\nwant\n%+v", name, got, c.want)
		}
	}
}

// An operator's orders and the node's score outlast its sessions; the session's own reports do not.
func TestNextSession(t *testing.T) {
	for name, want := range map[string]State{"ready": Ready, "draining": Ready, "offline": Ready, "cordoned": Ready, "drained": Draining, "quarantined": Quarantined, "retired": Ready} {
		n := given(after(histories[name], Registered{Session: "s2", Profile: profile}, WentOnline{Session: "s2", Connection: 1}, BecameReady{Session: "s2", Connection: 1})...)
		if n.State != want {
			t.Errorf("%s, and then a new session: %s, want %s", name, n.State, want)
		}
		if got := n.Standing.Order == OrderCordon; got != (name == "cordoned") {
			t.Errorf("%s, and then a new session: cordoned is %v", name, got)
		}
		if n.Takes() != (want == Ready && name != "cordoned") {
			t.Errorf("%s, and then a new session: takes work is %v", name, n.Takes())
		}
	}
	if n := given(after(retired, Registered{Session: "s2"})...); n.Sessions != 0 || n.Low != 0 || n.Flap != (Flap{}) {
		t.Errorf("a new life begins with %+v", n)
	}
}

// Events of an ended session move only the head.
func TestEvolveIgnores(t *testing.T) {
	for name, events := range histories {
		for _, session := range []string{"", "s0"} {
			for _, e := range []Event{nil, WentOnline{Session: session}, BecameReady{Session: session}, Drained{Session: session}, WentOffline{Session: session}} {
				before := given(events...)
				got := Evolve(before, Recorded{Seq: before.Head + 3, At: noon, Event: e})
				before.Head += 3
				if !reflect.DeepEqual(got, before) {
					t.Errorf("%s, %T of session %q: got %+v", name, e, session, got)
				}
			}
		}
	}
	for _, name := range []string{"nothing", "retired"} {
		for _, e := range []Event{Changed{Order: OrderDrain}, WasQuarantined{}, WasReleased{}, WasRetired{}, WentOnline{Session: ""}} {
			before := given(histories[name]...)
			got := Evolve(before, Recorded{Seq: 99, At: noon, Event: e})
			before.Head = 99
			if !reflect.DeepEqual(got, before) {
				t.Errorf("%s, %T: got %+v", name, e, got)
			}
		}
	}
}

// For any events in any order, the fold never fails, is idempotent, follows the chain, and its form
// on disk is equal.
func TestEvolveIsTotal(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var n Node
		now := noon
		for range 60 {
			session := []string{"", "s1", "s2"}[rng.IntN(3)]
			now = now.Add(time.Duration(rng.IntN(40)) * time.Second)
			e := []Event{
				nil, Registered{Session: session, Profile: Profile{Probes: rng.IntN(2) == 0}}, WentOnline{Session: session, Connection: rng.Uint64N(3)}, BecameReady{Session: session},
				Drained{Session: session}, WentOffline{Session: session, Lost: rng.IntN(2) == 0}, Changed{Order: Order(rng.IntN(3))}, WasQuarantined{Until: now},
				WasReleased{}, WasRetired{},
			}[rng.IntN(10)]
			r := Recorded{Seq: n.Head + rng.Uint64N(3), At: now, Event: e}
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
			case n.Takes() && (!n.Alive() || n.Leaving || n.Quarantine != nil):
				t.Fatalf("seed %d: it takes work as %+v", seed, n)
			}
			text, err := json.Marshal(n)
			var read Node
			if err == nil {
				err = json.Unmarshal(text, &read)
			}
			if err != nil || !reflect.DeepEqual(read, n) {
				t.Fatalf("seed %d: %+v is read as %+v, %v", seed, n, read, err)
			}
		}
	}
}

func TestServes(t *testing.T) {
	for name := range histories {
		n := given(histories[name]...)
		for queue, known := range map[string]bool{"images": true, "@n1": true, "other": false, "@n2": false} {
			if got, want := n.Serves(queue), known && name == "ready"; got != want {
				t.Errorf("%s: serves %s is %v", name, queue, got)
			}
		}
	}
	// A worker that never proves readiness counts as ready.
	old := profile
	old.Probes = false
	n := given(Registered{Session: "s1", Profile: old}, WentOnline{Session: "s1"})
	if !n.Serves("images") || !n.Serves("@n1") {
		t.Errorf("an old worker serves its queue: %v, its own route: %v", n.Serves("images"), n.Serves("@n1"))
	}
}

func TestStable(t *testing.T) {
	n := given(ready...)
	for d, want := range map[time.Duration]bool{0: true, time.Minute: true, time.Minute + 1: false} {
		if got := n.Stable(at(4), d); got != want {
			t.Errorf("stable for %v: %v", d, got)
		}
	}
	if n := given(after(ready, WentOnline{Session: "s1"})...); n.Stable(at(100), 0) {
		t.Error("stable without being ready")
	}
}

// Every state of a node has a duty with an actor.
func TestOwes(t *testing.T) {
	for name := range histories {
		d := Owes(given(histories[name]...), Settings{TTL: 15 * time.Second})
		if d.Who == "" || d.What == "" || d.Who != "nobody" && strings.Contains(d.What, "%!") {
			t.Errorf("%s: %+v", name, d)
		}
	}
	for name, want := range map[string]string{
		"nothing": "worker --name n1", "registered": "first heartbeat", "online": "proves", "ready": "takes work", "draining": "give back",
		"offline": "retire n1", "cordoned": "uncordon n1", "drained": "undrain n1", "quarantined": "calm", "retired": "new life",
	} {
		if d := Owes(given(histories[name]...), Settings{}); !strings.Contains(d.What, want) {
			t.Errorf("%s: %q, want %q in it", name, d.What, want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, s := range append(States(), 99) {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var read State
		if err := json.Unmarshal(text, &read); (err == nil) != (s != 99) || err == nil && read != s {
			t.Errorf("%s is read as %s, %v", text, read, err)
		}
	}
	if len(States()) != len(stateNames) {
		t.Errorf("%d states have %d names", len(States()), len(stateNames))
	}
	for _, o := range []Order{OrderServe, OrderCordon, OrderDrain, 99} {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		var read Order
		if err := json.Unmarshal(text, &read); (err == nil) != (o != 99) || err == nil && read != o {
			t.Errorf("%s is read as %s, %v", text, read, err)
		}
	}
	for id, good := range map[ID]bool{"n1": true, "rack-3_b": true, "": false, "a.b": false, "-a": false, "*": false, "@a": false} {
		if err := id.Validate(); (err == nil) != good {
			t.Errorf("%q: %v", id, err)
		}
	}
}
