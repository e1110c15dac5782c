package jet

import (
	"testing"

	"millrace/events"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
	"millrace/task/limit"
	"millrace/task/placement"
	"millrace/task/queue"
)

// A worker that is at work hears of a rate soon after it was set, on all lanes of the queue and on
// the routes of selectors that choose among its nodes, and of the end of it.
func TestWorkersHearOfARate(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	selected := selectorWork(t, "gpu")
	born(t, s, selected)
	submitTo(t, s, placement.DefaultQueue, 8, "")
	offers := offersOf(t, s, placement.DefaultQueue)
	if err := offers.Also(within(t), []string{selected.Route.Queue()}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if o := <-awaitOffer(t, offers); o.Rate != (queue.Rate{}) || o.Ack() != nil {
			t.Fatalf("without a rate, there is an offer with %+v", o.Rate)
		}
	}
	places := map[string]func(){
		"plain lane": func() { submitTo(t, s, placement.DefaultQueue, placement.DefaultPriority, "") },
		"other lane": func() { submitTo(t, s, placement.DefaultQueue, 8, "") },
		"selector":   func() { born(t, s, selected) },
	}
	for _, rate := range []limit.Rate{{Limit: 5}, {Limit: 1}, {}} {
		q, _, err := recorder(s).DoQueue(within(t), placement.DefaultQueue, queue.Limit{Rate: &rate})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.KeepQueue(within(t), placement.DefaultQueue); err != nil {
			t.Fatal(err)
		}
		for name, place := range places {
			var o *events.Offer
			testkit.Eventually(t, "an offer of the "+name+" bears the rate", func() bool {
				place()
				o = <-awaitOffer(t, offers)
				_ = o.Ack()
				return o.Rate == queue.RateOf(&q)
			})
		}
	}
}
