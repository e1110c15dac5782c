package jet

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/task"
)

// SchedulesSeq grows with every change of any schedule.
func (s *Store) SchedulesSeq(ctx context.Context) (uint64, error) {
	return s.bucketSeq(ctx, SchedulesBucket)
}

// ScheduleChanges are the names of the schedules that were changed after a sequence, and the one that
// this reaches: all that was acknowledged before the call counts. If there are many, or it cannot
// be told which, all is true and any may have changed.
func (s *Store) ScheduleChanges(ctx context.Context, after uint64) (names []string, all bool, reached uint64, err error) {
	return s.changes(ctx, SchedulesBucket, after)
}

// JobChanges is [Store.ScheduleChanges] for jobs.
func (s *Store) JobChanges(ctx context.Context, after uint64) (names []string, all bool, reached uint64, err error) {
	return s.changes(ctx, JobsBucket, after)
}

// LatestJob is [Store.Job] as the leader has it, which has all that was acknowledged.
func (s *Store) LatestJob(ctx context.Context, name string) (StoredJob, error) {
	if err := task.ValidName("job", name); err != nil {
		return StoredJob{}, err
	}
	d, err := s.definition(ctx, name)
	if err != nil {
		return StoredJob{}, fmt.Errorf("read job %s: %w", name, err)
	}
	if d.revision == 0 || d.removed {
		return StoredJob{}, fmt.Errorf("%w: %q", ErrNoJob, name)
	}
	return storedJob(name, d.body, d.revision, d.stored)
}

func (s *Store) bucketSeq(ctx context.Context, bucket string) (uint64, error) {
	stream, err := s.js.Stream(ctx, "KV_"+bucket)
	if err != nil {
		return 0, fmt.Errorf("bucket %s: %w", bucket, err)
	}
	return stream.CachedInfo().State.LastSeq, nil
}

// changes asks the leader how far a bucket of definitions reaches, and if that is further than before, any
// replica for what is new.
func (s *Store) changes(ctx context.Context, bucket string, after uint64) (names []string, all bool, reached uint64, err error) {
	last, err := s.bucketSeq(ctx, bucket)
	if err != nil || last == after {
		return nil, false, last, err
	}
	if after == 0 || last < after || last-after > maxBatch {
		return nil, true, last, nil
	}
	found, err := s.batchGet(ctx, "KV_"+bucket, maxBatch, map[string]any{"batch": maxBatch, "seq": after + 1, "next_by_subj": keySubject(bucket, ">")})
	if err != nil {
		return nil, false, 0, fmt.Errorf("changes of bucket %s: %w", bucket, err)
	}
	for _, m := range found {
		seq, err := sequenceOf(m)
		if err != nil {
			return nil, false, 0, err
		}
		reached = max(reached, seq)
		names = append(names, strings.TrimPrefix(added(m, jetstream.SubjectHeader), keySubject(bucket, "")))
	}
	if reached < last { // a replica that has not caught up, or the last one was deleted
		return nil, true, last, nil
	}
	return names, false, reached, nil
}
