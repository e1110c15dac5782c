package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime/metrics"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/output"
)

// Chatter is how fast one task with much output gets through it, from its start until all of it is
// stored.
type Chatter struct {
	// Bytes counts all lines with their ends, or all records.
	Bytes int64 `json:"bytes"`
	Items int64 `json:"items"`
	// BytesPerSecond and ItemsPerSecond are the task's; FloorBytesPerSecond is that of bare
	// messages of 256 KiB into a stream made alike, two in flight.
	BytesPerSecond      float64 `json:"bytes_per_second"`
	ItemsPerSecond      float64 `json:"items_per_second"`
	FloorBytesPerSecond float64 `json:"floor_bytes_per_second,omitempty"`
	Ratio               float64 `json:"ratio,omitempty"`
	// Missing counts items that were not found when all were read back, Extra those found twice or
	// with another content; ReadPerSecond is how fast that went, in items.
	Missing       int64   `json:"missing"`
	Extra         int64   `json:"extra"`
	ReadPerSecond float64 `json:"read_per_second"`
	// HeapMax is the largest heap of this process, which is the worker, meanwhile.
	HeapMax int64 `json:"heap_max"`
	// Others is the start latency of single tasks of the same worker meanwhile.
	Others Percentiles `json:"others_start_latency_ms"`
}

// logLine is the repeated line of a chatty task: 100 bytes with its end.
const logLine = "2026-11-05T12:00:00.000Z INFO  crawler.engine: crawled (200) <GET https://example.org/page/00000000>"

// Logs measures a process that prints n bytes of lines of 100 bytes.
func Logs(ctx context.Context, cfg Config, n int64) (Chatter, error) {
	b := &bench{cfg: cfg.withDefaults()}
	defer b.close()
	if err := b.open(ctx); err != nil {
		return Chatter{}, err
	}
	items := n / (int64(len(logLine)) + 1)
	c := Chatter{Items: items, Bytes: items * (int64(len(logLine)) + 1)}
	b.cfg.Progress("bare messages")
	took, err := Output(ctx, b.floor, b.cfg.Layout, logLine, n)
	if err != nil {
		return c, err
	}
	floor := float64(n) / took.Seconds()
	b.cfg.Progress("a process that prints")
	shell := "yes '" + logLine + "' | head -n " + strconv.FormatInt(items, 10)
	id, err := b.chatter(ctx, &c, shell)
	if err != nil {
		return c, err
	}
	c.FloorBytesPerSecond = floor
	c.Ratio = c.BytesPerSecond / floor
	b.cfg.Progress("reading what it printed")
	began, next := time.Now(), 1
	err = b.client.Output(ctx, id, false, func(l output.Lines) error {
		for i := range l.Lines {
			if l.Lines[i].N != next || l.Lines[i].Text != logLine {
				c.Extra++
			}
			next = l.Lines[i].N + 1
			c.Missing--
		}
		return nil
	})
	c.Missing += c.Items
	c.ReadPerSecond = rate(int(c.Items), time.Since(began))
	return c, err
}

// Records measures a process that produces n small records, one per message.
func Records(ctx context.Context, cfg Config, n int) (Chatter, error) {
	b := &bench{cfg: cfg.withDefaults()}
	defer b.close()
	if err := b.open(ctx); err != nil {
		return Chatter{}, err
	}
	const record = `{"url":"https://example.org/page/00000000","status":200,"title":"An example"}`
	c := Chatter{Items: int64(n), Bytes: int64(n) * int64(len(record))}
	b.cfg.Progress("a process that produces records")
	id, err := b.chatter(ctx, &c, `yes '{"type":"INSERT_DATA","payload":`+record+`}' | head -n `+strconv.Itoa(n))
	if err != nil {
		return c, err
	}
	b.cfg.Progress("reading its records")
	began, next := time.Now(), 0
	err = b.client.Records(ctx, id, func(r output.Records) error {
		if r.First != next {
			c.Extra++
		}
		next = r.First + len(r.Items)
		c.Missing -= int64(len(r.Items))
		return nil
	})
	c.Missing += c.Items
	c.ReadPerSecond = rate(n, time.Since(began))
	return c, err
}

