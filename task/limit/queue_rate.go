package limit

import (
	"strconv"
	"strings"
	"time"
)

// queueRatePrefix begins the names of queues' rates. No job has a name with a colon, so no other
// counter begins so.
const queueRatePrefix = "rate:queue:"

// QueueRateSince names the rate of a queue by the sequence of the fact that set it.
func QueueRateSince(queue string, since uint64) string {
	return queueRatePrefix + queue + "#" + strconv.FormatUint(since, 10)
}

// QueueRate is the display name of a queue's rate, without the sequence that set it.
func QueueRate(queue string) string { return queueRatePrefix + queue }

// QueueOf returns the queue whose rate a counter is; false for any other counter.
func QueueOf(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, queueRatePrefix)
	queue, _, _ := strings.Cut(rest, "#")
	return queue, ok
}

// Shown is the display name of a counter.
func Shown(name string) string {
	if queue, ok := QueueOf(name); ok {
		return QueueRate(queue)
	}
	return name
}

// RunsAhead is how many tasks the rate of a queue may have admitted, on one route, that have not
// started. Without this bound they would all start at once after a pause, or when the workers
// return.
func (r Rate) RunsAhead() int { return max(r.Burst, 1, int(time.Second/r.Every())) }
