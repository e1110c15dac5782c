package bench

import (
	"context"
	"fmt"
	"time"

	"millrace/task"
)

// Forgetting is what it costs that the log forgets tasks that ended.
type Forgetting struct {
	// Tasks is how many were to be forgotten.
	Tasks int `json:"tasks"`
	// ServerSeconds is the processor time of the server's process for a million of them, without that of its
	// start, which is StartSeconds for all, and of a server at rest, IdleSeconds in each second. Seconds is the
	// time by the clock for all, most of which the log waits until all know its horizon.
	ServerSeconds float64 `json:"server_seconds_per_million"`
	StartSeconds  float64 `json:"start_seconds"`
	IdleSeconds   float64 `json:"idle_seconds_per_second"`
	Seconds       float64 `json:"seconds"`
	Before        Takes   `json:"before"`
	After         Takes   `json:"after"`
	// With is no-op work while the log forgets as many again, Without the same just before. Both begin with the server.
	With    Work `json:"with"`
	Without Work `json:"without"`
	// Ratio is that of their rates.
	Ratio float64 `json:"ratio"`

	upTo uint64 // the log, when as many again had ended
}

// Takes is what a server takes in bytes, of the disk, and of memory without file pages.
type Takes struct {
	Disk   int64 `json:"disk"`
	Memory int64 `json:"memory"`
}

// Work is no-op work in turns: some tasks at once, then single ones.
type Work struct {
	TasksPerSecond float64     `json:"tasks_per_second"`
	StartLatency   Percentiles `json:"start_latency_ms"`
	// BehindMS is how long the read model took at most to catch up.
	BehindMS float64 `json:"read_model_behind_ms"`
}

const (
	// forgetKeeps is how many ended tasks stay.
	forgetKeeps = 1000
	// forgetSlack is how many more may: the log forgets no few, and carries those of a turn of work that lie on
	// both sides of the horizon.
	forgetSlack = 2500
	// forgetIdle is for how long a server at rest is looked at.
	forgetIdle = 10 * time.Second
	// forgetTurns is how many turns of work are measured without forgetting.
	forgetTurns = 6
	// forgetMost and forgetEach are how long forgetting may take, in all and for each task more.
	forgetMost, forgetEach = 5 * time.Minute, 2 * time.Millisecond
)

// ManyForgotten measures how a server's log forgets n tasks, twice. The server keeps all until
// [Config.Again] starts it with another setting.
func ManyForgotten(ctx context.Context, cfg Config, n int) (f Forgetting, err error) {
	f.Tasks = n
	for i, is := range []struct {
		keeps   int
		measure func(context.Context, *bench) error
	}{{0, f.before}, {0, f.start}, {forgetKeeps, f.alone}, {0, f.again}, {0, f.without}, {forgetKeeps, f.with}} {
		if i > 0 {
			if err := cfg.Again(ctx, is.keeps); err != nil {
				return f, err
			}
		}
		b := &bench{cfg: cfg.withDefaults()}
		if err = b.open(ctx); err == nil {
			bound, cancel := context.WithTimeout(ctx, forgetMost+time.Duration(n)*forgetEach)
			err = is.measure(bound, b)
			cancel()
		}
		if b.close(); err != nil {
			return f, err
		}
	}
	f.Ratio = f.With.TasksPerSecond / f.Without.TasksPerSecond
	return f, nil
}

func (f *Forgetting) before(ctx context.Context, b *bench) (err error) {
	if err = f.run(ctx, b); err == nil {
		f.Before, err = b.takes(ctx)
	}
	return err
}

