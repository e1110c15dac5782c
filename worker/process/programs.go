package process

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"millrace/ipc"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
	"millrace/worker"
	"millrace/worker/process/child"
)

// Programs runs tasks of jobs that name a program which stays alive (run.program). One is started when none
// that fits a task is free, and is kept for the next. So there are never more at work than the worker has
// slots. Its zero value needs a configuration; Shell of that says nothing.
type Programs struct {
	// Config says for all of them what [ResidentsConfig] says; Number is how many without a task are kept.
	Config ResidentsConfig

	ending sync.WaitGroup
	mu     sync.Mutex
	idle   []*resident // guarded by mu; those without a task the longest come first
	reaper *time.Timer // guarded by mu; nil unless one is without a task
	closed bool        // guarded by mu
}

// idleFor is how long a program without a task is kept.
const idleFor = 5 * time.Minute

// Close ends the programs. No attempt may be running.
func (p *Programs) Close() {
	p.mu.Lock()
	p.closed = true
	p.end(len(p.idle))
	p.mu.Unlock()
	p.ending.Wait()
}

// end ends the first n programs without a task. The caller holds mu.
func (p *Programs) end(n int) {
	for _, m := range p.idle[:n] {
		p.ending.Go(m.bye)
	}
	if p.idle = slices.Delete(p.idle, 0, n); len(p.idle) == 0 && p.reaper != nil {
		p.reaper.Stop()
		p.reaper = nil
	}
}

// reap ends programs that have had no task for a while.
func (p *Programs) reap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := slices.IndexFunc(p.idle, func(m *resident) bool { return time.Since(m.since) < idleFor && !m.over() })
	if n < 0 {
		n = len(p.idle)
	}
	if p.end(n); p.reaper != nil {
		p.reaper.Reset(idleFor / 4)
	}
}

// take returns a program of a kind that has no task; nil if there is none.
func (p *Programs) take(fits string) *resident {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, m := range slices.Backward(p.idle) { // so that the others may be ended
		if m.fits == fits {
			p.idle = slices.Delete(p.idle, i, i+1)
			if !m.over() {
				return m
			}
		}
	}
	return nil
}

// put keeps a program for another task.
func (p *Programs) put(m *resident) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.since = time.Now()
	p.idle = append(p.idle, m)
	switch {
	case p.closed || p.Config.Tasks > 0 && int(m.count.Load()) >= p.Config.Tasks:
		p.idle = p.idle[:len(p.idle)-1]
		p.ending.Go(m.bye)
	case len(p.idle) > p.Config.Number:
		p.end(1)
	}
	if p.reaper == nil && len(p.idle) > 0 {
		p.reaper = time.AfterFunc(idleFor, p.reap)
	}
}

// run runs an attempt of a task that names a program.
func (p *Programs) run(ctx context.Context, t *Tasks, a *worker.Attempt) worker.Outcome {
	s := &session{attempt: a, began: time.Now()}
	spec := a.Task.Spec
	run := *spec.Run
	run.Handler = ""
	fits, err := json.Marshal([]any{run, spec.Files, spec.Setup, spec.Resources})
	var m *resident
	if err == nil {
		if m = p.take(string(fits)); m == nil {
			a.Output.Phase(task.PhaseSetup)
			m, err = p.start(ctx, t, a)
			a.Output.Phase(task.PhaseRun)
		}
	}
	if err != nil {
		return worker.Outcome{Class: value.System, Message: err.Error(), Stopped: ctx.Err() != nil}
	}
	m.fits = string(fits)
	var hidden []string
	switch s.handler = spec.Run.Handler; {
	case s.handler == "" && len(m.of.names) > 1:
		err = fmt.Errorf("%s has the handlers %s: say in run.handler which of them runs the task", run.Program, value.List(m.of.names))
	case s.handler == "":
		s.handler = m.of.names[0]
	case !slices.Contains(m.of.names, s.handler):
		err = fmt.Errorf("%s has no handler %q; it has %s", run.Program, s.handler, value.List(m.of.names))
	}
	if err != nil {
		p.put(m)
		return worker.Outcome{Class: value.User, Message: err.Error(), Final: true}
	}
	if s.params, hidden, err = openParams(&a.Task, m.of.command.Dir, m.as); err != nil {
		p.put(m)
		return worker.Outcome{Class: value.System, Message: err.Error()}
	}
	o := m.attempt(ctx, s, append(hidden, m.secrets...))
	if !m.over() {
		p.put(m)
	}
	return o
}

// start starts the program of an attempt.
func (p *Programs) start(ctx context.Context, t *Tasks, a *worker.Attempt) (*resident, error) {
	spec := a.Task.Spec
	run := spec.Run
	if t.Messages == job.MessagesOff {
		return nil, errors.New("programs that stay alive speak by messages, and this worker obeys none (--messages off)")
	}
	as, err := accountOf(run)
	if err != nil {
		return nil, err
	}
	place, err := t.place(ctx, a, as)
	if err != nil {
		return nil, err
	}
	env, secrets, err := t.environment(a, nil, place.dir, as)
	if err != nil {
		place.leave()
		return nil, err
	}
	k := &kind{tasks: t, cfg: p.Config, bound: "resources.memory of its job"}
	k.cfg.Shell, k.cfg.Start = run.Program, cmp.Or(k.cfg.Start, startPatience)
	k.command = child.Command{Shell: run.Program, Dir: place.dir, Env: append(t.withProgram(env), place.env...), Encoding: run.Encoding, Resources: spec.Resources}
	if k.command.Messages.Keyless = ipc.Keyless(run.Strictness(t.Messages)); k.command.Resources.Memory == 0 {
		k.command.Resources.Memory, k.bound = p.Config.Memory, boundOfWorker
	}
	if as.other() {
		k.command.Credential = as.credential
	}
	m, err := k.start(ctx)
	if err != nil {
		place.leave()
		return nil, err
	}
	m.as, m.secrets = as, secrets
	p.ending.Go(func() {
		<-m.ended
		place.leave()
	})
	return m, nil
}
