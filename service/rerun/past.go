package rerun

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/output"
	"millrace/task/schedule"
	"millrace/worker"
)

// ErrNoRecord: the function waits for what the record does not have.
var ErrNoRecord = errors.New("the record has no end of it")

// Past is a log as it was before a task's last attempt ended. What is written to it is seen by nobody.
type Past struct {
	*events.Memory
	play  func(ctx context.Context, functions []string, run func(from []events.Record, apart map[string][]byte, id task.ID) Outcome) error
	apart map[string][]byte // results of steps that the records do not have, by digest
}

// ackWait is the lease of attempts, of which there are none.
const ackWait = time.Minute

func newPast() *Past { return &Past{Memory: events.NewMemory(time.Now, ackWait)} }

// Of is a past in which a worker runs an ending again, and hears gets what comes of it.
func (l *Log) Of(e *Ending, hears func(Outcome)) *Past {
	p := newPast()
	p.play = func(_ context.Context, _ []string, run func([]events.Record, map[string][]byte, task.ID) Outcome) error {
		from := l.before(e)
		hears(run(from, l.apart(from), e.Task))
		return nil
	}
	return p
}

// Client is a client of the past.
func (p *Past) Client() *client.Client {
	return client.On(client.Ground{Log: p, Hints: quiet{}, News: p, Outputs: p, Definitions: jobs{p: p}}, births{p}, "replay")
}

// Ports are those of a worker in the past.
func (p *Past) Ports(node.ID) (on worker.Ports, beat, ttl time.Duration) {
	return worker.Ports{Log: p, Offers: none{}, Nodes: quiet{}, Outputs: p}, 0, 0
}

// Rerun has a worker run what it is told to, by run, and returns when there is no more of it.
func (p *Past) Rerun(ctx context.Context, functions []string, run func(context.Context, task.Task) worker.Outcome) error {
	return p.play(ctx, functions, func(from []events.Record, apart map[string][]byte, id task.ID) Outcome {
		p.Restore(from)
		p.apart = apart
		rec := &events.Recorder{Log: p, Now: time.Now, NewID: events.NewID}
		t, err := rec.Load(ctx, id)
		if err != nil {
			return Outcome{Failure: "its record: " + err.Error()}
		}
		last := uint64(0)
		if n := len(from); n > 0 {
			last = from[n-1].Seq
		}
		o := run(ctx, t)
		if made := p.childOf(id, last); made != "" {
			return Outcome{Failure: "it makes a child that the record does not have: " + made}
		}
		if o.Class != "" {
			return Outcome{Failure: o.Message}
		}
		return Outcome{Result: o.Result}
	})
}

// childOf names a child that was made behind a sequence; "" if there is none.
func (p *Past) childOf(id task.ID, last uint64) string {
	for _, r := range p.All() {
		if e, born := r.Fact.Event.(task.Submitted); born && r.Seq > last && e.Parent == id {
			return fmt.Sprintf("%s of %s", r.Fact.Task, e.Spec.Text())
		}
	}
	return ""
}

// What a client asks beside the log.

func (p *Past) Now() time.Time { return time.Now() }

func (p *Past) Gone() <-chan struct{} { return nil }

func (p *Past) WhyGone() error { return events.ErrGone }

// WatchTask refuses to wait for what will not come.
func (p *Past) WatchTask(id task.ID, _ func()) (stop func(), err error) {
	rec := &events.Recorder{Log: p, Now: time.Now, NewID: events.NewID}
	if t, err := rec.Load(context.Background(), id); err != nil || !t.State.Terminal() {
		return nil, fmt.Errorf("%w", ErrNoRecord)
	}
	return func() {}, nil
}

func (p *Past) PrintedFrom(context.Context, task.ID, client.OutputStart, bool, func(uint64, output.Lines) error) error {
	return ErrNoRecord // output is no part of a log
}

func (p *Past) Kept(context.Context, task.ID, bool, func(output.Records) error) error {
	return ErrNoRecord // likewise
}

// What a worker stores beside the log goes nowhere.

func (p *Past) Told(context.Context, task.ID, uint64) (output.Told, error) { return output.Told{}, nil }

func (p *Past) Print(context.Context, output.Lines) error { return nil }

func (p *Past) Keep(context.Context, output.Records) error { return nil }

func (p *Past) SaveLive(context.Context, output.Live) error { return nil }

func (p *Past) SaveCheckpoint(context.Context, output.Checkpoint) error { return nil }

func (p *Past) Checkpoint(context.Context, task.ID) (output.Checkpoint, error) {
	return output.Checkpoint{}, nil
}

func (p *Past) SaveStep(context.Context, task.ID, string, []byte) error { return ErrNoRecord }

func (p *Past) StepResult(_ context.Context, _ task.ID, digest string, size int) ([]byte, error) {
	if result, there := p.apart[digest]; there {
		return result, nil
	}
	return nil, fmt.Errorf("the record does not have its %d bytes, which only the server keeps: replay with the server", size)
}

func (p *Past) Ran(context.Context, string) (duties.Ran, error) { return duties.Ran{}, nil }

func (p *Past) SaveRan(context.Context, duties.Ran) error { return nil }

type offers = worker.Offers // a field of a name other than the method's

// none brings no tasks.
type none struct{ offers }

func (none) AckWait() time.Duration { return ackWait }

// quiet hears and tells nothing.
type quiet struct{ worker.Nodes }

func (quiet) Hint(node.ID, task.ID) error { return nil }

// jobs are those that the record has. What a program stores has no effect.
type jobs struct {
	client.Definitions
	p *Past
}

func (jobs) PutJobFrom(context.Context, job.Job, string, task.From, ...uint64) (revision uint64, changed bool, err error) {
	return 0, false, nil
}

func (jobs) PutSchedule(context.Context, schedule.Definition, string, ...uint64) (revision uint64, changed bool, err error) {
	return 0, false, nil
}

func (jobs) Schedules(context.Context) ([]schedule.Stored, error) { return nil, nil }

func (jobs) Schedule(context.Context, string) (schedule.Stored, error) {
	return schedule.Stored{}, definitions.ErrNoSchedule
}

func (jobs) RemoveSchedule(context.Context, string, string) error { return nil }

func (j jobs) Job(ctx context.Context, name string) (definitions.StoredJob, error) {
	d, err := j.p.Definition(ctx, task.Named(task.DefJob, name))
	if err != nil {
		return definitions.StoredJob{}, err
	}
	return definitions.JobIn(name, d)
}

// births is what a desk needs beside the log.
type births struct{ p *Past }

func (b births) JobAt(ctx context.Context, name string, _ uint64) (job.Job, uint64, error) {
	j, err := jobs{p: b.p}.Job(ctx, name)
	return j.Job, j.Revision, err
}

func (births) PinFiles(_ context.Context, f *job.Files) (*job.Files, error) {
	return nil, birth.NoTask(ErrNoRecord)
}

func (births) DeclareAll(context.Context, []*task.Work, string) error { return nil }

func (births) Waiting(context.Context, string, int) (waiting int, handed uint64, err error) {
	return 0, 0, nil
}
