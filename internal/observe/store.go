package observe

import (
	"context"
	"time"

	"millrace/internal/metrics"
)

// Usage is how much a stream holds.
type Usage struct {
	// Stream is log, output, records, files, state, or all for the whole account.
	Stream string
	Bytes  int64
	// Limit is 0 if there is none.
	Limit int64
}

// Store emits the size and the bounds of the streams. It is a [metrics.Source].
type Store struct {
	Usages func(ctx context.Context) ([]Usage, error)
	// Free is the free space on an embedded server's disk, in bytes. Default: there is no such
	// server.
	Free func() (int64, error)
	// Oldest tells when the log stored its oldest message, Held by what kind of thing its horizon is held
	// back and since when; "" for nothing. Now is the time by which they are old.
	Oldest func(ctx context.Context) (time.Time, error)
	Held   func() (by string, since time.Time)
	Now    func() time.Time
	// Failed is called with the source of a failed read.
	Failed func(source string)
}

// Collect reads from the server that holds the streams.
func (s *Store) Collect(emit metrics.Emit) {
	if s.Free != nil {
		if free, err := s.Free(); err == nil {
			emit(metrics.StoreFree, float64(free), nil)
		} else {
			s.Failed("disk")
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	s.horizon(ctx, emit)
	all, err := s.Usages(ctx)
	if err != nil {
		s.Failed("store")
		return
	}
	for _, u := range all {
		emit(metrics.StoreBytes, float64(u.Bytes), nil, u.Stream)
		if u.Limit > 0 {
			emit(metrics.StoreLimit, float64(u.Limit), nil, u.Stream)
		}
	}
}

func (s *Store) horizon(ctx context.Context, emit metrics.Emit) {
	age := func(at time.Time) float64 { return max(s.Now().Sub(at).Seconds(), 0) }
	oldest, err := s.Oldest(ctx)
	switch {
	case err != nil:
		s.Failed("horizon")
	case oldest.IsZero():
		emit(metrics.HorizonAge, 0, nil)
	default:
		emit(metrics.HorizonAge, age(oldest), nil)
	}
	if by, since := s.Held(); by != "" {
		emit(metrics.HorizonHeld, age(since), nil, by)
	}
}
