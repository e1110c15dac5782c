package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/jet/link"
	"millrace/jet/wire"
	"millrace/task/where"
)

// A consumer costs the server far more than a message, and there is one for each lane. So whoever
// places a task in a special lane only says that the lane is used: a word, one message for each lane. The
// consumer is made as soon as somebody serves the queue, and removed when nobody has used the lane for long.
//
// A writer says the word first and then looks whether the queue has a consumer for its plain lane; who
// serves the queue makes that one first and then reads the words. So at least one of the two sees the other,
// and the lane is made. What is offered by a timer, later, counts as a use at that time.
//
// A lane is removed like this: its word is replaced, by compare-and-set, by one that says so and where
// the next consumer begins, then the consumer goes. A writer may take its own word for granted for
// declareAgain, which is far less than a lane is kept, and the removal fails if it says the word anew.
//
// If all words are lost with their stream, workers say anew those of the lanes at which they wait, and a scheduler those
// of all lanes in which tasks are, by its read model.

// laneWord is what is known of a special lane.
type laneWord struct {
	// From is where its consumer begins if it has to be made: all before is done with. 0 is the log's beginning.
	From uint64 `json:"from,omitempty"`
	// Until is when the last timer is due that was set for it.
	Until time.Time `json:"until,omitzero"`
	// Closed is whether the lane was removed. The next one who uses it opens it again.
	Closed bool `json:"closed,omitempty"`

	seq uint64    // of the message; 0 if there is none
	at  time.Time // when the server stored it
}

// used is since when nobody has used the lane, as far as is known.
func (w *laneWord) used() time.Time {
	if w.Until.After(w.at) {
		return w.Until
	}
	return w.at
}

// laneSubject is where the word of a lane lies.
func laneSubject(l where.Lane) string {
	return wire.LaneWordPrefix + l.Queue + "." + strconv.Itoa(l.Priority) + "." + strconv.Itoa(l.Number)
}

// laneAt is the reverse of laneSubject.
func laneAt(subject string) (l where.Lane, ok bool) {
	tokens := strings.Split(strings.TrimPrefix(subject, wire.LaneWordPrefix), ".")
	if len(tokens) != 3 {
		return l, false
	}
	l.Queue = tokens[0]
	l.Priority, _ = strconv.Atoi(tokens[1]) // 0 is none
	l.Number, _ = strconv.Atoi(tokens[2])
	return l, l.Validate() == nil && wire.Special(l) && laneSubject(l) == subject
}

// laneWord reads the word of a lane from the leader.
func (s *Store) laneWord(ctx context.Context, l where.Lane) (w laneWord, err error) {
	m, _, _, err := s.Said(wire.StateStream, laneSubject(l)).Read(ctx, nil)
	return laneWordIn(m), err
}

// laneWordIn is the word that a message says.
func laneWordIn(m *link.Message) (w laneWord) {
	if m == nil {
		return w
	}
	if json.Unmarshal(m.Data, &w) != nil {
		w = laneWord{} // somebody else's: it begins with the log
	}
	w.seq, w.at = m.Seq, m.Time
	return w
}

// message is the message that says a word of a lane.
func (w *laneWord) message(l where.Lane) (*nats.Msg, error) {
	body, err := json.Marshal(w)
	return &nats.Msg{Subject: laneSubject(l), Data: body}, err
}

// sayLane replaces the word of a lane as it was read. If it is not that any more, done is false.
func (s *Store) sayLane(ctx context.Context, l where.Lane, w laneWord) (is laneWord, done bool, err error) {
	chain := s.Said(wire.StateStream, laneSubject(l))
	chain.Once = true
	d, err := chain.DecideFrom(ctx, nil, w.seq, func(*link.Message) (*nats.Msg, bool, error) {
		m, err := w.message(l)
		return m, true, err
	})
	w.seq = d.End
	return w, d.Done(), err
}

