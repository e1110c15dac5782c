package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/value"
)

// Beats stores and reads the heartbeats of nodes, and carries hints and pings to them.
type Beats struct {
	*request.Link
	last sync.Map // of [node.ID] to [sent]; the last heartbeat stored from here, if known
}

// New returns the heartbeats on a connection.
func New(l *request.Link) *Beats { return &Beats{Link: l} }

// sent is a heartbeat that this process has stored: its sequence, and a time at which it has expired.
type sent struct {
	seq  uint64
	ends time.Time
}

const (
	// lastsHeader says how long a heartbeat lasts. It stays stored for longer, so that whoever looks
	// finds when it ended. Heartbeats of earlier workers do not have it, and go with their TTL.
	lastsHeader = "Mr-Lasts"
	// endedHeader is that of a mark, and says when the heartbeat has expired that the mark replaces.
	endedHeader = "Mr-Ended"
	// With this operation a bucket has its key no more.
	operation, deletes = "KV-Operation", "DEL"
)

// afterglow is how long it stays stored that a heartbeat has ended. Such messages count among those
// that one request can read.
const afterglow = 10 * time.Minute

// seconds writes a duration as NATS wants a TTL: in whole seconds, at least one.
func seconds(d time.Duration) string {
	return strconv.Itoa(max(int(math.Ceil(d.Seconds())), 1)) + "s"
}

// Beat implements [events.Heartbeats]. Each heartbeat expects to follow the last acknowledged one
// from this process. So one that was delayed on a lost connection cannot replace a later one, and a
// process that has been succeeded cannot pass for alive: its heartbeat is refused once, and it must
// look at the log. The same goes for a process whose own last heartbeat has expired.
func (s *Beats) Beat(ctx context.Context, id node.ID, h node.Heartbeat, ttl time.Duration) error {
	body, err := json.Marshal(h)
	if err != nil {
		return err
	}
	lasts := seconds(ttl)
	// The bucket's own Put would drop the TTL of the key.
	m := &nats.Msg{
		Subject: beatPrefix + string(id),
		Data:    body,
		Header:  nats.Header{jetstream.MsgTTLHeader: {seconds(ttl + afterglow)}, lastsHeader: {lasts}},
	}
	now := s.Now()
	life, _ := time.ParseDuration(lasts)
	if known, ok := s.last.Load(id); ok {
		last := known.(sent)
		if !now.Before(last.ends) {
			s.last.Delete(id)
			return fmt.Errorf("heartbeat of %s: the last one has expired: %w", id, events.ErrConflict)
		}
		m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(last.seq, 10)}
	}
	seq, err := s.Pub.Publish(ctx, m)
	switch {
	case errors.Is(err, events.ErrConflict):
		s.last.Delete(id)
		return fmt.Errorf("heartbeat of %s: %w", id, err)
	case err != nil:
		return fmt.Errorf("heartbeat of %s: %w", id, err)
	}
	s.last.Store(id, sent{seq, now.Add(life)})
	return nil
}

// Names of the bucket's stream and subjects.
const (
	beatPrefix = names.BucketSubject + names.NodesBucket + "."
	beatStream = names.BucketStream + names.NodesBucket
)

// stored is a message of the bucket.
type stored struct {
	beat node.Heartbeat
	seq  uint64    // of the message
	at   time.Time // when it was stored
	ends time.Time // when the heartbeat expires, or has expired; zero if the message does not say
	gone bool      // it is no heartbeat: the node has withdrawn it, or the message is foreign
}

// readBeat decodes a message of the bucket.
func readBeat(h nats.Header, body []byte, at time.Time) (m stored) {
	m.at = at
	ended, err := time.Parse(time.RFC3339Nano, h.Get(endedHeader))
	switch reason := h.Get("Nats-Marker-Reason"); {
	case err == nil:
		m.ends = ended
	case reason == "MaxAge": // which buckets of earlier versions have
		m.ends = at
	case reason != "" || h.Get(operation) != "" || json.Unmarshal(body, &m.beat) != nil:
		m.gone = true
	default:
		lasts := h.Get(lastsHeader)
		if lasts == "" {
			lasts = h.Get(jetstream.MsgTTLHeader)
		}
		if d, err := time.ParseDuration(lasts); err == nil {
			m.ends = at.Add(d)
		}
	}
	return m
}

