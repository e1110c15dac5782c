// Package millracetest tests programs that use package millrace, in milliseconds each, without a server: a log in
// memory with the real scheduler and the real workers, and a clock that the test moves.
//
//	func TestReminder(t *testing.T) {
//		t.Parallel()
//		millracetest.Run(t, func(t *testing.T, w *millracetest.World) {
//			w.Work(remind)
//			run, err := remind.Submit(t.Context(), w.App, Reminder{To: "ada"}, millrace.In(24*time.Hour))
//			…
//			w.Advance(23 * time.Hour) // not yet
//			w.RunUntilIdle()          // and now
//			text, err := run.Result(t.Context())
//			…
//		})
//	}
//
// The program under test is unchanged: [World].App goes wherever a [millrace.App] goes.
//
// # Time
//
// A test runs in a bubble of [testing/synctest]: time.Now, time.Sleep, timers and deadlines of contexts follow the
// test's clock, in the program and its libraries, too. The clock stands still while anything computes, and moves on at
// once when all wait. It begins at midnight UTC of 1 January 2000.
//
// Three things follow from that. What a function uses, such as a pool of database connections, is opened within the
// test. While a goroutine of the test waits for the network, the clock stands still: start an httptest.Server before
// [Run], and have its clients keep no connection (DisableKeepAlives), or the test never ends. A handler that sleeps
// there does so in real time. And within the bubble there is no t.Run and no t.Parallel: call them outside.
package millracetest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace"
	"millrace/service/client"
	"millrace/task"
)

// World is where a program runs in a test: a log, a scheduler, and the workers that the test starts.
type World struct {
	// App is the program's connection.
	App *millrace.App

	t     *testing.T
	house *house

	mu      sync.Mutex
	faults  map[fault]error // guarded by mu
	between []*between      // guarded by mu
	nodes   int             // guarded by mu
	all     sync.WaitGroup  // of workers
	ended   bool            // guarded by mu
}

// fault is an attempt that fails.
type fault struct {
	function string
	attempt  int
}

// Run runs a test in a world of its own, and ends all of it when play returns. The test fails if a goroutine of play
// or of the program is then left. A test that has run for 20 seconds says on standard error what may hold it up.
func Run(t *testing.T, play func(t *testing.T, w *World)) {
	t.Helper()
	bubble(t, func(t *testing.T) { play(t, New(t)) })
}

// long is how long a test may run before it says what may hold it up. Most take milliseconds.
const long = 20 * time.Second

// bubble runs a test with a clock of its own.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	hint := time.AfterFunc(long, func() {
		fmt.Fprintf(os.Stderr, "millracetest: %s has run for %v. If it stands still, one of its goroutines waits for the network: see \"Time\" in the documentation of millracetest.\n", t.Name(), long)
	})
	defer hint.Stop()
	synctest.Test(t, f)
}

// New is for a test that makes its bubble by itself, with [synctest.Test]; [Run] does both. The world ends with the
// test.
func New(t *testing.T) *World {
	t.Helper()
	func() {
		defer func() {
			if recover() != nil {
				t.Fatal("millracetest: the test has no clock of its own: call millracetest.Run, or New within synctest.Test")
			}
		}()
		synctest.Wait()
	}()
	w := &World{t: t, house: newHouse(), faults: map[fault]error{}}
	w.App = millrace.New(client.On(client.Ground{Log: w.house, Hints: w.house, News: w.house, Outputs: w.house, Definitions: w.house}, births{h: w.house}, "test"), nil)
	w.App.Use(w.fail, w.cross)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); w.house.run(ctx) }()
	t.Cleanup(func() {
		w.mu.Lock()
		w.ended = true
		w.mu.Unlock()
		w.loseAll()
		w.all.Wait()
		stop()
		<-ended
	})
	return w
}

