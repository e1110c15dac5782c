package jet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/placement"
)

// submitAt places the birth of a new task in a lane.
func submitAt(t testing.TB, s *Store, queue string, priority int) task.ID {
	t.Helper()
	id := newTask()
	w := testWork(queue)
	w.Route = placement.QueueRoute(queue, priority)
	if _, err := s.Place(within(t), newFact(id, task.Submitted{Work: w})); err != nil {
		t.Fatal(err)
	}
	return id
}

// consumers are the names of the log's consumers.
func consumers(t testing.TB, s *Store) []string {
	t.Helper()
	var all []string
	names := s.log.ConsumerNames(within(t))
	for name := range names.Name() {
		all = append(all, name)
	}
	if err := names.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// done takes the next offer, which must be of this task, and is done with it.
func done(t testing.TB, o *offers, id task.ID) uint64 {
	t.Helper()
	offer := must(o.Next(within(t)))(t)
	if offer.Fact.Task != id {
		t.Fatalf("got an offer of %s, want %s", offer.Fact.Task, id)
	}
	if err := offer.Lease.Ack(); err != nil {
		t.Fatal(err)
	}
	return offer.Seq
}

// awaits asks for the next offer and returns the function that waits for it.
func awaits(t testing.TB, o *offers) (get func() task.ID) {
	t.Helper()
	got := make(chan task.ID, 1)
	go func() {
		offer, err := o.Next(within(t))
		if err == nil {
			err = offer.Lease.Ack()
		}
		if err != nil {
			t.Error(err)
			got <- ""
			return
		}
		got <- offer.Fact.Task
	}()
	return func() task.ID { return <-got }
}

// Tasks of a queue that no worker serves cost no consumer. The first worker finds every lane, also
// one whose timer has not fired yet.
func TestLanesWithoutAServer(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	now := submitAt(t, s, "later", 8)
	w := testWork("later")
	w.Route = placement.QueueRoute("later", 3)
	due := newTask()
	if err := s.Arm(within(t), newFact(due, task.Queued{Work: w, Due: time.Now().Add(time.Second)})); err != nil {
		t.Fatal(err)
	}
	if all := consumers(t, s); len(all) > 0 {
		t.Errorf("consumers %v, want none", all)
	}
	o := offersOf(t, openStore(t, s.NC, streams.Layout{}), "later")
	done(t, o, now)
	done(t, o, due)
}

// An unused lane is removed, also from workers that wait there. Its next task makes it again after
// the finished ones, and no waiter must be told twice.
func TestUnusedLaneCloses(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	o := offersOf(t, openStore(t, s.NC, streams.Layout{}), "q")
	lane := placement.Lane{Queue: "q", Priority: 8}
	first := submitAt(t, s, "q", 8)
	ctx := within(t)
	soon := time.Now().Add(time.Hour)

	if unused := must(s.UnusedLanes(ctx, time.Now().Add(-time.Hour)))(t); len(unused) > 0 {
		t.Errorf("%v counts as unused", unused)
	}
	if closed := must(s.CloseLane(ctx, lane, time.Now().Add(-time.Hour)))(t); closed {
		t.Error("a lane was closed that was used a moment ago")
	}
	offer := must(o.Next(ctx))(t)
	if closed := must(s.CloseLane(ctx, lane, soon))(t); closed {
		t.Error("a lane was closed of which an offer is leased")
	}
	if err := offer.Lease.Ack(); err != nil || offer.Fact.Task != first {
		t.Fatal(offer.Fact.Task, err)
	}
	testkit.Eventually(t, "the lane is closed once its offers are done with", func() bool {
		unused := must(s.UnusedLanes(ctx, soon))(t)
		return slices.Equal(unused, []placement.Lane{lane}) && must(s.CloseLane(ctx, lane, soon))(t)
	})
	if unused := must(s.UnusedLanes(ctx, soon))(t); len(unused) > 0 {
		t.Errorf("%v counts as unused after it was closed", unused)
	}
	get := awaits(t, o)
	testkit.Eventually(t, "the worker lets go of the lane", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return !slices.ContainsFunc(o.sources, func(s *source) bool { return s.lane == lane })
	})
	if all := consumers(t, s); slices.Contains(all, names.LaneConsumer(lane)) {
		t.Errorf("consumers %v: the worker has made it again", all)
	}

	second := submitAt(t, s, "q", 8)
	if got := get(); got != second {
		t.Errorf("got an offer of %s, want %s", got, second)
	}
	c := must(s.JS.Consumer(ctx, names.LogStream, names.LaneConsumer(lane)))(t)
	if info := c.CachedInfo(); info.Config.OptStartSeq <= offer.Seq || info.Delivered.Consumer != 1 {
		t.Errorf("it begins at %d, and has handed out %d; what lies at %d was done with", info.Config.OptStartSeq, info.Delivered.Consumer, offer.Seq)
	}
}

