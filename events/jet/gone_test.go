package jet

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet/embed"
	"millrace/events/jet/natstest"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
)

// said is a log that several goroutines write.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) count(of string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.b.String(), of)
}

// A connection that the NATS server refuses comes back when the server takes it again, however often
// it was refused, and says so once.
func TestRefusedConnectionReturns(t *testing.T) {
	t.Parallel()
	srv := startServer(t, embed.Config{})
	for _, c := range []struct {
		text string
		said bool // the client library passes the refusal on
	}{
		{"Authorization Violation", true},
		{"User Authentication Expired", true},
		{"User Authentication Revoked", true},
		{"Account Authentication Expired", true},
		{"maximum connections exceeded", false},
		{"maximum account active connections exceeded", false},
		{"Something that only a later server says", false},
	} {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			front := natstest.NewFront(t, srv.URL())
			var log said
			nc := must(nats.Connect(front.URL(), Resilient(t.Name(), slog.New(slog.NewTextHandler(&log, nil)))...))(t)
			defer nc.Close()
			front.Refuse(c.text)
			if err := nc.ForceReconnect(); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "the server has refused it four times", func() bool { return front.Refused() >= 4 })
			front.Refuse("")
			testkit.Eventually(t, "the connection is back", nc.IsConnected)
			if n, want := log.count("refuses this connection"), 1; c.said && n != want {
				t.Errorf("it was said %d times that the server refuses it, want once", n)
			}
		})
	}
}

// After a connection is closed for good nothing that waits on it waits on, and all say why.
func TestClosedForGood(t *testing.T) {
	t.Parallel()
	srv := startServer(t, embed.Config{})
	front := natstest.NewFront(t, srv.URL())
	nc := must(nats.Connect(front.URL(), Resilient(t.Name(), nil)...))(t)
	defer nc.Close()
	s := must(Open(within(t), nc, streams.Layout{}))(t)
	defer s.Close()
	last := must(s.Last(within(t)))(t)
	feed := must(s.Follow(within(t), last+1))(t)
	defer feed.Close()
	read := make(chan error, 1)
	go func() { _, err := feed.Next(within(t)); read <- err }()

	const odd = "Something that only a later server says"
	testkit.Eventually(t, "the connection is closed", func() bool { front.Say(odd); return nc.IsClosed() })
	testkit.Eventually(t, "the store says that its connection is gone", func() bool {
		select {
		case <-s.Gone():
			return true
		default:
			return false
		}
	})
	wants := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, events.ErrGone) || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(odd)) {
			t.Errorf("%s: %v, want ErrGone and why", what, err)
		}
	}
	wants("WhyGone", s.WhyGone())
	wants("a reader that waits", <-read)
	_, err := s.Last(context.Background())
	wants("a read", err)
	_, err = s.Append(context.Background(), natstest.NewFact(natstest.NewTask(), natstest.Note("late")), 0)
	wants("a write", err)
}

// A server that is there and answers nothing any more, as behind a dead link, is noticed within 10 s.
func TestDeadPeerIsNoticed(t *testing.T) {
	t.Parallel()
	srv := startServer(t, embed.Config{})
	valve := natstest.NewValve()
	lost := make(chan time.Time, 1)
	opts := append(Resilient(t.Name(), nil), nats.SetCustomDialer(valve), nats.DisconnectErrHandler(func(*nats.Conn, error) {
		select {
		case lost <- time.Now():
		default:
		}
	}))
	nc := must(nats.Connect(srv.URL(), opts...))(t)
	defer nc.Close()
	starved := testkit.Starvation(t)
	dead := time.Now()
	valve.Hold()
	defer valve.Release()
	testkit.Eventually(t, "it is noticed", func() bool { return len(lost) > 0 })
	if after := (<-lost).Sub(dead); after > 10*time.Second+4*starved() {
		t.Errorf("it was noticed after %v, want 10s at most", after)
	}
}
