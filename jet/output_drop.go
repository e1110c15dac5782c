package jet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/task"
)

// droppedHeader marks the line that stands in place of output that was dropped.
const droppedHeader = "Millrace-Dropped"

// OutputTasks lists the tasks that have output.
func (s *Store) OutputTasks(ctx context.Context) ([]task.ID, error) {
	stream, err := s.js.Stream(ctx, OutputStream)
	if err != nil {
		return nil, fmt.Errorf("list output: %w", err)
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(outputPrefix+"*"))
	if err != nil {
		return nil, fmt.Errorf("list output: %w", err)
	}
	ids := make([]task.ID, 0, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		ids = append(ids, task.ID(strings.TrimPrefix(subject, outputPrefix)))
	}
	return ids, nil
}

// DropOutput puts one line in place of all that a task has printed, in one step. It reports
// false if that has been done and nothing was printed since.
func (s *Store) DropOutput(ctx context.Context, marker task.Lines) (bool, error) {
	subject := outputPrefix + string(marker.Task)
	stream, err := s.js.Stream(ctx, OutputStream)
	if err != nil {
		return false, fmt.Errorf("drop output of task %s: %w", marker.Task, err)
	}
	last, err := stream.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("drop output of task %s: %w", marker.Task, err)
	}
	if last.Header.Get(droppedHeader) != "" {
		return false, nil
	}
	body, err := plainJSON(marker)
	if err != nil {
		return false, err
	}
	return true, s.keep(ctx, &nats.Msg{Subject: subject, Data: body, Header: nats.Header{
		jetstream.MsgRollup: {jetstream.MsgRollupSubject}, droppedHeader: {"1"},
		// What is printed meanwhile, by an attempt of a retry, makes it fail.
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(last.Sequence, 10)},
	}})
}
