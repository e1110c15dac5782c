package jet

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/task"
	"millrace/task/schedule"
)

// ScheduleChanges are the changes of schedules after a sequence, in order, and the sequence that
// this reaches: all that was acknowledged before the call is among them. If it cannot be told
// which there are, all is true, and any may have changed.
func (s *Store) ScheduleChanges(ctx context.Context, after uint64) (changed []schedule.Change, all bool, reached uint64, err error) {
	found, all, reached, err := s.changes(ctx, SchedulesBucket, after)
	for _, d := range found {
		c := schedule.Change{Name: d.name}
		if stored, err := storedSchedule(d); err == nil {
			c.Now = &stored
		}
		changed = append(changed, c)
	}
	return changed, all, reached, err
}

// JobChanges are the names of the jobs that were changed, as [Store.ScheduleChanges] has it.
func (s *Store) JobChanges(ctx context.Context, after uint64) (names []string, all bool, reached uint64, err error) {
	found, all, reached, err := s.changes(ctx, JobsBucket, after)
	for _, d := range found {
		names = append(names, d.name)
	}
	return names, all, reached, err
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
		return StoredJob{}, &Absent{ErrNoJob, name}
	}
	return storedJob(name, d.body, d.revision, d.stored)
}

// changes asks the leader how far a bucket of definitions reaches, and if that is further than before, any
// replica for what is new.
func (s *Store) changes(ctx context.Context, bucket string, after uint64) (changed []definition, all bool, reached uint64, err error) {
	stream, err := s.js.Stream(ctx, "KV_"+bucket)
	if err != nil {
		return nil, false, 0, fmt.Errorf("changes of bucket %s: %w", bucket, err)
	}
	last := stream.CachedInfo().State.LastSeq
	switch {
	case last == after:
		return nil, false, last, nil
	case after == 0 || last < after:
		return nil, true, last, nil
	}
	for reached = after; reached < last; {
		found, err := s.batchGet(ctx, "KV_"+bucket, maxBatch, map[string]any{"batch": maxBatch, "seq": reached + 1, "next_by_subj": keySubject(bucket, ">")})
		if err != nil {
			return nil, false, 0, fmt.Errorf("changes of bucket %s: %w", bucket, err)
		}
		if len(found) == 0 { // a replica that has not caught up, or the last one was deleted
			return nil, true, last, nil
		}
		for _, m := range found {
			d := definition{bucket: bucket, name: strings.TrimPrefix(added(m, jetstream.SubjectHeader), keySubject(bucket, "")), body: m.Data}
			if d.revision, err = sequenceOf(m); err != nil {
				return nil, false, 0, err
			}
			if d.stored, err = time.Parse(time.RFC3339Nano, added(m, jetstream.TimeStampHeaer)); err != nil {
				return nil, false, 0, fmt.Errorf("a message without a time: %w", err)
			}
			d.actor, d.removed = m.Header.Get(actorHeader), m.Header.Get(kvOperationHeader) != ""
			changed, reached = append(changed, d), d.revision
		}
	}
	return changed, false, reached, nil
}
