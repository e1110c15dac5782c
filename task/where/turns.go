package where

import (
	"cmp"
	"maps"
	"slices"
)

// Lanes is in how many lanes the tasks of a queue and priority wait which have a
// fair key. Each key has one of them, by its hash; those without a key wait in another, lane 0.
const Lanes = 16

// Lane is where tasks of a queue wait one behind the other.
type Lane struct {
	Queue    string
	Priority int
	// Number is 0 for tasks without a fair key, else 1 to [Lanes].
	Number int
}

// Plain tells whether tasks wait there that ask for nothing special.
func (l Lane) Plain() bool { return l.Priority == DefaultPriority && l.Number == 0 }

// LowerTurn is how often a lower priority has its turn: of so many tasks that are
// taken from a queue in which lower priorities wait too, one is of theirs.
const LowerTurn = 10

// MaxWeight is the largest weight of a queue; the least, and the default, is 1.
const MaxWeight = 100

// WithOwn adds to the weights of queues that of a node's own route, which is own: it has its turn as often
// as the one that has the most, so what is meant for this node alone never waits behind what others could do as well.
func WithOwn(weights map[string]int, own string) map[string]int {
	all := maps.Clone(weights)
	if all == nil {
		all = map[string]int{}
	}
	most := 1
	for _, w := range weights {
		most = max(most, w)
	}
	all[own] = most
	return all
}

// Turns says which of several lanes is to be asked next, given what was taken from
// them before. It guarantees, for the lanes that have something all the while:
//
//   - of two queues with the weights v and w, one is taken from v times for each w
//     times of the other, to within a task of each;
//   - of a queue, the highest priority is taken from, but at each [LowerTurn]-th time one
//     of the lower; these take turns. So with n of them, each has one of n·LowerTurn;
//   - of a priority, its lanes take turns.
//
// A lane that was empty has no claim to what it missed. The zero value has taken nothing.
type Turns struct {
	// Weights are those of queues; what is not there has 1.
	Weights map[string]int

	now    uint64 // what was taken so far, in tasks
	queues map[string]*queueTurns
	clock  uint64 // pass of the queue that was taken from last
	levels map[level]uint64
	lanes  map[Lane]uint64
}

type queueTurns struct {
	pass uint64 // grows by strideUnit/weight with each task
	high int    // tasks of the highest priority since one of a lower
}

type level struct {
	queue    string
	priority int
}

// strideUnit parts well by all weights.
const strideUnit = 1 << 32

// Next returns one of the lanes, which must not be empty: those of which it is not
// known that they are.
func (t *Turns) Next(open []Lane) Lane {
	queue := slices.MinFunc(open, func(a, b Lane) int {
		return cmp.Or(cmp.Compare(t.pass(a.Queue), t.pass(b.Queue)), cmp.Compare(a.Queue, b.Queue))
	}).Queue
	high, low := t.priorities(queue, open)
	priority := high
	if q := t.queues[queue]; low > 0 && q != nil && q.high >= LowerTurn-1 {
		priority = low
	}
	next := Lane{}
	for _, l := range open {
		if l.Queue != queue || l.Priority != priority {
			continue
		}
		if next.Queue == "" || t.lanes[l] < t.lanes[next] || t.lanes[l] == t.lanes[next] && l.Number < next.Number {
			next = l
		}
	}
	return next
}

// Took notes that a task was taken from a lane while these were open.
func (t *Turns) Took(l Lane, open []Lane) {
	if t.queues == nil {
		t.queues, t.levels, t.lanes = map[string]*queueTurns{}, map[level]uint64{}, map[Lane]uint64{}
	}
	t.now++
	q := t.queues[l.Queue]
	if q == nil {
		q = new(queueTurns)
		t.queues[l.Queue] = q
	}
	t.clock = t.pass(l.Queue)
	q.pass = t.clock + strideUnit/uint64(min(max(t.Weights[l.Queue], 1), MaxWeight))
	switch high, low := t.priorities(l.Queue, open); {
	case l.Priority < high:
		q.high = 0
	case low > 0: // else nobody had to wait
		q.high = min(q.high+1, LowerTurn-1)
	}
	t.levels[level{l.Queue, l.Priority}], t.lanes[l] = t.now, t.now
}

// pass is where a queue stands; one that was away stands where the others do.
func (t *Turns) pass(queue string) uint64 {
	if q := t.queues[queue]; q != nil && q.pass > t.clock {
		return q.pass
	}
	return t.clock
}

// priorities are the highest of a queue, and of the lower ones that whose turn it is; 0 if
// there is none.
func (t *Turns) priorities(queue string, open []Lane) (high, low int) {
	for _, l := range open {
		if l.Queue == queue {
			high = max(high, l.Priority)
		}
	}
	for _, l := range open {
		if l.Queue != queue || l.Priority == high {
			continue
		}
		mine, best := t.levels[level{queue, l.Priority}], t.levels[level{queue, low}]
		if low == 0 || mine < best || mine == best && l.Priority > low {
			low = l.Priority
		}
	}
	return high, low
}

// Validate refuses a lane that cannot be.
func (l Lane) Validate() error {
	if err := ValidQueue(l.Queue); err != nil {
		return err
	}
	return ValidPriority(l.Priority)
}
