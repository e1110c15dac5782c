package worker

import (
	"errors"
	"sync"
	"time"

	"millrace/task"
)

// safety is the arithmetic by which what a worker runs is gone before another worker
// can have started it.
//
// Another worker starts a task when its lease has ended by the log's account ([task.Account]):
// AckWait after the server stored what it last heard of the attempt, the claim or a heartbeat that
// names the attempt; or when the node counts as gone, which is NodeTTL after its last heartbeat was
// stored. Both are counted here from when the worker sent it, which is earlier. So with w the
// shorter of the two, and the watch that looks every w/12:
//
//	2/3 w  unconfirmed for so long, attempts are to stop
//	1/12 w later at most, the watch finds that out
//	1/6 w  is the grace they have from then on; SIGKILL follows
//	1/12 w is left for the kernel to end them
//
// beat is how often the worker sends a heartbeat, at least three times in AckWait.
type safety struct{ ackWait, nodeTTL, beat time.Duration }

// tick is how often the watch looks.
func (s safety) tick() time.Duration { return min(s.ackWait, s.nodeTTL) / 12 }

// names tells whether a heartbeat names an attempt whose offer was received so long ago. Short
// tasks are not worth it. The claim of one that is not named yet confirms its lease for long
// enough: it is named half an AckWait after the claim at the latest.
func (s safety) names(age time.Duration) bool { return age >= s.ackWait/6 }

// renewal tells whether the server is to be told again to keep an offer from others, which it
// was told so long ago: after about a third of AckWait, together with a heartbeat that was
// just stored if there is one at that time.
func (s safety) renewal(age time.Duration, beaten bool) bool {
	if beaten {
		return age >= s.ackWait/3-s.beat/2
	}
	return age >= s.ackWait/3+s.beat/2
}

// atStake tells whether an attempt has to stop whose lease was confirmed, and
// whose node's heartbeat was stored, so long ago.
func (s safety) atStake(lease, beat time.Duration) bool {
	return lease >= s.ackWait*2/3 || beat >= s.nodeTTL*2/3
}

// mayGoOn tells whether an attempt may go on whose lease was confirmed, and whose node's
// heartbeat was stored, so long ago, if the log has said nothing against it. One
// that continues while disconnected may, however long that takes: somebody else may
// run the task meanwhile, and whoever asked for that has said that it does no harm.
// What the log does say, that the task was cancelled or taken over, ends both.
func (s safety) mayGoOn(continues bool, lease, beat time.Duration) bool {
	return continues || !s.atStake(lease, beat)
}

// mayBegin tells whether a node may begin anything whose heartbeat was stored so long ago: what it could not go on
// with it would have to give back at once, and claim again, as fast as the log takes that.
func (s safety) mayBegin(beat time.Duration) bool { return !s.atStake(0, beat) }

// rest is for how long a node leaves a task to others that it had to give back so many times in a row, through no
// fault of the task.
func (s safety) rest(times int) time.Duration { return min(s.beat<<min(times-1, 16), s.ackWait) }

// grace is how long such an attempt has at most to end by itself.
func (s safety) grace() time.Duration { return min(s.ackWait, s.nodeTTL) / 6 }

// ownFault tells whether an attempt that was stopped for this cause was given back because of what the worker could not do. It
// may be no better the next time.
func ownFault(cause error) bool { return errors.Is(cause, ErrLeaseLost) || errors.Is(cause, ErrUnread) }

// aside are the tasks that the worker has given back through its own fault. It leaves them to others for a while, each time
// for longer, so that no task goes round between the log and a worker that cannot run it.
type aside struct {
	mu    sync.Mutex
	tasks map[task.ID]putAside // guarded by mu
}

type putAside struct {
	times int
	until time.Time
	// forget is when it counts as having gone well in between.
	forget time.Time
}

// put notes that a task is given back at a time.
func (a *aside) put(id task.ID, now time.Time, s safety) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for other, p := range a.tasks {
		if now.After(p.forget) {
			delete(a.tasks, other)
		}
	}
	if a.tasks == nil {
		a.tasks = map[task.ID]putAside{}
	}
	p := a.tasks[id]
	p.times++
	p.until = now.Add(s.rest(p.times))
	p.forget = p.until.Add(s.ackWait)
	a.tasks[id] = p
}

// rest is for how long an offer of a task is to rest that has come at a time.
func (a *aside) rest(id task.ID, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tasks[id].until.Sub(now)
}