// pulse is the pulse at a time of a node whose last message it is.
func (m *stored) pulse(now time.Time, leap value.Leap) node.Pulse {
	p := node.Pulse{Stored: m.at}
	if !m.gone {
		p = node.PulseOf(m.beat, m.at, m.ends, leap.Since(m.at, now))
	}
	p.Now, p.Leap = now, leap
	return p
}

// ended tells whether the heartbeat has expired.
func (m *stored) ended(now time.Time, leap value.Leap) bool {
	return !m.ends.IsZero() && !leap.Since(m.at, now).Before(m.ends)
}

// leap is the last leap of the log's clock that this process has seen.
func (s *Beats) leap() value.Leap {
	until, by := s.Clock.Leap()
	return value.Leap{Until: until, By: by}
}

// Alive returns the heartbeats that have not expired, of any number of nodes. A replica that lags
// may answer.
func (s *Beats) Alive(ctx context.Context) (map[node.ID]node.Heartbeat, error) {
	alive := map[node.ID]node.Heartbeat{}
	now := s.Now()
	// A bucket without history holds one message per node, and one that is renewed meanwhile only
	// moves to a later sequence: none is missed.
	err := s.Each(ctx, beatStream, beatPrefix+">", func(subject string, m *nats.Msg) error {
		id := node.ID(strings.TrimPrefix(subject, beatPrefix))
		at, err := time.Parse(time.RFC3339Nano, request.Added(m, jetstream.TimeStampHeaer))
		if err != nil {
			return err
		}
		is := readBeat(m.Header, m.Data, at)
		if p := is.pulse(now, s.leap()); p.Beat.Session != "" {
			alive[id] = p.Beat
		} else {
			delete(alive, id)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read heartbeats: %w", err)
	}
	return alive, nil
}

// Beating returns the heartbeat of a node, and false if it has expired, from the bucket's leader.
func (s *Beats) Beating(ctx context.Context, id node.ID) (node.Heartbeat, bool, error) {
	p, err := s.lastBeat(ctx, id, s.Now())
	return p.Beat, p.Beat.Session != "", err
}

// Pulse implements [events.Pulses]: the time is the log's, everything else comes from the bucket's
// leader.
func (s *Beats) Pulse(ctx context.Context, id node.ID) (node.Pulse, error) {
	var now time.Time
	_, err := s.Clock.Ask(ctx, func(ctx context.Context) (_ time.Time, err error) {
		now, err = s.Time(ctx)
		return now, err
	})
	if err != nil {
		return node.Pulse{}, err
	}
	p, err := s.lastBeat(ctx, id, now)
	if err != nil || !p.Stored.IsZero() || p.Beat.Session != "" {
		return p, err
	}
	stream, err := s.JS.Stream(ctx, beatStream)
	if err != nil {
		return p, fmt.Errorf("heartbeat of %s: %w", id, err)
	}
	p.Made = stream.CachedInfo().Created
	return p, nil
}

// lastBeat reads the last message about a node's heartbeat, and judges it by the time.
func (s *Beats) lastBeat(ctx context.Context, id node.ID, now time.Time) (node.Pulse, error) {
	p, _, err := s.lastStored(ctx, id, now)
	return p, err
}

// lastStored is lastBeat, with the sequence of that message; 0 if there is none.
func (s *Beats) lastStored(ctx context.Context, id node.ID, now time.Time) (node.Pulse, uint64, error) {
	m, found, err := s.LeaderGetFrom(ctx, beatStream, map[string]any{"last_by_subj": beatPrefix + string(id)})
	if err != nil {
		return node.Pulse{Now: now}, 0, fmt.Errorf("heartbeat of %s: %w", id, err)
	}
	if !found {
		return node.Pulse{Now: now}, 0, nil
	}
	header := nats.Header{}
	if len(m.Header) > 0 {
		if header, err = nats.DecodeHeadersMsg(m.Header); err != nil {
			return node.Pulse{Now: now}, m.Seq, nil
		}
	}
	is := readBeat(header, m.Data, m.Time)
	return is.pulse(now, s.leap()), m.Seq, nil
}

// BeatsAnew tells whether a node has a heartbeat that was stored after a time, and the sequence of the last
// message about them.
func (s *Beats) BeatsAnew(ctx context.Context, id node.ID, since time.Time) (seq uint64, another bool, err error) {
	p, seq, err := s.lastStored(ctx, id, s.Now())
	return seq, p.Beat.Session != "" && p.Stored.After(since), err
}

// ForgetUntil is [Beats.Forget], unless there is a message about the node's heartbeat after a sequence.
func (s *Beats) ForgetUntil(ctx context.Context, id node.ID, seq uint64) error {
	m := &nats.Msg{Subject: beatPrefix + string(id), Header: nats.Header{
		operation: {deletes}, jetstream.MsgTTLHeader: {seconds(afterglow)}, jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(seq, 10)},
	}}
	if _, err := s.Pub.Publish(ctx, m); err != nil && !errors.Is(err, events.ErrConflict) {
		return fmt.Errorf("forget node %s: %w", id, err)
	}
	return nil
}

// Forget removes a node's heartbeat at once, when the node leaves. What it stores in its place is a
// deleted key of the bucket; a purge would need a stream in which a message can erase others.
func (s *Beats) Forget(ctx context.Context, id node.ID) error {
	s.last.Delete(id)
	m := &nats.Msg{Subject: beatPrefix + string(id), Header: nats.Header{operation: {deletes}, jetstream.MsgTTLHeader: {seconds(afterglow)}}}
	if _, err := s.Pub.Publish(ctx, m); err != nil {
		return fmt.Errorf("forget node %s: %w", id, err)
	}
	return nil
}

// mark replaces a heartbeat that has expired, unless the node has beaten again: then the bucket has
// its key no more, and the node's process learns of it with its next heartbeat.
func (s *Beats) mark(ctx context.Context, id node.ID, is stored) error {
	m := &nats.Msg{Subject: beatPrefix + string(id), Header: nats.Header{
		operation: {deletes}, endedHeader: {is.ends.UTC().Format(time.RFC3339Nano)}, jetstream.MsgTTLHeader: {seconds(afterglow)},
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(is.seq, 10)},
	}}
	_, err := s.Pub.Publish(ctx, m)
	return err
}

