package jet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/jet/link"
	"millrace/jet/wire"

	"github.com/nats-io/nats.go/jetstream"
)

// KeepStreams looks every so often whether a stream or bucket is missing, for example because an
// operator has deleted it, and makes it again as layout says, until ctx ends. It calls made with
// the name of each. What such a stream held is lost. Once a minute it removes what processes have written only
// to see that it is stored ([Store.TidyProbes]).
func (s *Store) KeepStreams(ctx context.Context, layout Layout, every time.Duration, made func(name string), failed func(error)) {
	layout = layout.withDefaults()
	k := &keeper{s: s, made: made, last: map[string]uint64{}}
	tick, tidy := time.NewTicker(every), time.NewTicker(time.Minute)
	defer tick.Stop()
	defer tidy.Stop()
	for {
		look := func() error { return k.look(ctx, layout) }
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-tidy.C:
			look = func() error { return s.TidyProbes(ctx) }
		}
		if err := look(); err != nil && ctx.Err() == nil && s.NC.IsConnected() {
			failed(err)
		}
	}
}

// keeper looks after the streams and buckets.
type keeper struct {
	s    *Store
	made func(name string)
	last map[string]uint64 // the last sequence of each stream when it was looked at
}

// sequenceGap is how far the first sequence of a stream that is made again is above the last one that
// was seen: more than is stored between two looks. Processes remember sequences, as heads of chains
// or as how far they have read; none of those must be met again with another meaning.
const sequenceGap = 1 << 20

// look makes what is missing.
func (k *keeper) look(ctx context.Context, l Layout) error {
	var errs []error
	for _, cfg := range l.streams() {
		errs = append(errs, k.keep(ctx, cfg.Name, func(ctx context.Context) error {
			if last := k.last[cfg.Name]; last > 0 {
				cfg.FirstSeq = last + sequenceGap
			}
			return ensureStream(ctx, k.s.JS, cfg)
		}))
	}
	for _, cfg := range l.buckets() {
		errs = append(errs, k.keep(ctx, "KV_"+cfg.Bucket, func(ctx context.Context) error { return ensureBucket(ctx, k.s.JS, cfg) }))
	}
	return errors.Join(errs...)
}

// keep makes a stream if it is missing. While a leader is elected none is made: only a leader can say
// that a stream does not exist.
func (k *keeper) keep(ctx context.Context, name string, make func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, link.ReadTimeout)
	defer cancel()
	stream, err := k.s.JS.Stream(ctx, name)
	switch {
	case err == nil:
		k.last[name] = stream.CachedInfo().State.LastSeq
		if name != wire.TimerStream {
			return nil
		}
		made, err := ensureFired(ctx, k.s.JS)
		if made {
			k.made(name + " " + firedConsumer)
			err = sourceAgain(ctx, k.s.JS)
		}
		if err != nil && !link.Passes(err) {
			return fmt.Errorf("make the consumer of %s again: %w", name, err)
		}
		return nil
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return nil // nobody can say
	}
	if name == wire.LogStream { // what the timers refer to is lost with it
		err = k.s.timers.Purge(ctx)
	} else {
		err = nil
	}
	if err == nil {
		err = make(ctx)
	}
	if err == nil && name == wire.TimerStream {
		err = sourceAgain(ctx, k.s.JS)
	}
	if err != nil {
		return fmt.Errorf("make stream %s again: %w", name, err)
	}
	k.made(name)
	return nil
}
