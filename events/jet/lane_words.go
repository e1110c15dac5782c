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

	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/task/placement"
)

// A consumer costs the server far more than a message, and each lane needs one. So a process that
// places a task in a special lane (one that is not the queue's plain lane) only declares that the
// lane is used, by one message for each lane: the lane's word. A worker makes the consumer when it
// serves the queue, and a scheduler removes it when the lane was not used for a long time.
//
// A writer first stores the word and then checks whether the queue has a consumer for its plain
// lane. A worker that serves the queue first makes that consumer and then reads the words. So at
// least one of the two sees the other, and the lane's consumer is made. A timer that will place an
// offer later counts as a use at that time.
//
// To remove a lane, the scheduler replaces its word, by compare-and-set, with one that says so and
// where the next consumer begins; then it deletes the consumer. A writer may rely on its own word
// for declareAgain, which is far less than a lane is kept, and the removal fails if the writer
// renews the word.
//
// If all words are lost with their stream, workers store again those of the lanes that they serve,
// and a scheduler those of all lanes with tasks, by its read model.

// laneWord is what a word says about a special lane.
type laneWord struct {
	// From is where a new consumer of the lane must begin: everything before is done. 0 is the
	// log's beginning.
	From uint64 `json:"from,omitempty"`
	// Until is when the last timer for the lane is due.
	Until time.Time `json:"until,omitzero"`
	// Closed tells whether the lane was removed. The next writer that uses it opens it again.
	Closed bool `json:"closed,omitempty"`

	seq uint64    // of the message; 0 if there is none
	at  time.Time // when the server stored it
}

// used returns when the lane was last used, as far as is known.
func (w *laneWord) used() time.Time {
	if w.Until.After(w.at) {
		return w.Until
	}
	return w.at
}

// laneSubject is the subject of a lane's word.
func laneSubject(l placement.Lane) string {
	return names.LaneWordPrefix + l.Queue + "." + strconv.Itoa(l.Priority) + "." + strconv.Itoa(l.Number)
}

// laneAt inverts laneSubject.
func laneAt(subject string) (l placement.Lane, ok bool) {
	tokens := strings.Split(strings.TrimPrefix(subject, names.LaneWordPrefix), ".")
	if len(tokens) != 3 {
		return l, false
	}
	l.Queue = tokens[0]
	l.Priority, _ = strconv.Atoi(tokens[1]) // 0 if invalid
	l.Number, _ = strconv.Atoi(tokens[2])
	return l, l.Validate() == nil && names.Special(l) && laneSubject(l) == subject
}

// laneWord reads the word of a lane from the stream's leader.
func (s *Store) laneWord(ctx context.Context, l placement.Lane) (w laneWord, err error) {
	m, _, _, err := s.Value(names.StateStream, laneSubject(l)).Read(ctx, nil)
	return laneWordIn(m), err
}

// laneWordIn decodes the word in a message.
func laneWordIn(m *request.Message) (w laneWord) {
	if m == nil {
		return w
	}
	if json.Unmarshal(m.Data, &w) != nil {
		w = laneWord{} // a foreign message: the lane begins with the log
	}
	w.seq, w.at = m.Seq, m.Time
	return w
}

// message encodes a word.
func (w *laneWord) message(l placement.Lane) (*nats.Msg, error) {
	body, err := json.Marshal(w)
	return &nats.Msg{Subject: laneSubject(l), Data: body}, err
}

// sayLane replaces the word of a lane. If the word has changed since it was read, done is false.
func (s *Store) sayLane(ctx context.Context, l placement.Lane, w laneWord) (is laneWord, done bool, err error) {
	chain := s.Value(names.StateStream, laneSubject(l))
	chain.Once = true
	d, err := chain.DecideFrom(ctx, nil, w.seq, func(*request.Message) (*nats.Msg, bool, error) {
		m, err := w.message(l)
		return m, true, err
	})
	w.seq = d.End
	return w, d.Done(), err
}

