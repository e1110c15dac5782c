package observe

import (
	"errors"
	"fmt"
	"time"

	"millrace/internal/metrics"
)

// Worker is the state that a worker process reports.
type Worker struct {
	Slots, Busy int
	// Fetching says that it asks for work and gets answers.
	Fetching bool
	// LastBeat is when its last heartbeat was stored; zero for never.
	LastBeat                         time.Time
	LeasesExtended, LeasesNot        uint64
	HeartbeatsStored, HeartbeatsLost uint64
}

// AskWorker is a source that asks a worker on each scrape.
type AskWorker func() Worker

// Collect emits the worker's state.
func (ask AskWorker) Collect(emit metrics.Emit) {
	w := ask()
	emit(metrics.WorkerSlots, float64(w.Busy), nil, "busy")
	emit(metrics.WorkerSlots, float64(max(w.Slots-w.Busy, 0)), nil, "free")
	emit(metrics.WorkerFetching, bit(w.Fetching), nil)
	emit(metrics.WorkerRenewals, float64(w.LeasesExtended), nil, "ok")
	emit(metrics.WorkerRenewals, float64(w.LeasesNot), nil, "error")
	emit(metrics.WorkerHeartbeats, float64(w.HeartbeatsStored), nil, "ok")
	emit(metrics.WorkerHeartbeats, float64(w.HeartbeatsLost), nil, "error")
}

// Check returns the [Check] that the worker takes work: it fetches, and its heartbeat has not
// expired.
func (ask AskWorker) Check(ttl time.Duration) Check {
	return Check{Name: "worker", Ask: func(now time.Time) error {
		w := ask()
		switch {
		case !w.Fetching:
			return errors.New("it does not fetch work: it is starting or ending, or NATS does not answer")
		case now.Sub(w.LastBeat) > ttl:
			return fmt.Errorf("its last heartbeat was stored %v ago", now.Sub(w.LastBeat).Round(time.Second))
		}
		return nil
	}}
}
