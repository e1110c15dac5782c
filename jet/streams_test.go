package jet

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"millrace/jet/embed"
	"millrace/jet/link"

	"github.com/nats-io/nats.go/jetstream"
)

// Servers of a cluster that elect a leader, or start together, are waited for; what will not pass is told at once.
func TestForming(t *testing.T) {
	t.Parallel()
	alone, refused := &jetstream.APIError{ErrorCode: link.CodeNoPeers}, &jetstream.APIError{ErrorCode: link.CodeStorageLimit}
	silence := context.DeadlineExceeded // no answer within formTry
	for _, c := range []struct {
		name    string
		answers []error // the last one stays
		calls   int
		want    error
		said    int
		away    bool // the connection is
	}{
		{"it is there", []error{nil}, 1, nil, 0, false},
		{"servers are missing at first", []error{alone, &jetstream.APIError{ErrorCode: link.CodeNoLeader}, alone, nil}, 4, nil, 1, false},
		{"there is no room", []error{alone, refused}, 2, refused, 1, false},
		{"they stay away", []error{alone}, int(25 * time.Second / formLook), ErrElecting, 3, false},
		{"nobody answers at first", []error{silence, silence, nil}, 3, nil, 1, false},
		{"nobody answers", []error{silence}, 7, ErrElecting, 2, false},
		{"nobody is there to answer", []error{silence}, 1, silence, 0, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls, said, began := 0, 0, time.Now()
			f := newFormer(nil, Patience{For: 25 * time.Second, Say: func(error) { said++ }})
			f.mute = func() bool { return !c.away }
			err := f.do(t.Context(), func(ctx context.Context) error {
				err := c.answers[min(calls, len(c.answers)-1)]
				if calls++; errors.Is(err, silence) {
					<-ctx.Done()
				}
				return err
			})
			if !errors.Is(err, c.want) || calls < c.calls || calls > c.calls+1 || time.Since(began) > 25*time.Second+formTry || said != c.said {
				t.Errorf("%s: %v after %d calls and %v, told %d times; want %v after %d, told %d times", c.name, err, calls, time.Since(began), said, c.want, c.calls, c.said)
			}
		})
	}
}

func TestDataSurvivesARestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "when", "needed")
	srv := startServer(t, embed.Config{Dir: dir})
	s := openStore(t, connect(t, srv.URL()), Layout{AckWait: 7 * time.Second, SyncAlways: true})
	id := submit(t, s, "default")
	seq := must(s.Append(within(t), newFact(id, note("x")), 0))(t)
	stopServer(t, srv)

	srv = startServer(t, embed.Config{Dir: dir})
	s = openStore(t, connect(t, srv.URL()), Layout{AckWait: time.Minute}) // a layout has no effect on what exists
	if records := must(s.Task(within(t), id))(t); len(records) != 2 || records[1].Seq != seq {
		t.Errorf("after a restart the task has the records %+v", records)
	}
	if s.AckWait() != 7*time.Second || s.group == nil {
		t.Errorf("after a restart the lease is %v, groups %v; want what the log was made with", s.AckWait(), s.group != nil)
	}
}

func TestNoJetStream(t *testing.T) {
	t.Parallel()
	ns := must(newTestServer("listen: 127.0.0.1:-1", make(chan string, 1)))(t)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	ctx, cancel := context.WithTimeout(within(t), 5*time.Second)
	defer cancel()
	if _, err := Open(ctx, connect(t, ns.ClientURL()), Layout{}); !errors.Is(err, ErrNoJetStream) {
		t.Errorf("Open on a server without JetStream: %v, want ErrNoJetStream", err)
	}
}
