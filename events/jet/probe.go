package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/events/jet/streams"
)

// Takes proves that the log stores messages. If it has stored one within the given time, by its own
// clock, from any writer, that is proof enough; else Takes writes one, which [Store.TidyProbes]
// removes later. So a busy installation is only asked, and an idle one writes once in that time,
// however many of its processes call Takes.
//
// The error says in words what an operator can do. It wraps [events.ErrMute] if the log did not
// store the message, and holds the server's answer, if one came before ctx ended. Where several
// servers keep the log it wraps [request.ErrElecting] instead, unless a storage limit is reached.
func (s *Store) Takes(ctx context.Context, within time.Duration) error {
	stream, err := s.JS.Stream(ctx, names.LogStream)
	switch {
	case request.Answers(err, request.CodeNoPeers, request.CodeNoLeader):
		return fmt.Errorf("the log cannot be asked: %w (%w)", request.ErrElecting, err)
	case err != nil:
		return fmt.Errorf("the log cannot be asked: %w", err)
	}
	info := stream.CachedInfo()
	// For a new stream: when it was created.
	for _, written := range []time.Time{info.State.LastTime, info.Created} {
		if !written.IsZero() && info.TimeStamp.Sub(written) < within {
			return nil
		}
	}
	body, err := json.Marshal(struct {
		By string `json:"by"`
	}{s.NC.Opts.Name})
	if err != nil {
		return err
	}
	_, err = s.pub.Publish(ctx, &nats.Msg{Subject: names.LogProbe, Data: body, Header: nats.Header{events.TypeHeader: {"log.probe"}}})
	return muteReason(err, severalKeep(info.Cluster))
}

// severalKeep tells whether several servers keep a stream.
func severalKeep(c *jetstream.ClusterInfo) bool { return c != nil && len(c.Replicas) > 0 }

// silentAfter is for how long a write has no answer before [Store.Silent] asks why.
const silentAfter = 4 * time.Second

// Silent returns why a write of this store gets no answer, if one server alone keeps the log and
// answers a question that came seconds later; nil if it cannot be told. Where several servers keep
// the log, they may be electing a leader. The error wraps [events.ErrMute].
func (s *Store) Silent(ctx context.Context) error {
	if s.pub.Oldest() < silentAfter {
		return nil
	}
	info, err := s.log.Info(ctx)
	if err != nil || severalKeep(info.Cluster) || s.pub.Oldest() < silentAfter {
		return nil
	}
	return muteReason(events.ErrUnknown, false)
}

// ProbesKept is how many probes of the log, and of each node, [Store.TidyProbes] leaves.
const ProbesKept = 8

// TidyProbes removes probes of the log and of nodes' own routes, where there are more than
// [ProbesKept] in one place. The log rejects messages that remove others, so probes stay until a
// server of Millrace calls this.
func (s *Store) TidyProbes(ctx context.Context) error {
	for _, filter := range []string{names.LogProbe, names.AnyProbe} {
		info, err := s.log.Info(ctx, jetstream.WithSubjectFilter(filter))
		if err != nil {
			return fmt.Errorf("look for probes: %w", err)
		}
		for subject, n := range info.State.Subjects {
			if n <= ProbesKept {
				continue
			}
			if err := s.log.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeKeep(1)); err != nil {
				return fmt.Errorf("remove the probes on %s: %w", subject, err)
			}
		}
	}
	return nil
}

// A NATS server that was killed looks for the last message that the log has sourced, so that it can
// go on sourcing behind it: backwards from the end, block by block, and meanwhile it serves no
// client. For a log with more than a million subjects it keeps no other note of that place. To
// spare it reading all blocks of a log in which no timer fires, servers of Millrace make the log
// source an empty message now and then, a mark. And to spare it reading single births, at a
// millisecond each, fired timers lie on subjects of their own: see [firedToken].
const (
	// markEvery is how many messages read require another mark at the end of the log.
	markEvery = 4096
	// markPause is the shortest time between two marks, however fast the log grows.
	markPause = 100 * time.Millisecond
	// markAgain is the pause after a mark that could not be placed.
	markAgain = 10 * time.Second
)

