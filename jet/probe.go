package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
)

// Takes proves that the log takes messages. If it has stored one within the time given, by its own
// clock, whoever wrote that, this is proof enough; else Takes writes one, which
// [Store.TidyProbes] removes. So an installation that works is only asked, and one that is idle writes once in
// that time, however many of its processes want to know.
//
// The error says in words what a person can do; it wraps [events.ErrMute] if the log did not store the
// message, and says what the server said, if it said anything before ctx ended.
func (s *Store) Takes(ctx context.Context, within time.Duration) error {
	stream, err := s.js.Stream(ctx, LogStream)
	if err != nil {
		return fmt.Errorf("the log cannot be asked: %w", err)
	}
	info := stream.CachedInfo()
	for _, written := range []time.Time{info.State.LastTime, info.Created} { // of a new one, that it was made
		if !written.IsZero() && info.TimeStamp.Sub(written) < within {
			return nil
		}
	}
	body, err := json.Marshal(struct {
		By string `json:"by"`
	}{s.nc.Opts.Name})
	if err != nil {
		return err
	}
	_, err = s.pub.publish(ctx, &nats.Msg{Subject: logProbe, Data: body, Header: nats.Header{events.TypeHeader: {"log.probe"}}})
	return muteReason(err)
}

// ProbesKept is how many probes of the log, and of each node, [Store.TidyProbes] leaves.
const ProbesKept = 8

// TidyProbes removes probes of the log and of nodes' own routes, where there are more than [ProbesKept] in one
// place. The log takes no message that removes another one, so they stay until a server does this.
func (s *Store) TidyProbes(ctx context.Context) error {
	for _, filter := range []string{logProbe, anyProbe} {
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

// muteReason says why a message was not stored, in words that tell an operator what to do; nil for none.
func muteReason(err error) error {
	if err == nil {
		return nil
	}
	if word, full := Full(err); full {
		return fmt.Errorf("%w: its storage limit is reached (the NATS server says %q): raise the limit, or remove something", events.ErrMute, word)
	}
	if errors.Is(err, events.ErrNoStream) {
		return fmt.Errorf("%w: %w", events.ErrMute, err)
	}
	if errors.Is(err, events.ErrUnknown) {
		return fmt.Errorf("%w: the NATS server does not answer to a write, as if its disk had been full: make room there; "+
			"`millrace server` and `dev` then start their own server again, any other nats-server has to be restarted", events.ErrMute)
	}
	return fmt.Errorf("%w: %w", events.ErrMute, err)
}

// Full tells whether an error of any call is the server's word that a stream, the account or the
// server has no room left, and what it said.
func Full(err error) (word string, full bool) {
	if e, ok := errors.AsType[*serverError](err); ok {
		return e.Description, fullCode(e.ErrCode)
	}
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		return e.Description, fullCode(int(e.ErrorCode))
	}
	return "", false
}

func fullCode(code int) bool {
	switch code {
	case codeAccountLimit, codeStorageLimit, codeMemoryLimit, codeResources, codeStoreFailed:
		return true
	}
	return false
}
