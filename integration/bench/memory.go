package bench

import (
	"context"
	"fmt"
	"time"
)

// Times of the memory measurement. An idle server returns most unneeded memory within memoryWarm,
// and the indexes of the latest blocks of messages within memoryRest.
const (
	memoryWarm = 65 * time.Second
	memoryRest = 140 * time.Second
	memoryLook = 200 * time.Millisecond
)

// Memory is what tasks cost a server in resident memory, in bytes, without file pages.
type Memory struct {
	Tasks int `json:"tasks"`
	// PerTask is the cost of each finished task once the server is idle.
	PerTask float64 `json:"per_task"`
	// Peak is the most while the tasks run, Idle the least once the server is idle.
	Peak int64 `json:"peak"`
	Idle int64 `json:"idle"`
}

// MemoryRun is a measurement of memory in progress.
type MemoryRun struct {
	b    *bench
	warm time.Time
}

// StartMemory runs some tasks against the fresh server of cfg, so that it has allocated what it
// needs in any case: code paths, buffers, pools. While it comes to rest, the caller may measure
// elsewhere. The caller closes the run.
func StartMemory(ctx context.Context, cfg Config) (*MemoryRun, error) {
	m := &MemoryRun{b: &bench{cfg: cfg.withDefaults()}}
	if err := m.b.open(ctx); err != nil {
		m.Close()
		return nil, err
	}
	const warmUp = 5000
	if _, err := m.b.atOnce(ctx, warmUp); err != nil {
		m.Close()
		return nil, err
	}
	m.warm = time.Now()
	return m, nil
}

// Close disconnects from the server.
func (m *MemoryRun) Close() { m.b.close() }

// Finish runs n no-op tasks and returns their cost, when the server is idle again.
func (m *MemoryRun) Finish(ctx context.Context, n int) (r Memory, err error) {
	r.Tasks = n
	before, err := m.rest(ctx, m.warm.Add(memoryWarm))
	if err != nil {
		return r, err
	}
	m.b.cfg.Progress(fmt.Sprintf("memory of the server: running %d tasks", n))
	looking, stop := context.WithCancel(ctx)
	peak := make(chan int64, 1)
	go func() { peak <- m.peak(looking) }()
	_, err = m.b.atOnce(ctx, n)
	stop()
	if r.Peak = <-peak; err != nil {
		return r, err
	}
	if r.Idle, err = m.rest(ctx, time.Now().Add(memoryRest)); err != nil {
		return r, err
	}
	r.PerTask = float64(r.Idle-before) / float64(n)
	return r, nil
}

// peak returns the most memory at any look until ctx ends.
func (m *MemoryRun) peak(ctx context.Context) (most int64) {
	ticker := time.NewTicker(memoryLook)
	defer ticker.Stop()
	for {
		if now, err := m.b.cfg.ServerMemory(); err == nil {
			most = max(most, now)
		}
		select {
		case <-ctx.Done():
			return most
		case <-ticker.C:
		}
	}
}

// rest waits until a time and returns the least memory until then.
func (m *MemoryRun) rest(ctx context.Context, until time.Time) (least int64, err error) {
	if left := time.Until(until); left > 0 {
		m.b.cfg.Progress(fmt.Sprintf("memory of the server: for %v until it has come to rest", left.Round(time.Second)))
	}
	ticker := time.NewTicker(memoryLook)
	defer ticker.Stop()
	for {
		now, err := m.b.cfg.ServerMemory()
		if err != nil {
			return 0, err
		}
		if least == 0 || now < least {
			least = now
		}
		if !time.Now().Before(until) {
			return least, nil
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-ticker.C:
		}
	}
}
