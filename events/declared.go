package events

import (
	"context"
	"slices"

	"millrace/task"
	"millrace/task/placement"
)

// Declarer gives the meaning of selectors' routes.
type Declarer interface {
	// Declared lists the routes that have had offers, and what they require of nodes. It may lag a
	// little.
	Declared(ctx context.Context) ([]placement.Declaration, error)
	// OnDeclared calls heard with each declaration until stop is called. Declarations can be lost.
	OnDeclared(heard func(placement.Declaration)) (stop func(), err error)
}

// declare records the route of an offer if it is a selector's.
func (m *Memory) declare(id task.ID, raw []byte, route placement.Route) {
	if !route.Selected() || slices.ContainsFunc(m.declared, func(d placement.Declaration) bool { return d.Route() == route.Queue() }) {
		return
	}
	f, err := Decode(raw)
	if _, due := f.Event.(task.Due); due || err != nil {
		return // it was declared when the timer was set
	}
	t := task.Evolve(task.Task{ID: id}, task.Recorded{Seq: 1, At: f.At, Event: f.Event.(task.Event)})
	d := placement.Declaration{From: uint64(len(m.records)) + 1, At: m.now()}
	if q, ok := f.Event.(task.Queued); ok {
		t.Work = q.Work
	}
	d.Queue, d.Needs = t.Asks()
	m.declared = append(m.declared, d)
	for _, heard := range m.watchers {
		go heard(d)
	}
}

// Declared implements [Declarer].
func (m *Memory) Declared(context.Context) ([]placement.Declaration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.declared), nil
}

// OnDeclared implements [Declarer].
func (m *Memory) OnDeclared(heard func(placement.Declaration)) (stop func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watchers == nil {
		m.watchers = map[int]func(placement.Declaration){}
	}
	n := m.watched
	m.watched++
	m.watchers[n] = heard
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watchers, n)
	}, nil
}
