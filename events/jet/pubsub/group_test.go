package pubsub

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/natstest"
	"millrace/events/jet/streams"
	"millrace/task"
)

// newIdleGroup returns a group that writes only when the test asks for it.
func newIdleGroup(s *testLog) *group {
	return &group{pub: s.pub, queue: make(chan grouped, maxGroup)}
}

func enqueue(t *testing.T, g *group, f *events.Fact, last uint64) *Slot {
	t.Helper()
	m := must(NewOutgoing(names.ChainSubject(f), f))(t)
	m.Expect(last)
	defer m.Free()
	return must(g.send(m.Detach()))(t)
}

func TestGroupAnswersEachMember(t *testing.T) {
	t.Parallel()
	s := newLog(t, streams.Layout{})
	g := newIdleGroup(s)
	const members, stale = 40, 17
	tasks, slots := make([]task.ID, members), make([]*Slot, members)
	for i := range slots {
		tasks[i] = natstest.NewTask()
		last := uint64(0)
		if i == stale {
			last = 4711
		}
		slots[i] = enqueue(t, g, natstest.NewFact(tasks[i], natstest.Note("x")), last)
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
	s := newLog(t, streams.Layout{})
	g := newIdleGroup(s)
	id, other := natstest.NewTask(), natstest.NewTask()
	slots := []*Slot{
		enqueue(t, g, natstest.NewFact(id, natstest.Note("first")), 0),
		enqueue(t, g, natstest.NewFact(id, natstest.Note("too late")), 0),
		enqueue(t, g, natstest.NewFact(other, natstest.Note("other")), 0),
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

func TestManyWritersShareBatches(t *testing.T) {
	t.Parallel()
	s := newLog(t, streams.Layout{SyncAlways: true})
	const writers, length = 100, 5
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			id, head := natstest.NewTask(), uint64(0)
			for i := range length {
				seq, err := s.append(within(t), natstest.NewFact(id, natstest.Note(fmt.Sprint(i))), head)
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
		if m := must(s.stream.GetMsg(within(t), seq+1))(t); m.Header.Get(batchIDHeader) != "" {
			shared++
		}
	}
	if shared == 0 {
		t.Error("no message was written in a batch")
	}
}
