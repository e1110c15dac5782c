package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

// Idle is the cost of many processes that do nothing while they run as tasks of one worker.
type Idle struct {
	Tasks int `json:"tasks"`
	// StartSeconds and EndSeconds are how long it took until all ran, and until all were cancelled.
	StartSeconds float64 `json:"start_seconds"`
	EndSeconds   float64 `json:"end_seconds"`
	// WorkerBytes and ServerBytes are by how much each task grows the resident memory of the worker
	// and of the server, without the processes' own.
	WorkerBytes float64 `json:"worker_bytes_per_task"`
	ServerBytes float64 `json:"server_bytes_per_task"`
}

// idleLook is how often it is checked whether all run, or memory shrinks.
const idleLook = 250 * time.Millisecond

// Idling measures n sleeping processes, all at one time on one worker.
func Idling(ctx context.Context, cfg Config, n int) (Idle, error) {
	b := &bench{cfg: cfg.withDefaults()}
	defer b.close()
	if err := b.open(ctx); err != nil {
		return Idle{}, err
	}
	if b.cfg.Commands == nil {
		return Idle{}, errors.New("there is nothing to run processes with")
	}
	b.cfg.Progress("warming up")
	if _, err := b.processTasks(ctx, min(n, 200)); err != nil {
		return Idle{}, err
	}
	before, err := b.resident(ctx)
	if err != nil {
		return Idle{}, err
	}
	b.cfg.Progress(fmt.Sprintf("%d processes that sleep", n))
	began := time.Now()
	crew, err := b.hire(ctx, n, -1, nil)
	if err != nil {
		return Idle{}, err
	}
	ids := make([]task.ID, 0, n)
	sleeps := birth.Submission{Spec: &job.Spec{Run: &job.Run{Argv: []string{"/bin/sleep", "3600"}}}, Queue: queue}
	if err := b.client.SubmitMany(ctx, sleeps, n, func(r client.Receipt) { ids = append(ids, r.ID) }); err != nil {
		return Idle{}, err
	}
	if err := b.until(ctx, func(counts map[string]int) bool { return counts[task.Running.String()] >= n }); err != nil {
		return Idle{}, err
	}
	i := Idle{Tasks: n, StartSeconds: time.Since(began).Seconds()}
	after, err := b.resident(ctx)
	if err != nil {
		return i, err
	}
	i.WorkerBytes, i.ServerBytes = float64(after.worker-before.worker)/float64(n), float64(after.server-before.server)/float64(n)
	b.cfg.Progress("cancelling them")
	began = time.Now()
	var g errgroup.Group
	g.SetLimit(16)
	for _, id := range ids {
		g.Go(func() error { _, err := b.client.Cancel(ctx, id, "measured"); return err })
	}
	if err := g.Wait(); err != nil {
		return i, err
	}
	err = b.until(ctx, func(counts map[string]int) bool {
		return counts[task.Running.String()]+counts[task.Cancelling.String()] == 0
	})
	i.EndSeconds = time.Since(began).Seconds()
	return i, errors.Join(err, crew.dismiss())
}

// until waits until the counts of tasks by state are enough.
func (b *bench) until(ctx context.Context, enough func(map[string]int) bool) error {
	for {
		page, err := b.client.List(ctx, client.ListRequest{Filter: view.Filter{Queue: queue, Limit: 1}, Counts: true})
		if err != nil || enough(page.Counts) {
			return err
		}
		if sleep(ctx, idleLook) != nil {
			return fmt.Errorf("tasks by state are %s: %w", counted(page.Counts), ctx.Err())
		}
	}
}

// memories are resident memory, without file pages.
type memories struct{ worker, server int64 }

// resident returns the least of several looks, so that garbage does not count.
func (b *bench) resident(ctx context.Context) (least memories, err error) {
	var worker, server []int64
	for range 5 {
		debug.FreeOSMemory()
		w, err := ownMemory()
		if err != nil {
			return least, err
		}
		worker = append(worker, w)
		if b.cfg.ServerMemory != nil {
			s, err := b.cfg.ServerMemory()
			if err != nil {
				return least, err
			}
			server = append(server, s)
		}
		if sleep(ctx, idleLook) != nil {
			return least, ctx.Err()
		}
	}
	least.worker = slices.Min(worker)
	if len(server) > 0 {
		least.server = slices.Min(server)
	}
	return least, nil
}

func ownMemory() (int64, error) { return memoryOf("/proc/self/status") }

// memoryOf returns the resident memory of a process, in bytes, without file pages.
func memoryOf(status string) (int64, error) {
	body, err := os.ReadFile(status)
	if err != nil {
		return 0, fmt.Errorf("memory of a process: %w", err)
	}
	for line := range strings.Lines(string(body)) {
		var kB int64
		if n, _ := fmt.Sscanf(line, "RssAnon: %d kB", &kB); n == 1 {
			return kB << 10, nil
		}
	}
	return 0, errors.New("memory of a process: the kernel does not say")
}

// counted lists how many tasks are in each state.
func counted(byState map[string]int) string {
	var all []string
	for _, state := range slices.Sorted(maps.Keys(byState)) {
		all = append(all, fmt.Sprintf("%d %s", byState[state], state))
	}
	return value.List(all)
}
