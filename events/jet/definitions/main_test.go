package definitions_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet"
	"millrace/events/jet/embed"
	"millrace/events/jet/names"
	"millrace/events/jet/natstest"
	"millrace/events/jet/streams"
)

func TestMain(m *testing.M) { natstest.Main(m) }

func within(t testing.TB) context.Context { return natstest.Within(t) }

func must[T any](v T, err error) func(t testing.TB) T { return natstest.Must(v, err) }

// newStore opens a store on a server of its own.
func newStore(t testing.TB) *jet.Store {
	t.Helper()
	nc := must(natstest.StartServer(t, embed.Config{}).Connect())(t)
	t.Cleanup(nc.Close)
	s := must(jet.Open(within(t), nc, streams.Layout{}))(t)
	t.Cleanup(s.Close)
	return s
}

// timersOf is the stream of a store's timers.
func timersOf(t testing.TB, s *jet.Store) jetstream.Stream {
	t.Helper()
	return must(s.JS.Stream(within(t), names.TimerStream))(t)
}
