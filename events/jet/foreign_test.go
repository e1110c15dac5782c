package jet

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/embed"
	"millrace/events/jet/names"
	"millrace/events/jet/natstest"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/placement"
)

func TestDiffers(t *testing.T) {
	t.Parallel()
	want := (&Store{ackWait: 30 * time.Second}).laneConfig(placement.Lane{Queue: "default", Priority: placement.DefaultPriority}, 100, "")
	for _, c := range []struct {
		change func(*jetstream.ConsumerConfig)
		words  string
		lost   bool
	}{
		{func(*jetstream.ConsumerConfig) {}, "", false},
		{func(c *jetstream.ConsumerConfig) { c.Description, c.Metadata = "by an earlier version", nil }, "", false},
		{func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 7; c.PauseUntil = new(time.Now()) }, "", false},
		{func(c *jetstream.ConsumerConfig) { c.DeliverPolicy, c.OptStartSeq = jetstream.DeliverAllPolicy, 0 }, "", false},
		{func(c *jetstream.ConsumerConfig) { c.OptStartSeq = 50 }, "", false},
		{func(c *jetstream.ConsumerConfig) { c.MaxWaiting = 8192 }, "", false},
		{func(c *jetstream.ConsumerConfig) {
			c.FilterSubject, c.FilterSubjects = "", []string{"mr.queue.default.>"}
		}, "", false},
		{func(c *jetstream.ConsumerConfig) { c.FilterSubject = "mr.queue.nosuch.>" }, "it takes mr.queue.nosuch.>", true},
		{func(c *jetstream.ConsumerConfig) { c.FilterSubjects = []string{"mr.queue.nosuch.>"} }, "it takes mr.queue.nosuch.>, mr.queue.default.>", true},
		{func(c *jetstream.ConsumerConfig) { c.FilterSubject = "" }, "it takes none", true},
		{func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckNonePolicy }, "its ack policy is AckNone", true},
		{func(c *jetstream.ConsumerConfig) { c.ReplayPolicy = jetstream.ReplayOriginalPolicy }, "its replay policy is original", true},
		{func(c *jetstream.ConsumerConfig) { c.DeliverPolicy = jetstream.DeliverNewPolicy }, "its deliver policy is new", true},
		{func(c *jetstream.ConsumerConfig) { c.OptStartSeq = 101 }, "it begins at 101", true},
		{func(c *jetstream.ConsumerConfig) { c.DeliverSubject = "x" }, "it sends to x", true},
		{func(c *jetstream.ConsumerConfig) { c.Durable = "" }, "it is not durable", true},
		{func(c *jetstream.ConsumerConfig) { c.MemoryStorage = true }, "where it is stored is another", true},
		{func(c *jetstream.ConsumerConfig) { c.MaxWaiting = 1 }, "only 1 requests may wait", true},
		{func(c *jetstream.ConsumerConfig) { c.PriorityGroups = []string{"x"} }, "it has groups", true},
		{func(c *jetstream.ConsumerConfig) { c.FilterSubject = "mr.queue.default.*.*" }, "it takes mr.queue.default.*.*", false},
		{func(c *jetstream.ConsumerConfig) { c.AckWait = time.Hour }, "its ack wait is 1h0m0s", false},
		{func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 1 }, "it gives an offer up after 1 deliveries", false},
		{func(c *jetstream.ConsumerConfig) { c.MaxDeliver = -1 }, "it gives an offer up after -1 deliveries", false},
		{func(c *jetstream.ConsumerConfig) { c.BackOff = []time.Duration{time.Hour} }, "it backs off", false},
		{func(c *jetstream.ConsumerConfig) { c.RateLimit = 1 }, "it is slowed down", false},
		{func(c *jetstream.ConsumerConfig) { c.HeadersOnly = true }, "it delivers no bodies", false},
		{func(c *jetstream.ConsumerConfig) { c.MaxRequestBatch = 1 }, "its requests are bounded", false},
		{func(c *jetstream.ConsumerConfig) { c.InactiveThreshold = time.Second }, "it goes when it is not used for 1s", false},
	} {
		is := want
		c.change(&is)
		d := differs(&is, &want)
		if d.String() != c.words || d.lost != c.lost {
			t.Errorf("want %q, lost %t; got %q, %t", c.words, c.lost, &d, d.lost)
		}
		if d := right(is, want); !c.lost {
			if d := differs(&d, &want); len(d.words) > 0 {
				t.Errorf("%s: set right, it differs: %s", c.words, &d)
			}
		}
	}
}

