package node

import (
	"testing"
	"time"

	"millrace/task/value"
)

func duration(d time.Duration) value.Duration { return value.Duration(d) }

// life plays a node that returns again and again. It returns the node and the times of its
// quarantines. Each round is up for a time and down for a time.
func life(rounds int, up, down time.Duration, comeBack func(round int) []Event) (n Node, caught []int) {
	n = Node{ID: "n1"}
	now := noon
	add := func(e Event) { n = Evolve(n, Recorded{Seq: n.Head + 1, At: now, Event: e}) }
	add(Registered{Session: "s"})
	for i := range rounds {
		for _, e := range comeBack(i) {
			add(e)
		}
		if e, _ := Decide(n, Judge{At: now}); e != nil {
			if _, is := e.(WasQuarantined); is && n.Quarantine == nil {
				caught = append(caught, i)
			}
			add(e)
		}
		now = now.Add(up)
		if down > 0 {
			add(WentOffline{Session: n.Session, Lost: true})
			now = now.Add(down)
		}
	}
	return n, caught
}

func reconnects(i int) []Event { return []Event{WentOnline{Session: "s", Connection: uint64(i + 1)}} }

func TestFlapping(t *testing.T) {
	goodbye := func(i int) []Event {
		session := string(rune('a' + i))
		var events []Event
		if i > 0 {
			events = append(events, WentOffline{Session: string(rune('a' + i - 1))}) // it announced its end
		}
		return append(events, Registered{Session: session}, WentOnline{Session: session})
	}
	crash := func(i int) []Event { return goodbye(i)[max(len(goodbye(i))-2, 0):] }
	for _, c := range []struct {
		name     string
		rounds   int
		up, down time.Duration
		comeBack func(int) []Event
		sessions int
		short    int
		caught   bool
	}{
		{"two drops, 18 s apart", 3, 18 * time.Second, 10 * time.Second, reconnects, 3, 3, false},
		{"a drop every half minute", 25, 15 * time.Second, 15 * time.Second, reconnects, 25, 25, false},
		{"a drop every ten seconds", 20, 5 * time.Second, 5 * time.Second, reconnects, 20, 20, true},
		{"reconnects that nobody else saw", 13, time.Second, 0, reconnects, 13, 12, true},
		{"a drop every five minutes", 50, 10 * time.Second, 290 * time.Second, reconnects, 50, 50, false},
		{"long sessions", 50, ShortSession, time.Second, reconnects, 50, 0, false},
		{"a crash loop", 15, 5 * time.Second, 0, crash, 15, 14, true},
		{"many quick restarts with a goodbye", 20, time.Second, 0, goodbye, 20, 0, false},
	} {
		n, caught := life(c.rounds, c.up, c.down, c.comeBack)
		if n.Sessions != c.sessions || n.Short != c.short || (len(caught) > 0) != c.caught {
			t.Errorf("%s: %d sessions, %d short, quarantined in the rounds %v; want %d, %d and %v", c.name, n.Sessions, n.Short, caught, c.sessions, c.short, c.caught)
		}
		if len(caught) > 0 && caught[0] < 10 {
			t.Errorf("%s: quarantined in round %d, after fewer than ten short sessions", c.name, caught[0])
		}
	}
}