// Hint tells a node that something has happened to a task that it runs, or to the node itself if
// the task is "". It may be lost; nodes also look at the log now and then.
func (s *Beats) Hint(n node.ID, id task.ID) error {
	return s.NC.Publish(names.HintPrefix+string(n), []byte(id))
}

// OnHint calls look for each hint to a node, with "" if it is about the node itself, until stop is
// called.
func (s *Beats) OnHint(n node.ID, look func(task.ID)) (stop func(), err error) {
	return s.Listen(names.HintPrefix+string(n), "listen for hints", func(m *nats.Msg) {
		if id, err := task.ParseID(string(m.Data)); err == nil || len(m.Data) == 0 {
			look(id)
		}
	})
}

// Meet calls heard with each announcement of a scheduler, this process's own included, until leave
// is called.
func (s *Store) Meet(heard func(name string, here bool)) (leave func(), err error) {
	return s.Listen(names.SchedulersWord, "listen to other schedulers", func(m *nats.Msg) {
		word := string(m.Data)
		if len(word) < 2 || word[0] != '+' && word[0] != '-' || value.ValidName("scheduler", word[1:]) != nil {
			return
		}
		heard(word[1:], word[0] == '+')
	})
}

// Say announces to all schedulers that one is here, or that it leaves. Delivery is not guaranteed.
func (s *Store) Say(name string, here bool) error {
	word := "-"
	if here {
		word = "+"
	}
	return s.NC.Publish(names.SchedulersWord, []byte(word+name))
}
