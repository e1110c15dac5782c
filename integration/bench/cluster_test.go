package bench

import (
	"context"
	"os"
	"strings"
	"testing"

	"millrace/events/jet"
	"millrace/events/jet/streams"
)

// Three NATS servers, each a process of its own, hold a log together. They leave nothing behind.
func TestCluster(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := StartCluster(ctx, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		c.Stop()
		if _, err := os.Stat(c.dir); !os.IsNotExist(err) {
			t.Errorf("the data are still there: %v", err)
		}
	}()
	if n := strings.Count(c.URL, "nats://"); n != 3 {
		t.Errorf("%q names %d servers, want 3", c.URL, n)
	}
	nc, err := jet.Connect(jet.ConnectConfig{Server: c.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	s, err := jet.Open(ctx, nc, streams.Layout{Replicas: 3}, jet.WithPatience(electing))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Last(ctx); err != nil {
		t.Error(err)
	}
}
