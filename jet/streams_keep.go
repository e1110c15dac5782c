package jet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// KeepStreams looks every so often whether a stream or bucket is missing, for example because an
// operator has deleted it, and makes it again as layout says, until ctx ends. It calls made with
// the name of each. What such a stream held is lost.
func (s *Store) KeepStreams(ctx context.Context, layout Layout, every time.Duration, made func(name string), failed func(error)) {
	layout = layout.withDefaults()
	k := &keeper{s: s, made: made, last: map[string]uint64{}}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := k.look(ctx, layout); err != nil && ctx.Err() == nil && s.nc.IsConnected() {
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
			return ensureStream(ctx, k.s.js, cfg)
		}))
	}
	for _, cfg := range l.buckets() {
		errs = append(errs, k.keep(ctx, "KV_"+cfg.Bucket, func(ctx context.Context) error { return ensureBucket(ctx, k.s.js, cfg) }))
	}
	return errors.Join(errs...)
}

// keep makes a stream if it is missing. While a leader is elected none is made: only a leader can say
// that a stream does not exist.
func (k *keeper) keep(ctx context.Context, name string, make func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	stream, err := k.s.js.Stream(ctx, name)
	switch {
	case err == nil:
		k.last[name] = stream.CachedInfo().State.LastSeq
		return nil
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return nil // nobody can say
	}
	if err := make(ctx); err != nil {
		return fmt.Errorf("make stream %s again: %w", name, err)
	}
	k.made(name)
	return nil
}
