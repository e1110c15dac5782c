package scheduler

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

// hooked is a world with hooks at the worst moments, each called once.
type hooked struct {
	*testWorld
	known func() // after a question to the read model, and before its answer
	opens func() // before the fact that opens the needs of a held task
	offer func() // before the next offer that is not of a birth
}

func once(f *func()) {
	if do := *f; do != nil {
		*f = nil
		do()
	}
}

func (w *hooked) Known(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	tasks, err := w.testWorld.Known(ctx, ids)
	once(&w.known)
	return tasks, err
}

func (w *hooked) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	if f.Type == events.TaskUnheld {
		once(&w.opens)
	}
	return w.Memory.Append(ctx, f, last)
}

func (w *hooked) Place(ctx context.Context, f *events.Fact) (uint64, error) {
	once(&w.offer)
	return w.Memory.Place(ctx, f)
}

// start starts a scheduler of that world, which ends with the test's bubble.
func (w *hooked) start(t *testing.T) *Scheduler {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() { stop(); synctest.Wait() })
	s := New(w, w, w, Config{Settings: settings})
	go func() { _ = s.Run(ctx) }() // it returns nil
	w.tell(t, s)
	return s
}

func (w *testWorld) end(t *testing.T, id task.ID) {
	t.Helper()
	started := w.claim(t, id, "n1")
	w.do(t, started, task.Finish{Epoch: started.Epoch})
}

// offersOf counts the offers of a task.
func (w *testWorld) offersOf(t *testing.T, id task.ID) (offers, opened int) {
	t.Helper()
	records, err := w.Task(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		switch records[i].Fact.Event.(type) {
		case task.Queued, task.Due:
			offers++
		case task.Unheld:
			opened++
		}
	}
	return offers, opened
}

func (w *testWorld) wantsOneOffer(t *testing.T, id task.ID) {
	t.Helper()
	if offers, opened := w.offersOf(t, id); offers != 1 || opened != 1 {
		t.Errorf("%d offers and %d facts that opened its hold, want one of each", offers, opened)
	}
}

// The read model's answer is older than what a scheduler has observed since it asked.
func TestAnOldAnswerHidesNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &hooked{testWorld: newTestWorld(t)}
		w.join(t, "n1")
		first := w.submit(t, job.Spec{})
		w.known = func() {
			w.end(t, first)
			hold(time.Millisecond) // until that was observed
		}
		s := w.start(t)
		second := w.need(t, "", "", first)
		pass(time.Second)
		w.wants(t, "who needs what has ended", second, task.Pending, "")
		noRepairs(t, []*Scheduler{s})
		if s.needs.crowded() {
			t.Error("the read model is hurried, and nobody waits")
		}
	})
}

// A task that was held when a scheduler started may be released when the scheduler learns its
// needs.
func TestAnOldRowIsNobodyWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &hooked{testWorld: newTestWorld(t)}
		w.join(t, "n1")
		first := w.submit(t, job.Spec{})
		second := w.need(t, "", "", first)
		third := w.need(t, "", "", second)
		w.end(t, first)
		w.known = func() { // another scheduler is faster
			now, needed := w.task(t, second), w.task(t, first)
			free, err := now.Needs.Follow([]task.Input{task.InputOf(&needed)})
			if err != nil {
				t.Fatal(err)
			}
			w.do(t, now, free)
			now = w.task(t, second)
			if err := w.rec.Settle(t.Context(), &now); err != nil {
				t.Fatal(err)
			}
			w.end(t, second)
			hold(time.Millisecond) // until that was observed
		}
		s := w.start(t)
		pass(time.Second)
		w.wants(t, "who needs what has ended", third, task.Pending, "")
		noRepairs(t, []*Scheduler{s})
	})
}

// A held task that is moved while its hold is being opened is offered on its new route.
func TestAMoveMeetsTheOffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &hooked{testWorld: newTestWorld(t)}
		w.join(t, "n1")
		first := w.submit(t, job.Spec{})
		second := w.need(t, "", "", first)
		w.opens = func() { w.do(t, w.task(t, second), task.Prioritize{Priority: 9}) }
		s := w.start(t)
		synctest.Wait()
		w.end(t, first)
		pass(time.Second)
		now := w.wants(t, "it", second, task.Pending, "")
		if now.Route.Priority() != 9 || !now.Offered {
			t.Errorf("it waits on %s, offered: %v", now.Route, now.Offered)
		}
		noRepairs(t, []*Scheduler{s})
	})
}