// A timer keeps its lane open until it has fired.
func TestTimerKeepsItsLane(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	w := testWork("q")
	w.Route = placement.QueueRoute("q", 8)
	if err := s.Arm(within(t), newFact(newTask(), task.Queued{Work: w, Due: time.Now().Add(48 * time.Hour)})); err != nil {
		t.Fatal(err)
	}
	lane := placement.Lane{Queue: "q", Priority: 8}
	for after, want := range map[time.Duration]bool{time.Hour: false, 47 * time.Hour: false, 80 * time.Hour: true} {
		unused := must(s.UnusedLanes(within(t), time.Now().Add(after)))(t)
		if got := slices.Contains(unused, lane); got != want {
			t.Errorf("unused after %v: %v", after, got)
		}
	}
	if closed := must(s.CloseLane(within(t), lane, time.Now().Add(80*time.Hour)))(t); !closed {
		t.Error("it is not closed")
	}
	if w := must(s.laneWord(within(t), lane))(t); w.seq != 0 {
		t.Error("something is kept of a lane that never had a consumer")
	}
}

// A task placed in a lane while the lane is being removed wins: the removal is refused, or the lane
// is made again.
func TestLaneIsUsedWhileItCloses(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	ctx := within(t)
	o := offersOf(t, openStore(t, s.NC, streams.Layout{}), "q")
	lane := placement.Lane{Queue: "q", Priority: 8}
	done(t, o, submitAt(t, s, "q", 8))

	seen := must(s.laneWord(ctx, lane))(t)
	say := func(w laneWord) (laneWord, bool) {
		t.Helper()
		is, done, err := s.sayLane(ctx, lane, w)
		if err != nil {
			t.Fatal(err)
		}
		return is, done
	}
	say(seen) // a writer, meanwhile
	seen.Closed = true
	if _, closed := say(seen); closed {
		t.Error("a lane is closed that was used meanwhile")
	}

	seen = must(s.laneWord(ctx, lane))(t)
	seen.Closed, seen.From = true, 1
	mine, _ := say(seen)
	id := submitAt(t, openStore(t, s.NC, streams.Layout{}), "q", 8) // a writer finds the lane closed and its consumer there
	if err := s.removeLane(ctx, lane, mine); err != nil {
		t.Fatal(err)
	}
	for range 3 { // earlier offers come again, for the lane was closed at its beginning
		if offer := must(o.Next(ctx))(t); offer.Fact.Task == id {
			return
		}
	}
	t.Error("the offer is not to be had")
}

// When all words of lanes are lost, the read model restores those of lanes with tasks, and a worker
// those of lanes that it serves. A removed lane stays away.
func TestLanesAreToldAgain(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	ctx := within(t)
	o := offersOf(t, openStore(t, s.NC, streams.Layout{}), "served")
	done(t, o, submitAt(t, s, "served", 8))
	waits := submitAt(t, s, "later", 3)
	far := s.Now().Add(72 * time.Hour).UTC().Truncate(time.Second)
	if err := s.JS.DeleteStream(ctx, names.StateStream); err != nil {
		t.Fatal(err)
	}
	if _, err := s.LanesTold(ctx); !errors.Is(err, events.ErrNoStream) {
		t.Errorf("where there is no stream: %v", err)
	}
	if err := streams.Ensure(ctx, request.NewFormer(s.NC, request.Patience{}), s.JS, streams.Layout{}); err != nil {
		t.Fatal(err)
	}
	if told := must(s.LanesTold(ctx))(t); told {
		t.Error("what is lost counts as told")
	}
	used := map[placement.Lane]time.Time{{Queue: "later", Priority: 3}: {}, {Queue: "served", Priority: 8}: far, {Queue: "later", Priority: 5}: {}}
	if err := s.TellLanes(ctx, used); err != nil {
		t.Fatal(err)
	}
	if told := must(s.LanesTold(ctx))(t); !told {
		t.Error("what was told counts as lost")
	}
	if w := must(s.laneWord(ctx, placement.Lane{Queue: "served", Priority: 8}))(t); !w.Until.Equal(far) {
		t.Errorf("its last timer is said to be due at %v, want %v", w.Until, far)
	}
	done(t, offersOf(t, openStore(t, s.NC, streams.Layout{}), "later"), waits)

	served := placement.Lane{Queue: "served", Priority: 8}
	if err := s.dropUpTo(ctx, laneSubject(served), math.MaxUint32); err != nil {
		t.Fatal(err)
	}
	o.lookAgain()
	testkit.Eventually(t, "the worker says that the lane is used", func() bool {
		lanes := must(s.spoken(ctx, "served"))(t)
		return slices.Equal(lanes, []placement.Lane{served})
	})
	if closed := must(s.CloseLane(ctx, served, time.Now().Add(time.Hour)))(t); !closed {
		t.Error("it is not closed")
	}
	if err := o.tellLanes(ctx, nil); err != nil { // it still waits there
		t.Fatal(err)
	}
	if lanes := must(s.spoken(ctx, "served"))(t); len(lanes) > 0 {
		t.Errorf("%v is opened by a worker that waits there", lanes)
	}
}

