package projections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"millrace/events"
)

// Defaults and bounds of a [Projector].
const (
	DefaultMaxBatch  = 8192
	DefaultCacheSize = 100_000
)

// A batch is folded an interval after the one before. The interval grows with the rate of facts: a
// transaction costs as much as a dozen rows, a read as much as a few messages, and several changes
// of a task in a batch make one row. So under load the read model takes less capacity from the work
// itself. While callers wait for it, it hurries.
const (
	minInterval = 4 * time.Millisecond
	maxInterval = 500 * time.Millisecond
	// perFact is how much the interval grows per fact in a millisecond.
	perFact = 16 * time.Millisecond
)

// Bounds of the delay before the log is read again after an error.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// atRest is the idle time after which the memory of the last batch is released.
const atRest = 10 * time.Second

// Observer observes the read model: it is called once for each batch after the batch is written. So
// each record is reported once, except that all come again when the read model is rebuilt. The
// folding goroutine calls it and waits; the steps and their records are valid until it returns.
type Observer interface {
	Observe(steps []events.Step)
}

// Projector folds a log into a store. A store has one projector at a time.
type Projector struct {
	Log   events.Follower
	Store *Store
	// Logger gets faults that were repaired. Default: none.
	Logger *slog.Logger
	// Observers get the effect of each record, in this order. Default: none, at no cost.
	Observers []Observer
	// Complete says that the log still has what it says it has forgotten, as that of an archive: nothing
	// goes from the rows.
	Complete bool
	// MaxBatch is the largest number of records in one transaction. A larger one folds a large log
	// faster and takes about 1 kB of memory per record. A full batch is followed by the next at
	// once. Default [DefaultMaxBatch].
	MaxBatch int
	// CacheSize is how many tasks that have not ended are kept in memory, at about 1 kB each.
	// Others are read from their rows when they change. Default [DefaultCacheSize].
	CacheSize int
}

// Run follows the log from the store's position and keeps the rows up to date until ctx ends; then
// it returns ctx's error. Only the end of the store also ends it: when the log cannot be read or
// the file cannot be written, it logs that and tries again, with growing delays of at most 5 s.
//
// If the log is not the one from which the rows were made, or the file is damaged, Run discards the
// rows and begins anew.
func (p *Projector) Run(ctx context.Context) error {
	logger := p.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	delay := minBackoff
	for {
		began := p.Store.Reached()
		err := p.follow(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, ErrClosed) {
			return err
		}
		if errors.Is(err, ErrOtherLog) || damaged(err) || p.Store.reach.damaged() {
			logger.Warn("the read model is made again from the log", "reason", err, "reached", p.Store.Reached())
			if errors.Is(err, ErrOtherLog) {
				p.Store.reach.another(1)
			}
			err = p.Store.rebuild(err.Error())
			if err == nil {
				continue
			}
		}
		if p.Store.Reached() != began {
			delay = minBackoff
		}
		logger.Error("the read model is behind", "error", err, "reached", p.Store.Reached(), "retry_in", delay)
		if !sleep(ctx, delay) {
			return ctx.Err()
		}
		delay = min(2*delay, maxBackoff)
	}
}

// follow folds until an error occurs.
func (p *Projector) follow(ctx context.Context) (err error) {
	f, err := newFold(ctx, p.Store, orDefault(p.CacheSize, DefaultCacheSize))
	if err != nil {
		return err
	}
	f.complete = p.Complete
	f.observers = p.Observers
	defer func() { err = errors.Join(err, f.w.close()) }()

	last, err := p.Log.Last(ctx)
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	if last < f.at.Seq {
		return fmt.Errorf("%w: it ends at %d, before %d", ErrOtherLog, last, f.at.Seq)
	}
	// Begin at the anchor, to check that it has not changed.
	feed, err := p.Log.Follow(ctx, max(f.at.Anchor, 1))
	if err != nil {
		return fmt.Errorf("follow the log: %w", err)
	}
	defer feed.Close()
	ctx, stop := p.Store.reach.guard(ctx)
	defer stop()

	size := orDefault(p.MaxBatch, DefaultMaxBatch)
	pace := pace{interval: minInterval, last: time.Now()}
	for {
		if err := pace.wait(ctx, &p.Store.reach); err != nil {
			return err
		}
		records, err := f.next(ctx, feed)
		if err != nil {
			return fmt.Errorf("follow the log: %w", cause(ctx, err))
		}
		if f.seen == 0 {
			if err := f.at.check(&records[0]); err != nil {
				return err
			}
		}
		for batch := range slices.Chunk(records, size) {
			if err := f.apply(ctx, batch); err != nil {
				return err
			}
		}
		pace.wrote(len(records), len(records) >= size)
	}
}

// check compares the first message at or after the anchor with the stored one. A log without the
// anchor is another one, too: messages of its kind are never removed.
func (p *position) check(r *events.Record) error {
	switch {
	case p.Anchor == 0:
		return nil
	case r.Seq != p.Anchor:
		return fmt.Errorf("%w: fact %s is not at sequence %d any more; the next message is at %d", ErrOtherLog, p.AnchorID, p.Anchor, r.Seq)
	case r.Fact.ID != p.AnchorID:
		return fmt.Errorf("%w: sequence %d is fact %s, was %s", ErrOtherLog, p.Anchor, r.Fact.ID, p.AnchorID)
	}
	return nil
}

// cause returns the cause of ctx's end, if that explains an error.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// pace decides when to read and write the next batch.
type pace struct {
	interval time.Duration
	last     time.Time
}

// wait returns when it is time.
func (p *pace) wait(ctx context.Context, r *reach) error {
	timer := time.NewTimer(time.Until(p.last.Add(p.interval)))
	defer timer.Stop()
	for {
		if r.awaited() {
			timer.Reset(time.Until(p.last.Add(minInterval)))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return nil
		case <-r.hurry:
		}
	}
}

// wrote sets the interval by the rate of the facts just written. If there are more, the next batch
// follows at once.
func (p *pace) wrote(records int, more bool) {
	now := time.Now()
	took := max(now.Sub(p.last), minInterval)
	p.last = now
	if more {
		p.interval = 0
		return
	}
	perMillisecond := float64(records) / float64(took/time.Millisecond)
	p.interval = min(max(time.Duration(perMillisecond*float64(perFact)), minInterval), maxInterval)
}

func orDefault(n, otherwise int) int {
	if n <= 0 {
		return otherwise
	}
	return n
}

// sleep tells whether it slept to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
