package scheduler

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

func TestDue(t *testing.T) {
	noon := time.Date(2026, 11, 5, 12, 0, 0, 0, time.UTC)
	const hour = time.Hour
	p := Policy{Done: hour, Failed: 2 * hour}
	own := job.Keep{Done: value.Duration(5 * hour), Logs: value.Duration(3 * hour)}
	for _, c := range []struct {
		name   string
		kind   Kind
		p      Policy
		keep   job.Keep
		state  task.State
		want   time.Duration // after noon; 0 for never
		reason string
	}{
		{"finished", Output, p, job.Keep{}, task.Finished, hour, "the task has ended as finished and log_keep_done is 1h0m0s"},
		{"error", Records, p, job.Keep{}, task.Error, 2 * hour, "the task has ended as error and data_keep_failed is 2h0m0s"},
		{"cancelled", Output, p, job.Keep{}, task.Cancelled, 2 * hour, "the task has ended as cancelled and log_keep_failed is 2h0m0s"},
		{"running", Output, p, own, task.Running, 0, ""},
		{"for ever", Output, Policy{Failed: hour}, job.Keep{}, task.Finished, 0, ""},
		{"the job's own", Records, p, own, task.Finished, 5 * hour, "the task has ended as finished and keep.done is 5h0m0s"},
		{"its logs", Output, p, own, task.Finished, 3 * hour, "the task has ended as finished and keep.logs is 3h0m0s"},
		{"the job says nothing of it", Records, p, own, task.Error, 2 * hour, "the task has ended as error and data_keep_failed is 2h0m0s"},
		{"the job alone", Output, Policy{}, own, task.Error, 3 * hour, "the task has ended as error and keep.logs is 3h0m0s"},
	} {
		ended := &task.Task{State: c.state, EndedAt: noon, Work: task.Work{Spec: &job.Spec{Keep: c.keep}}}
		at, ok := c.kind.Due(c.p, ended)
		if ok != (c.want > 0) || ok && !at.Equal(noon.Add(c.want)) {
			t.Errorf("%s: %v, %v", c.name, at, ok)
		}
		if reason := c.kind.Reason(c.p, ended); ok && reason != c.reason {
			t.Errorf("%s: %q", c.name, reason)
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

func (m *memory) Tasks(context.Context) (ids []task.ID, err error) {
	m.Lock()
	defer m.Unlock()
	for id := range m.tasks {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, nil
}

func (m *memory) Forget(context.Context) error { return nil }

func (m *memory) Known(_ context.Context, ids []task.ID) (tasks []task.Task, err error) {
	m.Lock()
	defer m.Unlock()
	for _, id := range ids {
		tasks = append(tasks, *m.tasks[id])
	}
	return tasks, nil
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

func (m *memory) Drop(_ context.Context, t *task.Task, _ string, _ time.Time) (bool, error) {
	m.Lock()
	defer m.Unlock()
	m.dropped[t.ID]++
	return m.dropped[t.ID] == 1, nil
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
			k := &Retention{Kind: Output, Store: m, Policy: Policy{Done: time.Hour, Failed: 3 * time.Hour}, Now: time.Now}
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

// TestKeeperWithoutPolicy: a job sets its own time, and no settings exist.
func TestKeeperWithoutPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{dropped: map[task.ID]int{}, tasks: map[task.ID]*task.Task{
			"A": {ID: "A", State: task.Finished, EndedAt: time.Now(), Work: task.Work{Spec: &job.Spec{Keep: job.Keep{Done: value.Duration(time.Hour)}}}},
			"B": {ID: "B", State: task.Finished, EndedAt: time.Now()},
			"C": {ID: "C", State: task.Running, Work: task.Work{Spec: &job.Spec{Keep: job.Keep{Done: value.Duration(time.Second)}}}},
		}}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		k := &Retention{Kind: Records, Store: m, Now: time.Now}
		go func() { ended <- k.Run(ctx) }()
		time.Sleep(59 * time.Minute)
		m.Lock()
		if len(m.dropped) != 0 || m.loads != 0 {
			t.Errorf("early: dropped %v, %d loads", m.dropped, m.loads)
		}
		m.tasks["C"].State, m.tasks["C"].EndedAt = task.Finished, time.Now()
		m.Unlock()
		time.Sleep(2 * time.Minute)
		m.Lock()
		if m.dropped["A"] != 1 || m.dropped["B"] != 0 || m.dropped["C"] != 1 {
			t.Errorf("after an hour: dropped %v; C was seen running before and kept for a second", m.dropped)
		}
		m.Unlock()
		stop()
		<-ended
	})
}
