package streams

import (
	"context"
	"errors"
	"fmt"

	"millrace/events/jet/names"
	"millrace/events/jet/request"

	"github.com/nats-io/nats.go/jetstream"
)

// Restorer makes deleted streams and buckets again.
type Restorer struct {
	js     jetstream.JetStream
	timers jetstream.Stream
	made   func(name string)
	last   map[string]uint64 // the last sequence of each stream at the last look
}

// NewRestorer returns a restorer that calls made with the name of each stream or bucket that it has
// made again. The content of such a stream is lost.
func NewRestorer(js jetstream.JetStream, timers jetstream.Stream, made func(name string)) *Restorer {
	return &Restorer{js: js, timers: timers, made: made, last: map[string]uint64{}}
}

// sequenceGap is how far the first sequence of a stream that is made again lies above the last one
// seen: further than a stream grows between two looks. Processes remember sequences, as heads of
// chains or as how far they have read; none of those may return with another meaning.
const sequenceGap = 1 << 20

// Look makes missing streams as the layout says.
func (k *Restorer) Look(ctx context.Context, l Layout) error {
	l = l.withDefaults()
	var errs []error
	for _, cfg := range l.Streams() {
		errs = append(errs, k.keep(ctx, cfg.Name, func(ctx context.Context) error {
			if last := k.last[cfg.Name]; last > 0 {
				cfg.FirstSeq = last + sequenceGap
			}
			if err := makeStream(ctx, k.js, cfg); err != nil {
				return err
			}
			return completeStream(ctx, k.js, cfg)
		}))
	}
	for _, cfg := range l.buckets() {
		errs = append(errs, k.keep(ctx, "KV_"+cfg.Bucket, func(ctx context.Context) error { return makeBucket(ctx, k.js, cfg) }))
	}
	return errors.Join(errs...)
}

// keep makes a stream if it is missing. It makes none while a leader is being elected: only a
// leader can say that a stream does not exist.
func (k *Restorer) keep(ctx context.Context, name string, make func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, request.ReadTimeout)
	defer cancel()
	stream, err := k.js.Stream(ctx, name)
	switch {
	case err == nil:
		k.last[name] = stream.CachedInfo().State.LastSeq
		if name != names.TimerStream {
			return nil
		}
		made, err := ensureFired(ctx, k.js)
		if made {
			k.made(name + " " + names.FiredConsumer)
			err = sourceAgain(ctx, k.js)
		}
		if err != nil && !request.Passes(err) {
			return fmt.Errorf("make the consumer of %s again: %w", name, err)
		}
		return nil
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return nil // without a leader it is unknown
	}
	if name == names.LogStream { // what the timers refer to is lost with it
		err = k.timers.Purge(ctx)
	} else {
		err = nil
	}
	if err == nil {
		err = make(ctx)
	}
	if err == nil && name == names.TimerStream {
		err = sourceAgain(ctx, k.js)
	}
	if err != nil {
		return fmt.Errorf("make stream %s again: %w", name, err)
	}
	k.made(name)
	return nil
}
