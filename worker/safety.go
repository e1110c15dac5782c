package worker

import "time"

// safety is the arithmetic by which what a worker runs is gone before anybody
// else can have started it.
//
// Somebody else starts a task when its lease has run out, which is AckWait after
// the server last heard of it, or when the node counts as gone, which is NodeTTL
// after its last heartbeat was stored. Both are counted here from when the worker
// asked, which is earlier. So with w the shorter of the two, and the watch that
// looks every w/12:
//
//	2/3 w  unconfirmed for so long, attempts are to stop
//	1/12 w later at most, the watch finds that out
//	1/6 w  is the grace they have from then on; SIGKILL follows
//	1/12 w is left for the kernel to end them
type safety struct{ ackWait, nodeTTL time.Duration }

// tick is how often the watch looks.
func (s safety) tick() time.Duration { return min(s.ackWait, s.nodeTTL) / 12 }

// renewal tells whether a lease is to be extended that was confirmed so long ago.
func (s safety) renewal(lease time.Duration) bool { return lease >= s.ackWait/3 }

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

// grace is how long such an attempt has at most to end by itself.
func (s safety) grace() time.Duration { return min(s.ackWait, s.nodeTTL) / 6 }
