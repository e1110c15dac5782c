package observe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/internal/metrics"
)

// lookEvery is the interval of reading the end of the log.
const lookEvery = time.Second

// Bounds for a read model to count as caught up.
const (
	maxBehind = 5 * time.Second
	maxUnseen = 10 * time.Second
)

// FollowLag tracks how far a read model is behind until ctx ends; then it returns nil. It asks the
// log for its end once a second.
func FollowLag(ctx context.Context, lag *metrics.Lag, last func(context.Context) (uint64, error), reached func() uint64, failed func(source string)) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, maxUnseen)
		end, err := last(asking)
		cancel()
		if err == nil {
			lag.Look(end, reached(), time.Now())
		} else if ctx.Err() == nil {
			failed("log")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// LagCheck returns the [Check] that a read model has caught up.
func LagCheck(lag *metrics.Lag) Check {
	return Check{Name: "read model", Ask: func(now time.Time) error {
		behind, looked := lag.Behind()
		switch {
		case looked.IsZero():
			return errors.New("the end of the log has not been seen yet")
		case now.Sub(looked) > maxUnseen:
			return fmt.Errorf("the log has not answered for %v", now.Sub(looked).Round(time.Second))
		case behind > maxBehind:
			return fmt.Errorf("it is %v behind the log", behind.Round(time.Second))
		}
		return nil
	}}
}
