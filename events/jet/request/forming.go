package request

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Times of waiting, when a store is opened, for a cluster that is electing its leaders or was just
// started.
const (
	// formTime is the default of Patience.For.
	formTime = 10 * time.Second
	// formTry bounds one request, after which it is made again: the server that should have
	// answered it may be gone, and the next leader knows nothing of it. It is well above what
	// making a stream takes.
	formTry = 4 * time.Second
	// formLook is the pause between two requests, and formSay the interval of reports.
	formLook = 100 * time.Millisecond
	formSay  = 10 * time.Second
)

// Patience says how opening a store waits for a cluster without a leader.
type Patience struct {
	// For is the longest wait. Default 10s.
	For time.Duration
	// Say is called with the error that is waited out, at once and then every 10 s. Default: no
	// call.
	Say func(waiting error)
}

// ErrElecting: the NATS server was reached, but JetStream gave no answer within the time: the
// servers of the cluster are electing a leader, or too few are up.
var ErrElecting = errors.New("the NATS cluster has no leader: it elects one, or too few of its servers are up")

// Majority tells whether most of the servers that hold a stream are up; else the error wraps
// [ErrElecting]. A leader that has lost the others still answers for some seconds, although it can
// store nothing any more.
func Majority(c *jetstream.ClusterInfo) error {
	if c == nil {
		return nil
	}
	up, all, are := 1, 1+len(c.Replicas), "are"
	if c.Leader == "" { // then all servers are listed as replicas, those that have gone for some minutes, too
		up, all, are = 0, len(c.Replicas), "seem to be"
	}
	for _, r := range c.Replicas {
		if !r.Offline {
			up++
		}
	}
	if c.Leader == "" || 2*up <= all {
		return fmt.Errorf("%w (of %d servers that hold the log %d %s up)", ErrElecting, all, up, are)
	}
	return nil
}

// Former performs the steps of opening a store.
type Former struct {
	mute  func() bool // whether a missing answer may still come
	until time.Time   // a reading of [time.Now]
	say   func(error)
	said  time.Time // a reading of [time.Now], too
}

// NewFormer returns a Former that waits as long as p says for a cluster without a leader.
func NewFormer(nc *nats.Conn, p Patience) *Former {
	if p.For == 0 {
		p.For = formTime
	}
	if p.Say == nil {
		p.Say = func(error) {}
	}
	return &Former{until: time.Now().Add(p.For), say: p.Say, mute: func() bool { return nc.IsConnected() }}
}

// Do performs one step, and repeats it while the cluster is forming.
func (f *Former) Do(ctx context.Context, step func(context.Context) error) error {
	return f.repeat(ctx, step, f.awaits)
}

// Await is Do for a step that needs what another process makes or has just made: it is repeated
// while that is missing, too. In a cluster, what one server has made is not at once known to all.
func (f *Former) Await(ctx context.Context, step func(context.Context) error) error {
	return f.repeat(ctx, step, func(err error) bool { return Missing(err) || f.awaits(err) })
}

var errUnmade = errors.New("`millrace server` has not made all streams and buckets yet, or not again")

// Missing tells whether an error says that there is no such stream or bucket.
func Missing(err error) bool {
	return errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrBucketNotFound)
}

func (f *Former) repeat(ctx context.Context, step func(context.Context) error, passes func(error) bool) error {
	ticker := time.NewTicker(formLook)
	defer ticker.Stop()
	for {
		try, cancel := context.WithTimeout(ctx, formTry)
		err := step(try)
		cancel()
		// A cancelled context means that a request was denied.
		if err == nil || !passes(err) || errors.Is(ctx.Err(), context.Canceled) {
			return err
		}
		if Missing(err) {
			err = fmt.Errorf("%w (%w)", errUnmade, err)
		} else if !errors.Is(err, ErrElecting) {
			err = fmt.Errorf("%w (%w)", ErrElecting, err)
		}
		now := time.Now()
		if !now.Before(f.until) {
			return err
		}
		if f.said.IsZero() || now.Sub(f.said) >= formSay {
			f.said = now
			f.say(err)
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) { // it is the caller who waits no longer
				err = fmt.Errorf("%w (%w)", err, ctx.Err())
			}
			return err
		case <-ticker.C:
		}
	}
}

// awaits tells whether an error of a step may pass when a leader is elected.
func (f *Former) awaits(err error) bool {
	switch {
	case Answers(err, CodeNoPeers, CodeNoLeader), Says(err, CodeNoLeader), errors.Is(err, ErrElecting):
		return true
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return f.mute()
	}
	return false
}