// run runs the tasks, few at once: those that wait for long lie on both sides of the horizon, and are
// carried. One worker does, since each start of one reads its node's facts in the whole log.
func (f *Forgetting) run(ctx context.Context, b *bench) error {
	b.cfg.Progress(fmt.Sprintf("running %d tasks", f.Tasks))
	some := 4 * b.cfg.Slots
	began := make(chan struct{}, some)
	crew, err := b.hire(ctx, b.cfg.Slots, f.Tasks, func(task.Task) { began <- struct{}{} })
	if err != nil {
		return err
	}
	for left := f.Tasks; left > 0; left -= some {
		n := min(left, some)
		if err := b.submit(ctx, noop, n); err != nil {
			return err
		}
		for range n {
			select {
			case <-began:
			case err := <-crew.ended:
				return fmt.Errorf("the worker ended early: %w", err)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	if err := crew.dismiss(); err != nil {
		return err
	}
	_, err = b.caughtUp(ctx)
	return err
}

// start measures what the start of the server costs, with its look at the whole log, and what it takes at rest.
func (f *Forgetting) start(ctx context.Context, b *bench) error {
	err := b.rest(ctx)
	began, before := time.Now(), b.spent().server
	if f.StartSeconds = before.Seconds(); err == nil && b.cfg.ServerTime != nil {
		err = sleep(ctx, forgetIdle)
		f.IdleSeconds = (b.spent().server - before).Seconds() / time.Since(began).Seconds()
	}
	return err
}

func (f *Forgetting) alone(ctx context.Context, b *bench) error {
	b.cfg.Progress("the log forgets them")
	began := time.Now()
	if err := b.until(ctx, func(counts map[string]int) bool {
		return counts[task.Finished.String()] <= forgetKeeps+forgetSlack
	}); err != nil {
		return err
	}
	f.Seconds = time.Since(began).Seconds()
	f.ServerSeconds = (b.spent().server.Seconds() - f.StartSeconds - f.IdleSeconds*f.Seconds) * 1e6 / float64(f.Tasks)
	var err error
	f.After, err = b.takes(ctx)
	return err
}

func (f *Forgetting) again(ctx context.Context, b *bench) error {
	err := f.run(ctx, b)
	if err == nil {
		f.upTo, err = b.store.Last(ctx)
	}
	return err
}

func (f *Forgetting) without(ctx context.Context, b *bench) error {
	return f.Without.measure(ctx, b, func(turn int) (bool, error) { return turn < forgetTurns, nil })
}

func (f *Forgetting) with(ctx context.Context, b *bench) error {
	return f.With.measure(ctx, b, func(int) (bool, error) {
		first, err := b.store.First(ctx)
		return first <= f.upTo, err
	})
}

// measure works as long as more says so.
func (w *Work) measure(ctx context.Context, b *bench, more func(turn int) (bool, error)) error {
	n := max(b.cfg.Tasks/5, 1)
	var took time.Duration
	var starts []float64
	for turn := 0; ; turn++ {
		if again, err := more(turn); err != nil || !again && turn > 0 {
			w.StartLatency = percentiles(starts)
			return err
		}
		b.cfg.Progress(fmt.Sprintf("work, turn %d", turn+1))
		some, err := b.crew(ctx, b.cfg.Slots, n, func() error { return b.submit(ctx, noop, n) })
		if err != nil {
			return err
		}
		behind, err := b.caughtUp(ctx)
		if err != nil {
			return err
		}
		took += some
		w.TasksPerSecond = rate(n*(turn+1), took)
		w.BehindMS = max(w.BehindMS, float64(behind.Microseconds())/1000)
		singles, err := b.starts(ctx, b.submitNoop(ctx))
		if starts = append(starts, singles...); err != nil {
			return err
		}
	}
}

// takes waits until the server rests.
func (b *bench) takes(ctx context.Context) (t Takes, err error) {
	if b.cfg.ServerMemory == nil {
		return t, nil
	}
	if err = b.rest(ctx); err != nil {
		return t, err
	}
	return b.takesNow()
}

func (b *bench) takesNow() (t Takes, err error) {
	if b.cfg.ServerMemory == nil {
		return t, nil
	}
	if t.Memory, err = b.cfg.ServerMemory(); err == nil {
		t.Disk, err = b.cfg.ServerDisk()
	}
	return t, err
}
