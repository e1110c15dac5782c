package link

import (
	"context"
	"errors"
	"time"

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