// With any number of schedulers, a step takes the fact that opens its hold, one offer and no other
// write.
func TestOneOfferForEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		all := w.runTold(t, 3)
		first := w.submit(t, job.Spec{})
		second := w.need(t, "", "", first)
		synctest.Wait()
		w.end(t, first)
		pass(time.Minute)
		w.wants(t, "it", second, task.Pending, "")
		w.wantsOneOffer(t, second)
		noRepairs(t, all)
	})
}

// A scheduler that looks between another one's fact and its offer places none.
func TestNoOfferBetweenFactAndOffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &hooked{testWorld: newTestWorld(t)}
		w.join(t, "n1")
		all := []*Scheduler{w.start(t), w.start(t)}
		first := w.submit(t, job.Spec{})
		second := w.need(t, "", "", first)
		synctest.Wait()
		w.offer = func() {
			hold(time.Millisecond) // until the fact was observed
			for _, s := range all {
				s.needs.look(second)
			}
			hold(time.Millisecond) // until both have looked
		}
		w.end(t, first)
		pass(time.Minute)
		if w.offer != nil {
			t.Error("nobody was about to place an offer")
		}
		w.wantsOneOffer(t, second)
		noRepairs(t, all)
	})
}

// A scheduler whose store is slow to take what lets a task go repairs nothing.
func TestASlowStoreIsNoFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &hooked{testWorld: newTestWorld(t)}
		w.join(t, "n1")
		s := w.start(t)
		first := w.submit(t, job.Spec{})
		second := w.need(t, "", "", first)
		synctest.Wait()
		w.opens = func() { hold(2*s.cfg.Sweep + s.cfg.Slack) }
		w.end(t, first)
		pass(time.Minute)
		if w.opens != nil {
			t.Error("nobody let it go by a fact")
		}
		w.wants(t, "it", second, task.Pending, "")
		w.wantsOneOffer(t, second)
		noRepairs(t, []*Scheduler{s})
	})
}

// If a scheduler dies between its fact and its offer, one that finds the fact places the offer soon, before
// any sweep.
func TestOfferOfADeadScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &hooked{testWorld: newTestWorld(t)}
		w.join(t, "n1")
		first := w.submit(t, job.Spec{})
		second := w.need(t, "", "", first)
		w.end(t, first)
		now, needed := w.task(t, second), w.task(t, first)
		free, err := now.Needs.Follow([]task.Input{task.InputOf(&needed)})
		if err != nil {
			t.Fatal(err)
		}
		w.do(t, now, free)
		s := w.start(t)
		synctest.Wait()
		s.needs.look(second) // as for an old row, or when it has lost
		pass(releaseAgain + offerWithin)
		w.wantsOneOffer(t, second)
		noRepairs(t, []*Scheduler{s})
	})
}

// A rebuilt read model reports everything again. The scheduler does nothing twice, and keeps
// nothing.
func TestToldFromTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		all := w.runTold(t, 1)
		first := w.submit(t, job.Spec{})
		second := w.need(t, "", "", first)
		third := w.need(t, "", "", first, second)
		synctest.Wait()
		w.end(t, first)
		synctest.Wait()
		again := w.again(t)
		all[0].Observe(again)
		synctest.Wait()
		w.end(t, second)
		synctest.Wait()
		w.wants(t, "the third", third, task.Pending, "")
		w.wantsOneOffer(t, second)
		w.wantsOneOffer(t, third)
		nothingKept(t, all)
		noRepairs(t, all)
	})
}

