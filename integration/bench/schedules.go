package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/schedule"
	"millrace/task/value"
)

// Schedules is how late schedules get their tasks when many are due at the same time: from when the
// tick was due to when the log stored the task's birth.
type Schedules struct {
	Schedules int `json:"schedules"`
	// StorePerSecond is how fast they were stored, timers included.
	StorePerSecond float64 `json:"store_per_second"`
	// Spread are ticks spread evenly over SpreadSeconds, AtOnce ticks that are due at one moment.
	SpreadSeconds float64 `json:"spread_seconds"`
	Spread        Ticks   `json:"spread"`
	AtOnce        Ticks   `json:"at_once"`
}

// Ticks is the outcome of the ticks of one round.
type Ticks struct {
	Late Percentiles `json:"late_ms"`
	// Timers is how late the NATS server fired the timers; it should do so [schedule.Ahead] of a tick.
	Timers Percentiles `json:"timers_late_ms"`
	// PerSecond is how many got their task per second, from when the first was due to the last
	// task.
	PerSecond float64 `json:"per_second"`
	// ServerMicros is the server's processor time for each, from before the first timer fires until
	// the next timers are set and the read model has caught up.
	ServerMicros float64 `json:"server_micros"`
	// Early, Missing and Extra must be 0.
	Early   int `json:"early"`
	Missing int `json:"missing"`
	Extra   int `json:"extra"`
}

const (
	schedulesSpread = 4 * time.Second
	// schedulesEvery is the interval of each: the next timer is set, and does not fire.
	schedulesEvery = 1000 * time.Hour
	// schedulesQueue is a queue without workers.
	schedulesQueue = "bench-schedules"
	schedulesHands = 64
)

// ManySchedules measures n schedules that are due within some seconds, and at one moment.
func ManySchedules(ctx context.Context, cfg Config, n int) (Schedules, error) {
	b := &bench{cfg: cfg.withDefaults()}
	defer b.close()
	r := Schedules{Schedules: n, SpreadSeconds: schedulesSpread.Seconds()}
	if err := b.open(ctx); err != nil {
		return r, err
	}
	b.cfg.Progress(fmt.Sprintf("storing %d schedules", n))
	began := time.Now()
	if err := b.putSchedules(ctx, n, began.Add(schedulesEvery), 0); err != nil {
		return r, err
	}
	took := time.Since(began)
	r.StorePerSecond = rate(n, took)
	var err error
	if r.Spread, err = b.ticks(ctx, n, took, schedulesSpread); err != nil {
		return r, err
	}
	r.AtOnce, err = b.ticks(ctx, n, took, 0)
	return r, err
}

// putSchedules stores schedules whose first ticks are spread over a time.
func (b *bench) putSchedules(ctx context.Context, n int, first time.Time, spread time.Duration) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(schedulesHands)
	for i := range n {
		start := first.Add(spread * time.Duration(i) / time.Duration(n))
		g.Go(func() error {
			_, _, err := b.client.PutSchedule(ctx, schedule.Definition{
				Name: fmt.Sprintf("bench-%d", i), When: job.Schedule{Every: value.Duration(schedulesEvery), Start: start.UTC().Format(time.RFC3339Nano)},
				Make: birth.Submission{Spec: noop.Spec, Queue: schedulesQueue},
			})
			return err
		})
	}
	return g.Wait()
}

// ticks measures one round; stored is how long storing the schedules takes.
func (b *bench) ticks(ctx context.Context, n int, stored, spread time.Duration) (Ticks, error) {
	var f Ticks
	last, err := b.store.Last(ctx)
	if err != nil {
		return f, err
	}
	settle := 2*schedule.Ahead + time.Second
	b.cfg.Progress(fmt.Sprintf("%d schedules that are due within %v", n, spread))
	var first time.Time
	for lead := 2*stored + settle; ; lead *= 2 {
		first = time.Now().Add(lead)
		if err := b.putSchedules(ctx, n, first, spread); err != nil {
			return f, err
		}
		if time.Until(first) > settle {
			break
		} // else storing took too long, and they are stored again
	}
	if err := sleep(ctx, time.Until(first)-schedule.Ahead-time.Second/2); err != nil {
		return f, err
	}
	before := b.spent()
	if err := b.births(ctx, &f, n, last+1, first); err != nil {
		return f, err
	}
	if err := sleep(ctx, settle); err != nil {
		return f, err
	}
	if _, err := b.caughtUp(ctx); err != nil {
		return f, err
	}
	f.ServerMicros = b.each(before, n).Server
	return f, nil
}

func percentiles(all []float64) Percentiles {
	n := len(all)
	if n == 0 {
		return Percentiles{}
	}
	slices.Sort(all)
	return Percentiles{P50: all[n/2], P99: all[n*99/100], Max: all[n-1]}
}

// birthsWithin is how long after the last birth another one counts as missing.
const birthsWithin = 20 * time.Second

// births waits for the tasks of a round and records how late they were.
func (b *bench) births(ctx context.Context, f *Ticks, n int, from uint64, first time.Time) error {
	feed, err := b.store.Follow(ctx, from)
	if err != nil {
		return err
	}
	defer feed.Close()
	seen := make(map[task.ID]bool, n)
	var late, timers []float64
	var stored time.Time
	for len(seen) < n {
		waiting, enough := context.WithTimeout(ctx, birthsWithin)
		records, err := feed.Next(waiting)
		enough()
		if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err != nil {
			return err
		}
		for i := range records {
			r := &records[i]
			switch e := r.Fact.Event.(type) {
			case task.ScheduleFired:
				timers = append(timers, float64(r.Stored.Sub(e.Due.Add(-schedule.Ahead)))/1e6)
			case task.Submitted:
				switch {
				case e.Schedule == "" || e.Tick.Before(first):
					continue
				case seen[r.Fact.Task]:
					f.Extra++
					continue
				case r.Stored.Before(e.Tick):
					f.Early++
				}
				seen[r.Fact.Task], stored = true, r.Stored
				late = append(late, float64(stored.Sub(e.Tick))/1e6)
			}
		}
	}
	f.Missing = n - len(seen)
	f.PerSecond = rate(len(seen), stored.Sub(first))
	f.Late, f.Timers = percentiles(late), percentiles(timers)
	return nil
}
