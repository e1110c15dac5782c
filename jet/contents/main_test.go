package contents_test

import (
	"context"
	"testing"

	"millrace/jet"
	"millrace/jet/embed"
	"millrace/jet/rig"
	"millrace/jet/streams"
)

func TestMain(m *testing.M) { rig.Main(m) }

func within(t testing.TB) context.Context { return rig.Within(t) }

func must[T any](v T, err error) func(t testing.TB) T { return rig.Must(v, err) }

// newStore opens a store on a server of its own.
func newStore(t testing.TB) *jet.Store {
	t.Helper()
	nc := must(rig.StartServer(t, embed.Config{}).Connect())(t)
	t.Cleanup(nc.Close)
	s := must(jet.Open(within(t), nc, streams.Layout{}))(t)
	t.Cleanup(s.Close)
	return s
}
