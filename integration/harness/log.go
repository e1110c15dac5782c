package harness

import (
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go"

	"millrace/events/jet"
	"millrace/events/jet/embed"
	"millrace/events/jet/streams"
)

// Served is a log, the server that holds it, and the connection by which it was opened.
type Served struct {
	*jet.Store
	Conn   *nats.Conn
	Server *embed.Server
}

// Open starts a server in this process and opens its log. Both end with the test.
func Open(t testing.TB, layout streams.Layout) *Served {
	t.Helper()
	server, err := embed.Start(embed.Config{Dir: t.TempDir(), SyncAlways: layout.SyncAlways, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	nc, err := server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	store, err := jet.Open(t.Context(), nc, layout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return &Served{store, nc, server}
}
