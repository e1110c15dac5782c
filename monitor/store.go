package monitor

import (
	"context"

	"millrace/metrics"
)

// Usage is how much a stream holds.
type Usage struct {
	// Stream is log, output, records, files, state, or all for the whole account.
	Stream string
	Bytes  int64
	// Limit is 0 if there is none.
	Limit int64
}

// Store gives how much the streams hold, and may hold. It is a [metrics.Source].
type Store struct {
	Usages func(ctx context.Context) ([]Usage, error)
	// Free is how many bytes the disk of an embedded server has left. Default: there is no such server.
	Free func() (int64, error)
	// Failed is told of a look that has failed.
	Failed func(source string)
}

// Collect asks the server that holds the streams.
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