// useLane declares that a lane is used, up to a time.
func (s *Store) useLane(ctx context.Context, l placement.Lane, until time.Time) error {
	_, err := s.Value(names.StateStream, laneSubject(l)).Decide(ctx, func(there *request.Message) (*nats.Msg, bool, error) {
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
		return fmt.Errorf("say that lane %s is used: %w", names.LaneConsumer(l), err)
	}
	return nil
}

// wordsAtOnce is for how many queues the words are read in one request. The server answers with
// 1024 messages at most.
const wordsAtOnce = 4

// spoken lists the special lanes of queues that have a word and are open. A replica that lags may
// answer.
func (s *Store) spoken(ctx context.Context, queues ...string) ([]placement.Lane, error) {
	var lanes []placement.Lane
	for some := range slices.Chunk(queues, wordsAtOnce) {
		filters := make([]string, len(some))
		for i, q := range some {
			filters[i] = names.LaneWordPrefix + q + ".*.*"
		}
		found, err := s.BatchGet(ctx, names.StateStream, 1024, map[string]any{"multi_last": filters})
		if err != nil {
			return nil, fmt.Errorf("list the lanes of queues: %w", err)
		}
		for _, m := range found {
			var w laneWord
			if l, ok := laneAt(request.Added(m, jetstream.SubjectHeader)); ok && json.Unmarshal(m.Data, &w) == nil && !w.Closed {
				lanes = append(lanes, l)
			}
		}
	}
	return lanes, nil
}

// errRemoved: a lane, or its route, was removed on purpose.
var errRemoved = errors.New("it was removed, because it was unused")

// UnusedLanes lists the special lanes that were last used before a time.
func (s *Store) UnusedLanes(ctx context.Context, since time.Time) ([]placement.Lane, error) {
	var unused []placement.Lane
	err := s.Each(ctx, names.StateStream, names.LaneWordPrefix+">", func(subject string, m *nats.Msg) error {
		l, ok := laneAt(subject)
		stored, err := time.Parse(time.RFC3339Nano, request.Added(m, jetstream.TimeStampHeaer))
		w := laneWord{at: stored}
		if err == nil && ok && json.Unmarshal(m.Data, &w) == nil && !w.Closed && w.used().Before(since) {
			unused = append(unused, l)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list lanes: %w", err)
	}
	return unused, nil
}

// lanesTold is the subject of the mark that the words are complete. It is lost together with them.
const lanesTold = names.LaneWordPrefix + "~.~.~"

// LanesTold tells whether the words of lanes are complete. After the stream is lost they are not,
// until [Store.TellLanes] is called.
func (s *Store) LanesTold(ctx context.Context) (bool, error) {
	m, _, _, err := s.Value(names.StateStream, lanesTold).Read(ctx, nil)
	if err != nil {
		return false, fmt.Errorf("look whether it was said which lanes are used: %w", err)
	}
	return m != nil, nil
}

// TellLanes stores the words of used lanes that have none, each with the time when the last timer
// for it is due.
func (s *Store) TellLanes(ctx context.Context, used map[placement.Lane]time.Time) error {
	for l, until := range used {
		if !names.Special(l) || l.Validate() != nil {
			continue
		}
		if err := s.useLane(ctx, l, until); err != nil {
			return err
		}
		_ = s.NC.Publish(names.LanesPrefix+l.Queue, nil) // workers also look by themselves
	}
	_, err := s.Value(names.StateStream, lanesTold).Decide(ctx, func(there *request.Message) (*nats.Msg, bool, error) {
		return &nats.Msg{Subject: lanesTold, Data: []byte("{}")}, there == nil, nil
	})
	if err != nil {
		return fmt.Errorf("say which lanes are used: %w", err)
	}
	return nil
}

// tellLane declares that a lane is used if it has no word.
func (s *Store) tellLane(ctx context.Context, l placement.Lane) error {
	_, done, err := s.sayLane(ctx, l, laneWord{})
	if err != nil {
		return fmt.Errorf("say anew that lane %s is used: %w", names.LaneConsumer(l), err)
	}
	if done {
		_ = s.NC.Publish(names.LanesPrefix+l.Queue, nil) // workers also look by themselves
	}
	return nil
}

// CloseLane removes the consumer of a special lane that is empty and was last used before a time,
// and tells whether it did. Nothing is lost: the next use makes a consumer that begins where this
// one ended. The time must be further back than a writer relies on what it knows: declareTouch and
// declareAgain together.
func (s *Store) CloseLane(ctx context.Context, l placement.Lane, since time.Time) (closed bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("remove lane %s: %w", names.LaneConsumer(l), err)
		}
	}()
	w, err := s.laneWord(ctx, l)
	if err != nil || w.seq == 0 || w.Closed || !w.used().Before(since) {
		return false, err
	}
	c, err := s.JS.Consumer(ctx, names.LogStream, names.LaneConsumer(l))
	if errors.Is(err, jetstream.ErrConsumerNotFound) { // no worker has ever served it
		return true, s.dropUpTo(ctx, laneSubject(l), w.seq)
	}
	if err != nil {
		return false, err
	}
	info := c.CachedInfo()
	if info.NumPending > 0 || info.NumAckPending > 0 {
		return false, nil
	}
	if foreign, err := s.foreign(ctx, l); err != nil || foreign != "" {
		return false, err // the next worker makes it again, and gets everything there
	}
	// Everything that it delivered is done, and what it has not delivered comes later.
	w.From, w.Until, w.Closed = max(info.Delivered.Stream+1, info.Config.OptStartSeq), time.Time{}, true
	mine, done, err := s.sayLane(ctx, l, w)
	if !done || err != nil {
		return false, err // it is used
	}
	return true, s.removeLane(ctx, l, mine)
}

// removeLane deletes the consumer of a lane that this process has closed.
func (s *Store) removeLane(ctx context.Context, l placement.Lane, mine laneWord) error {
	s.lanes.Delete(l)
	if err := s.log.DeleteConsumer(ctx, names.LaneConsumer(l)); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return err
	}
	w, err := s.laneWord(ctx, l)
	// The writer that opened it may have seen the old consumer.
	if err == nil && w.seq != mine.seq && !w.Closed {
		_, err = s.ensureLane(ctx, l, true)
	}
	return err
}

// dropUpTo removes the messages of a subject of the states up to a sequence; newer ones stay.
func (s *Store) dropUpTo(ctx context.Context, subject string, upTo uint64) error {
	of, err := s.JS.Stream(ctx, names.StateStream)
	if err != nil {
		return err
	}
	return of.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(upTo+1))
}

// served tells whether a worker serves, or has served, a queue: then its plain lane has a consumer.
func (s *Store) served(ctx context.Context, queue string) (bool, error) {
	_, err := s.JS.Consumer(ctx, names.LogStream, names.ConsumerName(queue))
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return false, nil
	}
	return err == nil, err
}
