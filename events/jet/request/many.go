package request

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// LastOfAll reads the last message of each subject of a stream that matches a filter.
func LastOfAll(ctx context.Context, stream jetstream.Stream, filter string, read func(jetstream.Msg, *jetstream.MsgMetadata) error) error {
	c, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Description: "Millrace: lists definitions", DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
		FilterSubject: filter, AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return err
	}
	defer func() {
		// Else the server removes it after a minute.
		_ = stream.DeleteConsumer(context.WithoutCancel(ctx), c.CachedInfo().Name)
	}()
	for left := int(c.CachedInfo().NumPending); left > 0; {
		batch, err := c.Fetch(min(left, 512), jetstream.FetchMaxWait(ReadTry))
		if err != nil {
			return err
		}
		n := 0
		for m := range batch.Messages() {
			n++
			meta, err := m.Metadata()
			if err == nil {
				err = read(m, meta)
			}
			if err != nil {
				return err
			}
		}
		if err := batch.Error(); err != nil {
			return err
		}
		if n == 0 { // something was deleted meanwhile; a part would pass for the whole
			return errors.New("the list was cut short")
		}
		left -= n
	}
	return nil
}

// LastOn calls read with the last message of the subject of each name, which is the name behind a
// prefix, from any replica. It skips names that have none.
func LastOn[N ~string](ctx context.Context, l *Link, stream, prefix string, names []N, read func(name N, m *nats.Msg) error) error {
	for some := range slices.Chunk(names, MaxBatch) {
		subjects := make([]string, len(some))
		for i, name := range some {
			subjects[i] = prefix + string(name)
		}
		found, err := l.BatchGet(ctx, stream, len(some), map[string]any{"multi_last": subjects})
		if err != nil {
			return err
		}
		for _, m := range found {
			if err := read(N(Added(m, jetstream.SubjectHeader)[len(prefix):]), m); err != nil {
				return err
			}
		}
	}
	return nil
}

// Each calls read with all messages of the subjects that match a filter, in order, from any replica.
func (l *Link) Each(ctx context.Context, stream, filter string, read func(subject string, m *nats.Msg) error) error {
	for from := uint64(1); ; {
		found, err := l.BatchGet(ctx, stream, MaxBatch, map[string]any{"batch": MaxBatch, "seq": from, "next_by_subj": filter})
		if err != nil {
			return err
		}
		for _, m := range found {
			if err := read(Added(m, jetstream.SubjectHeader), m); err != nil {
				return err
			}
		}
		if len(found) < MaxBatch {
			return nil
		}
		last, err := SequenceOf(found[len(found)-1])
		if err != nil {
			return err
		}
		from = last + 1
	}
}

// Headers calls read with all messages of the subjects that match a filter, in order, without their
// bodies.
func (l *Link) Headers(ctx context.Context, stream, filter string, read func(jetstream.Msg, *jetstream.MsgMetadata) error) error {
	c, err := l.JS.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{filter}, DeliverPolicy: jetstream.DeliverAllPolicy, HeadersOnly: true, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return ReadError(filter, err)
	}
	defer l.Dismiss(ctx, stream, c)
	if c.CachedInfo().NumPending == 0 {
		return nil
	}
	iter, err := c.Messages()
	if err != nil {
		return ReadError(filter, err)
	}
	defer iter.Stop()
	for {
		m, err := iter.Next(jetstream.NextContext(ctx))
		if err != nil {
			return ReadError(filter, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return ReadError(filter, err)
		}
		if err := read(m, meta); err != nil || meta.NumPending == 0 {
			return err
		}
	}
}

// Dismiss removes the consumer of a reader that is done, also after ctx has ended. If that fails, the
// server removes it when it has been idle for a while.
func (l *Link) Dismiss(ctx context.Context, stream string, c jetstream.Consumer) {
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), ReadTimeout)
	defer cancel()
	_ = l.JS.DeleteConsumer(ending, stream, c.CachedInfo().Name)
}

// Listen calls heard with each message that is published on a subject, until stop is called.
// Messages can be lost. what, a verb and its object, begins the error.
func (l *Link) Listen(subject, what string, heard func(*nats.Msg)) (stop func(), err error) {
	sub, err := l.NC.Subscribe(subject, heard)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // fails only if the connection is gone
}
