package bench

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events/jet/streams"
	"millrace/worker"
)

// Config says what to measure. Zero fields mean the default.
type Config struct {
	// Dial connects to the server under test, which must have a read model.
	Dial func(name string) (*nats.Conn, error)
	// Layout is how that server's streams are made.
	Layout streams.Layout
	// Tasks is the number of tasks in a round. Default 50,000.
	Tasks int
	// Rounds is how often each pair is measured; the median ratio counts. Default 3.
	Rounds int
	// Slots is how many tasks the worker and the floor have in flight. Default 256.
	Slots int
	// Processes is how many times a round starts /bin/true, default 2,000; ProcessSlots how many at
	// a time, default 8.
	Processes, ProcessSlots int
	// Latencies is how many single tasks are timed. Default 500.
	Latencies int
	// Growth are the sizes of the log, in tasks, at which the cost of a task is measured. Default:
	// not measured.
	Growth []int
	// Keys is the number of keys over which a round's tasks are spread to measure the cost of
	// limits; one task per key may run at a time. Default: not measured. The server must have a
	// scheduler.
	Keys int
	// Steps is the number of tasks in a graph whose steps need others. Default: not measured.
	Steps int
	// ServerMemory is the resident memory of that server, in bytes. Default: not measured.
	ServerMemory func() (int64, error)
	// ServerTime is the processor time that its process has used. Default: not measured.
	ServerTime func() (time.Duration, error)
	// ServerDisk is the size of its data, in bytes.
	ServerDisk func() (int64, error)
	// Again starts that server again on its data, so that it keeps so many ended tasks, 0 for all.
	Again func(ctx context.Context, keeps int) error
	// Pages returns the address of that server's pages, and a token for them.
	Pages func() (at, token string, err error)
	// Future is how many tasks that are due much later [MeasureFuture] submits.
	Future int
	// Commands runs processes.
	Commands worker.Runner
	// Progress is called with what is being measured. Default: no call.
	Progress func(what string)
}

func (c Config) withDefaults() Config {
	set := func(n *int, to int) {
		if *n == 0 {
			*n = to
		}
	}
	set(&c.Tasks, 50_000)
	set(&c.Rounds, 3)
	set(&c.Slots, 256)
	set(&c.Processes, 2000)
	set(&c.ProcessSlots, 8)
	set(&c.Latencies, 500)
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	return c
}

// Report is the result. Rates are medians over the rounds, ratios medians of the rounds' ratios.
type Report struct {
	Tasks int `json:"tasks"`
	Slots int `json:"slots"`
	// TasksPerSecond is how fast a full queue is drained, read model included; Floor how fast the
	// bare loop drains one.
	TasksPerSecond      float64 `json:"tasks_per_second"`
	FloorTasksPerSecond float64 `json:"floor_tasks_per_second"`
	Ratio               float64 `json:"ratio"`
	// TaskCost is the processor time of each of those tasks for draining, FloorTaskCost the bare
	// loop's.
	TaskCost      Cost `json:"task_cost"`
	FloorTaskCost Cost `json:"floor_task_cost"`
	// AtOnce is the same while tasks are submitted.
	AtOncePerSecond      float64 `json:"at_once_per_second"`
	FloorAtOncePerSecond float64 `json:"floor_at_once_per_second"`
	AtOnceRatio          float64 `json:"at_once_ratio"`
	// SubmitPerSecond is the rate of bulk submission.
	SubmitPerSecond      float64 `json:"submit_per_second"`
	FloorSubmitPerSecond float64 `json:"floor_submit_per_second"`
	// BehindMS is how long the read model took to catch up after the last task.
	BehindMS     float64     `json:"read_model_behind_ms"`
	StartLatency Percentiles `json:"start_latency_ms"`
	// ProcessPerSecond is the rate of tasks that run /bin/true; Plain that of fork and exec.
	ProcessPerSecond float64 `json:"process_per_second"`
	PlainPerSecond   float64 `json:"plain_process_per_second"`
	ProcessRatio     float64 `json:"process_ratio"`
	// BytesPerTask is what a finished task costs an idle server in memory.
	BytesPerTask float64 `json:"server_bytes_per_task"`
	// Memory is what the server takes for them; nil if not measured.
	Memory *Memory  `json:"server_memory,omitempty"`
	Growth []Growth `json:"growth,omitempty"`
	// Limited is the cost of limits; nil if not measured.
	Limited *Limited `json:"limited,omitempty"`
	// StepsPerSecond is how fast a graph of that many Steps was driven; each step needs two others.
	Steps          int     `json:"steps,omitempty"`
	StepsPerSecond float64 `json:"steps_per_second,omitempty"`
	// StepCost is the processor time of each of those steps, without that of submitting them.
	StepCost *Cost `json:"step_cost,omitempty"`
	// Future is the cost of tasks that are due much later; nil if not measured.
	Future *Future `json:"future,omitempty"`
	// Submitted is how many tasks there were in all. Lost tasks have no accepted end, duplicated
	// ones more than one.
	Submitted  int `json:"submitted"`
	Lost       int `json:"lost"`
	Duplicated int `json:"duplicated"`
}

// Percentiles are percentiles of a duration, in milliseconds.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Growth is the cost of a task in a log of a given size.
type Growth struct {
	LogTasks       int     `json:"log_tasks"`
	TasksPerSecond float64 `json:"tasks_per_second"`
}

// Run measures everything that cfg asks for.
func Run(ctx context.Context, cfg Config) (Report, error) {
	b := &bench{cfg: cfg.withDefaults()}
	b.report.Tasks, b.report.Slots = b.cfg.Tasks, b.cfg.Slots
	defer b.close()
	if err := b.open(ctx); err != nil {
		return b.report, err
	}
	for _, measure := range []func(context.Context) error{b.latency, b.throughput, b.processes, b.growth, b.graph, b.limits} {
		if err := measure(ctx); err != nil {
			return b.report, err
		}
	}
	return b.report, b.audit(ctx)
}

const settleTime = 30 * time.Second // how long a round may wait for the read model
