package pubsub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// listen runs a feed until stop is called with a cause; heard gets what it takes, and says what comes of it.
func listen(t *testing.T, nc *nats.Conn, f *Feed, heard func(*Message) error) (stop func(error)) {
	t.Helper()
	f.Log, f.pause = slog.New(slog.DiscardHandler), 20*time.Millisecond
	ctx, cancel := context.WithCancelCause(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			_ = f.Run(ctx, nc, func(_ context.Context, m *Message) (any, error) { return m.Seq, heard(m) })
		}
	}()
	stop = func(cause error) {
		cancel(cause)
		<-over
	}
	t.Cleanup(func() { stop(nil) })
	return stop
}

func next[T any](t *testing.T, what string, from <-chan T) (is T) {
	t.Helper()
	select {
	case is = <-from:
	case <-within(t).Done():
		t.Fatalf("%s does not come", what)
	}
	return is
}

// A message of a stream comes again until it is dealt with, and then no more: also if the stream is made anew,
// or there is another listener.
func TestFeedOfAStream(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	js := must(jetstream.New(nc))(t)
	config := jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}
	first := must(js.CreateStream(within(t), config))(t).CachedInfo().Created
	must(js.Publish(within(t), "orders.old", nil))(t)
	since := must(js.Stream(within(t), "ORDERS"))(t).CachedInfo().State.LastTime.Add(time.Nanosecond)
	tried := map[uint64]int{}
	done := make(chan *Message, 16)
	hears := func(m *Message) error {
		if tried[m.Seq]++; m.Subject == "orders.bad" {
			done <- m
			return fmt.Errorf("%w: bad", ErrNever)
		}
		if tried[m.Seq] < 3 {
			return errors.New("full")
		}
		done <- m
		return nil
	}
	feed := Feed{Job: "ship", Subject: "orders.>", Since: since}
	stop := listen(t, nc, &feed, hears)
	must(js.Publish(within(t), "orders.new", []byte("1"), jetstream.WithMsgID("a")))(t)
	if m := next(t, "the message", done); m.Stream != "ORDERS" || m.Seq != 2 || m.Subject != "orders.new" || m.ID != "a" || !m.Made.Equal(first) || m.At.Before(since) || tried[2] != 3 {
		t.Errorf("%+v came after %d tries", m, tried[2])
	}
	must(js.Publish(within(t), "orders.bad", nil))(t)
	next(t, "the bad one", done)
	stop(nil)
	stream := must(js.Stream(within(t), "ORDERS"))(t)
	consumers := func() (all []*jetstream.ConsumerInfo) {
		listed := stream.ListConsumers(within(t))
		for is := range listed.Info() {
			all = append(all, is)
		}
		return all
	}
	if all := consumers(); len(all) != 1 || all[0].NumAckPending+int(all[0].NumPending) != 0 || all[0].Config.InactiveThreshold != feedIdle {
		t.Errorf("of the feed is left %+v", all)
	}
	must(js.Publish(within(t), "orders.later", nil))(t)
	tried[4] = 2
	stop = listen(t, nc, &feed, hears)
	if m := next(t, "what came meanwhile", done); m.Seq != 4 {
		t.Errorf("%+v came", m)
	}
	stop(ErrUnwanted)
	if all := consumers(); len(all) != 0 {
		t.Errorf("of a feed that nobody wants is left %+v", all)
	}
	if err := js.DeleteStream(within(t), "ORDERS"); err != nil {
		t.Fatal(err)
	}
	clear(tried)
	tried[1] = 2
	listen(t, nc, &Feed{Job: "ship", Stream: "ORDERS", Since: since}, hears)
	must(js.CreateStream(within(t), config))(t)
	must(js.Publish(within(t), "orders.new", nil))(t)
	if m := next(t, "the first of the new stream", done); m.Seq != 1 || !m.Made.After(first) {
		t.Errorf("%+v came", m)
	}
}

// A stream from which each message goes to one consumer has nothing but what waits.
func TestFeedOfAWorkQueue(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	js := must(jetstream.New(nc))(t)
	stream := must(js.CreateStream(within(t), jetstream.StreamConfig{Name: "WORK", Subjects: []string{"work"}, Retention: jetstream.WorkQueuePolicy}))(t)
	must(js.Publish(within(t), "work", nil))(t)
	done := make(chan *Message, 1)
	stop := listen(t, nc, &Feed{Job: "j", Subject: "work", Since: time.Now().Add(time.Hour)}, func(m *Message) error { done <- m; return nil })
	next(t, "what waited", done)
	stop(nil)
	for ctx := within(t); must(stream.Info(ctx))(t).State.Msgs > 0; { // the acknowledgement is on its way
	}
}

// Without a stream one of several listeners hears a message, and whoever asks is told what became of it; a
// stream that stores the subject later takes over.
func TestFeedWithoutAStream(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	heard := make(chan *Message, 16)
	hears := func(m *Message) error {
		switch m.Subject {
		case "alerts.bad":
			return fmt.Errorf("%w:\nbad", ErrNever)
		case "alerts.full":
			return errors.New("full")
		}
		heard <- m
		return nil
	}
	for range 2 {
		listen(t, nc, &Feed{Job: "page", Subject: "alerts.*"}, hears)
	}
	ask := func(subject string) *nats.Msg {
		for {
			if m, err := nc.RequestWithContext(within(t), subject, nil); !errors.Is(err, nats.ErrNoResponders) { // nobody listens yet
				return must(m, err)(t)
			}
		}
	}
	if m := ask("alerts.disk"); string(m.Data) != "0" || len(m.Header) > 0 || len(heard) != 1 {
		t.Errorf("the answer is %s, %v; %d heard it", m.Data, m.Header, len(heard))
	}
	<-heard
	for subject, want := range map[string]string{"alerts.bad": "400 the message is refused: bad", "alerts.full": "503 full"} {
		if h := ask(subject).Header; h.Get("Nats-Service-Error-Code")+" "+h.Get("Nats-Service-Error") != want {
			t.Errorf("%s is answered with %v, want %s", subject, h, want)
		}
	}
	js := must(jetstream.New(nc))(t)
	must(js.CreateStream(within(t), jetstream.StreamConfig{Name: "ALERTS", Subjects: []string{"alerts.disk"}}))(t)
	for m := new(Message); m.Stream == ""; {
		must(js.Publish(within(t), "alerts.disk", nil))(t)
		m = next(t, "a message", heard)
	}
}

// Of several streams none is chosen.
func TestFeedOfSeveralStreams(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	js := must(jetstream.New(nc))(t)
	for _, name := range []string{"A", "B"} {
		must(js.CreateStream(within(t), jetstream.StreamConfig{Name: name, Subjects: []string{"s." + name}}))(t)
	}
	f := Feed{Job: "j", Subject: "s.*"}
	if err := f.Run(within(t), nc, nil); err == nil || !strings.Contains(err.Error(), "set on.stream to one of them") {
		t.Errorf("the feed ends with %v", err)
	}
}
