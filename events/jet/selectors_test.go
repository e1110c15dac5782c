package jet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/placement"
)

func selectorWork(t testing.TB, text string) task.Submitted {
	t.Helper()
	labels, err := placement.ParseSelector(text)
	if err != nil {
		t.Fatal(err)
	}
	e, err := birth.Of(birth.Submission{Spec: &job.Spec{Handler: "x", Place: job.Place{Labels: labels}}}, nil, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func born(t testing.TB, s *Store, e task.Submitted) task.ID {
	t.Helper()
	id := task.ID(events.NewID(time.Now()))
	f := &events.Fact{ID: events.NewID(time.Now()), At: time.Now(), Type: events.TaskSubmitted, Task: id, Event: e}
	if _, err := s.Place(within(t), f); err != nil {
		t.Fatal(err)
	}
	return id
}

// A process that puts an offer on a selector's route declares the selector, once, and subscribers
// receive it.
func TestSelectorsAreDeclared(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	heard := make(chan placement.Declaration, 10)
	stop, err := s.OnDeclared(func(d placement.Declaration) { heard <- d })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	submit(t, s, "before")
	e := selectorWork(t, "zone=eu,mem>=16")
	born(t, s, e)
	born(t, s, selectorWork(t, "mem>=16, zone in (eu)"))
	all, err := s.Declared(within(t))
	if err != nil || len(all) != 1 || all[0].Route() != e.Route.Queue() || all[0].From != 2 || all[0].Queue != "default" {
		t.Fatalf("declared: %+v, %v", all, err)
	}
	select {
	case d := <-heard:
		if d.Route() != e.Route.Queue() {
			t.Errorf("heard of %s", d.Route())
		}
	case <-within(t).Done():
		t.Fatal("nobody was told")
	}
	if err := s.Retract(within(t), placement.Declaration{Queue: all[0].Queue, Needs: all[0].Needs, At: all[0].At.Add(-time.Second)}); err != nil {
		t.Fatal(err)
	}
	if again, _ := s.Declared(within(t)); len(again) != 1 {
		t.Error("a word that was said anew since was taken back")
	}
	for range 2 {
		if err := s.Retract(within(t), all[0]); err != nil {
			t.Fatal(err)
		}
	}
	if again, _ := s.Declared(within(t)); len(again) != 0 {
		t.Errorf("still there: %+v", again)
	}
}

// Processes that use a selector for the first time at once declare it from before the offers of each.
func TestSelectorsAreDeclaredAtOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	for n := range 20 {
		e := selectorWork(t, fmt.Sprintf("zone=z%d", n))
		var all sync.WaitGroup
		first := make(chan uint64, 16)
		for range cap(first) {
			other := openStore(t, s.NC, streams.Layout{})
			all.Go(func() {
				f := &events.Fact{ID: events.NewID(time.Now()), At: time.Now(), Type: events.TaskSubmitted, Task: task.ID(events.NewID(time.Now())), Event: e}
				seq, err := other.Place(within(t), f)
				if err != nil {
					t.Error(err)
				}
				first <- seq
			})
		}
		all.Wait()
		declared, err := s.Declared(within(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range declared {
			if d.Route() != e.Route.Queue() {
				continue
			}
			for range cap(first) {
				if seq := <-first; seq < d.From {
					t.Errorf("%s is declared from %d on, and has an offer at %d", d.Route(), d.From, seq)
				}
			}
		}
	}
}

// Routes come and go while a slot waits, and no offer is lost.
func TestAlso(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	o := offersOf(t, s, "default", "@n1")
	got := make(chan *events.Offer, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		if offer, err := o.Next(ctx); err == nil {
			got <- offer
		}
	}()
	testkit.Eventually(t, "somebody waits", func() bool { o.mu.Lock(); defer o.mu.Unlock(); return len(o.waiting) == 1 })
	e, other := selectorWork(t, "zone=eu"), selectorWork(t, "gpu")
	id := born(t, s, e)
	if err := s.declareFor(within(t), &other.Work, "test"); err != nil { // workers hear of no others
		t.Fatal(err)
	}
	if err := o.Also(within(t), []string{e.Route.Queue(), other.Route.Queue()}); err != nil {
		t.Fatal(err)
	}
	offer := <-got
	if offer.Fact.Task != id {
		t.Fatalf("got the offer of %s, want %s", offer.Fact.Task, id)
	}
	if err := offer.Ack(); err != nil {
		t.Fatal(err)
	}
	settled(t, o)
	if err := o.Also(within(t), []string{other.Route.Queue()}); err != nil {
		t.Fatal(err)
	}
	born(t, s, e) // no node pulls it
	next1, next2 := born(t, s, other), submit(t, s, "default")
	for range 2 {
		offer := next(t, o)
		if offer.Fact.Task != next1 && offer.Fact.Task != next2 {
			t.Errorf("got the offer of %s, whose route was given up", offer.Fact.Task)
		}
		if err := offer.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	short, end := context.WithTimeout(within(t), 200*time.Millisecond)
	defer end()
	if offer, err := o.Next(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %+v, %v", offer, err)
	}
	if err := o.Also(within(t), []string{"a b"}); err == nil {
		t.Error("a route that is none was taken")
	}
	settled(t, o)
}

// Offers of selectors have priorities, too; their lanes come and go with the route.
func TestLanesOfSelectors(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	place := func(p int) {
		e := selectorWork(t, "zone=eu")
		e.Route = e.Route.At(p)
		born(t, s, e)
	}
	o := offersOf(t, s, "default")
	place(9) // before any node serves the route
	route := selectorWork(t, "zone=eu").Route.Queue()
	if err := o.Also(within(t), []string{route}); err != nil {
		t.Fatal(err)
	}
	served := func(lanes int) func() bool {
		return func() bool { o.mu.Lock(); defer o.mu.Unlock(); return len(o.sources) == 1+lanes }
	}
	testkit.Eventually(t, "the plain lane and that of 9 are served", served(2))
	if took := takeAll(t, o, 1); took[0].Priority != 9 {
		t.Errorf("took %+v", took)
	}
	for _, p := range []int{1, 5, 9, 10, 9} {
		place(p)
	}
	testkit.Eventually(t, "all four lanes are served", served(4))
	testkit.Eventually(t, "none is let be because it had nothing", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return !slices.ContainsFunc(o.sources, func(s *source) bool { return s.empty && !time.Now().After(s.again) })
	})
	var got []int
	for _, l := range takeAll(t, o, 5) {
		got = append(got, l.Priority)
	}
	if !slices.Equal(got, []int{10, 9, 9, 5, 1}) {
		t.Errorf("taken in the order %v", got)
	}
	if err := o.Also(within(t), nil); err != nil {
		t.Fatal(err)
	}
	if !served(0)() {
		t.Error("a route that was given up is still served")
	}
	all, err := s.Declared(within(t))
	if err != nil || len(all) != 1 {
		t.Fatalf("declared: %+v, %v", all, err)
	}
	if err := s.Retract(within(t), all[0]); err != nil {
		t.Fatal(err)
	}
	for name := range s.log.ConsumerNames(within(t)).Name() {
		if name != "queue_default" {
			t.Errorf("consumer %s is left", name)
		}
	}
	settled(t, o)
}

// However many declare at the same moment, no more are taken than may be.
func TestSelectorsAreBoundedAtOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	const most, writers, each = 10, 8, 4
	if err := s.BoundSelectors(within(t), most); err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	var refused atomic.Int32
	for w := range writers {
		g.Go(func() error {
			for i := range each {
				e := selectorWork(t, fmt.Sprintf("label-%d-%d", w, i))
				switch err := s.declareFor(t.Context(), &e.Work, fmt.Sprintf("caller-%d", w)); {
				case errors.Is(err, ErrManySelectors):
					refused.Add(1)
				case err != nil:
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if all := must(s.Declared(within(t)))(t); len(all) != most || refused.Load() != writers*each-most {
		t.Errorf("%d were declared and %d refused, want %d and %d", len(all), refused.Load(), most, writers*each-most)
	}
}

// One caller has a quarter of the selectors, so it leaves room for others. Several are declared
// together, or none of them.
func TestSelectorsOfOneCaller(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	const most = 40
	if err := s.BoundSelectors(within(t), most); err != nil {
		t.Fatal(err)
	}
	works := func(name string, n int) (all []*task.Work) {
		for i := range n {
			e := selectorWork(t, fmt.Sprintf("%s-%d", name, i))
			all = append(all, &e.Work, &e.Work) // also twice
		}
		return all
	}
	count := func() int { return len(must(s.Declared(within(t)))(t)) }
	if err := s.DeclareAll(within(t), works("greedy", most/4+1), "greedy"); !errors.Is(err, ErrManySelectors) || !strings.Contains(err.Error(), "greedy may ask for 10 of them") || count() != 0 {
		t.Errorf("of more than a quarter %d are declared: %v", count(), err)
	}
	if err := s.DeclareAll(within(t), works("greedy", most/4), "greedy"); err != nil || count() != most/4 {
		t.Errorf("of a quarter %d are declared: %v", count(), err)
	}
	s.declared = declared{}
	if err := s.DeclareAll(within(t), works("greedy", most/4), "greedy"); err != nil {
		t.Errorf("again: %v", err)
	}
	more := selectorWork(t, "more")
	if err := s.declareFor(within(t), &more.Work, "greedy"); !errors.Is(err, ErrManySelectors) {
		t.Errorf("one more: %v", err)
	}
	if err := s.declareFor(within(t), &more.Work, "modest"); err != nil {
		t.Errorf("another caller: %v", err)
	}
	if all := must(s.Crowded(within(t)))(t); len(all) != most/4 || all[0].By != "greedy" {
		t.Errorf("it is crowded among %+v", all)
	}
	for i := range 2 {
		if err := s.DeclareAll(within(t), works(fmt.Sprint("other-", i), most/4), fmt.Sprint("other-", i)); err != nil {
			t.Fatal(err)
		}
	}
	if all := must(s.Crowded(within(t)))(t); len(all) != 3*most/4+1 {
		t.Errorf("it is crowded among %d, want all", len(all))
	}
	for _, d := range must(s.Declared(within(t)))(t) {
		if d.By == "greedy" {
			if err := s.Retract(within(t), d); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.DeclareAll(within(t), works("greedy", most/4), "greedy"); err != nil || count() != 3*most/4+1 {
		t.Errorf("when there is room again, %d are declared: %v", count(), err)
	}
}

// One caller may name so many queues that no worker has served; those that one serves count no more,
// nor does the default queue, and what is offered again is never refused.
func TestUnservedQueuesHaveABound(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	const most = 40
	if err := s.BoundSelectors(within(t), most); err != nil {
		t.Fatal(err)
	}
	place := func(queue, by string) error {
		f := newFact(newTask(), task.Submitted{Work: testWork(queue)})
		f.Actor = by
		_, err := s.Place(within(t), f)
		return err
	}
	served := offersOf(t, s, "served")
	for i := range most / 4 {
		for _, queue := range []string{fmt.Sprint("q", i), fmt.Sprint("q", i), "served", placement.DefaultQueue} {
			if err := place(queue, "greedy"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := place("more", "greedy"); !errors.Is(err, ErrManyQueues) || !strings.Contains(err.Error(), "greedy may ask for 10 of them") {
		t.Errorf("one more: %v", err)
	}
	if err := place("more", "modest"); err != nil {
		t.Errorf("another caller: %v", err)
	}
	again := newFact(newTask(), task.Queued{Work: testWork("again"), After: 1, Attempt: 2})
	again.Actor = "greedy"
	if _, err := s.Place(within(t), again); err != nil {
		t.Errorf("an offer of a task that is there: %v", err)
	}
	if all := must(s.Declared(within(t)))(t); len(all) != 0 {
		t.Errorf("nodes are told of %+v", all)
	}
	offersOf(t, s, "q0", "q1")
	crowded := must(s.Crowded(within(t)))(t)
	if len(crowded) != most/4-2 || !crowded[0].Unserved {
		t.Errorf("it is crowded among %+v", crowded)
	}
	if err := place("more-1", "greedy"); err != nil {
		t.Errorf("in place of one that is served: %v", err)
	}
	if err := s.Retract(within(t), crowded[0]); err != nil {
		t.Fatal(err)
	}
	if err := place("more-2", "greedy"); err != nil {
		t.Errorf("in place of one that has no tasks: %v", err)
	}
	if err := place("more-3", "greedy"); err != nil {
		t.Errorf("in place of another one that is served: %v", err)
	}
	if err := place("more-4", "greedy"); !errors.Is(err, ErrManyQueues) {
		t.Errorf("one more again: %v", err)
	}
	takeAll(t, served, most/4)
}
