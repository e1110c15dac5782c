package jet_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"

	"millrace/events/jet"
	"millrace/events/jet/embed"
	"millrace/events/jet/natstest"
	"millrace/events/jet/streams"
)

func within(t testing.TB) context.Context { return natstest.Within(t) }

func must[T any](v T, err error) func(t testing.TB) T { return natstest.Must(v, err) }

// openStore opens a store that closes with the test.
func openStore(t testing.TB, nc *nats.Conn) *jet.Store {
	t.Helper()
	s := must(jet.Open(within(t), nc, streams.Layout{}))(t)
	t.Cleanup(s.Close)
	return s
}

// newStore opens a store on a server of its own.
func newStore(t testing.TB) *jet.Store {
	t.Helper()
	nc := must(natstest.StartServer(t, embed.Config{}).Connect())(t)
	t.Cleanup(nc.Close)
	return openStore(t, nc)
}
