package presence

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
	"millrace/jet/link"
	"millrace/jet/streams"
	"millrace/jet/wire"
	"millrace/node"
	"millrace/task"
)

// Beats stores and reads the heartbeats of nodes, and carries hints and pings to them.
type Beats struct {
	*link.Link
	bucket jetstream.KeyValue
	last   sync.Map // of [node.ID]; the sequence of the last heartbeat stored from here, if known
}

// New returns the heartbeats in a bucket.
func New(l *link.Link, bucket jetstream.KeyValue) *Beats {
	return &Beats{Link: l, bucket: bucket}
}

// Beat implements [events.Heartbeats]. Each heartbeat expects to follow the last acknowledged one
// from this process. So one that was delayed on a lost connection cannot replace a later one, and a
// process that has been succeeded cannot pass for alive: its heartbeat is refused once, and it must
// look at the log.
func (s *Beats) Beat(ctx context.Context, id node.ID, h node.Heartbeat, ttl time.Duration) error {
	body, err := json.Marshal(h)
	if err != nil {
		return err
	}
	seconds := max(int(math.Ceil(ttl.Seconds())), 1)
	// The bucket's own Put would drop the TTL of the key.
	m := &nats.Msg{
		Subject: "$KV." + wire.NodesBucket + "." + string(id),
		Data:    body,
		Header:  nats.Header{"Nats-TTL": {strconv.Itoa(seconds) + "s"}},
	}
	if last, known := s.last.Load(id); known {
		m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(last.(uint64), 10)}
	}
	seq, err := s.Pub.Publish(ctx, m)
	switch {
	case errors.Is(err, events.ErrConflict):
		s.last.Delete(id)
		return fmt.Errorf("heartbeat of %s: %w", id, err)
	case err != nil:
		return fmt.Errorf("heartbeat of %s: %w", id, err)
	}
	s.last.Store(id, seq)
	return nil
}

const beatPrefix = "$KV." + wire.NodesBucket + "."

// heartbeat decodes a message of the bucket; ok is false if it marks an expiry or a removal, or is
// foreign.
func heartbeat(h nats.Header, body []byte) (beat node.Heartbeat, ok bool) {
	return beat, h.Get("Nats-Marker-Reason") == "" && h.Get("KV-Operation") == "" && json.Unmarshal(body, &beat) == nil
}

// Alive returns the heartbeats that have not expired, of any number of nodes. A replica that lags
// may answer.
func (s *Beats) Alive(ctx context.Context) (map[node.ID]node.Heartbeat, error) {
	alive := map[node.ID]node.Heartbeat{}
	// A bucket without history holds one message per node, and one that is renewed meanwhile only
	// moves to a later sequence: none is missed.
	err := s.Each(ctx, beatStream, beatPrefix+">", func(subject string, m *nats.Msg) error {
		id := node.ID(strings.TrimPrefix(subject, beatPrefix))
		if h, ok := heartbeat(m.Header, m.Data); ok {
			alive[id] = h
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

const beatStream = "KV_" + wire.NodesBucket

// Beating returns the heartbeat of a node, and false if it has expired, from the bucket's leader.
func (s *Beats) Beating(ctx context.Context, id node.ID) (node.Heartbeat, bool, error) {
	p, err := s.lastBeat(ctx, id)
	return p.Beat, p.Beat.Session != "", err
}

// Pulse implements [events.Pulses]: the time is the log's, everything else comes from the bucket's
// leader.
func (s *Beats) Pulse(ctx context.Context, id node.ID) (node.Pulse, error) {
	now, err := s.Time(ctx)
	if err != nil {
		return node.Pulse{}, err
	}
	p, err := s.lastBeat(ctx, id)
	p.Now = now
	return p, err
}

// lastBeat reads the last message about a node's heartbeat, without the time.
func (s *Beats) lastBeat(ctx context.Context, id node.ID) (p node.Pulse, err error) {
	m, found, err := s.LeaderGetFrom(ctx, beatStream, map[string]any{"last_by_subj": beatPrefix + string(id)})
	if err != nil {
		return p, fmt.Errorf("heartbeat of %s: %w", id, err)
	}
	if !found {
		return p, nil
	}
	header := nats.Header{}
	if len(m.Header) > 0 {
		if header, err = nats.DecodeHeadersMsg(m.Header); err != nil {
			return p, nil
		}
	}
	p.Stored = m.Time
	if h, ok := heartbeat(header, m.Data); ok {
		p.Beat = h
	} else {
		p.RanOut = header.Get("Nats-Marker-Reason") == "MaxAge"
	}
	return p, nil
}

// Forget removes a node's heartbeat at once, when the node leaves.
func (s *Beats) Forget(ctx context.Context, id node.ID) error {
	s.last.Delete(id)
	if err := s.bucket.Purge(ctx, string(id), jetstream.PurgeTTL(streams.MarkerTTL)); err != nil {
		return fmt.Errorf("forget node %s: %w", id, err)
	}
	return nil
}

// Hint tells a node that something has happened to a task that it runs, or to the node itself if
// the task is "". It may be lost; nodes also look at the log now and then.
func (s *Beats) Hint(n node.ID, id task.ID) error {
	return s.NC.Publish(wire.HintPrefix+string(n), []byte(id))
}

// OnHint calls look for each hint to a node, with "" if it is about the node itself, until stop is
// called.
func (s *Beats) OnHint(n node.ID, look func(task.ID)) (stop func(), err error) {
	return s.Listen(wire.HintPrefix+string(n), "listen for hints", func(m *nats.Msg) {
		if id, err := task.ParseID(string(m.Data)); err == nil || len(m.Data) == 0 {
			look(id)
		}
	})
}
