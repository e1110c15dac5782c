package jet

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/events/jet/streams"
)

func TestAsk(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	var answer map[string]string
	if err := s.Ask(within(t), "test.nobody", nil, &answer); !errors.Is(err, ErrNoService) {
		t.Errorf("nobody answers: %v, want ErrNoService", err)
	}
	service := must(micro.AddService(s.NC, micro.Config{Name: "test", Version: "1.0.0"}))(t)
	defer func() {
		if err := service.Stop(); err != nil {
			t.Error(err)
		}
	}()
	for subject, respond := range map[string]func(micro.Request) error{
		"test.echo":    func(r micro.Request) error { return r.Respond(r.Data()) },
		"test.refuse":  func(r micro.Request) error { return r.Error("409", "not now", nil) },
		"test.garbage": func(r micro.Request) error { return r.Respond([]byte("{")) },
	} {
		handler := micro.HandlerFunc(func(r micro.Request) {
			if err := respond(r); err != nil {
				t.Error(err)
			}
		})
		if err := service.AddEndpoint(subject[len("test."):], handler, micro.WithEndpointSubject(rights.Verb(subject).Endpoint())); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Ask(within(t), "test.echo", map[string]string{"a": "b"}, &answer); err != nil || answer["a"] != "b" {
		t.Errorf("an echo: %v, %v", answer, err)
	}
	var said *ServiceError
	if err := s.Ask(within(t), "test.refuse", nil, &answer); !errors.As(err, &said) || said.Code != "409" || said.Message != "not now" {
		t.Errorf("a refusal: %v, want the service's own words", err)
	}
	if err := s.Ask(within(t), "test.garbage", nil, &answer); err == nil {
		t.Error("an answer that cannot be read was taken")
	}
	must(s.NC.Subscribe(rights.Verb("test.silent").Endpoint(), func(*nats.Msg) {}))(t)
	ctx, cancel := context.WithTimeout(within(t), 100*time.Millisecond)
	defer cancel()
	if err := s.Ask(ctx, "test.silent", nil, &answer); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent service: %v, want the error of the context", err)
	}
	if err := s.Ask(within(t), "test.echo", func() {}, &answer); err == nil {
		t.Error("a request that cannot be written was sent")
	}
}

// A server that ends, or a connection that breaks, takes the answer with it.
func TestALostAnswer(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	for _, c := range []struct {
		verb   rights.Verb
		answer int // the request that is answered; 0: none is
		asked  int
		err    error
	}{
		{rights.TaskList, 3, 3, nil},
		{rights.TaskList, 0, mostAsked, context.DeadlineExceeded},
		{rights.OwnWait, 2, 2, nil},
		{rights.TaskCancel, 2, 1, events.ErrUnknown},
		{rights.TaskSubmit, 2, 1, events.ErrUnknown},
	} {
		asked := 0
		got := func(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
			if asked++; asked == c.answer {
				return &nats.Msg{Data: body}, nil
			}
			return s.Request(ctx, subject, body)
		}
		sub := must(s.NC.SubscribeSync(c.verb.Endpoint()))(t)
		var answer string
		err := ask(within(t), patiently(got, c.verb, 100*time.Millisecond), c.verb.For(s.Caller()), "hello", &answer)
		if !errors.Is(err, c.err) || asked != c.asked || err == nil && answer != "hello" {
			t.Errorf("%s: %q after %d requests, error %v; want %d requests, error %v", c.verb, answer, asked, err, c.asked, c.err)
		}
		if err := sub.Unsubscribe(); err != nil {
			t.Error(err)
		}
	}
}
