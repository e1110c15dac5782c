package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/duties"
	"millrace/task/node"
	"millrace/task/output"
	"millrace/task/placement"
	"millrace/task/value"
)

// Ports are what a worker needs from the place where Millrace keeps its state. The store of package
// jet implements each of them.
type Ports struct {
	// Log records the worker's claims and reports.
	Log     events.Log
	Offers  Offers
	Nodes   Nodes
	Outputs Outputs
}

// Offers bring the worker its tasks.
type Offers interface {
	events.Offerer
	events.Declarer
	// AckWait is how long a lease lasts after the log last heard from its attempt.
	AckWait() time.Duration
	// Resume returns the lease with this token ([events.Lasting]).
	Resume(lease string) events.Lease
}

// Nodes tell the node about other nodes, and about its own tasks.
type Nodes interface {
	events.Heartbeats
	events.Hinter
	// Alive lists the heartbeats that have not expired. It may lag a little.
	Alive(ctx context.Context) (map[node.ID]node.Heartbeat, error)
	// OnHint calls look when something may have happened to a task of this node ([events.Hinter]),
	// or to the node itself, with "" as the task.
	OnHint(id node.ID, look func(task.ID)) (stop func(), err error)
	// OnPing answers clients that ask the node's process about itself.
	OnPing(id node.ID, answer func() node.Pong) (stop func(), err error)
}

// Outputs store what tasks print and produce, and their progress. None of that is a fact.
type Outputs interface {
	// Told returns what is stored of an attempt's output.
	Told(ctx context.Context, id task.ID, epoch uint64) (output.Told, error)
	// Print and Keep store what a task prints and produces, and wait until it is stored.
	Print(ctx context.Context, l output.Lines) error
	Keep(ctx context.Context, r output.Records) error
	// SaveLive stores an attempt's progress and replaces what was stored before.
	SaveLive(ctx context.Context, l output.Live) error
	// SaveCheckpoint replaces the task's checkpoint and waits until the new one is stored. The
	// error wraps [task.ErrFenced] if the stored one is from a later attempt.
	SaveCheckpoint(ctx context.Context, c output.Checkpoint) error
	// Checkpoint returns the latest checkpoint of a task; its epoch is 0 if there is none.
	Checkpoint(ctx context.Context, id task.ID) (output.Checkpoint, error)
	// SaveStep stores a step's result apart from the log, under its digest, as long as the log knows the
	// task. It waits until all is stored. Doing it again is harmless.
	SaveStep(ctx context.Context, id task.ID, digest string, result []byte) error
	// StepResult returns what SaveStep has stored. The error says if it is gone.
	StepResult(ctx context.Context, id task.ID, digest string, size int) ([]byte, error)
	// Ran returns where a task of this name last started; its node is "" if that is unknown.
	// SaveRan replaces it.
	Ran(ctx context.Context, name string) (duties.Ran, error)
	SaveRan(ctx context.Context, r duties.Ran) error
}

