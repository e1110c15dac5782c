package definitions

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/request"
	"millrace/task/schedule"
)

// Registry reads and changes the definitions in the log. It is safe for concurrent use.
type Registry struct {
	*request.Log
	stream jetstream.Stream // the log's
	writer Writer
}

// Writer writes what a change of a definition needs.
type Writer interface {
	// Append is the method of [events.Appender].
	Append(ctx context.Context, f *events.Fact, last uint64) (seq uint64, err error)
	// ArmSchedule sets the timer of a schedule; without replace an existing timer stays.
	ArmSchedule(ctx context.Context, name string, revision uint64, t schedule.Tick, replace bool) error
	// DisarmSchedule removes the timer of a schedule.
	DisarmSchedule(ctx context.Context, name string) error
}

// New returns the book of the definitions in a log's stream; writer writes to it.
func New(log *request.Log, stream jetstream.Stream, writer Writer) *Registry {
	return &Registry{Log: log, stream: stream, writer: writer}
}
