package jet_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/names"
	"millrace/events/jet/natstest"
	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/node"

	"github.com/nats-io/nats.go"
)

func alive(t *testing.T, s *jet.Store) string {
	t.Helper()
	return fmt.Sprint(slices.Sorted(maps.Keys(must(s.Alive(within(t)))(t))))
}

func beat(t *testing.T, s *jet.Store, id node.ID, ttl time.Duration) {
	t.Helper()
	if err := s.Beat(within(t), id, node.Heartbeat{Session: "s1", At: time.Now().UTC()}, ttl); err != nil {
		t.Fatal(err)
	}
}

func TestPresence(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	if got := alive(t, s); got != "[]" {
		t.Fatalf("alive before any beat: %s", got)
	}
	at := time.Now().UTC()
	if err := s.Beat(within(t), "kept", node.Heartbeat{Session: "s1", At: at}, time.Minute); err != nil {
		t.Fatal(err)
	}
	beat(t, s, "leaves", time.Minute)
	beat(t, s, "dies", time.Second)
	beat(t, s, "odd", 300*time.Millisecond) // whole seconds, at least one
	natstest.Raw(t, s.JS, "$KV."+names.NodesBucket+".garbage", nil, []byte("{"))
	if got := alive(t, s); got != "[dies kept leaves odd]" {
		t.Fatalf("alive: %s", got)
	}
	if h := must(s.Alive(within(t)))(t)["kept"]; h.Session != "s1" || !h.At.Equal(at) {
		t.Errorf("a heartbeat came back as %+v", h)
	}
	if err := s.Forget(within(t), "leaves"); err != nil {
		t.Fatal(err)
	}
	if got := alive(t, s); got != "[dies kept odd]" {
		t.Errorf("alive after one left: %s", got)
	}
	// The mark that it left does not stay for ever, or marks would fill the request's bound.
	m := must(must(s.JS.Stream(within(t), "KV_"+names.NodesBucket))(t).GetLastMsgForSubject(within(t), "$KV."+names.NodesBucket+".leaves"))(t)
	if m.Header.Get("Nats-TTL") == "" {
		t.Errorf("the mark of a node that left has no TTL: %v", m.Header)
	}
	testkit.Eventually(t, "silent nodes vanish", func() bool { return alive(t, s) == "[kept]" })
	if err := s.Forget(within(t), "never-was"); err != nil {
		t.Errorf("Forget of an unknown node: %v", err)
	}
}

// Each beat begins the TTL anew.
func TestBeatsKeepANodeAlive(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	beat(t, s, "n1", time.Second)
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for range 8 { // more than two TTLs
		<-tick.C
		if got := alive(t, s); got != "[n1]" {
			t.Fatalf("alive: %s", got)
		}
		beat(t, s, "n1", time.Second)
	}
	testkit.Eventually(t, "it vanishes when it falls silent", func() bool { return alive(t, s) == "[]" })
}

func TestHints(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	got := make(chan task.ID, 10)
	stop := must(s.OnHint("n1", func(id task.ID) { got <- id }))(t)
	defer stop()
	if err := s.NC.Flush(); err != nil { // now the server knows of it
		t.Fatal(err)
	}
	id := natstest.NewTask()
	if err := s.NC.Publish(names.HintPrefix+"n1", []byte("garbage")); err != nil {
		t.Fatal(err)
	}
	for n, id := range map[node.ID]task.ID{"n2": natstest.NewTask(), "n1": id} {
		if err := s.Hint(n, id); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Hint("n1", ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []task.ID{id, ""} {
		if hinted := <-got; hinted != want {
			t.Errorf("got a hint at task %q, want %q", hinted, want)
		}
	}
	changed := make(chan struct{}, 10)
	stopWatch := must(s.WatchTask(id, func() { changed <- struct{}{} }))(t)
	defer stopWatch()
	if err := s.NC.Flush(); err != nil {
		t.Fatal(err)
	}
	must(s.Append(within(t), natstest.NewFact(id, natstest.Note("x")), 0))(t)
	<-changed
}

func TestPing(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	want := node.Pong{Node: "n1", Session: "S", Serving: true, Running: 2, Slots: 4}
	stop := must(s.OnPing("n1", func() node.Pong { return want }))(t)
	if got := must(s.Ping(within(t), "n1"))(t); got != want {
		t.Errorf("it answers %+v, want %+v", got, want)
	}
	stop()
	for _, id := range []node.ID{"n1", "n2"} {
		if _, err := s.Ping(within(t), id); !errors.Is(err, jet.ErrNoPong) {
			t.Errorf("ping %s: %v, want ErrNoPong", id, err)
		}
	}
	must(s.NC.Subscribe(names.PingPrefix+"mute", func(*nats.Msg) {}))(t)
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Ping(soon, "mute"); !errors.Is(err, jet.ErrNoPong) {
		t.Errorf("ping of a process that does not answer: %v, want ErrNoPong", err)
	}
	must(s.NC.Subscribe(names.PingPrefix+"odd", func(m *nats.Msg) { _ = m.Respond([]byte("pong")) }))(t)
	if _, err := s.Ping(within(t), "odd"); err == nil || errors.Is(err, jet.ErrNoPong) {
		t.Errorf("rubbish for an answer: %v", err)
	}
}

// A heartbeat follows the previous one of its process. If another process has written in between,
// or the heartbeat has expired, that is detected before it is overwritten.
func TestBeatsFollowEachOther(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	other := jet.New(s.Link)
	beat := func(of interface {
		Beat(context.Context, node.ID, node.Heartbeat, time.Duration) error
	}, session string, want error) {
		t.Helper()
		if err := of.Beat(within(t), "n1", node.Heartbeat{Session: session}, time.Minute); !errors.Is(err, want) {
			t.Fatalf("%s: %v, want %v", session, err, want)
		}
	}
	beat(s, "mine", nil)
	beat(s, "mine", nil)
	beat(other, "other", nil) // it has stored none before, and knows nothing
	beat(s, "mine", events.ErrConflict)
	if p, err := s.Pulse(within(t), "n1"); err != nil || p.Beat.Session != "other" {
		t.Errorf("then there is %+v, %v", p, err)
	}
	beat(s, "mine", nil) // now it knows
	beat(other, "other", events.ErrConflict)
	if err := s.Forget(within(t), "n1"); err != nil {
		t.Fatal(err)
	}
	beat(s, "mine", nil)
}
