package outputs

import (
	"context"
	"time"

	"millrace/internal/files"
)

// Internals for the tests, which open stores that import this package.

const (
	Few     = few
	MarkTTL = markTTL
)

func HoldsUp(mark, protection uint64, age time.Duration) bool { return holdsUp(mark, protection, age) }

func (s *Segments) Sweep(ctx context.Context, abandoned time.Duration) error {
	b, err := s.store(ctx)
	if err != nil {
		return err
	}
	return s.sweep(ctx, b, abandoned)
}

func (s *Files) Mark(ctx context.Context) (unmark func(), err error) { return s.mark(ctx) }

func (s *Files) SweepMark(ctx context.Context) (seq uint64, age time.Duration, err error) {
	return s.sweepMark(ctx)
}

func (s *Files) Protected(ctx context.Context) (map[files.Digest]files.Version, error) {
	return s.protected(ctx)
}
