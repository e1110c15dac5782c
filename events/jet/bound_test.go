package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/events/jet/rights"
	"millrace/events/jet/streams"
	"millrace/task"
	"millrace/task/placement"
)

// A worker of certain queues takes all that lies there, and touches no consumer of another queue,
// selector or node.
func TestWorkerOfAQueue(t *testing.T) {
	t.Parallel()
	gpu, zone := selectorWork(t, "gpu"), selectorWork(t, "zone=eu")
	for _, e := range []*task.Submitted{&gpu, &zone} {
		e.Spec.Place.Queue, e.Route = "crawl", placement.SelectorRoute("crawl", e.Spec.Needs(), 7)
	}
	users := []rights.User{
		{Name: "s", Role: rights.Server},
		{Name: "w", Role: rights.Worker, Node: "w", Queues: []string{"crawl"}, Selectors: []placement.Selector{gpu.Spec.Needs()}},
		{Name: "x", Role: rights.Worker, Node: "x", Queues: []string{"shop"}},
	}
	srv := newStrictRealm(t, rights.Realm{Name: "A", Users: users})
	s := srv.as("s")
	w := srv.as("w")
	o := offersOf(t, w, "@w", "crawl")
	if err := o.Prove(within(t)); err != nil {
		t.Fatal(err)
	}
	for i, priority := range []int{placement.MinPriority, placement.DefaultPriority, placement.MaxPriority} {
		submitTo(t, s, "crawl", priority, "")
		submitTo(t, s, "crawl", priority, fmt.Sprint("key", i))
	}
	born(t, s, gpu)
	if err := o.Also(within(t), []string{gpu.Route.Queue()}); err != nil {
		t.Fatal(err)
	}
	if lanes := takeAll(t, o, 7); len(lanes) != 7 {
		t.Fatalf("took from %v", lanes)
	}
	quiet := openStore(t, srv.dial("w", nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})), streams.Layout{})
	own := offersOf(t, quiet, "crawl")
	born(t, s, zone)
	if err := own.Also(within(t), []string{zone.Route.Queue()}); !errors.Is(err, events.ErrDenied) {
		t.Errorf("a selector that it may not serve: %v", err)
	}
	if _, err := quiet.Offers(within(t), []string{"shop"}); !errors.Is(err, events.ErrDenied) {
		t.Errorf("another queue: %v", err)
	}

	shop := offersOf(t, srv.as("x"), "@x", "shop")
	if err := shop.Prove(within(t)); err != nil {
		t.Fatal(err)
	}
	submitTo(t, s, "shop", 8, "k")
	takeAll(t, shop, 1)
	of := must(s.JS.Stream(within(t), names.LogStream))(t)
	before := map[string]jetstream.ConsumerConfig{}
	for c := range of.ListConsumers(within(t)).Info() {
		before[c.Name] = c.Config
	}
	create := func(name, filter, action string) []byte {
		body, _ := json.Marshal(map[string]any{"stream_name": names.LogStream, "action": action, "config": map[string]any{
			"name": name, "durable_name": name, "filter_subject": filter, "ack_policy": "none", "deliver_policy": "new", "replay_policy": "instant"}})
		return body
	}
	lane := names.LaneConsumer(placement.Lane{Queue: "shop", Priority: 8, Number: 3})
	for _, victim := range []string{"queue_shop", lane, names.NodeConsumer("x"), names.ConsumerName(zone.Route.Queue()), names.FireConsumer, "other"} {
		for subject, body := range map[string][]byte{
			names.APIDrop + names.LogStream + "." + victim:                                                                               nil,
			names.APIPause + names.LogStream + "." + victim:                                                                              []byte(`{"pause_until":"2100-01-01T00:00:00Z"}`),
			names.APINext + names.LogStream + "." + victim:                                                                               []byte("1"),
			names.APIMake + names.LogStream + "." + victim:                                                                               create(victim, "", ""),
			names.APIMake + names.LogStream + "." + victim + ".mr.queue.crawl.>":                                                         create(victim, "mr.queue.crawl.>", ""),
			names.APIMake + names.LogStream + "." + victim + ".mr.queue.shop.>":                                                          create(victim, "mr.queue.shop.>", "update"),
			"$JS.API.CONSUMER.DURABLE.CREATE." + names.LogStream + "." + victim:                                                          create(victim, "mr.queue.crawl.>", ""),
			"$JS.API.CONSUMER.RESET." + names.LogStream + "." + victim:                                                                   nil,
			"$JS.ACK." + names.LogStream + "." + victim + ".1.1.1.1.0":                                                                   []byte("+TERM"),
			"$JS.ACK.d.h." + names.LogStream + "." + victim + ".1.1.1.1.0.x":                                                             []byte("+TERM"),
			names.APIMake + names.LogStream + "." + names.LaneConsumer(placement.Lane{Queue: "crawl", Priority: 5}) + ".mr.queue.shop.>": create("queue_crawl", "mr.queue.shop.>", "update"),
		} {
			denied(t, subject, func(ctx context.Context) error { _, err := quiet.Request(ctx, subject, body); return err })
		}
	}
	// What it may say of its own names no other in the body.
	for _, body := range [][]byte{create("queue_shop", "mr.queue.crawl.>", ""), create("queue_crawl", "mr.queue.shop.>", "update"),
		[]byte(`{"stream_name":"MR_LOG","config":{"name":"queue_crawl","durable_name":"queue_crawl","filter_subjects":["mr.queue.shop.>","mr.queue.crawl.>"],"ack_policy":"explicit"}}`)} {
		answer := must(quiet.Request(within(t), names.APIMake+names.LogStream+".queue_crawl.mr.queue.crawl.>", body))(t)
		var is struct{ Error *jetstream.APIError }
		if err := json.Unmarshal(answer.Data, &is); err != nil || is.Error == nil {
			t.Errorf("%s: %s", body, answer.Data)
		}
	}
	// Nor does an answer of the NATS server.
	byReply(t, quiet.NC, names.APIDrop+names.LogStream+".queue_shop")
	byReply(t, quiet.NC, names.APIMake+names.LogStream+".queue_shop.mr.queue.shop.>")
	for c := range of.ListConsumers(within(t)).Info() {
		if was, known := before[c.Name]; known {
			if d := differs(&c.Config, &was); len(d.words) > 0 || c.Paused {
				t.Errorf("%s: %s, paused %t", c.Name, &d, c.Paused)
			}
			delete(before, c.Name)
		}
	}
	if len(before) > 0 {
		t.Errorf("these are gone: %v", before)
	}
	if _, ok := errors.AsType[*request.Denied](shop.Prove(within(t))); ok {
		t.Error("the other worker is refused")
	}
}
