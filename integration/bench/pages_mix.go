package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"millrace/events"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/value"
)

const (
	// pagesJobs is how many jobs the tasks are of. Those of the last one fail, one in pagesJobs.
	pagesJobs = 20
	// pagesWaiting tasks wait in a queue without workers, and pagesRunning run.
	pagesWaiting = 10_000
	pagesRunning = 25
	// pagesSchedules is how many schedules there are.
	pagesSchedules = 20
	// pagesChunk is how many tasks are submitted at once.
	pagesChunk = 4096
	// pagesTenants is how many values a label has that every fourth task carries.
	pagesTenants = 997
	// pagesIdle is a queue without workers.
	pagesIdle = "bench-waiting"
	// pagesRare is a submitter of few tasks, and pagesTree a job with steps.
	pagesRare = "carol@laptop"
	pagesTree = "bench-tree"
)

// pagesPart is how many tasks of a kind there are among n, at least one.
func pagesPart(n, of int) int { return max(n/of, 1) }

// fill runs n tasks that differ as those of a server in use do, and leaves some in each state.
func (b *bench) fill(ctx context.Context, n int) error {
	b.cfg.Progress(fmt.Sprintf("pages: running %d tasks", n))
	births, err := b.pagesBirths(ctx)
	if err != nil {
		return err
	}
	fails := n / pagesJobs
	trees := pagesPart(n, 5000)
	c, err := b.hire(ctx, b.cfg.Slots, n-fails+len(pagesSteps)*trees, nil)
	if err != nil {
		return err
	}
	defer c.stop()
	if err := b.client.SubmitMany(ctx, birth.Submission{Job: pagesTree}, trees, nil); err != nil {
		return err
	}
	for from := 0; from < n; from += pagesChunk {
		facts := make([]*events.Fact, min(n-from, pagesChunk))
		for i := range facts {
			facts[i] = b.pagesFact(births, from+i, n)
		}
		var failed error
		b.pagesRecorder("").PlaceBirths(ctx, facts, func(_ int, _ uint64, err error) { failed = errors.Join(failed, err) })
		if failed != nil {
			return failed
		}
	}
	b.submitted += n
	if err := errors.Join(c.wait(ctx), c.dismiss()); err != nil {
		return err
	}
	return b.leave(ctx, n)
}

// pagesSteps are the steps of a task that has some.
var pagesSteps = []job.Step{
	{Name: "load", Spec: *noop.Spec},
	{Name: "left", Needs: []job.StepNeed{{Step: "load"}}, Spec: *noop.Spec},
	{Name: "right", Needs: []job.StepNeed{{Step: "load"}}, Spec: *noop.Spec},
	{Name: "store", Needs: []job.StepNeed{{Step: "left"}, {Step: "right"}}, Spec: *noop.Spec},
}

// pagesBirths stores the jobs, and returns the birth of a task of each, but of that with steps.
func (b *bench) pagesBirths(ctx context.Context) (births []task.Submitted, err error) {
	if _, _, err := b.client.Apply(ctx, job.Job{Name: pagesTree, Queue: queue, Spec: job.Spec{Steps: pagesSteps}}); err != nil {
		return nil, err
	}
	for i := range pagesJobs {
		j := job.Job{Name: fmt.Sprintf("bench-%d", i), Queue: queue, Labels: map[string]string{"env": "prod"}, Spec: *noop.Spec}
		if i == pagesJobs-1 {
			j.Spec = job.Spec{Handler: failsOnce}
		}
		revision, _, err := b.client.Apply(ctx, j)
		if err != nil {
			return nil, err
		}
		e, err := birth.Of(birth.Submission{Job: j.Name}, &j, revision, b.store.Now())
		if err != nil {
			return nil, err
		}
		births = append(births, e)
	}
	return births, nil
}

func (b *bench) pagesRecorder(actor string) *events.Recorder {
	return &events.Recorder{Log: b.store, Actor: actor, Now: b.store.Now, NewID: events.NewID}
}

// pagesFact is the birth of task i of n.
func (b *bench) pagesFact(births []task.Submitted, i, n int) *events.Fact {
	e := births[i%len(births)]
	e.Params = json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))
	labels := map[string]string{"env": "prod"}
	if i%10 == 3 {
		labels["env"] = "test"
	}
	if i%4 == 0 {
		labels["tenant"] = fmt.Sprintf("t%d", i%pagesTenants)
	}
	e.Labels = labels
	actor := fmt.Sprintf("app-%d", i%30)
	if i%pagesPart(n, 20) == 0 {
		actor = pagesRare
	}
	return b.pagesRecorder(actor).Fact(task.ID(events.NewID(b.store.Now())), e)
}

// leave leaves tasks that wait, for a worker, a time, a signal, or a place under a limit; and some
// that were cancelled, or that are dead letters.
func (b *bench) leave(ctx context.Context, n int) error {
	b.cfg.Progress("pages: tasks that do not run")
	waits := func(change func(*job.Spec)) birth.Submission {
		spec := *noop.Spec
		change(&spec)
		return birth.Submission{Spec: &spec, Queue: pagesIdle}
	}
	later := waits(func(*job.Spec) {})
	later.Delay = value.Duration(365 * 24 * time.Hour)
	dropped := waits(func(*job.Spec) {})
	dropped.Queue = "bench-dropped"
	for _, of := range []struct {
		what birth.Submission
		n    int
	}{
		{waits(func(*job.Spec) {}), pagesWaiting},
		{later, pagesPart(n, 1000)},
		{waits(func(s *job.Spec) { s.Signal = &job.Signal{Name: "go"} }), pagesPart(n, 1000)},
		{waits(func(s *job.Spec) { s.Concurrency = limit.Concurrencies{{Max: 1, Key: "bench"}} }), pagesPart(n, 1000)},
		{waits(func(s *job.Spec) {
			s.Signal = &job.Signal{Name: "go", Timeout: value.Duration(time.Millisecond), OnTimeout: job.SignalExpire}
		}), pagesPart(n, 2000)},
		{dropped, pagesPart(n, 100)},
	} {
		if err := b.client.SubmitMany(ctx, of.what, of.n, nil); err != nil {
			return err
		}
	}
	if _, err := b.client.PurgeQueue(ctx, &client.Purge{Queue: dropped.Queue, Reason: "no longer wanted"}, b.client.List); err != nil {
		return err
	}
	return b.putSchedules(ctx, pagesSchedules, time.Now().Add(schedulesEvery), schedulesEvery)
}

// staff has tasks run until the returned function is called.
func (b *bench) staff(ctx context.Context) (dismiss func(), err error) {
	running, finish := context.WithCancel(ctx)
	begun := make(chan struct{}, pagesRunning)
	c, err := b.hire(ctx, b.cfg.Slots, pagesRunning, func(task.Task) {
		begun <- struct{}{}
		<-running.Done()
	})
	if err != nil {
		finish()
		return nil, err
	}
	dismiss = func() { finish(); _ = c.dismiss() } // how it ends no longer matters
	err = b.submit(ctx, birth.Submission{Job: "bench-0"}, pagesRunning)
	for range pagesRunning {
		if err != nil {
			break
		}
		select {
		case <-begun:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err == nil {
		_, err = b.caughtUp(ctx)
	}
	if err != nil {
		dismiss()
		return nil, err
	}
	return dismiss, nil
}