// Config says which work a worker takes. The zero value serves the default queue under the host's
// name.
type Config struct {
	// Node is the worker's name: 1 to 64 letters, digits, '_' or '-', the same
	// at each start. If another process registers under it, this one stops.
	// Default: the host's name.
	Node node.ID
	// Queues are the queues that the worker serves. Default: only [placement.DefaultQueue].
	Queues []string
	// Weights say how often a queue has its turn when several have tasks: 1, the default, to
	// [placement.MaxWeight].
	Weights map[string]int
	// Slots is how many tasks it runs at once, at least 1. Default: the number of processors.
	Slots int
	// Labels describe the node: tasks choose it by them. An operator can change them later.
	Labels map[string]string
	// Beat is the interval of the node's heartbeats. NodeTTL is how long a silent node still counts
	// as alive: at least 1s, and more than twice Beat. Defaults 5s and 15s.
	Beat, NodeTTL time.Duration
	// Grace is how long running tasks may go on after Run was asked to end; then the worker stops
	// them and gives them back. Default 30s.
	Grace time.Duration
	// Hurry, once closed, ends Run at once: the worker kills what runs, and gives it back if the
	// log answers within a second. It has an effect only after Run was asked to end. Default:
	// never.
	Hurry <-chan struct{}
	// Flap says when a node comes and goes too often to get work.
	Flap node.FlapPolicy
	// Spool is a directory. While the server is away, attempts that go on
	// ([job.DisconnectContinue]) write their output and reports there. The worker makes one folder
	// per node in it, for its user alone. A worker that starts hands over what lies there, so the
	// directory should outlive the process. If another user may write to it, the worker does
	// without a spool. Default: millrace/spool in the user's cache directory; if there is no such
	// directory, as when $HOME is not set, New returns an error.
	Spool string
	// SpoolLimit is how many bytes of output all attempts may spool together. The worker drops the
	// rest: a line in the output counts the dropped lines, and an attempt whose records were
	// dropped fails. Reports are always kept. Default 256 MiB, at least 1.
	SpoolLimit int64
	// Output is how many bytes of an attempt's printed output are kept, at most 256 KiB of them
	// from its end; a line says how much is missing in between. A job can ask for less
	// ([job.Resources]). Default 64 MiB; [NoBound] keeps everything.
	Output int64
	// Records is how many bytes of records an attempt may produce; an attempt that produces more
	// fails. Default 1 GiB; [NoBound] for as many as the log takes.
	Records int64
	// Commands runs tasks that are child processes. Default: none are run; the
	// worker must then serve queues that have only tasks for its handlers.
	Commands Runner
	// Runtimes are the programs by which Commands runs images. Default: it runs none.
	Runtimes []string
	// Submit makes the tasks that running tasks ask for ([Attempt.Spawn]). Submitting a task again
	// under the same ID must make no second one. Default: such requests are refused.
	//
	// An error that wraps [task.ErrOther] says that the child exists and does something else.
	Submit func(ctx context.Context, s birth.Submission) error
	// Tracer begins spans of attempts. Default: no tracing.
	Tracer Tracer
	// Spawning bounds what running tasks may ask for. Zero fields mean the defaults.
	Spawning birth.Spawning
	// Now returns the time, both for what the worker writes and for comparing it with times that
	// others have written. The worker measures durations by the monotonic clock, whatever Now
	// returns. A machine with a wrong clock writes times that make others wait for ever, or not at
	// all; request.Clock therefore follows the log's time. Default: the log's method Now if it
	// has one, as package jet's does; else [time.Now].
	Now func() time.Time
	// Version is the program's version, for display.
	Version string
	// Ready is called once, when the node has proved that work reaches it, or when it is clear that
	// it gets none for now. Default: no call.
	Ready func()
	// Log receives messages for the operator. Default: none.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Node == "" {
		c.Node = HostNode()
	}
	if len(c.Queues) == 0 {
		c.Queues = []string{placement.DefaultQueue}
	}
	if c.Slots == 0 {
		c.Slots = runtime.GOMAXPROCS(0)
	}
	if c.Beat == 0 {
		c.Beat = 5 * time.Second
	}
	if c.NodeTTL == 0 {
		c.NodeTTL = 3 * c.Beat
	}
	if c.Spool == "" {
		c.Spool = defaultSpool()
	}
	if c.SpoolLimit == 0 {
		c.SpoolLimit = 256 << 20
	}
	if c.Output == 0 {
		c.Output = 64 << 20
	}
	if c.Records == 0 {
		c.Records = 1 << 30
	}
	c.Spawning = c.Spawning.WithDefaults()
	if c.Grace == 0 {
		c.Grace = 30 * time.Second
	}
	return c
}

// nowOf returns the clock of a log if it keeps one; else the machine's.
func nowOf(log events.Log) func() time.Time {
	if s, ok := log.(interface{ Now() time.Time }); ok {
		return s.Now
	}
	return time.Now
}

// goneOf returns what a log closes when it can never be reached again; nil if it has no such thing.
func goneOf(log events.Log) (gone <-chan struct{}, why func() error) {
	s, ok := log.(interface {
		Gone() <-chan struct{}
		WhyGone() error
	})
	if !ok {
		return nil, func() error { return events.ErrGone }
	}
	return s.Gone(), s.WhyGone
}

func (c Config) validate(ackWait time.Duration) error {
	if err := c.Node.Validate(); err != nil {
		return fmt.Errorf("worker: Node: %w", err)
	}
	for _, q := range c.Queues {
		if err := value.ValidName("queue", q); err != nil {
			return fmt.Errorf("worker: Queues: %w", err)
		}
	}
	if err := node.ValidLabels(c.Labels); err != nil {
		return fmt.Errorf("worker: Labels: %w", err)
	}
	for q, w := range c.Weights {
		if w < 1 || w > placement.MaxWeight {
			return fmt.Errorf("worker: Weights: that of queue %s is %d, want 1 to %d", q, w, placement.MaxWeight)
		}
	}
	if err := c.Spawning.Validate(); err != nil {
		return fmt.Errorf("worker: Spawning.%w", err)
	}
	switch {
	case c.Slots < 1:
		return fmt.Errorf("worker: Slots is %d, want at least 1", c.Slots)
	case c.NodeTTL < time.Second:
		return fmt.Errorf("worker: NodeTTL is %v, want at least 1s", c.NodeTTL)
	case c.Beat <= 0 || c.NodeTTL <= 2*c.Beat:
		return fmt.Errorf("worker: Beat is %v, want less than half of NodeTTL, which is %v", c.Beat, c.NodeTTL)
	case c.Spool == "":
		return errors.New("worker: Spool is not set, and this user has no cache directory: set it, or $HOME")
	case c.SpoolLimit < 0:
		return fmt.Errorf("worker: SpoolLimit is %d, want at least 1", c.SpoolLimit)
	case c.Grace < 0:
		return errors.New("worker: Grace is below zero")
	case ackWait <= 0:
		return fmt.Errorf("worker: the log's leases last %v", ackWait)
	}
	return nil
}