// A node that alone serves a queue need only stay for a while.
func TestAloneInQuarantine(t *testing.T) {
	n, _ := life(13, time.Second, 0, reconnects)
	n.Queues = []string{"default", "gpu"}
	serves := func(id ID, queues ...string) Node {
		return Node{ID: id, State: Ready, Profile: Profile{Queues: queues, Probes: true}}
	}
	draining := serves("n3", "gpu")
	draining.State = Draining
	for name, c := range map[string]struct {
		others []Node
		want   bool
	}{
		"there is no other":       {[]Node{n}, true},
		"another serves a part":   {[]Node{n, serves("n2", "default")}, true},
		"another takes no work":   {[]Node{n, serves("n2", "default"), draining}, true},
		"others serve everything": {[]Node{n, serves("n2", "default"), serves("n3", "gpu")}, false},
	} {
		if got := n.Alone(c.others); got != c.want {
			t.Errorf("%s: alone %v", name, got)
		}
	}
	stayed := n.OnlineSince.Add(ShortSession)
	for name, c := range map[string]struct {
		judge Judge
		want  bool
	}{
		"it has stayed":             {Judge{At: stayed, Alone: true}, true},
		"not for long":              {Judge{At: stayed.Add(-time.Second), Alone: true}, false},
		"there are others for that": {Judge{At: stayed}, false},
	} {
		e, err := Decide(n, c.judge)
		if _, released := e.(WasReleased); err != nil || released != c.want {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

// A score halves in each half-life, and above the lower bound the node is not released.
func TestHysteresis(t *testing.T) {
	n, _ := life(13, time.Second, 0, reconnects)
	q := n.Quarantine
	if q == nil || n.State != Quarantined || n.Takes() {
		t.Fatalf("it is %s with a score of %.1f", n.State, n.Flap.Score)
	}
	judge := func(at time.Time) Event {
		e, err := Decide(n, Judge{At: at})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	half := n.Flap.At.Add(FlapHalfLife)
	if got := n.Flap.Now(half); got < n.Flap.Score*0.49 || got > n.Flap.Score*0.51 {
		t.Errorf("after the half-life the score is %.2f of %.2f", got, n.Flap.Score)
	}
	if n.Flap.Now(half) > DefaultFlapLimit {
		t.Fatalf("the case is no good: the score is %.1f", n.Flap.Now(half))
	}
	if e := judge(half); e != nil {
		t.Errorf("between the bounds: %+v", e)
	}
	if e := judge(q.Until.Add(-time.Second)); e != nil {
		t.Errorf("a second too early: %+v", e)
	}
	if e, ok := judge(q.Until.Add(time.Minute)).(WasReleased); !ok {
		t.Errorf("calm for long enough: %+v", e)
	}
	// A node that continues to flap meanwhile waits longer.
	for i := range 4 {
		n = Evolve(n, Recorded{Seq: n.Head + 1, At: q.Until.Add(time.Duration(i-10) * time.Second), Event: WentOnline{Session: "s", Connection: 50 + uint64(i)}})
	}
	e, ok := judge(q.Until).(WasQuarantined)
	if !ok || !e.Until.After(q.Until) {
		t.Fatalf("it flapped meanwhile: %+v, want a later end than %v", e, q.Until)
	}
	since := n.Quarantine.Since
	if n = Evolve(n, Recorded{Seq: n.Head + 1, At: q.Until, Event: e}); n.Quarantine.Until != e.Until || n.Quarantine.Since != since {
		t.Errorf("it is quarantined from %v until %v", n.Quarantine.Since, n.Quarantine.Until)
	}
	if n = Evolve(n, Recorded{Seq: n.Head + 1, At: q.Until, Event: WasReleased{}}); n.Flap.Score != 0 || n.State == Quarantined {
		t.Errorf("released, it is %s with a score of %.1f", n.State, n.Flap.Score)
	}
}

func TestFlapPolicy(t *testing.T) {
	n, _ := life(13, time.Second, 0, reconnects)
	n.Quarantine = nil
	for limit, want := range map[float64]bool{0: true, 3: true, 12.5: false, -1: false} {
		e, err := Decide(n, Judge{At: n.Flap.At, Policy: FlapPolicy{Limit: limit}})
		if _, is := e.(WasQuarantined); err != nil || is != want {
			t.Errorf("limit %v: %+v, %v", limit, e, err)
		}
	}
	n, _ = life(13, time.Second, 0, reconnects)
	if e, _ := Decide(n, Judge{At: n.Flap.At, Policy: FlapPolicy{Limit: -1}}); e == nil {
		t.Error("a node stays quarantined though the rule was switched off")
	}
}

func TestMeanSession(t *testing.T) {
	n, _ := life(4, 30*time.Second, 10*time.Second, reconnects)
	if n.MeanSession() != 30*time.Second || (&Stability{}).MeanSession() != 0 {
		t.Errorf("the mean is %v", n.MeanSession())
	}
}
