package task

import (
	"errors"
	"fmt"
	"time"

	"millrace/task/value"
)

// ErrLeased refuses a claim while an attempt runs under the very offer that was claimed. A server
// may hand that offer out again long before the lease has ended, so delivery proves nothing: see
// [Claim.Account]. If an account was given, the error is a [*Leased].
var ErrLeased = errors.New("an attempt holds the lease of the offer")

// Leased refuses a claim because the lease has not ended by the log's account. It is an [ErrLeased].
type Leased struct {
	Node string
	// For is how long the lease holds at least, from the moment of the account.
	For time.Duration
}

func (e *Leased) Error() string {
	return fmt.Sprintf("%v: node %s holds it for another %v", ErrLeased, e.Node, e.For.Round(time.Millisecond))
}

// Is makes it an [ErrLeased].
func (e *Leased) Is(target error) bool { return target == ErrLeased }

// Account is what the log knows about the lease of a live attempt at one moment. All of its times
// are the server's, but for Over; so the clocks of workers do not matter.
type Account struct {
	// Epoch and Session are those of the attempt that the account is about. It is void for any other.
	Epoch   uint64
	Session string
	// Now is the server's time. It was asked before everything else was read, so the account may
	// be older than it seems, but never younger.
	Now time.Time
	// Claimed is when the server stored the claim; if a later session of the node has adopted the
	// attempt, when it stored that.
	Claimed time.Time
	// Named is when the server stored the session's heartbeat, if that has not run out and names
	// the epoch; zero otherwise. A session that beats and does not name an epoch does not run it,
	// or has only just claimed it: the answer to its claim may have been lost.
	Named time.Time
	// Beats is how long that heartbeat lasts; 0 if that is not known.
	Beats value.Duration
	// Silent is the latest time at which the session can have stored a heartbeat, if it has none
	// now; zero if that is not known.
	Silent time.Time
	// Over is since when the session is over by the facts of its node; zero if it is not.
	Over time.Time
	// Lease is how long a lease lasts after the log last heard of it.
	Lease value.Duration
	// From is what it was drawn up from.
	From LeaseBy
}

// What the end of a lease was found by.
const (
	// GroundClaim: nothing was heard of the attempt since its claim, or its adoption.
	GroundClaim = "claim"
	// GroundBeat: the last heartbeat that named it is too old.
	GroundBeat = "beat"
	// GroundSilence: the node's heartbeat has run out.
	GroundSilence = "silence"
	// GroundSession: the session that ran it is over.
	GroundSession = "session"
)

// about tells whether the account is about the task's present attempt.
func (a *Account) about(t *Task) bool {
	return a != nil && a.Epoch == t.Epoch && a.Session == t.Session
}

// ends is until when the attempt of t holds its lease at least, by which ground that is known, and
// when the log last heard of the attempt on that ground.
//
// It is the other half of the rule by which a worker stops what it runs. A worker stops an attempt
// two thirds of a lease after it last sent what the log confirmed (the claim, or a heartbeat that
// named the attempt), or two thirds of a heartbeat's life after the last heartbeat; and all of it is
// gone before the whole has passed. The server stores what was sent later than it was sent. So
// whoever waits from then on starts the task when nothing is left of the attempt.
func (a *Account) ends(t *Task) (until time.Time, ground string, heard time.Time) {
	adopts := t.Spec.Adopts()
	ground, heard, until = GroundClaim, a.Claimed, a.Claimed.Add(a.Lease.Std())
	switch {
	case a.Named.After(heard):
		ground, heard, until = GroundBeat, a.Named, a.Named.Add(a.Lease.Std())
		if end := a.Named.Add(a.Beats.Std()); !adopts && a.Beats > 0 && end.Before(until) {
			until = value.Later(end, a.Claimed.Add(a.Lease.Std())) // then it will have run out, see below
		}
	case a.Silent.After(heard):
		// Without a heartbeat, an attempt that ends with its worker has ended. One that outlives
		// it may go on until a lease after the last heartbeat.
		if ground, heard = GroundSilence, a.Silent; adopts {
			until = heard.Add(a.Lease.Std())
		}
	}
	if a.Over.IsZero() || !a.Named.IsZero() || a.Claimed.After(a.Over) {
		return until, ground, heard // it beats, or has claimed, whatever was recorded about it before
	}
	over := a.Over
	if adopts {
		over = over.Add(a.Lease.Std()) // so long its node may come back for it
	}
	if over.Before(until) || adopts && a.Silent.IsZero() {
		return over, GroundSession, a.Over
	}
	return until, ground, heard
}

// ended is what the next attempt has to say about the lease of the attempt of t. The error is a
// [*Leased] if that has not ended, and [ErrLeased] if the account does not tell.
func (a *Account) ended(t *Task) (*TookOver, error) {
	if !a.about(t) {
		return nil, ErrLeased
	}
	until, ground, heard := a.ends(t)
	if a.Now.Before(until) {
		return nil, &Leased{Node: t.Node, For: until.Sub(a.Now)}
	}
	o := &TookOver{Epoch: t.Epoch, Ground: ground, Heard: heard}
	at := heard.UTC().Format("15:04:05.000")
	switch ground {
	case GroundBeat:
		o.Reason = fmt.Sprintf("the lease of %s ran out: no heartbeat has named the attempt since %s", t.Node, at)
	case GroundSilence:
		o.Reason = fmt.Sprintf("the lease of %s ran out: it has sent no heartbeat since %s", t.Node, at)
	case GroundSession:
		o.Reason = fmt.Sprintf("the session of %s that ran it is over since %s", t.Node, at)
	default:
		o.Reason = fmt.Sprintf("the lease of %s ran out: nothing was heard of the attempt since its start at %s", t.Node, at)
	}
	return o, nil
}

// Until is when the lease of the live attempt of t has ended at the earliest by the account: for a session without a heartbeat not
// before it was known to have none.
func (a *Account) Until(t *Task) time.Time {
	until, ground, _ := a.ends(t)
	if ground == GroundSilence && a.From.RanOut {
		return value.Later(until, a.From.Beat)
	}
	return until
}

// Ended tells whether the lease of the live attempt of t has ended by the account; if not, for how
// long it holds at least.
func (a *Account) Ended(t *Task) (bool, time.Duration) {
	_, err := a.ended(t)
	var held *Leased
	if errors.As(err, &held) {
		return false, held.For
	}
	return err == nil, 0
}