// useLane says that a lane is used, up to a time.
func (s *Store) useLane(ctx context.Context, l where.Lane, until time.Time) error {
	_, err := s.Said(wire.StateStream, laneSubject(l)).Decide(ctx, func(there *link.Message) (*nats.Msg, bool, error) {
		w := laneWordIn(there)
		if there != nil && !w.Closed && s.Now().Sub(w.at) < declareTouch && !until.After(w.Until) {
			return nil, false, nil
		}
		w.Closed = false
		if until.After(w.Until) {
			w.Until = until
		}
		m, err := w.message(l)
		return m, true, err
	})
	if err != nil {
		return fmt.Errorf("say that lane %s is used: %w", wire.LaneConsumer(l), err)
	}
	return nil
}

// wordsAtOnce is of how many queues the words are asked for at once. The server answers with 1024 messages at most.
const wordsAtOnce = 4

// spoken lists the special lanes of queues that are said to be used. A replica that lags may answer.
func (s *Store) spoken(ctx context.Context, queues ...string) ([]where.Lane, error) {
	var lanes []where.Lane
	for some := range slices.Chunk(queues, wordsAtOnce) {
		filters := make([]string, len(some))
		for i, q := range some {
			filters[i] = wire.LaneWordPrefix + q + ".*.*"
		}
		found, err := s.BatchGet(ctx, wire.StateStream, 1024, map[string]any{"multi_last": filters})
		if err != nil {
			return nil, fmt.Errorf("list the lanes of queues: %w", err)
		}
		for _, m := range found {
			var w laneWord
			if l, ok := laneAt(link.Added(m, jetstream.SubjectHeader)); ok && json.Unmarshal(m.Data, &w) == nil && !w.Closed {
				lanes = append(lanes, l)
			}
		}
	}
	return lanes, nil
}

// errRemoved says that a lane, or the route that it belongs to, was removed on purpose.
var errRemoved = errors.New("it was removed, for nobody used it")

// UnusedLanes lists the special lanes that nobody has used since a time.
func (s *Store) UnusedLanes(ctx context.Context, since time.Time) ([]where.Lane, error) {
	var unused []where.Lane
	for from := uint64(1); ; {
		found, err := s.BatchGet(ctx, wire.StateStream, link.MaxBatch, map[string]any{"batch": link.MaxBatch, "seq": from, "next_by_subj": wire.LaneWordPrefix + ">"})
		if err != nil {
			return nil, fmt.Errorf("list lanes: %w", err)
		}
		for _, m := range found {
			l, ok := laneAt(link.Added(m, jetstream.SubjectHeader))
			stored, err := time.Parse(time.RFC3339Nano, link.Added(m, jetstream.TimeStampHeaer))
			if from, err = nextOf(m, err); err != nil {
				return nil, fmt.Errorf("list lanes: %w", err)
			}
			w := laneWord{at: stored}
			if !ok || json.Unmarshal(m.Data, &w) != nil {
				continue
			}
			if !w.Closed && w.used().Before(since) {
				unused = append(unused, l)
			}
		}
		if len(found) < link.MaxBatch {
			break
		}
	}
	return unused, nil
}

// lanesTold is where it lies that the words are whole. It is lost with them.
const lanesTold = wire.LaneWordPrefix + "~.~.~"

// LanesTold tells whether what is said of lanes is whole. After the stream is lost it is not, until somebody calls [Store.TellLanes].
func (s *Store) LanesTold(ctx context.Context) (bool, error) {
	m, _, _, err := s.Said(wire.StateStream, lanesTold).Read(ctx, nil)
	if err != nil {
		return false, fmt.Errorf("look whether it was said which lanes are used: %w", err)
	}
	return m != nil, nil
}

