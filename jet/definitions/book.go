package definitions

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/jet/reading"
	"millrace/task/schedule"
)

// Book is what the log defines, and who changes that. It is safe for concurrent use.
type Book struct {
	*reading.Log
	stream jetstream.Stream // the log's
	writer Writer
}

// Writer is what a change of a definition writes.
type Writer interface {
	// Append is that of [events.Appender].
	Append(ctx context.Context, f *events.Fact, last uint64) (seq uint64, err error)
	// ArmSchedule sets the timer of a schedule, or, without replace, leaves one that is there as it is.
	ArmSchedule(ctx context.Context, name string, revision uint64, t schedule.Tick, replace bool) error
	// DisarmSchedule removes the timer of a schedule.
	DisarmSchedule(ctx context.Context, name string) error
}

// New returns the book of a log that lies in a stream and is written by a writer.
func New(log *reading.Log, stream jetstream.Stream, writer Writer) *Book {
	return &Book{Log: log, stream: stream, writer: writer}
}
