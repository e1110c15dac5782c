package jet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/jet/embed"
	"millrace/jet/streams"
	"millrace/jet/wire"
	"millrace/task"
)

// newIdleGroup returns a group that writes only when the test says so.
func newIdleGroup(s *Store) *group {
	return &group{pub: s.pub, queue: make(chan grouped, maxGroup)}
}

func enqueue(t *testing.T, g *group, f *events.Fact, last uint64) *slot {
	t.Helper()
	m := must(newMessage(wire.ChainSubject(f), f))(t)
	m.expect(last)
	defer m.free()
	return must(g.send(m.detach()))(t)
}

func TestGroupAnswersEachMember(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	g := newIdleGroup(s)
	const members, stale = 40, 17
	tasks, slots := make([]task.ID, members), make([]*slot, members)
	for i := range slots {
		tasks[i] = newTask()
		last := uint64(0)
		if i == stale {
			last = 4711
		}
		slots[i] = enqueue(t, g, newFact(tasks[i], note("x")), last)
	}
	batch, left := g.collect(nil)
	if len(batch) != members || len(left) != 0 {
		t.Fatalf("a batch of %d, %d left; want all in one", len(batch), len(left))
	}
	g.write(within(t), batch)
	for i, slot := range slots {
		seq, err := s.pub.wait(within(t), slot)
		records := must(s.Task(within(t), tasks[i]))(t)
		switch {
		case i == stale:
			if !errors.Is(err, events.ErrConflict) || len(records) != 0 {
				t.Errorf("the stale member: %v and %d records, want ErrConflict and none", err, len(records))
			}
		case err != nil || len(records) != 1 || records[0].Seq != seq:
			t.Errorf("member %d: sequence %d, error %v, records %+v", i, seq, err, records)
		}
	}
	if n := g.behind.Load(); n != members {
		t.Errorf("%d messages were written singly, want %d after the refusal", n, members)
	}
}

func TestGroupTakesASubjectOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	g := newIdleGroup(s)
	id, other := newTask(), newTask()
	slots := []*slot{
		enqueue(t, g, newFact(id, note("first")), 0),
		enqueue(t, g, newFact(id, note("too late")), 0),
		enqueue(t, g, newFact(other, note("other")), 0),
	}
	batch, left := g.collect(nil)
	if len(batch) != 2 || len(left) != 1 {
		t.Fatalf("a batch of %d, %d left; want 2 and 1", len(batch), len(left))
	}
	g.write(within(t), batch)
	batch, left = g.collect(left)
	if len(batch) != 1 || len(left) != 0 {
		t.Fatalf("then a batch of %d, %d left; want 1 and 0", len(batch), len(left))
	}
	g.write(within(t), batch)
	for i, want := range []error{nil, events.ErrConflict, nil} {
		if _, err := s.pub.wait(within(t), slots[i]); !errors.Is(err, want) {
			t.Errorf("member %d: %v, want %v", i, err, want)
		}
	}
	if n := g.behind.Load(); n != 0 {
		t.Errorf("%d messages were refused in a batch, want none", n)
	}
}

// A batch whose answer is lost may be stored, so none of it is written again.
func TestGroupDoesNotRepeatWhatMayBeStored(t *testing.T) {
	t.Parallel()
	s := newImpatientStore(t, must(startServer(t, embed.Config{}).Connect())(t), time.Second, streams.Layout{SyncAlways: true})
	t.Cleanup(s.NC.Close)
	var deaf atomic.Bool
	deafen(t, s.pub, deaf.Load)
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

func TestManyWritersShareBatches(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{SyncAlways: true})
	const writers, length = 100, 5
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			id, head := newTask(), uint64(0)
			for i := range length {
				seq, err := s.Append(within(t), newFact(id, note(fmt.Sprint(i))), head)
				if err != nil {
					t.Errorf("append %d of %s: %v", i, id, err)
					return
				}
				head = seq
			}
			records, err := s.Task(within(t), id)
			if err != nil || len(records) != length || records[length-1].Seq != head {
				t.Errorf("task %s has %d records, %v; want %d, the last at %d", id, len(records), err, length, head)
			}
		})
	}
	wg.Wait()
	shared := 0
	for seq := range uint64(writers * length) {
		if m := must(s.log.GetMsg(within(t), seq+1))(t); m.Header.Get(batchIDHeader) != "" {
			shared++
		}
	}
	if shared == 0 {
		t.Error("no message was written in a batch")
	}
}

func TestGroupRefusesOnlyWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	failed := make(chan string, 1)
	ns := must(newTestServer(fmt.Sprintf("listen: 127.0.0.1:-1\nmax_payload: 64KB\njetstream { store_dir: %q }\n", t.TempDir()), failed))(t)
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

// What a caller gives up on does not disturb who comes after it.
func TestPlaceAllEndsWithItsContext(t *testing.T) {
	t.Parallel()
	srv := startServer(t, embed.Config{})
	v := newValve()
	s := openStore(t, connect(t, srv.URL(), nats.SetCustomDialer(v)), streams.Layout{})
	facts := make([]*events.Fact, 10)
	for i := range facts {
		facts[i] = newFact(newTask(), task.Submitted{Work: testWork("default")})
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	v.hold()
	outcomes := 0
	s.PlaceAll(ctx, facts, false, func(_ int, _ uint64, err error) {
		outcomes++
		if !errors.Is(err, events.ErrUnknown) || !errors.Is(err, context.Canceled) {
			t.Errorf("PlaceAll: %v, want ErrUnknown and the error of the context", err)
		}
	})
	v.release()
	if outcomes != len(facts) {
		t.Errorf("%d outcomes of %d facts", outcomes, len(facts))
	}
	if seq, err := s.Append(within(t), newFact(newTask(), note("x")), 0); err != nil || seq != uint64(len(facts)+1) {
		t.Errorf("the next Append: %d, %v; want %d", seq, err, len(facts)+1)
	}
}
