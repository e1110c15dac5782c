package jet

import (
	"context"
	"errors"
	"testing"

	"millrace/events"
	"millrace/jet/streams"
)

// The error says why a request failed, even if the time ends while it is repeated.
func TestPatienceTellsWhatHindered(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	err := s.Patiently(ctx, func(try context.Context) error {
		if tries++; tries == 1 {
			return events.ErrNoStream
		}
		cancel()
		<-try.Done()
		return try.Err()
	})
	if tries != 2 || !errors.Is(err, events.ErrNoStream) || !errors.Is(err, context.Canceled) {
		t.Errorf("after %d tries: %v", tries, err)
	}
}
