package jet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/task"
)

var _ events.Trimmer = (*Store)(nil)

const (
	// trimTry is how long one purge may take. The server drops whole files, which takes it about a
	// second for a million tasks.
	trimTry = time.Minute
	// trimPause is how long to wait for the next leader, which may not have heard of the purge.
	trimPause = 100 * time.Millisecond
)

// Trim implements [events.Trimmer], in one step of the server. It removes nothing if the log does not
// reach up to there.
func (s *Store) Trim(ctx context.Context, below uint64) error {
	end, err := s.End(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("remove what lies below %d: %w", below, err)
	case below == 0 || below > end: // the server would take 0 for all, and has no end to keep
		return fmt.Errorf("remove what lies below %d: the log ends at %d", below, end)
	}
	guarded, done := s.Denials.Guard(ctx, names.APIPurge+names.LogStream)
	for {
		try, cancel := context.WithTimeout(guarded, trimTry)
		err = s.log.Purge(try, jetstream.WithPurgeSequence(below))
		cancel()
		if err == nil || guarded.Err() != nil || !request.Passes(err) {
			break
		}
		select {
		case <-guarded.Done():
		case <-time.After(trimPause):
		}
	}
	if err = done(err); err != nil {
		return fmt.Errorf("remove what lies below %d: %w", below, err)
	}
	return nil
}

// First implements [events.Trimmer].
func (s *Store) First(ctx context.Context) (uint64, error) {
	info, err := s.log.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("begin of the log: %w", err)
	}
	return info.State.FirstSeq, nil
}

// StoredAt implements [events.Trimmer].
func (s *Store) StoredAt(ctx context.Context, at time.Time) (seq uint64, stored time.Time, err error) {
	r, _, err := s.LeaderGet(ctx, map[string]any{"start_time": at.UTC(), "next_by_subj": ">"})
	if err != nil {
		return 0, stored, fmt.Errorf("find %s in the log: %w", at.Format(time.RFC3339Nano), err)
	}
	return r.Seq, r.Stored, nil
}

// Floor implements [events.Trimmer]: it is the first offer that is undelivered or unacknowledged, and
// whose task has not ended, or fire of a schedule. An offer for which no worker has asked yet has no
// consumer, and is not found.
func (s *Store) Floor(ctx context.Context) (floor events.Floor, err error) {
	ctx, cancel := context.WithCancel(ctx)
	consumers := s.log.ListConsumers(ctx)
	defer func() { // what lists them would wait for ever for a reader, whatever becomes of ctx
		cancel()
		for range consumers.Info() {
		}
	}()
	for is := range consumers.Info() {
		offer, err := s.oldestOf(ctx, is)
		if err != nil {
			return events.Floor{}, fmt.Errorf("oldest offer of consumer %s: %w", is.Name, err)
		}
		if offer.Seq > 0 && (floor.Seq == 0 || offer.Seq < floor.Seq) {
			floor = events.Floor{Seq: offer.Seq, Holder: offer.Fact.Task, Since: offer.Stored}
		}
	}
	if err := consumers.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
		return events.Floor{}, fmt.Errorf("list the consumers of offers: %w", err)
	}
	return floor, nil
}

// Later implements [events.Trimmer].
func (s *Store) Later(ctx context.Context, ids []task.ID, seq uint64) (map[task.ID]bool, error) {
	is := make([]bool, len(ids))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(laterAtOnce)
	for i, id := range ids {
		g.Go(func() error {
			for _, subject := range names.Of(id) {
				// The next one behind seq would be looked for up to the end of the log.
				last, found, err := s.LeaderGet(ctx, map[string]any{"last_by_subj": subject})
				if is[i] = found && last.Seq >= seq; is[i] || err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("look for tasks behind %d: %w", seq, err)
	}
	later := map[task.ID]bool{}
	for i, id := range ids {
		if is[i] {
			later[id] = true
		}
	}
	return later, nil
}

// laterAtOnce is for how many tasks [Store.Later] asks concurrently.
const laterAtOnce = 16

// staleOffers is how many offers of ended tasks are passed over in one look at a consumer.
const staleOffers = 500

// oldestOf returns the first offer of a consumer that counts for [Store.Floor]. All that lies below
// the consumer's ack floor is acknowledged, and if nothing is out or waits, so is all else.
func (s *Store) oldestOf(ctx context.Context, is *jetstream.ConsumerInfo) (events.Record, error) {
	filter := is.Config.FilterSubject
	offers := strings.HasPrefix(filter, names.QueuePrefix) || strings.HasPrefix(filter, names.FirePrefix)
	if !offers || is.Config.AckPolicy != jetstream.AckExplicitPolicy || is.NumPending == 0 && is.NumAckPending == 0 {
		return events.Record{}, nil
	}
	from := is.AckFloor.Stream + 1
	if is.NumAckPending == 0 {
		from = is.Delivered.Stream + 1
	}
	for stale := 0; ; stale++ {
		r, found, err := s.LeaderGet(ctx, map[string]any{"seq": from, "next_by_subj": filter})
		if err != nil || !found {
			return events.Record{}, err
		}
		counts := r.Kind == events.KindFire
		if r.Kind == events.KindOffer {
			if counts, err = s.lives(ctx, r.Fact.Task); err != nil {
				return events.Record{}, err
			}
		}
		if counts || stale == staleOffers {
			return r, nil
		}
		from = r.Seq + 1
	}
}

// lives tells whether a task has not ended, as far as this version can read it. One without a birth
// has.
func (s *Store) lives(ctx context.Context, id task.ID) (bool, error) {
	records, err := s.Task(ctx, id)
	if err != nil {
		return false, fmt.Errorf("read task %s: %w", id, err)
	}
	if slices.ContainsFunc(records, func(r events.Record) bool { return errors.Is(r.Err, events.ErrLater) }) {
		return true, nil
	}
	t := events.FoldTask(id, records)
	return t.Spec != nil && !t.State.Terminal(), nil
}