// A consumer that a worker replaces or changes stops no queue: who serves the queue makes it again,
// and says so.
func TestForeignConsumers(t *testing.T) {
	t.Parallel()
	const own = "@w"
	for _, c := range []struct{ queue, name, how string }{
		{"default", "queue_default", "changed by somebody"}, {own, names.NodeConsumer("w"), "another one"},
	} {
		queue, name := c.queue, c.name
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newStrict(t)
			s := srv.as("s")
			o := offersOf(t, srv.as("w"), own, "default")
			nc := srv.dial("w", nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
			starved := testkit.Starvation(t)
			take := func(what string) {
				t.Helper()
				e := task.Submitted{Work: testWork(queue)}
				if queue == own {
					e.Route = placement.NodeRoute("w", placement.DefaultPriority)
				}
				id := newTask()
				if _, err := recorder(s).Submit(within(t), id, e); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				for {
					offer := next(t, o)
					if err := offer.Ack(); err != nil {
						t.Fatal(err)
					}
					if offer.Fact.Task == id { // a new consumer brings the others again
						break
					}
				}
				if took := time.Since(began); took > checkEvery+2*time.Second+4*starved() {
					t.Errorf("%s: an offer came after %v", what, took)
				}
			}
			ended := make(chan struct{})
			defer close(ended)
			said := make(chan string, 100)
			go func() {
				for {
					select {
					case b := <-o.Broken():
						if b.Foreign {
							said <- b.Reason
						}
					case <-ended:
						return
					}
				}
			}()
			heard := func(words string) {
				t.Helper()
				for {
					select {
					case reason := <-said:
						if strings.Contains(reason, words) {
							return
						}
					case <-within(t).Done():
						t.Fatalf("nothing was said of it: %s", words)
					}
				}
			}
			change := func(action, filter string, config any) string {
				return asks(t, nc, names.APIMake+names.LogStream+"."+name+"."+filter, map[string]any{"stream_name": names.LogStream, "config": config, "action": action})
			}
			if err := o.Prove(within(t)); err != nil {
				t.Fatal(err)
			}
			take("before")
			const nobodys = "mr.queue.nosuch.>"
			asks(t, nc, names.APIDrop+names.LogStream+"."+name, nil)
			if answer := change("create", nobodys, map[string]any{
				"name": name, "durable_name": name, "filter_subject": nobodys,
				"ack_policy": "none", "deliver_policy": "new", "replay_policy": "instant",
			}); strings.Contains(answer, `"error"`) {
				t.Logf("%s", answer) // it was made again already
			}
			take("replaced")

			// What may be changed is changed.
			config := func() jetstream.ConsumerConfig {
				return must(s.JS.Consumer(within(t), names.LogStream, name))(t).CachedInfo().Config
			}
			is := config()
			is.AckWait, is.MaxDeliver = time.Hour, 1
			if answer := change("update", is.FilterSubject, is); strings.Contains(answer, `"error"`) {
				t.Fatal(answer)
			}
			heard(name + " was " + c.how + " (its ack wait is 1h0m0s, it gives an offer up after 1 deliveries)")
			is = config()
			is.FilterSubject = nobodys
			if answer := change("update", nobodys, is); strings.Contains(answer, `"error"`) {
				t.Fatal(answer)
			}
			take("another filter")
			heard("it takes " + nobodys)
		})
	}
}

// The server may drop a request without a word when its consumer is deleted. Who compares consumers and makes
// one again asks anew.
func TestAConsumerMadeAgainIsAskedAnew(t *testing.T) {
	t.Parallel()
	srv := startServer(t, embed.Config{})
	var deaf atomic.Bool // to what the server says of requests, on inboxes of their own
	sieve := &natstest.Sieve{Lose: func(subject, reply string, _ []byte) bool {
		return deaf.Load() && reply == "" && strings.HasPrefix(subject, nats.InboxPrefix) && strings.Count(subject, ".") == 1
	}}
	nc := connect(t, srv.URL(), nats.SetCustomDialer(sieve))
	s := openStore(t, nc, streams.Layout{})
	o := offersOf(t, s, "default")
	consumer := names.LaneConsumer(placement.Lane{Queue: "default", Priority: placement.DefaultPriority})
	var waits sync.WaitGroup
	defer waits.Wait()
	waits.Go(func() { _, _ = o.Next(within(t)) })
	info := func() *jetstream.ConsumerInfo {
		return must(must(s.JS.Consumer(within(t), names.LogStream, consumer))(t).Info(within(t)))(t)
	}
	testkit.Eventually(t, "a request waits", func() bool { return info().NumWaiting > 0 })
	other := connect(t, srv.URL())
	asked := must(other.SubscribeSync(names.APINext + names.LogStream + "." + consumer))(t)
	another := jetstream.ConsumerConfig{Durable: consumer, FilterSubject: "mr.queue.nosuch.>", AckPolicy: jetstream.AckNonePolicy}
	deaf.Store(true)
	if err := errors.Join(other.Flush(), s.log.DeleteConsumer(within(t), consumer)); err != nil {
		t.Fatal(err)
	}
	must(s.log.CreateConsumer(within(t), another))(t)
	o.compare(within(t), 0)
	if is := info().Config.FilterSubject; is == another.FilterSubject {
		t.Fatalf("the consumer takes %s", is)
	}
	if err := errors.Join(nc.Flush(), other.Flush()); err != nil {
		t.Fatal(err)
	}
	if n, _, err := asked.Pending(); n == 0 || err != nil {
		t.Errorf("%d requests, error %v", n, err)
	}
	deaf.Store(false)
	submit(t, s, "default")
}

