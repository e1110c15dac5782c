package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/integration/load"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/schedule"
	"millrace/task/value"
)

const (
	fanWidth   = 50 // tasks between the first and the last one of a fan
	limitedTo  = 16 // keys over which limited tasks are spread
	loadLooks  = time.Second
	ticksNamed = "bench-" // and the number of the arrival
)

// loading is one round under a load. The fate of the tasks is read from the log, whose times are
// those of the server on this machine: no measured message passes through the measuring code.
type loading struct {
	*bench
	plan  load.Plan
	begin time.Time

	mu    sync.Mutex
	tally *load.Tally
	tasks map[task.ID]*loaded
	ticks map[string]*arrived // by the name of the schedule
	left  int                 // tasks that have not come or not ended
	sent  bool                // all are submitted
	over  chan struct{}       // closed when sent is set and none is left
}

// arrived is an arrival in progress, loaded one of its tasks.
type arrived struct {
	due   time.Duration
	begun bool
	left  int // tasks without an end
}

type loaded struct {
	of                   *arrived
	born, started, ended bool
}

// Load measures one round of a plan against a fresh server.
func Load(ctx context.Context, cfg Config, plan load.Plan) (load.Round, error) {
	l := &loading{bench: &bench{cfg: cfg.withDefaults()}, plan: plan, tally: load.NewTally(plan),
		tasks: map[task.ID]*loaded{}, ticks: map[string]*arrived{}, over: make(chan struct{})}
	defer l.close()
	if err := l.open(ctx); err != nil {
		return load.Round{}, err
	}
	crew, err := l.warmUp(ctx)
	if err != nil {
		return load.Round{}, err
	}
	defer crew.stop()
	last, err := l.store.Last(ctx)
	if err != nil {
		return load.Round{}, err
	}
	feed, err := l.store.Follow(ctx, last+1)
	if err != nil {
		return load.Round{}, err
	}
	defer feed.Close()
	l.cfg.Progress(fmt.Sprintf("%s: %v arrivals a second for %v", plan.Name, plan.Rate, plan.For))
	l.begin = time.Now().Add(plan.Ahead)
	before := l.spent()
	// The same random numbers in each round and each run, so that two results differ only by what
	// is measured.
	chance := rand.New(rand.NewPCG(1, 2)).Float64 // nothing to guess
	looking, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(looking)
	g.Go(func() error {
		if err := send(ctx, plan.Arrivals(chance), l.begin, plan.Ahead, sendHands, l.hand); err != nil {
			return err
		}
		l.allSent()
		return nil
	})
	g.Go(func() error { return l.read(ctx, feed) })
	g.Go(func() error { l.look(ctx, before); return nil })
	g.Go(func() error {
		select {
		case <-l.over:
			stop() // reading and looking
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case err := <-crew.ended:
			crew.ended <- err
			return fmt.Errorf("the worker ended early: %w", err)
		}
	})
	err = g.Wait()
	select {
	case <-l.over:
		err = nil // they were stopped
	default:
	}
	if err != nil && !errors.Is(err, errStill) {
		return load.Round{}, err
	}
	cost := l.each(before, max(len(l.tasks), 1))
	return l.tally.Round(l.left, cost.Server, cost.Worker), crew.dismiss()
}

// warmUp hires a worker and runs some tasks on it, so that the first arrivals find it at work.
func (l *loading) warmUp(ctx context.Context) (*crew, error) {
	const tasks = 20
	crew, err := l.hire(ctx, l.cfg.Slots, tasks, nil)
	if err != nil {
		return nil, err
	}
	if err = l.submit(ctx, noop, tasks); err == nil {
		err = crew.wait(ctx)
	}
	if err == nil {
		_, err = l.caughtUp(ctx)
	}
	if err != nil {
		crew.stop()
	}
	return crew, err
}

// hand submits the tasks of some arrivals.
func (l *loading) hand(ctx context.Context, due []load.Arrival) error {
	at := time.Since(l.begin)
	var all []birth.Submission
	l.mu.Lock()
	for _, a := range due {
		l.tally.Sent(a, at+l.plan.Ahead)
		of := &arrived{due: a.At}
		if a.Kind == load.Tick {
			l.ticks[ticksNamed+strconv.Itoa(a.N)] = of
			of.left, l.left = 1, l.left+1
			continue
		}
		made := l.make(a)
		of.left, l.left = len(made), l.left+len(made)
		for i := range made {
			l.tasks[made[i].ID] = &loaded{of: of}
		}
		all = append(all, made...)
	}
	l.mu.Unlock()
	for _, a := range due {
		if a.Kind != load.Tick {
			continue
		}
		if _, _, err := l.client.PutSchedule(ctx, schedule.Definition{
			Name: ticksNamed + strconv.Itoa(a.N),
			When: job.Schedule{Every: value.Duration(schedulesEvery), Start: l.begin.Add(a.At).UTC().Format(time.RFC3339Nano)},
			Make: birth.Submission{Spec: noop.Spec, Queue: queue},
		}); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		return nil
	}
	return l.client.SubmitAll(ctx, all, nil)
}

