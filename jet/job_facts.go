package jet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/task"
)

// The bucket is the definition; the log tells of its changes. A change is
// written to the bucket first, by compare-and-set, and then told in the log,
// likewise. Who writes the next one first tells the one before if that is
// missing, and so does the scheduler's sweep; so a writer that dies between the
// two leaves no gap, and each revision is told once and in order.

const (
	kvOperationHeader = "KV-Operation"
	actorHeader       = "Mr-Actor" // of a definition: who wrote it
)

// definition is the last message of the key of a job or schedule; revision 0 if there is none.
type definition struct {
	bucket   string
	name     string
	body     []byte
	revision uint64
	stored   time.Time
	actor    string
	removed  bool
}

func jobKey(name string) string { return keySubject(JobsBucket, name) }

func keySubject(bucket, name string) string { return "$KV." + bucket + "." + name }

// definition reads from the leader what lies under a job's name.
func (s *Store) definition(ctx context.Context, name string) (definition, error) {
	return s.defined(ctx, JobsBucket, name)
}

// defined reads from the leader what lies under a name in a bucket of definitions.
func (s *Store) defined(ctx context.Context, bucket, name string) (definition, error) {
	d := definition{bucket: bucket, name: name}
	request, err := json.Marshal(map[string]any{"last_by_subj": keySubject(bucket, name)})
	if err != nil {
		return d, err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err = s.patiently(ctx, func(ctx context.Context) error {
		m, found, err := s.storedMessage(ctx, "KV_"+bucket, request)
		if err != nil || !found {
			return err
		}
		header, _ := nats.DecodeHeadersMsg(m.Header) // somebody else's may have none
		d.body, d.revision, d.stored = m.Data, m.Seq, m.Time
		d.actor, d.removed = header.Get(actorHeader), header.Get(kvOperationHeader) != ""
		return nil
	})
	return d, err
}

// define writes a definition, or its removal, if last is still the revision of
// its key. Else the error wraps [events.ErrConflict].
func (s *Store) define(ctx context.Context, d definition, last uint64) (definition, error) {
	m := &nats.Msg{Subject: keySubject(d.bucket, d.name), Data: d.body, Header: nats.Header{
		actorHeader: {d.actor}, expectedHeader: {fmt.Sprint(last)},
	}}
	if d.removed {
		m.Header[kvOperationHeader] = []string{"DEL"}
	}
	revision, err := s.pub.publish(ctx, m)
	if says(err, codeWriteInFlight) {
		err = fmt.Errorf("%w: %w", events.ErrConflict, err)
	}
	d.revision, d.stored = revision, s.Now()
	return d, err
}

// tellJob records the fact of a change unless it, or a later one, has been. It
// returns whether it had to.
func (s *Store) tellJob(ctx context.Context, d definition) (bool, error) {
	if d.revision == 0 {
		return false, nil
	}
	f := &events.Fact{ID: events.NewID(d.stored), At: d.stored, Job: d.name, Actor: d.actor}
	if d.removed {
		f.Event = task.JobRemoved{Revision: d.revision}
	} else {
		f.Event = task.JobApplied{Revision: d.revision, Digest: d.digest()}
	}
	return s.tell(ctx, f, d.revision)
}

// digest is the hash of a definition as it is stored.
func (d *definition) digest() string {
	hash := sha256.Sum256(d.body)
	return "sha256:" + hex.EncodeToString(hash[:])
}

// tell records the fact of a revision unless it, or a later one, was told of. It
// returns whether it had to.
func (s *Store) tell(ctx context.Context, f *events.Fact, revision uint64) (bool, error) {
	f.Type = events.TypeOf(f.Event)
	for {
		last, _, err := s.leaderGet(ctx, map[string]any{"last_by_subj": chainSubject(f)})
		if err != nil {
			return false, err
		}
		if revisionOf(&last) >= revision {
			return false, nil
		}
		_, err = s.Append(ctx, f, last.Seq)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, events.ErrConflict), errors.Is(err, events.ErrUnknown) && ctx.Err() == nil:
			continue // the chain tells what became of it
		}
		return false, err
	}
}

// revisionOf is the revision that a fact tells of; 0 for none.
func revisionOf(r *events.Record) uint64 {
	switch e := r.Fact.Event.(type) {
	case task.JobApplied:
		return e.Revision
	case task.JobRemoved:
		return e.Revision
	case task.ScheduleApplied:
		return e.Revision
	case task.ScheduleRemoved:
		return e.Revision
	case task.SchedulePaused:
		return e.Revision
	case task.ScheduleResumed:
		return e.Revision
	}
	return 0
}

// JobFacts returns what the log tells of changes of a job, in order.
func (s *Store) JobFacts(ctx context.Context, name string) ([]events.Record, error) {
	if err := task.ValidName("job", name); err != nil {
		return nil, err
	}
	return s.readSubject(ctx, jobPrefix+name, 0)
}

// TellJobs records the facts of changes that nobody has told of and that were
// made before a time; the writers of later ones may be about to do so. It
// returns how many there were.
func (s *Store) TellJobs(ctx context.Context, before time.Time) (int, error) {
	names, err := s.jobNames(ctx)
	if err != nil {
		return 0, fmt.Errorf("compare jobs with the log: %w", err)
	}
	told := 0
	var errs []error
	for _, name := range names {
		d, err := s.definition(ctx, name)
		if err == nil && d.stored.Before(before) {
			var missing bool
			if missing, err = s.tellJob(ctx, d); missing {
				told++
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("compare job %s with the log: %w", name, err))
		}
	}
	return told, errors.Join(errs...)
}

// jobNames are the names of all jobs that there are or were.
func (s *Store) jobNames(ctx context.Context) ([]string, error) {
	stream, err := s.js.Stream(ctx, "KV_"+JobsBucket)
	if err != nil {
		return nil, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(jobKey("*")))
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		if name := subject[len(jobKey("")):]; task.ValidName("job", name) == nil {
			names = append(names, name)
		}
	}
	return names, nil
}