// again returns the whole log in the steps of a rebuilt read model.
func (w *testWorld) again(t *testing.T) []events.Step {
	t.Helper()
	last, err := w.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	feed, err := w.Follow(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	tasks := map[task.ID]task.Task{}
	var steps []events.Step
	for uint64(len(steps)) < last {
		records, err := feed.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range records {
			s := events.Step{Record: &records[i]}
			if id := records[i].Fact.Task; id != "" {
				was := tasks[id]
				was.ID = id
				is := task.Evolve(was, records[i].Task())
				s.Was, s.Is, tasks[id] = events.GlanceAt(&was), events.GlanceAt(&is), is
			}
			steps = append(steps, s)
		}
	}
	return steps
}

// Finishing a task's earlier life does not drop it when it is held again.
func TestDoneWithAnOlderLife(t *testing.T) {
	n := newNeeds(NewPrecedence("one").Left())
	id := task.ID("01JNA000000000000000000001")
	held := events.Glance{Course: task.Course{State: task.Held}}
	step := func(seq uint64, was, is events.Glance, e task.Event) {
		n.observe(&events.Step{Record: &events.Record{Seq: seq, Fact: events.Fact{Task: id, Event: e}}, Was: was, Is: is})
	}
	needs := &task.Needs{Of: []task.Need{{Task: "01JNA000000000000000000002"}}}
	step(5, events.Glance{}, held, task.Submitted{Work: task.Work{Spec: &job.Spec{}, Needs: needs, Holds: []string{task.HoldNeeds}}})
	step(10, held, events.Glance{Course: task.Course{State: task.Cancelled}}, task.CancelConfirmed{Code: value.Skipped})
	step(20, events.Glance{Course: task.Course{State: task.Cancelled}}, held, task.Reopened{})
	n.done(id, 10)
	if n.waiting[id] == nil || !n.keys[id] {
		t.Error("it is forgotten")
	}
	n.done(id, 20)
	if n.waiting[id] != nil || n.keys[id] {
		t.Error("it is not forgotten")
	}
}

// many is a read model with many held tasks, nearly all of which wait for one that runs.
type many struct {
	Model
	ids   []task.ID
	needs map[task.ID]task.ID
	ended task.ID
}

func (m *many) Held(_ context.Context, after task.ID, limit int) (ids []task.ID, err error) {
	for _, id := range m.ids {
		if id > after && len(ids) < limit {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (m *many) Known(_ context.Context, ids []task.ID) (tasks []task.Task, err error) {
	for _, id := range ids {
		t := task.Task{ID: id, State: task.Held, Work: task.Work{Spec: &job.Spec{Handler: "x"}, Route: "default.5", Holds: []string{task.HoldNeeds}}}
		if of := m.needs[id]; of != "" {
			t.Needs = &task.Needs{Of: []task.Need{{Task: of}}}
		} else {
			t.State = task.Finished
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}

func (m *many) Ends(_ context.Context, ids []task.ID) (map[task.ID]task.End, uint64, error) {
	return map[task.ID]task.End{m.ended: {State: task.Finished}}, 0, nil
}

// However many tasks are held, the sweep finds the one that was not released.
func TestTheSweepComesRound(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	log := events.NewMemory(clock, settings.AckWait)
	id := func(i int) task.ID { return task.ID(fmt.Sprintf("01JNA%021d", i)) }
	view := &many{needs: map[task.ID]task.ID{}, ended: id(0)}
	const n, lost = 3 * heldPerSweep, 2 * heldPerSweep
	for i := 1; i <= n; i++ {
		view.ids = append(view.ids, id(i))
		view.needs[id(i)] = id(n + 1)
	}
	view.needs[id(lost)] = id(0)
	s := New(log, view, nil, Config{Settings: settings, Now: clock})
	birth := task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "x"}, Route: "default.5", Holds: []string{task.HoldNeeds}, Needs: &task.Needs{Of: []task.Need{{Task: id(0)}}}}}
	if _, err := s.rec.Submit(t.Context(), id(lost), birth); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := s.sweepHeld(t.Context()); err != nil {
			t.Fatal(err)
		}
		now = now.Add(s.cfg.Sweep)
	}
	if n := s.Repairs()[RepairHold]; n != 1 {
		t.Errorf("%d repairs, want one", n)
	}
	if got, err := s.rec.Load(t.Context(), id(lost)); err != nil || got.State != task.Pending || !got.Offered {
		t.Errorf("it is %s, %v, want it offered", got.State, err)
	}
}
