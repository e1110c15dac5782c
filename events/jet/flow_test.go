package jet

import (
	"context"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/schedule"
)

// calendarIn stores a calendar that is open for the next days, or closed for them, and tells no
// worker about it.
func calendarIn(t *testing.T, s *Store, name string, open bool) {
	t.Helper()
	day := time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly) + ".." + time.Now().UTC().AddDate(0, 0, 2).Format(time.DateOnly)
	c := schedule.Calendar{Name: name, Rules: []schedule.Rule{{Closed: day}}}
	if open {
		c.Rules, c.Otherwise = []schedule.Rule{{Open: day}}, schedule.Closed
	}
	if _, _, err := s.PutCalendar(within(t), c, "test"); err != nil {
		t.Fatal(err)
	}
}

// windowOf gives a queue a window, and tells the workers.
func windowOf(t *testing.T, s *Store, name, window string) {
	t.Helper()
	if _, _, err := recorder(s).DoQueue(within(t), name, queue.Limit{Window: &window}); err != nil {
		t.Fatal(err)
	}
	if err := s.KeepQueue(within(t), name); err != nil {
		t.Fatal(err)
	}
}

// handed is how many offers of a queue were ever handed out.
func handed(t *testing.T, s *Store, queue string) (n uint64) {
	t.Helper()
	for _, l := range must(s.QueueState(within(t), queue))(t) {
		n += l.Handed
	}
	return n
}

// A queue whose window is closed delivers nothing, on any of its lanes and those of selectors,
// while another queue does. It opens and closes by the calendar, even if no worker is told of a
// change.
func TestAClosedQueueIsAskedForNothing(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int{"without a limit": 0, "under a limit of several lanes": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t, streams.Layout{})
			const q = placement.DefaultQueue
			calendarIn(t, s, "night", false)
			if _, _, err := recorder(s).DoQueue(within(t), q, queue.Limit{Running: &limit}); err != nil {
				t.Fatal(err)
			}
			windowOf(t, s, q, "night")
			selected := selectorWork(t, "gpu")
			for range 20 {
				submitTo(t, s, q, placement.DefaultPriority, "")
				submitTo(t, s, q, 8, "")
				born(t, s, selected)
			}
			o := offersOf(t, s, q, "other")
			if err := o.Also(within(t), []string{selected.Route.Queue()}); err != nil {
				t.Fatal(err)
			}
			next := func() *events.Offer {
				t.Helper()
				offer, err := o.Next(within(t))
				if err != nil || offer.Ack() != nil {
					t.Fatal(err)
				}
				return offer
			}
			for range 5 {
				submitTo(t, s, "other", placement.DefaultPriority, "")
				if lies := next().Place; lies[:len(names.QueuePrefix+"other")] != names.QueuePrefix+"other" {
					t.Fatalf("there is an offer on %s", lies)
				}
			}
			if n := handed(t, s, q); n > 0 {
				t.Errorf("%d offers were handed out", n)
			}

			calendarIn(t, s, "night", true)
			came := map[string]bool{}
			for len(came) < 3 {
				offer := next()
				if came[offer.Place[:strings.LastIndexByte(offer.Place, '.')]] = true; offer.Valve.Window != "night" {
					t.Errorf("an offer of the queue has the window %q", offer.Valve.Window)
				}
			}

			calendarIn(t, s, "night", false)
			testkit.Eventually(t, "it is known to be closed", func() bool {
				o.mu.Lock()
				defer o.mu.Unlock()
				return o.flows[q].shut
			})
			// A waiter that waits when the window closes gets no offer either.
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			waits := make(chan *events.Offer, 1)
			go func() {
				offer, _ := o.Next(ctx)
				waits <- offer
			}()
			submitTo(t, s, "other", placement.DefaultPriority, "")
			if offer := <-waits; offer == nil || offer.Valve.Window != "" {
				t.Errorf("there is %+v", offer)
			}
			windowOf(t, s, q, "")
			for range 5 {
				if offer := next(); offer.Valve.Window != "" {
					t.Errorf("an offer of a queue without a window has %q", offer.Valve.Window)
				}
			}
		})
	}
}

// An offer that is on its way when a queue closes rests, and comes when the queue opens.
func TestWhatIsOnItsWayToAClosedQueueRests(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	calendarIn(t, s, "night", true)
	windowOf(t, s, "q", "night")
	o := offersOf(t, s, "q")
	got := awaitOffer(t, o) // asks
	calendarIn(t, s, "night", false)
	windowOf(t, s, "q", "night")
	testkit.Eventually(t, "it is known to be closed", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.flows["q"].shut
	})
	submitTo(t, s, "q", placement.DefaultPriority, "") // the request is still with the server
	testkit.Eventually(t, "it was handed out, or is asked for no more", func() bool {
		if handed(t, s, "q") > 0 {
			return true
		}
		return must(s.JS.Consumer(within(t), names.LogStream, names.ConsumerName("q")))(t).CachedInfo().NumWaiting == 0
	})
	select {
	case offer := <-got:
		t.Fatalf("there is an offer: %+v", offer)
	default:
	}
	windowOf(t, s, "q", "")
	if offer := <-got; offer == nil || offer.Deliveries > 2 {
		t.Errorf("when it opens there is %+v", offer)
	}
}