// fail is the middleware that lets attempts fail.
func (w *World) fail(ctx context.Context, t *millrace.Task, next func(context.Context) error) error {
	w.mu.Lock()
	err := w.faults[fault{t.Spec.Handler, t.Attempt}]
	w.mu.Unlock()
	if err != nil {
		return err
	}
	return next(ctx)
}

// FailAttempt has attempt n of each task of a function, from 1, fail with err instead of running. Marks such as
// [millrace.Final] and [millrace.RetryAfter] count; nil takes the fault away.
func (w *World) FailAttempt(f millrace.Handler, n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults[fault{millrace.NameOf(f), n}] = err
}

// Work starts a worker with four slots for functions, and returns when it is ready. It ends with the test, or when its
// node is lost; then another one takes its place.
func (w *World) Work(functions ...millrace.Handler) {
	w.t.Helper()
	w.mu.Lock()
	w.nodes++
	name := fmt.Sprintf("node-%d", w.nodes)
	w.mu.Unlock()
	w.start(name, functions)
	synctest.Wait()
}

func (w *World) start(name string, functions []millrace.Handler) {
	ready := &millrace.Worker{App: w.App, Node: name, Slots: 4, Grace: time.Second, Log: slog.New(slog.DiscardHandler)}
	w.all.Go(func() {
		err := ready.Run(context.Background(), functions...)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.ended {
			return
		}
		if err != nil && !w.house.lost(name) {
			w.t.Errorf("millracetest: a worker has ended: %v", err)
			return
		}
		w.nodes++
		w.start(fmt.Sprintf("node-%d", w.nodes), functions)
	})
}

// LoseNodes makes all nodes fail now, as machines do: what runs there is never heard of again, and its contexts end.
// Once their heartbeats are over, after at most 20 minutes, the tasks start on new nodes, which are there at once.
func (w *World) LoseNodes() {
	w.t.Helper()
	w.loseAll()
	synctest.Wait()
}

func (w *World) loseAll() {
	w.house.aside.Lock()
	defer w.house.aside.Unlock()
	for _, p := range w.house.workers {
		p.lose()
	}
}

// Advance lets a time pass, and everything happen that is due by then.
func (w *World) Advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// patience bounds for how long nothing may happen while a function runs.
const patience = 30 * 24 * time.Hour

// RunUntilIdle lets time pass, however long, until each task has ended or waits for a signal. Schedules do not count.
// The test fails if a task waits for what no time brings, for example because no worker serves its queue, or if nothing
// happens for 30 days.
func (w *World) RunUntilIdle() {
	w.t.Helper()
	for {
		synctest.Wait()
		open, until, changed := w.open()
		if len(open) == 0 {
			return
		}
		wait := time.NewTimer(time.Until(until))
		select {
		case <-changed:
			wait.Stop()
		case <-wait.C:
			if now, _, _ := w.open(); len(now) > 0 && strings.Join(now, "") == strings.Join(open, "") {
				w.t.Fatalf("millracetest: these tasks do not end:\n%s", strings.Join(open, "\n"))
			}
		}
	}
}

// open lists the tasks that time brings on, until when one of them must have moved, and what tells of that.
func (w *World) open() (open []string, until time.Time, changed <-chan struct{}) {
	h := w.house
	h.mu.Lock()
	defer h.mu.Unlock()
	until = time.Now().Add(time.Hour)
	for t := range h.model.All() {
		if t.State.Terminal() || t.AwaitsSignal() {
			continue
		}
		open = append(open, fmt.Sprintf("task %s of %s is %s, in queue %s", t.ID, t.Spec.Text(), t.State, t.QueueName()))
		if after := t.Due.Add(time.Hour); after.After(until) {
			until = after
		}
		if t.Live() {
			until = time.Now().Add(patience)
		}
	}
	return open, until, h.changed
}

// Tasks lists all tasks, in the order of their ids, which is that of their submission.
func (w *World) Tasks() (all []millrace.Task) {
	w.house.tasks(func(t *task.Task) bool { all = append(all, *t); return true })
	return all
}
