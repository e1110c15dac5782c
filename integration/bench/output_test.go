package bench

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events/jet/streams"
	"millrace/integration/harness"
	"millrace/internal/testkit"
	"millrace/worker/process"
	"millrace/worker/process/child"
)

// TestChatterIsMeasuredAndComplete checks that all that one task prints and produces is stored.
func TestChatterIsMeasuredAndComplete(t *testing.T) {
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
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cfg := Config{Dial: serve(t, streams.Layout{}), Commands: tasks}
	logs, err := Logs(ctx, cfg, 5e6)
	if err != nil {
		t.Fatal(err)
	}
	records, err := Records(ctx, cfg, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	starved := testkit.Starvation(t)
	followed, err := Following(ctx, cfg, 20)
	if err != nil {
		t.Fatal(err)
	}
	// On an idle machine it is 0.1 s at the most, which is how long lines are gathered; the median
	// bears a busy one, but not one that lets nobody run for as long.
	if most := 200 + 20*float64(starved().Milliseconds()); followed.P50 <= 0 || followed.P50 > most {
		t.Errorf("followed after %+v ms, want %v at the most", followed, most)
	}
	idle, err := Idling(ctx, cfg, 50)
	if err != nil {
		t.Fatal(err)
	}
	if idle.Tasks != 50 || idle.WorkerBytes > 1e6 || idle.StartSeconds <= 0 || idle.EndSeconds <= 0 {
		t.Errorf("idle: %+v", idle)
	}
	bundle, err := Bundle(ctx, cfg, 20<<20)
	if err != nil {
		t.Fatal(err)
	}
	if bundle.Files != 2 || bundle.AgainSent <= 0 || bundle.AgainSent > 1<<20 || bundle.PullPerSecond <= 0 || bundle.PushPerSecond <= 0 {
		t.Errorf("files: %+v", bundle)
	}
	for what, c := range map[string]Chatter{"logs": logs, "records": records} {
		if c.Missing != 0 || c.Extra != 0 || c.Items < 10_000 || c.BytesPerSecond <= 0 || c.Others.P50 <= 0 {
			t.Errorf("%s: %+v", what, c)
		}
	}
}

// late is a connection on which every answer comes a quarter of a second late, as on a busy machine.
type late struct{ net.Conn }

func (late) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return late{c}, err
}

func (c late) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	<-time.After(250 * time.Millisecond)
	return n, err
}

// The floor of a chatty task is measured on a slow server, too.
func TestFloorWaitsForASlowServer(t *testing.T) {
	t.Parallel()
	server := harness.Open(t, streams.Layout{}).Server
	nc, err := nats.Connect(server.URL(), nats.SetCustomDialer(late{}))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if took, err := Output(ctx, nc, streams.Layout{}, logLine, 1<<20); err != nil || took <= 0 {
		t.Errorf("%v, %v", took, err)
	}
}