// chatter runs one shell command as a task, and single no-op tasks beside it.
func (b *bench) chatter(ctx context.Context, c *Chatter, shell string) (task.ID, error) {
	if b.cfg.Commands == nil {
		return "", errors.New("there is nothing to run processes with")
	}
	started := make(chan time.Time, 1)
	crew, err := b.hire(ctx, 4, -1, func(task.Task) { started <- time.Now() })
	if err != nil {
		return "", err
	}
	var over atomic.Bool
	others := make(chan error, 1)
	made, err := b.client.Submit(ctx, birth.Submission{Spec: &job.Spec{Run: &job.Run{Shell: shell, Messages: job.MessagesOpen}}, Queue: queue})
	if err != nil {
		return "", err
	}
	var times []float64
	go func() {
		for !over.Load() {
			at := time.Now()
			if _, err := b.client.Submit(ctx, noop); err != nil {
				others <- err
				return
			}
			select {
			case began := <-started:
				times = append(times, float64(began.Sub(at).Microseconds())/1000)
			case <-ctx.Done():
			}
			c.HeapMax = max(c.HeapMax, heap())
			_ = sleep(ctx, 20*time.Millisecond)
		}
		others <- nil
	}()
	t, err := b.client.Wait(ctx, made.ID)
	over.Store(true)
	err = errors.Join(err, <-others, crew.dismiss())
	if err == nil && t.State != task.Finished {
		err = fmt.Errorf("the task that was measured is %s: %s", t.State, t.Message)
	}
	if err != nil {
		return "", err
	}
	slices.Sort(times)
	if len(times) > 0 {
		c.Others = Percentiles{P50: times[len(times)/2], P99: times[len(times)*99/100], Max: times[len(times)-1]}
	}
	took := t.EndedAt.Sub(t.StartedAt)
	c.BytesPerSecond, c.ItemsPerSecond = float64(c.Bytes)/took.Seconds(), rate(int(c.Items), took)
	return made.ID, nil
}

// heap returns how many bytes of this process hold objects, or did until the last collection.
func heap() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64()) // no machine has so much
}

// sleep waits for d, or returns ctx's error if that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Following measures how long a line takes from its printing until a follower of the output has it,
// for n lines printed one by one.
func Following(ctx context.Context, cfg Config, n int) (Percentiles, error) {
	b := &bench{cfg: cfg.withDefaults()}
	defer b.close()
	if err := b.open(ctx); err != nil {
		return Percentiles{}, err
	}
	if b.cfg.Commands == nil {
		return Percentiles{}, errors.New("there is nothing to run processes with")
	}
	crew, err := b.hire(ctx, 1, -1, nil)
	if err != nil {
		return Percentiles{}, err
	}
	b.cfg.Progress("following a task that prints now and then")
	shell := "i=0; while [ $i -lt " + strconv.Itoa(n) + " ]; do date +%s%N; sleep 0.0$((RANDOM % 10))7; i=$((i+1)); done"
	made, err := b.client.Submit(ctx, birth.Submission{Spec: &job.Spec{Run: &job.Run{Shell: shell}}, Queue: queue})
	if err != nil {
		return Percentiles{}, err
	}
	var times []float64
	err = b.client.Output(ctx, made.ID, true, func(l output.Lines) error {
		now := time.Now().UnixNano()
		for i := range l.Lines {
			printed, err := strconv.ParseInt(l.Lines[i].Text, 10, 64)
			if err != nil {
				return fmt.Errorf("the task printed %q, want a time in nanoseconds: %w", l.Lines[i].Text, err)
			}
			times = append(times, float64(now-printed)/1e6)
		}
		return nil
	})
	if err = errors.Join(err, crew.dismiss()); err != nil {
		return Percentiles{}, err
	}
	if len(times) != n {
		return Percentiles{}, fmt.Errorf("%d of %d lines were seen", len(times), n)
	}
	slices.Sort(times)
	return Percentiles{P50: times[n/2], P99: times[n*99/100], Max: times[n-1]}, nil
}