// asks sends a request, with a body unless it is nil, and returns the answer.
func asks(t *testing.T, nc *nats.Conn, subject string, body map[string]any) string {
	t.Helper()
	var text []byte
	if body != nil {
		text = must(json.Marshal(body))(t)
	}
	return string(must(nc.RequestWithContext(within(t), subject, text))(t).Data)
}

// A worker that begins meets another's consumer before it is ready. The consumer of the schedulers is
// theirs alone, and nobody learns the random names of those by which others read the log.
func TestForeignConsumersAtTheStart(t *testing.T) {
	t.Parallel()
	srv := newStrict(t)
	s := srv.as("s")
	asks(t, srv.dial("w"), names.APIMake+names.LogStream+".queue_late.mr.queue.default.>", map[string]any{"stream_name": names.LogStream, "action": "create", "config": map[string]any{
		"name": "queue_late", "durable_name": "queue_late", "filter_subject": "mr.queue.default.>", "ack_policy": "none", "deliver_policy": "new",
	}})
	late := offersOf(t, srv.as("w"), "late")
	id := newTask()
	if _, err := recorder(s).Submit(within(t), id, task.Submitted{Work: testWork("late")}); err != nil {
		t.Fatal(err)
	}
	if offer := next(t, late); offer.Fact.Task != id {
		t.Errorf("it has brought %s", offer.Fact.Task)
	}
	w := srv.as("w")
	for _, subject := range []string{
		names.APIMake + names.LogStream + "." + names.FireConsumer + ".mr.queue.>", names.APIDrop + names.LogStream + "." + names.FireConsumer,
		names.APIPause + names.LogStream + "." + names.FireConsumer, names.APINext + names.LogStream + "." + names.FireConsumer, "$JS.ACK.MR_LOG." + names.FireConsumer + ".1.1.1.1.0",
		"$JS.API.CONSUMER.NAMES." + names.LogStream, "$JS.API.CONSUMER.LIST." + names.LogStream,
	} {
		denied(t, subject, func(ctx context.Context) error { _, err := w.Request(ctx, subject, nil); return err })
	}
}

// A worker that knows the name of a consumer by which a server reads the log can change it. The reader
// misses nothing: it says so, and reads on through another one.
func TestForeignReader(t *testing.T) {
	t.Parallel()
	srv := newStrict(t)
	s := srv.as("s")
	nc := srv.dial("w", nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	for name, c := range map[string]struct {
		filter string
		change func(*jetstream.ConsumerConfig)
		words  string
	}{
		"it takes nothing":    {"mr.queue.nosuch.>", func(*jetstream.ConsumerConfig) {}, "mr.queue.nosuch.>"},
		"it takes some":       {"mr.queue.>", func(*jetstream.ConsumerConfig) {}, "mr.queue.>"},
		"it leaves out texts": {"mr.queue.>", func(is *jetstream.ConsumerConfig) { is.HeadersOnly = true }, "mr.queue.>"},
		"it is paused":        {"", nil, "it is paused"},
		"it is gone":          {"", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end := must(s.Last(within(t)))(t)
			f := follow(t, s, end+1)
			is := must(s.JS.Consumer(within(t), names.LogStream, f.consumer))(t).CachedInfo().Config
			subject, body := names.APIMake+names.LogStream+"."+f.consumer+"."+c.filter, []byte(nil)
			switch {
			case c.change != nil:
				c.change(&is)
				is.FilterSubject = c.filter
				body, _ = json.Marshal(map[string]any{"stream_name": names.LogStream, "config": is, "action": "update"})
			case c.words == "":
				subject = names.APIDrop + names.LogStream + "." + f.consumer
			default:
				subject = names.APIPause + names.LogStream + "." + f.consumer
				body, _ = json.Marshal(map[string]any{"pause_until": time.Now().Add(time.Hour)})
			}
			if answer := must(nc.RequestWithContext(within(t), subject, body))(t); strings.Contains(string(answer.Data), `"error"`) {
				t.Fatal(string(answer.Data))
			}
			var want []uint64
			for range 3 {
				id := newTask()
				if _, err := recorder(s).Submit(within(t), id, task.Submitted{Work: testWork("default")}); err != nil {
					t.Fatal(err)
				}
				want = append(want, must(s.Append(within(t), newFact(id, note("x")), 0))(t))
			}
			said := ""
			for read := end; read < want[2]; {
				batch, err := f.Next(within(t))
				if errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("it stands still at %d", read)
				}
				if err != nil {
					said += err.Error()
				}
				for _, r := range batch {
					if !r.Readable() && r.Kind == events.KindChain {
						t.Errorf("%d has come as %v", r.Seq, r.Err)
					}
					if r.Seq != read+1 {
						t.Fatalf("%d comes after %d", r.Seq, read)
					}
					read = r.Seq
				}
			}
			if !strings.Contains(said, c.words) || (c.words == "") != (said == "") {
				t.Errorf("it says %q, want %q", said, c.words)
			}
		})
	}
}
