package bench

import (
	"context"
	"time"
)

// Times of the memory measurement.
const (
	memoryIdle = 6 * time.Minute // at most, for the server to give back what it can
	memoryLook = 5 * time.Second
	// memoryQuiet is how many looks without a new low make the low count: longer
	// than it takes until an idle server gives back what it no longer needs.
	memoryQuiet = 44
)

// Memory runs n no-op tasks against a fresh server and returns by how many bytes
// of resident memory each has made it grow, once it is idle: the lowest that
// rss reports while nothing gets lower any more, for at most six minutes.
func Memory(ctx context.Context, cfg Config, n int, rss func() (int64, error)) (float64, error) {
	b := &bench{cfg: cfg.withDefaults()}
	defer b.close()
	if err := b.open(ctx); err != nil {
		return 0, err
	}
	// What a server needs however few tasks it has: code paths, buffers, pools.
	const warmUp = 5000
	if _, err := b.atOnce(ctx, warmUp); err != nil {
		return 0, err
	}
	before, err := b.idle(ctx, rss)
	if err != nil {
		return 0, err
	}
	b.cfg.Progress("memory of the server: running tasks")
	if _, err := b.atOnce(ctx, n); err != nil {
		return 0, err
	}
	after, err := b.idle(ctx, rss)
	if err != nil {
		return 0, err
	}
	return float64(after-before) / float64(n), nil
}

func (b *bench) idle(ctx context.Context, rss func() (int64, error)) (int64, error) {
	b.cfg.Progress("memory of the server: waiting until it is idle")
	tick := time.NewTicker(memoryLook)
	defer tick.Stop()
	end := time.NewTimer(memoryIdle)
	defer end.Stop()
	lowest, quiet := int64(0), 0
	for {
		now, err := rss()
		if err != nil {
			return 0, err
		}
		if lowest == 0 || now < lowest-lowest/200 {
			lowest, quiet = now, 0
		} else if quiet++; quiet >= memoryQuiet {
			return lowest, nil
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-end.C:
			return lowest, nil
		case <-tick.C:
		}
	}
}
