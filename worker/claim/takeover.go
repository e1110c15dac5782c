package claim

import (
	"context"
	"errors"
	"time"

	"millrace/events"
	"millrace/task"
)

// takeOver claims a task while an earlier attempt still runs under the offer. It reads the log's
// account of the lease and decides by that. The error is a [*task.Leased] if the lease has not
// ended.
func (p *Protocol) takeOver(ctx context.Context, t *task.Task, claim task.Claim) (task.Event, error) {
	for {
		account, err := p.account(ctx, t)
		if err != nil {
			return nil, err
		}
		claim.Account = &account
		event, err := p.Recorder.Move(ctx, t, claim)
		if _, leased := errors.AsType[*task.Leased](err); leased || !errors.Is(err, task.ErrLeased) {
			return event, err
		}
		// Another attempt has begun meanwhile: the account is not about that one.
	}
}

// errNoAccount: this protocol has no reader of heartbeats, so it takes nothing over.
var errNoAccount = errors.New("the lease of an attempt is not known: no heartbeats can be read")

func (p *Protocol) account(ctx context.Context, t *task.Task) (task.Account, error) {
	if p.Accounts == nil {
		return task.Account{}, errNoAccount
	}
	return p.Accounts.Of(ctx, t)
}

// Rests tells whether an offer that arrived is the lease of an attempt that runs on another node.
// If it is, Rests has returned the offer, to be delivered again when that lease may have ended.
func (p *Protocol) Rests(ctx context.Context, o *events.Offer) (bool, error) {
	var t task.Task
	if err := p.Recorder.LoadInto(ctx, o.Fact.Task, &t); err != nil || !p.running(&t, o) {
		return false, err
	}
	account, err := p.account(ctx, &t)
	if err != nil {
		return false, err
	}
	if ended, left := account.Ended(&t); !ended {
		return true, putBack(o, restOf(left))
	}
	return false, nil
}

// running tells whether an attempt of t runs under the offer.
func (p *Protocol) running(t *task.Task, o *events.Offer) bool { return t.Live() && t.Offer == o.Seq }

// restOf is how long an offer rests if an attempt holds its lease for that much longer. Each
// renewal by that attempt's worker starts the wait anew, so a long task rests once each time its
// offer comes too early.
func restOf(left time.Duration) time.Duration { return max(left, leastRest) }

// leastRest is the shortest time an offer is put away, so that it does not go round.
const leastRest = 10 * time.Millisecond
