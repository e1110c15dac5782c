package task

import (
	"errors"
	"fmt"
	"time"

	"millrace/task/value"
)

// ErrLeased refuses a claim while an attempt runs under the claimed offer. The server may redeliver
// that offer long before the lease has ended, so delivery proves nothing: see [Claim.Account]. If
// an account was given, the error is a [*Leased].
var ErrLeased = errors.New("an attempt holds the lease of the offer")

// Leased refuses a claim because by the log's account the lease has not ended. It is an
// [ErrLeased].
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

// Account is the log's evidence about the lease of a live attempt at one moment. All times but Over
// are the server's, so the clocks of workers do not matter.
type Account struct {
	// Epoch and Session name the attempt of the account. It is void for any other attempt.
	Epoch   uint64
	Session string
	// Now is the server's time, read before everything else. The account may thus be older than it
	// seems, but never younger.
	Now time.Time
	// Claimed is when the server stored the claim or, if a later session of the node adopted the
	// attempt, the adoption.
	Claimed time.Time
	// Named is when the server stored the session's heartbeat, if that has not expired and names
	// the epoch; zero otherwise. If a session beats without naming an epoch, it does not run it, or
	// has only just claimed it: the answer to its claim may have been lost.
	Named time.Time
	// Beats is the lifetime of that heartbeat; 0 if unknown.
	Beats value.Duration
	// Silent is the latest time at which the session can have stored a heartbeat, if it has none
	// now; zero if unknown.
	Silent time.Time
	// Over is when the session ended by the facts of its node; zero if it has not.
	Over time.Time
	// Lease is the length of a lease, counted from when the log last heard of the attempt.
	Lease value.Duration
	// From is the evidence behind the account.
	From LeaseBy
}

// After returns the account as it is to be judged after a leap of the server's clock: a lease from
// before the leap ends by the clock of then.
func (a Account) After(t *Task, leap value.Leap) Account {
	_, _, heard := a.ends(t)
	a.Now = leap.Since(heard, a.Now)
	return a
}

// The kinds of evidence for the end of a lease.
const (
	// GroundClaim: the log has heard nothing of the attempt since its claim or adoption.
	GroundClaim = "claim"
	// GroundBeat: the last heartbeat that named it is too old.
	GroundBeat = "beat"
	// GroundSilence: the node's heartbeat has expired.
	GroundSilence = "silence"
	// GroundSession: the session that ran it has ended.
	GroundSession = "session"
)

// about tells whether the account is about the task's present attempt.
func (a *Account) about(t *Task) bool {
	return a != nil && a.Epoch == t.Epoch && a.Session == t.Session
}

// ends returns the earliest end of the lease of t's attempt, the kind of evidence, and when the log
// last heard of the attempt on that evidence.
//
// It is the counterpart of the rule by which a worker stops its attempts. A worker stops an attempt
// two thirds of a lease after it last sent something that the log confirmed (the claim, or a
// heartbeat that named the attempt), or two thirds of a heartbeat's lifetime after the last
// heartbeat. All its processes are gone before the whole time has passed. The server stores a
// message later than the worker sent it. So a node that waits until then starts the task when no
// process of the attempt is left.
func (a *Account) ends(t *Task) (until time.Time, ground string, heard time.Time) {
	adopts := t.Spec.Adopts()
	ground, heard, until = GroundClaim, a.Claimed, a.Claimed.Add(a.Lease.Std())
	switch {
	case a.Named.After(heard):
		ground, heard, until = GroundBeat, a.Named, a.Named.Add(a.Lease.Std())
		if end := a.Named.Add(a.Beats.Std()); !adopts && a.Beats > 0 && end.Before(until) {
			until = value.Later(end, a.Claimed.Add(a.Lease.Std())) // it will have expired then, see below
		}
	case a.Silent.After(heard):
		// Without a heartbeat, an attempt that ends with its worker has ended. One that outlives
		// its worker may continue until a lease after the last heartbeat.
		if ground, heard = GroundSilence, a.Silent; adopts {
			until = heard.Add(a.Lease.Std())
		}
	}
	if a.Over.IsZero() || !a.Named.IsZero() || a.Claimed.After(a.Over) {
		return until, ground, heard // it beats or has claimed, regardless of earlier facts
	}
	over := a.Over
	if adopts {
		over = over.Add(a.Lease.Std()) // its node may come back for it until then
	}
	if over.Before(until) || adopts && a.Silent.IsZero() {
		return over, GroundSession, a.Over
	}
	return until, ground, heard
}

// ended returns the evidence for the next attempt that the lease of t's attempt has ended. The
// error is a [*Leased] if it has not, and [ErrLeased] if the account does not tell.
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

// Until returns the earliest time at which, by the account, the lease of t's live attempt has
// ended. If the session has no heartbeat, that is no earlier than the time at which the server
// noted so.
func (a *Account) Until(t *Task) time.Time {
	until, ground, _ := a.ends(t)
	if ground == GroundSilence && a.From.RanOut {
		return value.Later(until, a.From.Beat)
	}
	return until
}

// Ended tells whether by the account the lease of t's live attempt has ended; if not, for how long
// it still holds at least.
func (a *Account) Ended(t *Task) (bool, time.Duration) {
	_, err := a.ended(t)
	var held *Leased
	if errors.As(err, &held) {
		return false, held.For
	}
	return err == nil, 0
}

// Adopt reports that a new session of the node continues the attempt with this epoch. An earlier
// session left it running; it may have ended since, without a report.
type Adopt struct {
	Epoch         uint64
	Node, Session string
	PID           int
	Gap           value.Duration
}

// AttemptAdopted records that a new session of the node continues the attempt.
type AttemptAdopted struct {
	Attempt int    `json:"attempt,omitzero"`
	Epoch   uint64 `json:"epoch,omitzero"`
	Node    string `json:"node,omitzero" redact:"keep"`
	Session string `json:"session,omitzero" redact:"keep"`
	// PID is its process, on the node.
	PID int `json:"pid,omitzero"`
	// Gap is how long no worker attended the attempt.
	Gap value.Duration `json:"gap,omitzero"`
}

func (Adopt) isCommand()        {}
func (AttemptAdopted) isEvent() {}

func adopt(t *Task, c Adopt) (Event, error) {
	switch {
	case t.Node != c.Node:
		return nil, fmt.Errorf("%w: it is on node %s", ErrFenced, t.Node)
	case t.Session == c.Session:
		return nil, nil
	}
	return AttemptAdopted{Attempt: t.Attempt, Epoch: c.Epoch, Node: c.Node, Session: c.Session, PID: c.PID, Gap: c.Gap}, nil
}