// A worker that waits at a route of a selector lets go of it when that is retracted, and does not
// make it again.
func TestRetractedRouteStaysAway(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	e := selectorWork(t, "gpu")
	ctx := within(t)
	o := offersOf(t, openStore(t, s.NC, streams.Layout{}), "default")
	id := born(t, s, e)
	if err := o.Also(ctx, []string{e.Route.Queue()}); err != nil {
		t.Fatal(err)
	}
	done(t, o, id)
	said := must(s.Declared(ctx))(t)
	if err := s.Retract(ctx, said[0]); err != nil {
		t.Fatal(err)
	}
	get := awaits(t, o)
	testkit.Eventually(t, "the worker lets go", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.sources) == 1
	})
	if all := consumers(t, s); !slices.Equal(all, []string{"queue_default"}) {
		t.Errorf("consumers %v", all)
	}
	s.declared = declared{}
	id = born(t, s, e)
	if err := o.Also(ctx, []string{e.Route.Queue()}); err != nil {
		t.Fatal(err)
	}
	if got := get(); got != id {
		t.Errorf("got an offer of %s, want %s", got, id)
	}
}

// However many names of queues and labels come from outside, there is room for nodes, queues,
// priorities and readers.
func TestFloodOfNames(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	const most = 100
	names := testkit.Size(250, 1250) // of queues, and as many of selectors
	if err := s.BoundSelectors(within(t), most); err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	refused := 0
	for i := range names {
		w := testWork("")
		w.Route = placement.QueueRoute(fmt.Sprintf("flood-%d", i), 1+i%10)
		e := selectorWork(t, fmt.Sprintf("label-%d", i))
		e.Route = placement.Route(fmt.Sprintf("%s.%d", e.Route.Queue(), 8))
		for _, birth := range []task.Submitted{{Work: w}, e} {
			f := newFact(newTask(), birth)
			f.Actor = fmt.Sprintf("caller-%d", i%8)
			switch _, err := s.Place(ctx, f); {
			case err == nil:
			case errors.Is(err, ErrManySelectors), errors.Is(err, ErrManyQueues):
				refused++
			default:
				t.Fatal(err)
			}
		}
	}
	if refused != 2*names-most {
		t.Errorf("%d names of queues and selectors were refused, want %d", refused, 2*names-most)
	}
	if all := consumers(t, s); len(all) > 0 {
		t.Errorf("%d consumers for queues that nobody serves", len(all))
	}
	// A declared selector may be declared again, and another one as soon as there is room.
	s.declared = declared{}
	born(t, s, selectorWork(t, "label-0"))
	said := must(s.Declared(ctx))(t)
	if err := s.Retract(ctx, said[0]); err != nil {
		t.Fatal(err)
	}
	born(t, s, selectorWork(t, "another"))

	o := offersOf(t, openStore(t, s.NC, streams.Layout{}), "new", "flood-7")
	want := map[task.ID]bool{submitAt(t, s, "new", 9): true, submitAt(t, s, "flood-7", 1): true}
	for range 3 { // one is of the flood
		delete(want, must(o.Next(within(t)))(t).Fact.Task)
	}
	if len(want) > 0 {
		t.Errorf("%v were not offered", want)
	}
	f := follow(t, s, 1)
	if records := must(f.Next(within(t)))(t); len(records) == 0 {
		t.Error("nobody can read the log")
	}
}

// A log of an earlier version gets room for more than 1000 consumers.
func TestMoreConsumers(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	cfg := s.log.CachedInfo().Config
	if cfg.MaxConsumers != 100_000 {
		t.Errorf("the log may have %d consumers", cfg.MaxConsumers)
	}
	cfg.MaxConsumers = -1
	must(s.JS.UpdateStream(within(t), cfg))(t)
	s = openStore(t, s.NC, streams.Layout{})
	if got := s.log.CachedInfo().Config.MaxConsumers; got != 100_000 {
		t.Errorf("the log may have %d consumers", got)
	}
	for i := range 1010 {
		if _, err := s.log.CreateConsumer(within(t), jetstream.ConsumerConfig{Durable: fmt.Sprint(i), MemoryStorage: true, FilterSubject: "mr.queue.none.*.*"}); err != nil {
			t.Fatal(err)
		}
	}
}