// TellLanes says which lanes are used, and until when the last timer is due that was set for each, where that is not said.
func (s *Store) TellLanes(ctx context.Context, used map[where.Lane]time.Time) error {
	for l, until := range used {
		if !wire.Special(l) || l.Validate() != nil {
			continue
		}
		if err := s.useLane(ctx, l, until); err != nil {
			return err
		}
		_ = s.NC.Publish(wire.LanesPrefix+l.Queue, nil) // workers also look by themselves
	}
	_, err := s.Said(wire.StateStream, lanesTold).Decide(ctx, func(there *link.Message) (*nats.Msg, bool, error) {
		return &nats.Msg{Subject: lanesTold, Data: []byte("{}")}, there == nil, nil
	})
	if err != nil {
		return fmt.Errorf("say which lanes are used: %w", err)
	}
	return nil
}

// tellLane says that a lane is used if nothing is said of it.
func (s *Store) tellLane(ctx context.Context, l where.Lane) error {
	_, done, err := s.sayLane(ctx, l, laneWord{})
	if err != nil {
		return fmt.Errorf("say anew that lane %s is used: %w", wire.LaneConsumer(l), err)
	}
	if done {
		_ = s.NC.Publish(wire.LanesPrefix+l.Queue, nil) // workers also look by themselves
	}
	return nil
}

// nextOf is the sequence behind a message.
func nextOf(m *nats.Msg, err error) (uint64, error) {
	seq, err2 := link.SequenceOf(m)
	return seq + 1, errors.Join(err, err2)
}

// CloseLane removes the consumer of a special lane that nobody has used since a time and in which nothing lies, and
// tells whether it did. Nothing is lost by it: whoever uses the lane next has it made where this one ended. That
// time must be longer ago than a writer goes by what it knows: declareTouch and declareAgain together.
func (s *Store) CloseLane(ctx context.Context, l where.Lane, since time.Time) (closed bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("remove lane %s: %w", wire.LaneConsumer(l), err)
		}
	}()
	w, err := s.laneWord(ctx, l)
	if err != nil || w.seq == 0 || w.Closed || !w.used().Before(since) {
		return false, err
	}
	c, err := s.JS.Consumer(ctx, wire.LogStream, wire.LaneConsumer(l))
	if errors.Is(err, jetstream.ErrConsumerNotFound) { // nobody has ever served it
		return true, s.dropUpTo(ctx, wire.StateStream, laneSubject(l), w.seq)
	}
	if err != nil {
		return false, err
	}
	info := c.CachedInfo()
	if info.NumPending > 0 || info.NumAckPending > 0 {
		return false, nil
	}
	// All that it has handed out is done with, and what it has not comes later.
	w.From, w.Until, w.Closed = max(info.Delivered.Stream+1, info.Config.OptStartSeq), time.Time{}, true
	mine, done, err := s.sayLane(ctx, l, w)
	if !done || err != nil {
		return false, err // it is used
	}
	return true, s.removeLane(ctx, l, mine)
}

// removeLane removes the consumer of a lane that was closed by a word of ours.
func (s *Store) removeLane(ctx context.Context, l where.Lane, mine laneWord) error {
	s.lanes.Delete(l)
	if err := s.log.DeleteConsumer(ctx, wire.LaneConsumer(l)); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return err
	}
	w, err := s.laneWord(ctx, l)
	if err == nil && w.seq != mine.seq && !w.Closed { // who opened it may have seen the old one
		_, err = s.ensureLane(ctx, l, true)
	}
	return err
}

// dropUpTo removes what lies on a subject of a stream, up to a sequence: what was said since stays.
func (s *Store) dropUpTo(ctx context.Context, stream, subject string, upTo uint64) error {
	of, err := s.JS.Stream(ctx, stream)
	if err != nil {
		return err
	}
	return of.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(upTo+1))
}

// served tells whether somebody serves, or has served, a queue: it has a consumer for its plain lane.
func (s *Store) served(ctx context.Context, queue string) (bool, error) {
	_, err := s.JS.Consumer(ctx, wire.LogStream, wire.ConsumerName(queue))
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return false, nil
	}
	return err == nil, err
}