// make returns the tasks of an arrival that is not a tick.
func (l *loading) make(a load.Arrival) []birth.Submission {
	one := func(spec *job.Spec) birth.Submission {
		return birth.Submission{Spec: spec, Queue: queue, ID: task.ID(events.NewID(l.store.Now())), Fresh: true}
	}
	first := one(noop.Spec)
	switch a.Kind {
	case load.Program:
		first.Spec = &job.Spec{Run: &job.Run{Argv: []string{"/bin/true"}}}
	case load.Retry:
		first.Spec = &job.Spec{Handler: failsOnce, Retry: job.Retry{Max: 1, Min: value.Duration(100 * time.Millisecond)}}
	case load.Limited:
		first.Concurrency = limit.Concurrencies{{Max: 1, Key: "{labels.key}"}}
		first.Labels = map[string]string{"key": strconv.Itoa(a.N % limitedTo)}
	case load.Fan:
		all, last := []birth.Submission{first}, one(noop.Spec)
		last.Needs = &task.Needs{}
		for range fanWidth {
			s := one(noop.Spec)
			s.Needs = &task.Needs{Of: []task.Need{{Task: first.ID}}}
			last.Needs.Of = append(last.Needs.Of, task.Need{Task: s.ID})
			all = append(all, s)
		}
		return append(all, last)
	}
	return []birth.Submission{first}
}

// allSent records that no more arrivals come.
func (l *loading) allSent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = true
	l.settle()
}

// settle ends the round when nothing is left. The caller holds mu.
func (l *loading) settle() {
	if l.sent && l.left == 0 {
		close(l.over)
		l.sent = false
	}
}

var errStill = errors.New("nothing happens any more")

// read counts the tasks' facts in the log, until ctx ends or nothing has come for long.
func (l *loading) read(ctx context.Context, feed events.Feed) error {
	// Arrivals may be rare: a gap of a hundred mean ones is no accident.
	patience := stall + l.plan.Ahead + time.Duration(100/l.plan.Rate*float64(time.Second))
	for {
		waiting, enough := context.WithTimeout(ctx, patience)
		records, err := feed.Next(waiting)
		enough()
		switch {
		case err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			return errStill
		case err != nil:
			return err
		}
		l.mu.Lock()
		for i := range records {
			l.see(&records[i])
		}
		l.mu.Unlock()
	}
}

// see counts one record. The caller holds mu.
func (l *loading) see(r *events.Record) {
	at := r.Stored.Sub(l.begin)
	if e, birth := r.Fact.Event.(task.Submitted); birth && strings.HasPrefix(e.Schedule, ticksNamed) && l.tasks[r.Fact.Task] == nil {
		if of := l.ticks[e.Schedule]; of != nil {
			l.tasks[r.Fact.Task] = &loaded{of: of}
		}
	}
	t := l.tasks[r.Fact.Task]
	if t == nil {
		return
	}
	switch e := r.Fact.Event.(type) {
	case task.Submitted:
		if !t.born {
			t.born = true
			l.tally.Born(at)
		}
	case task.AttemptStarted:
		if !t.started {
			t.started = true
			l.tally.Started(at)
		}
		if !t.of.begun {
			t.of.begun = true
			l.tally.Begun(t.of.due, at)
		}
	case task.AttemptFinished:
		l.end(t, at, true)
	case task.AttemptFailed:
		if e.Retry == nil {
			l.end(t, at, false)
		}
	case task.CancelConfirmed, task.GivenUp:
		l.end(t, at, false)
	}
}

// end counts the end of a task.
func (l *loading) end(t *loaded, at time.Duration, finished bool) {
	if t.ended {
		l.tally.Again()
		return
	}
	t.ended = true
	l.tally.Ended(at, finished)
	if t.of.left--; t.of.left == 0 {
		l.tally.Done(t.of.due, at)
	}
	l.left--
	l.settle()
}

// look records what the server uses, until ctx ends.
func (l *loading) look(ctx context.Context, before spent) {
	ticker := time.NewTicker(loadLooks)
	defer ticker.Stop()
	for {
		var memory, disk int64
		if l.cfg.ServerMemory != nil {
			memory, _ = l.cfg.ServerMemory() // else it is not measured
		}
		if l.cfg.ServerDisk != nil {
			disk, _ = l.cfg.ServerDisk()
		}
		now := l.spent()
		l.mu.Lock()
		l.tally.Sample(time.Since(l.begin), memory, disk, now.server-before.server)
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
