package worker

import (
	"errors"
	"sync"
	"time"

	"millrace/task"
)

// safety is the arithmetic that makes sure that a worker's attempt is gone before another worker
// can have started its task.
//
// Another worker starts a task in two cases. Either its lease has ended by the log's account
// ([task.Account]): AckWait after the server stored the last message that counts, which is the
// claim or a heartbeat that names the attempt. Or the node counts as gone: NodeTTL after its last
// heartbeat was stored. Here both are counted from when the worker sent the message, which is
// earlier. Let w be the shorter of the two; the watch looks every w/12:
//
//	2/3 w  without confirmation, attempts must stop
//	1/12 w later at most, the watch finds that out
//	1/6 w  is their grace from then on; SIGKILL follows
//	1/12 w is left for the kernel to end them
//
// beat is how often the worker sends a heartbeat, at least three times in AckWait.
type safety struct{ ackWait, nodeTTL, beat time.Duration }

// watchEvery is how often the watch looks.
func (s safety) watchEvery() time.Duration { return min(s.ackWait, s.nodeTTL) / 12 }

// renewal tells whether the worker must ask the server again to keep an offer from other workers,
// given how long ago it last asked: after about a third of AckWait, together with a heartbeat that
// was just stored if there is one.
func (s safety) renewal(age time.Duration, beaten bool) bool {
	if beaten {
		return age >= s.ackWait/3-s.beat/2
	}
	return age >= s.ackWait/3+s.beat/2
}

// atStake tells whether an attempt must stop, given how long ago its lease was confirmed and its
// node's heartbeat was stored.
func (s safety) atStake(lease, beat time.Duration) bool {
	return lease >= s.ackWait*2/3 || beat >= s.nodeTTL*2/3
}

// mayGoOn tells whether an attempt may go on, given how long ago its lease was confirmed and its
// node's heartbeat was stored, if the log says nothing against it. A task that continues while
// disconnected may, however long that takes: another worker may run it meanwhile, and its submitter
// has declared that harmless. A cancel or a takeover in the log ends both kinds.
func (s safety) mayGoOn(continues bool, lease, beat time.Duration) bool {
	return continues || !s.atStake(lease, beat)
}

// mayWait tells whether an attempt of which nothing runs yet may wait for a heartbeat that confirms its
// lease. Nothing has to be stopped, so it may nearly until another worker could start the task: a
// heartbeat that is stored by then counts in every account of the lease. A node whose heartbeats are
// all too slow leaves the task to others after an AckWait.
func (s safety) mayWait(lease, beat, age time.Duration) bool {
	return lease < s.ackWait*11/12 && beat < s.nodeTTL*11/12 && age < s.ackWait
}

// mayStart tells whether something of an attempt may start, given whether a heartbeat has named it. On
// a starved machine the answer to a claim may take so long that the next heartbeat would come too
// late for what started then. So a slow claim does not suffice, nor do heartbeats that take half of
// the time until the attempt must stop.
func (s safety) mayStart(lease, beat time.Duration, named bool) bool {
	return s.mayAsk(beat) && (lease < s.slowClaim() || named && lease < s.ackWait/3)
}

// mayBegin tells whether a node may begin anything, given the age of its stored heartbeat. If it
// began an attempt that it may not go on with, it would have to give the task back at once and
// claim it again, as fast as the log answers.
func (s safety) mayBegin(beat time.Duration) bool { return !s.atStake(0, beat) }

// mayAsk tells whether a node may ask for more work, given the age of its stored heartbeat. It asks
// for none while the next one is late, which is before it may begin nothing: what it runs needs that
// heartbeat, and more work would delay it.
func (s safety) mayAsk(beat time.Duration) bool { return beat < (s.beat+s.nodeTTL*2/3)/2 }

// slowClaim is how long a claim may take before the node claims fewer at once: a claim that takes
// four times as long has no lease left.
func (s safety) slowClaim() time.Duration { return s.ackWait / 6 }

// rest is how long a node leaves a task to other nodes after it had to give it back that many times
// in a row, through no fault of the task.
func (s safety) rest(times int) time.Duration { return min(s.beat<<min(times-1, 16), s.ackWait) }

// grace is the longest time that such an attempt has to end by itself.
func (s safety) grace() time.Duration { return min(s.ackWait, s.nodeTTL) / 6 }

// ownFault tells whether an attempt that was stopped for this cause was given back because of a
// failure of the worker, which may recur.
func ownFault(cause error) bool { return errors.Is(cause, ErrLeaseLost) || errors.Is(cause, ErrUnread) }

// aside are the tasks that the worker has given back through its own fault. It leaves them to other
// workers for a while, each time longer, so that no task goes round between the log and a worker
// that cannot run it.
type aside struct {
	mu    sync.Mutex
	tasks map[task.ID]putAside // guarded by mu
}

type putAside struct {
	times int
	until time.Time
	// forget is when the worker forgets the earlier failures.
	forget time.Time
}

// put notes that a task is given back at that time.
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

// rest is how long an offer of a task that came at that time must rest.
func (a *aside) rest(id task.ID, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tasks[id].until.Sub(now)
}
