package scheduler

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/value"
)

// deliveries is a test's view of the offers of a log in memory.
type deliveries struct {
	*testWorld
	heard chan func(uint64)
	idle  atomic.Bool
}

func (d *deliveries) OnDead(dead func(uint64)) (func(), error) {
	d.heard <- dead
	return func() {}, nil
}

func (d *deliveries) Message(_ context.Context, seq uint64) (events.Record, bool, error) {
	all := d.All()
	if seq > uint64(len(all)) {
		return events.Record{}, false, nil
	}
	return all[seq-1], true, nil
}

func (d *deliveries) KeepQueue(context.Context, string) error { return nil }

func (d *deliveries) Idle(context.Context, string) (bool, error) { return d.idle.Load(), nil }

func (d *deliveries) run(t *testing.T) *Scheduler {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() { stop(); synctest.Wait() })
	s := New(d.Memory, d, d, Config{Settings: settings, Deliveries: d})
	go func() { _ = s.Run(ctx) }() // it returns nil
	return s
}

func TestDeadOffersEndTheirTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deliveries{testWorld: newTestWorld(t), heard: make(chan func(uint64), 1)}
		d.join(t, "n1")
		s := d.run(t)
		dead := <-d.heard
		waits := d.submit(t, job.Spec{})
		first, _ := d.Last(t.Context())
		runs := d.submit(t, job.Spec{})
		now := d.task(t, runs)
		second, _ := d.Last(t.Context())
		if _, _, err := d.rec.Do(t.Context(), now, task.Claim{Node: "n1", Session: "s-n1", Offer: second}); err != nil {
			t.Fatal(err)
		}
		for _, seq := range []uint64{first, second, first, 1, 999} { // also twice, a node's fact, and a missing one
			dead(seq)
		}
		pass(time.Second)
		if now := d.task(t, waits); now.State != task.Abnormal || now.Reason != value.Poison {
			t.Errorf("the one that waited is %s/%s", now.State, now.Reason)
		}
		// Too many deliveries of its offer say nothing about the running attempt: its node is well.
		named := node.Heartbeat{Session: "s-n1", Runs: []uint64{d.task(t, runs).Epoch}}
		for range 20 {
			if err := d.Memory.Beat(t.Context(), "n1", named, settings.AckWait); err != nil {
				t.Fatal(err)
			}
			pass(settings.AckWait / 2)
		}
		if now := d.task(t, runs); now.State != task.Running || now.Losses != 0 {
			t.Errorf("the one that runs is %s", now.State)
		}
		// But no node would get the offer any more, so the scheduler returns to it.
		named.Runs = nil
		if err := d.Memory.Beat(t.Context(), "n1", named, settings.AckWait); err != nil {
			t.Fatal(err)
		}
		pass(2 * settings.AckWait)
		if now := d.task(t, runs); now.State != task.Pending || !now.Offered || now.Losses != 1 {
			t.Errorf("the one that ran is %s, offered %t", now.State, now.Offered)
		}
		if n := s.Repairs(); n[RepairDead] != 2 || len(n) != 1 {
			t.Errorf("repairs: %v, want 2 dead", n)
		}
	})
}

func TestTasksWithoutAnOfferAreOfferedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deliveries{testWorld: newTestWorld(t), heard: make(chan func(uint64), 1)}
		d.join(t, "n1")
		s := d.run(t)
		id := d.submit(t, job.Spec{})
		pass(time.Minute)
		if n := s.Repairs(); len(n) > 0 {
			t.Fatalf("while its offer can come, repairs are counted: %v", n)
		}
		d.idle.Store(true)
		pass(11 * time.Second)
		records, err := d.Task(t.Context(), id)
		if err != nil || len(records) != 2 || records[1].Fact.Type != events.TaskQueued || s.Repairs()[RepairOffer] != 1 {
			t.Errorf("it has %d records, %v, repairs %v; want one more offer", len(records), err, s.Repairs())
		}
		// If that is no use, the pauses grow, also after a restart, up to an hour.
		another := New(d.Memory, d, d, Config{Settings: settings, Deliveries: d})
		for range int(2*time.Hour/time.Second) / 5 {
			pass(5 * time.Second)
			if err := another.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		records, err = d.Task(t.Context(), id)
		if offers, _ := events.Offered(records, 0); err != nil || offers < 6 || offers > 10 {
			t.Errorf("in two hours it was offered %d times, %v", offers, err)
		}
	})
}
