package request

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// library is the client library's JetStream. A call of the library whose request or answer went with a
// lost connection would wait for its whole time, and what its caller does next would wait with it: a
// claim, a report, a submission. So each is made again when the connection is back. All of them may be
// made twice: they read, or make something what it then is already. A consumer that was deleted at the
// first time is not found.
type library struct {
	jetstream.JetStream
	link *Link
}

// again makes a call until it has ended by itself.
func again[T any](ctx context.Context, l *Link, call func(context.Context) (T, error)) (T, error) {
	for {
		try, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(l.Pub.Cut(), cancel)
		v, err := call(try)
		stop()
		cut := try.Err() != nil && ctx.Err() == nil
		cancel()
		if !cut || !errors.Is(err, context.Canceled) || l.WhyGone() != nil {
			return v, err
		}
	}
}

// done is again for a call that returns only an error.
func done(ctx context.Context, l *Link, call func(context.Context) error) error {
	_, err := again(ctx, l, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}

func (j library) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := again(ctx, j.link, func(ctx context.Context) (jetstream.Stream, error) { return j.JetStream.Stream(ctx, name) })
	return j.link.wrap(s, err)
}

func (j library) UpdateStream(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	s, err := again(ctx, j.link, func(ctx context.Context) (jetstream.Stream, error) { return j.JetStream.UpdateStream(ctx, cfg) })
	return j.link.wrap(s, err)
}

func (j library) Consumer(ctx context.Context, stream, name string) (jetstream.Consumer, error) {
	return again(ctx, j.link, func(ctx context.Context) (jetstream.Consumer, error) { return j.JetStream.Consumer(ctx, stream, name) })
}

func (j library) DeleteConsumer(ctx context.Context, stream, name string) error {
	return done(ctx, j.link, func(ctx context.Context) error { return j.JetStream.DeleteConsumer(ctx, stream, name) })
}

// stream is a stream of the library.
type stream struct {
	jetstream.Stream
	link *Link
}

func (l *Link) wrap(s jetstream.Stream, err error) (jetstream.Stream, error) {
	if err != nil {
		return nil, err
	}
	return stream{s, l}, nil
}

func (s stream) Info(ctx context.Context, opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	return again(ctx, s.link, func(ctx context.Context) (*jetstream.StreamInfo, error) { return s.Stream.Info(ctx, opts...) })
}

func (s stream) Purge(ctx context.Context, opts ...jetstream.StreamPurgeOpt) error {
	return done(ctx, s.link, func(ctx context.Context) error { return s.Stream.Purge(ctx, opts...) })
}

func (s stream) GetMsg(ctx context.Context, seq uint64, opts ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	return again(ctx, s.link, func(ctx context.Context) (*jetstream.RawStreamMsg, error) { return s.Stream.GetMsg(ctx, seq, opts...) })
}

func (s stream) GetLastMsgForSubject(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	return again(ctx, s.link, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return s.Stream.GetLastMsgForSubject(ctx, subject)
	})
}

func (s stream) CreateConsumer(ctx context.Context, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	return again(ctx, s.link, func(ctx context.Context) (jetstream.Consumer, error) { return s.Stream.CreateConsumer(ctx, cfg) })
}

func (s stream) UpdateConsumer(ctx context.Context, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	return again(ctx, s.link, func(ctx context.Context) (jetstream.Consumer, error) { return s.Stream.UpdateConsumer(ctx, cfg) })
}

func (s stream) DeleteConsumer(ctx context.Context, name string) error {
	return done(ctx, s.link, func(ctx context.Context) error { return s.Stream.DeleteConsumer(ctx, name) })
}

func (s stream) PauseConsumer(ctx context.Context, name string, until time.Time) (*jetstream.ConsumerPauseResponse, error) {
	return again(ctx, s.link, func(ctx context.Context) (*jetstream.ConsumerPauseResponse, error) {
		return s.Stream.PauseConsumer(ctx, name, until)
	})
}
