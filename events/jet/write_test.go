package jet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet/embed"
	"millrace/events/jet/natstest"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
	"millrace/task"
)

// More facts than may be in flight are placed, each once and reported in order.
func TestPlaceAllBeyondItsWindow(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	facts := make([]*events.Fact, placeWindow+500)
	for i := range facts {
		facts[i] = newFact(newTask(), task.Submitted{Work: testWork("default")})
	}
	told := 0
	var last uint64
	s.PlaceAll(within(t), facts, false, func(i int, seq uint64, err error) {
		if i != told || err != nil || seq <= last {
			t.Errorf("fact %d told as number %d at %d after %d: %v", i, told, seq, last, err)
		}
		told++
		last = seq
	})
	if told != len(facts) || last != uint64(len(facts)) {
		t.Errorf("told of %d facts, the last at %d, want %d", told, last, len(facts))
	}
}

func TestDoRecordsOnceThoughAnswersAreLost(t *testing.T) {
	t.Parallel()
	for _, layout := range []streams.Layout{{}, {SyncAlways: true}} {
		rng := rand.New(rand.NewPCG(1, 2)) // used by one goroutine, which reads from the connection
		nc := connect(t, startServer(t, embed.Config{}).URL(), losing(func() bool { return rng.IntN(2) == 0 }))
		s := newImpatientStore(t, nc, 50*time.Millisecond, layout)
		id := newTask()
		r := recorder(s)
		if _, err := r.Submit(within(t), id, task.Submitted{Work: testWork("default")}); err != nil {
			t.Fatal(err)
		}
		const turns = 12
		changeHands(t, r, id, turns)
		checkHands(t, s, id, turns)
	}
}

// changeHands claims a task and gives it back until n events are recorded.
func changeHands(t *testing.T, r *events.Recorder, id task.ID, n int) {
	now, err := r.Load(within(t), id)
	if err != nil {
		t.Error(err)
		return
	}
	for i := range n {
		var c task.Command = task.Release{Epoch: now.Epoch, Reason: "test"}
		if now.Waiting() {
			c = task.Claim{Node: "n1", Offer: uint64(1000 + i), After: now.Turn}
		}
		var e task.Event
		if now, e, err = r.Do(within(t), now, c); err != nil || e == nil {
			t.Errorf("command %d of task %s: %v, %v", i, id, e, err)
			return
		}
	}
}

// checkHands checks that all of it is recorded, and once.
func checkHands(t *testing.T, s *Store, id task.ID, n int) {
	t.Helper()
	records, err := s.Task(within(t), id)
	if err != nil {
		t.Fatal(err)
	}
	var got []events.Type
	for i := range records {
		if records[i].Kind == events.KindChain {
			got = append(got, records[i].Fact.Type)
		}
	}
	if len(got) != n {
		t.Fatalf("the chain of task %s has %d facts after %d commands", id, len(got), n)
	}
	for i, typ := range got {
		if want := []events.Type{events.AttemptStarted, events.AttemptReleased}[i%2]; typ != want {
			t.Errorf("fact %d of task %s is %s, want %s", i, id, typ, want)
		}
	}
}

// A batch whose answer is lost may be stored, so none of it is written again.
func TestGroupDoesNotRepeatWhatMayBeStored(t *testing.T) {
	t.Parallel()
	var deaf atomic.Bool
	nc := connect(t, startServer(t, embed.Config{}).URL(), losing(deaf.Load))
	s := newImpatientStore(t, nc, time.Second, streams.Layout{SyncAlways: true})
	deaf.Store(true)
	facts := make([]*events.Fact, 30)
	for i := range facts {
		facts[i] = newFact(newTask(), task.Submitted{Work: testWork("default")})
	}
	s.PlaceAll(within(t), facts, false, func(i int, _ uint64, err error) {
		if !errors.Is(err, events.ErrUnknown) {
			t.Errorf("fact %d: %v, want ErrUnknown", i, err)
		}
	})
	deaf.Store(false)
	if _, err := s.Append(within(t), newFact(newTask(), note("after it")), 0); err != nil {
		t.Fatal(err)
	}
	if last := must(s.Last(within(t)))(t); last != uint64(len(facts)+1) {
		t.Errorf("the log has %d messages, want %d births and one more", last, len(facts))
	}
}

func TestGroupRefusesOnlyWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	ns := must(newTestServer(fmt.Sprintf("listen: 127.0.0.1:-1\nmax_payload: 64KB\njetstream { store_dir: %q }\n", t.TempDir())))(t)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	s := openStore(t, connect(t, ns.ClientURL()), streams.Layout{SyncAlways: true})
	facts := make([]*events.Fact, 20)
	for i := range facts {
		w := testWork("default")
		switch i {
		case 7: // more than the server takes
			w.Params = []byte(`"` + string(make200k()) + `"`)
		case 9: // more than any log takes
			w.Params = []byte(`"` + string(make200k()) + string(make200k()) + string(make200k()) + `"`)
		}
		facts[i] = newFact(newTask(), task.Submitted{Work: w})
	}
	s.PlaceAll(within(t), facts, false, func(i int, _ uint64, err error) {
		if large := i == 7 || i == 9; large != errors.Is(err, events.ErrTooLarge) || !large && err != nil {
			t.Errorf("fact %d: %v", i, err)
		}
	})
	for i, f := range facts {
		want := 1
		if i == 7 || i == 9 {
			want = 0
		}
		if n := len(must(s.Task(within(t), f.Task))(t)); n != want {
			t.Errorf("fact %d is recorded %d times, want %d", i, n, want)
		}
	}
}

func make200k() []byte {
	b := make([]byte, 200<<10)
	for i := range b {
		b[i] = 'x'
	}
	return b
}

// A call that was cancelled does not disturb the next one.
func TestPlaceAllEndsWithItsContext(t *testing.T) {
	t.Parallel()
	srv := startServer(t, embed.Config{})
	v := natstest.NewValve()
	nc := connect(t, srv.URL(), nats.SetCustomDialer(v))
	s := openStore(t, nc, streams.Layout{})
	facts := make([]*events.Fact, 10)
	for i := range facts {
		facts[i] = newFact(newTask(), task.Submitted{Work: testWork("default")})
	}
	ctx, cancel := context.WithCancel(context.Background())
	v.Hold()
	sent := nc.Stats().OutMsgs
	var leaver sync.WaitGroup
	leaver.Go(func() {
		defer cancel()
		if !testkit.Poll(testkit.Patience, func() bool { return nc.Stats().OutMsgs >= sent+uint64(len(facts)) }) {
			t.Error("not all have left")
		}
	})
	defer leaver.Wait()
	outcomes := 0
	s.PlaceAll(ctx, facts, false, func(_ int, _ uint64, err error) {
		outcomes++
		if !errors.Is(err, events.ErrUnknown) || !errors.Is(err, context.Canceled) {
			t.Errorf("PlaceAll: %v, want ErrUnknown and the error of the context", err)
		}
	})
	v.Release()
	if outcomes != len(facts) {
		t.Errorf("%d outcomes of %d facts", outcomes, len(facts))
	}
	if seq, err := s.Append(within(t), newFact(newTask(), note("x")), 0); err != nil || seq != uint64(len(facts)+1) {
		t.Errorf("the next Append: %d, %v; want %d", seq, err, len(facts)+1)
	}
}

func TestAckOnAClosedStore(t *testing.T) {
	t.Parallel()
	s := must(Open(within(t), connect(t, startServer(t, embed.Config{}).URL()), streams.Layout{}))(t)
	l := &lease{store: s, reply: "out.ack"}
	s.Close()
	closed := func(err error) bool {
		return err != nil && strings.HasSuffix(err.Error(), "the store is closed") && !errors.Is(err, events.ErrUnknown)
	}
	if err := l.Ack(); !closed(err) {
		t.Errorf("Ack through a closed store: %v", err)
	}
	if _, err := s.Append(within(t), newFact(newTask(), note("too late")), 0); !closed(err) {
		t.Errorf("Append to a closed store: %v", err)
	}
}
