package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events/jet"
	"millrace/events/jet/streams"
	"millrace/integration/harness"
	"millrace/projections"
	"millrace/scheduler"
	api "millrace/service/answers"
	"millrace/service/client"
	"millrace/worker/process"
	"millrace/worker/process/child"

	"millrace/internal/testkit"
)

// TestMain makes the test program its own guard of child processes, and its own NATS server.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "guard" {
		if err := child.GuardMain(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == MemberCommand {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		if err := RunMember(ctx, os.Args[2:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		stop()
		os.Exit(0)
	}
	testkit.AtOnce(10) // most wait for moments and nodes
	os.Exit(testkit.Thrifty(m).Run())
}

// serve starts a server with a read model, and returns how to connect.
func serve(t *testing.T, layout streams.Layout) func(string) (*nats.Conn, error) {
	t.Helper()
	dial, _, _ := serveOn(t, layout)
	return dial
}

func serveOn(t *testing.T, layout streams.Layout) (func(string) (*nats.Conn, error), *jet.Store, *projections.Store) {
	t.Helper()
	log := harness.Open(t, layout)
	nc, store := log.Conn, log.Store
	view, err := projections.Open(filepath.Join(t.TempDir(), "view.db"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 3)
	decider := scheduler.New(store, view, store, scheduler.Config{
		Schedules: store, Ticks: store, Births: client.New(store, "scheduler").DeskStore(), Timed: view, Timers: store, Limits: view})
	go func() { ended <- decider.Run(ctx) }()
	go func() {
		ended <- (&projections.Projector{Log: store, Store: view, Observers: []projections.Observer{decider}}).Run(ctx)
	}()
	answers := make(chan struct{})
	service := &api.Service{Conn: nc, Client: client.New(store, ""), Model: view, Version: "0.0.0", Ready: func() { close(answers) }}
	go func() { ended <- service.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		for range 3 {
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if err := view.Close(); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-answers:
	case <-t.Context().Done():
	}
	return func(string) (*nats.Conn, error) { return log.Server.Connect() }, store, view
}

// patience is how long a measurement may take; only a failure takes so long.
const patience = 5 * time.Minute

func TestRunMeasuresEverything(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	runner, err := child.NewRunner(child.Config{Guard: []string{self, "guard"}})
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	tasks := &process.Tasks{Runner: runner, Node: "bench"}
	defer tasks.Close()
	for name, layout := range map[string]streams.Layout{"lazy flush": {}, "flush always": {SyncAlways: true}} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			r, err := Run(ctx, Config{
				Dial: serve(t, layout), Layout: layout, Tasks: 500, Rounds: 1, Slots: 32,
				Processes: 20, Latencies: 20, Growth: []int{600}, Commands: tasks,
			})
			if err != nil {
				t.Fatal(err)
			}
			if r.Lost != 0 || r.Duplicated != 0 {
				t.Errorf("%d of %d tasks are lost, %d duplicated", r.Lost, r.Submitted, r.Duplicated)
			}
			body, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			var figures map[string]any
			if err := json.Unmarshal(body, &figures); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{
				"tasks_per_second", "floor_tasks_per_second", "ratio", "submit_per_second", "process_per_second", "process_ratio",
			} {
				if v, ok := figures[name].(float64); !ok || v <= 0 {
					t.Errorf("%s is %v, want more than 0", name, figures[name])
				}
			}
			if p := r.StartLatency; p.P50 <= 0 || p.P99 < p.P50 || p.Max < p.P99 {
				t.Errorf("start latency %+v makes no sense", p)
			}
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	dial := serve(t, streams.Layout{})
	_, err := Run(ctx, Config{Dial: dial, Tasks: 1 << 30, Rounds: 1, Latencies: 5, Progress: func(what string) {
		if strings.HasPrefix(what, "no-op tasks") || strings.HasPrefix(what, "the bare loop") {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the end is %v, want that of the context", err)
	}
}