// Marks tracks when the log needs a mark. As an observer of the projector it gets what is read of
// the log.
type Marks struct {
	level atomic.Uint64 // how far the log was read
	next  atomic.Uint64 // the sequence from which a mark is needed
	due   chan struct{} // holds one when it is time to check these
}

// NewMarks returns Marks that know of no mark in the log yet.
func NewMarks() *Marks {
	m := &Marks{due: make(chan struct{}, 1)}
	m.next.Store(markEvery)
	return m
}

// Observe takes what was read of the log.
func (m *Marks) Observe(steps []events.Step) {
	if len(steps) == 0 {
		return
	}
	if m.level.Store(steps[len(steps)-1].Record.Seq); !m.needed() {
		return
	}
	signal(m.due)
}

func (m *Marks) needed() bool { return m.level.Load() >= m.next.Load() }

// KeepMarks marks the log whenever m asks for it, until ctx ends. Of several processes that do so
// for one log, the one whose first returns true marks it. It passes errors to failed, and tries
// again.
func (s *Store) KeepMarks(ctx context.Context, m *Marks, first func() bool, failed func(error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.due:
		}
		pause := markPause
		if m.needed() && first() {
			if err := s.putMark(ctx, m); err != nil && ctx.Err() == nil {
				failed(err)
				pause = markAgain
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// putMark makes the log source a mark.
func (s *Store) putMark(ctx context.Context, m *Marks) error {
	// The sequence read so far lags behind the end of the log, but grows as fast.
	next := m.level.Load() + markEvery
	if _, err := s.pub.Publish(ctx, &nats.Msg{Subject: names.DueProbe, Header: nats.Header{events.TypeHeader: {"log.probe"}}}); err != nil {
		return fmt.Errorf("mark the end of the log: %w", err)
	}
	m.next.Store(next)
	return nil
}

// muteReason explains to an operator why a message was not stored; nil for none. Where several
// servers share the log, they are electing a leader, or too few are up. Nothing else keeps them
// from storing a message: if one has no room on its disk, the others go on, and if most have none,
// no leader is left.
func muteReason(err error, shared bool) error {
	if err == nil {
		return nil
	}
	if word, full := request.Full(err); full {
		return fmt.Errorf("%w: its storage limit is reached (the NATS server says %q): raise the limit, or remove something", events.ErrMute, word)
	}
	if shared {
		return fmt.Errorf("the log cannot be written: %w (%w)", request.ErrElecting, err)
	}
	if errors.Is(err, events.ErrUnknown) {
		return fmt.Errorf("%w: the NATS server does not answer to a write, as if its disk had been full: make room there; "+
			"`millrace server` and `dev` then start their own server again, any other nats-server has to be restarted", events.ErrMute)
	}
	return fmt.Errorf("%w: %w", events.ErrMute, err)
}

// KeepStreams checks at every interval whether a stream or bucket is missing, for example because
// an operator has deleted it, and makes it again as layout says, until ctx ends. It calls made with
// the name of each. The content of such a stream is lost. Once a minute it removes old probes
// ([Store.TidyProbes]).
func (s *Store) KeepStreams(ctx context.Context, layout streams.Layout, every time.Duration, made func(name string), failed func(error)) {
	k := streams.NewRestorer(s.JS, s.timers, made)
	ticker, tidy := time.NewTicker(every), time.NewTicker(time.Minute)
	defer ticker.Stop()
	defer tidy.Stop()
	for {
		look := func() error { return k.Look(ctx, layout) }
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-tidy.C:
			look = func() error { return s.TidyProbes(ctx) }
		}
		if err := look(); err != nil && ctx.Err() == nil && s.NC.IsConnected() {
			failed(err)
		}
	}
}
