package promises

import (
	"context"
	"time"

	"millrace/task"
	"millrace/task/node"
)

// noView is a read model without anything in it, noBeats are no nodes.
type (
	noView  struct{}
	noBeats struct{}
)

func (noView) Due(context.Context, time.Time, int) ([]task.ID, error) { return nil, nil }
func (noView) Queues(context.Context) ([]string, error)               { return nil, nil }
func (noView) Waiting(context.Context, string, time.Time, task.ID, int) ([]task.ID, error) {
	return nil, nil
}
func (noView) Unassigned(context.Context, string, time.Time, int) ([]task.ID, error) {
	return nil, nil
}
func (noView) Astray(context.Context, node.ID, string) ([]task.ID, error) { return nil, nil }
func (noView) Nodes(context.Context) ([]node.Node, uint64, error)         { return nil, 0, nil }

func (noView) Known(context.Context, []task.ID) ([]task.Task, error) { return nil, nil }
func (noView) Parents(context.Context, int) ([]task.ID, error)       { return nil, nil }
func (noView) Spawned(context.Context, task.ID) ([]task.ID, error)   { return nil, nil }
func (noView) Busy(context.Context, string) (bool, error)            { return false, nil }
func (noView) Ends(context.Context, []task.ID) (map[task.ID]task.End, uint64, error) {
	return nil, 0, nil
}
func (noView) Held(context.Context, task.ID, int) ([]task.ID, error) { return nil, nil }

func (noBeats) Alive(context.Context) (map[node.ID]node.Heartbeat, error) { return nil, nil }
func (noBeats) Pulse(context.Context, node.ID) (node.Pulse, error)        { return node.Pulse{}, nil }

func (noBeats) Beating(context.Context, node.ID) (node.Heartbeat, bool, error) {
	return node.Heartbeat{}, false, nil
}
func (noBeats) WatchBeats(ctx context.Context, _ func(node.ID, time.Time), _ func()) error {
	<-ctx.Done()
	return nil
}
