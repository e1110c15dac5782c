package retention

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/task"
)

func TestDue(t *testing.T) {
	noon := time.Date(2026, 11, 5, 12, 0, 0, 0, time.UTC)
	p := Policy{Done: time.Hour, Failed: 2 * time.Hour}
	for _, c := range []struct {
		name  string
		p     Policy
		state task.State
		want  time.Duration // after noon; 0 for never
	}{
		{"finished", p, task.Finished, time.Hour},
		{"error", p, task.Error, 2 * time.Hour},
		{"cancelled", p, task.Cancelled, 2 * time.Hour},
		{"running", p, task.Running, 0},
		{"for ever", Policy{Failed: time.Hour}, task.Finished, 0},
	} {
		at, ok := c.p.Due(&task.Task{State: c.state, EndedAt: noon})
		if ok != (c.want > 0) || ok && !at.Equal(noon.Add(c.want)) {
			t.Errorf("%s: %v, %v", c.name, at, ok)
		}
	}
}

// memory is a Store.
type memory struct {
	sync.Mutex
	tasks   map[task.ID]*task.Task
	dropped map[task.ID]int
	loads   int
	broken  bool
}

func (m *memory) OutputTasks(context.Context) (ids []task.ID, err error) {
	m.Lock()
	defer m.Unlock()
	for id := range m.tasks {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, nil
}

func (m *memory) Load(_ context.Context, id task.ID) (task.Task, error) {
	m.Lock()
	defer m.Unlock()
	m.loads++
	if m.broken {
		return task.Task{}, errors.New("away")
	}
	return *m.tasks[id], nil
}

func (m *memory) DropOutput(_ context.Context, l task.Lines) (bool, error) {
	m.Lock()
	defer m.Unlock()
	m.dropped[l.Task]++
	return m.dropped[l.Task] == 1, nil
}

func TestKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		m := &memory{dropped: map[task.ID]int{}, tasks: map[task.ID]*task.Task{
			"A": {ID: "A", State: task.Finished, EndedAt: now},
			"B": {ID: "B", State: task.Error, EndedAt: now},
			"C": {ID: "C", State: task.Running},
		}}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		for range 2 { // two servers
			k := &Keeper{Store: m, Policy: Policy{Done: time.Hour, Failed: 3 * time.Hour}, Now: time.Now}
			go func() { ended <- k.Run(ctx) }()
			time.Sleep(time.Second)
		}
		pass := func(d time.Duration) {
			m.Unlock()
			time.Sleep(d)
			m.Lock()
		}
		m.Lock()
		pass(59 * time.Minute)
		if len(m.dropped) != 0 || m.loads > 30 {
			t.Errorf("early: dropped %v, %d loads", m.dropped, m.loads)
		}
		m.broken = true
		pass(10 * time.Minute)
		m.broken = false
		pass(10 * time.Minute)
		if m.dropped["A"] != 2 || len(m.dropped) != 1 {
			t.Errorf("after an hour: dropped %v", m.dropped)
		}
		m.tasks["C"].State, m.tasks["C"].EndedAt = task.Cancelled, time.Now()
		pass(2 * time.Hour)
		if m.dropped["B"] == 0 || m.dropped["C"] != 0 {
			t.Errorf("after three hours: dropped %v", m.dropped)
		}
		pass(2 * time.Hour)
		if m.dropped["C"] == 0 || m.dropped["A"] != 2 {
			t.Errorf("after five hours: dropped %v", m.dropped)
		}
		m.Unlock()
		stop()
		for range 2 {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
}
