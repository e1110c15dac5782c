package outputs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/names"
	"millrace/task"
	"millrace/task/output"
	"millrace/task/value"
)

// DroppedHeader marks the message that replaces dropped output.
const DroppedHeader = "Millrace-Dropped"

// OutputTasks lists the tasks that have output.
func (o *Outputs) OutputTasks(ctx context.Context) ([]task.ID, error) {
	return o.tasksOf(ctx, names.OutputStream, names.OutputPrefix)
}

// RecordTasks lists the tasks that have records.
func (o *Outputs) RecordTasks(ctx context.Context) ([]task.ID, error) {
	return o.tasksOf(ctx, names.DataStream, names.DataPrefix)
}

func (o *Outputs) tasksOf(ctx context.Context, name, prefix string) ([]task.ID, error) {
	stream, err := o.JS.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("list the tasks in %s: %w", name, err)
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(prefix+"*"))
	if err != nil {
		return nil, fmt.Errorf("list the tasks in %s: %w", name, err)
	}
	ids := make([]task.ID, 0, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		ids = append(ids, task.ID(strings.TrimPrefix(subject, prefix)))
	}
	return ids, nil
}

// DropOutput replaces all that a task has printed by one message; marker makes it, given the number
// of lines. It returns false if that was done before and nothing was printed since. It stores the
// message first and then removes what it replaces, which only a server of Millrace may do. A
// process that dies in between leaves the removal to the next call.
func (o *Outputs) DropOutput(ctx context.Context, id task.ID, marker func(lines int) output.Lines) (bool, error) {
	return o.drop(ctx, names.OutputStream, names.OutputPrefix+string(id), linesUpTo, func(n int) any { return marker(n) })
}

// DropRecords is [Outputs.DropOutput] for a task's records.
func (o *Outputs) DropRecords(ctx context.Context, id task.ID, marker func(records int) output.Records) (bool, error) {
	return o.drop(ctx, names.DataStream, names.DataPrefix+string(id), recordsUpTo, func(n int) any { return marker(n) })
}

func (o *Outputs) drop(ctx context.Context, name, subject string, upTo func([]byte) (uint64, int), marker func(int) any) (bool, error) {
	stream, err := o.JS.Stream(ctx, name)
	if err != nil {
		return false, fmt.Errorf("drop %s: %w", subject, err)
	}
	last, err := stream.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("drop %s: %w", subject, err)
	}
	if last.Header.Get(DroppedHeader) != "" {
		return false, o.removeBefore(ctx, stream, last)
	}
	ranges, err := o.ranges(ctx, name, subject, upTo)
	if err != nil {
		return false, err
	}
	n := 0
	for _, r := range ranges {
		n += r.Lines
	}
	body, err := value.JSON(marker(n))
	if err != nil {
		return false, err
	}
	err = o.keep(ctx, &nats.Msg{Subject: subject, Data: body, Header: nats.Header{
		DroppedHeader: {"1"},
		// A batch that arrives meanwhile, from the attempt of a retry, makes this fail.
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(last.Sequence, 10)},
	}})
	if err != nil {
		return false, err
	}
	if last, err = stream.GetMsg(ctx, last.Sequence+1, jetstream.WithGetMsgSubject(subject)); err == nil {
		err = o.removeBefore(ctx, stream, last)
	}
	return true, err
}

// removeBefore removes what a marker replaces, if anything of it is left.
func (o *Outputs) removeBefore(ctx context.Context, stream jetstream.Stream, marker *jetstream.RawStreamMsg) error {
	first, err := stream.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(marker.Subject))
	if err == nil && first.Sequence < marker.Sequence {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(marker.Subject), jetstream.WithPurgeSequence(marker.Sequence))
	}
	if err != nil {
		return fmt.Errorf("drop %s: %w", marker.Subject, err)
	}
	return nil
}
