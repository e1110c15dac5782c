package placement

import (
	"cmp"
	"maps"
	"slices"
)

// Lanes is the number of lanes for tasks with a fair key, per queue and priority. The hash of a key
// chooses its lane. Tasks without a key wait in lane 0.
const Lanes = 16

// Lane is a line of a queue in which tasks wait one behind the other.
type Lane struct {
	Queue    string
	Priority int
	// Number is 0 for tasks without a fair key, else 1 to [Lanes].
	Number int
}

// Plain tells whether the lane has default priority and no fair key.
func (l Lane) Plain() bool { return l.Priority == DefaultPriority && l.Number == 0 }

// LowerTurn is how often a lower priority has its turn: one of every 10 tasks taken from a queue in
// which lower priorities wait.
const LowerTurn = 10

// MaxWeight is the largest weight of a queue; the least, and the default, is 1.
const MaxWeight = 100

// WithOwn adds the weight of a node's own route to those of its queues. It equals the largest of
// them, so a task for this node alone never waits behind tasks that other nodes could take.
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

// Turns says which of several lanes to ask next, given what was taken from them before. It
// guarantees, for lanes that always have tasks:
//
//   - Of two queues with the weights v and w, one is taken from v times for each w times of the
//     other, to within one task of each.
//   - In a queue, the highest priority is taken from, except every [LowerTurn]-th time one of the
//     lower ones. These take turns: with n of them, each gets one of n·LowerTurn.
//   - In a priority, its lanes take turns.
//
// A lane that was empty does not make up for missed turns. The zero value has taken nothing.
type Turns struct {
	// Weights are the weights of queues; others have 1.
	Weights map[string]int

	now    uint64 // how many tasks were taken so far
	queues map[string]*queueTurns
	clock  uint64 // pass of the queue taken from last
	levels map[level]uint64
	lanes  map[Lane]uint64
}

type queueTurns struct {
	pass uint64 // grows by strideUnit/weight with each task
	high int    // tasks of the highest priority since a lower one
}

type level struct {
	queue    string
	priority int
}

// strideUnit is so large that dividing it by any weight leaves a negligible remainder.
const strideUnit = 1 << 32

// Next returns one of the lanes in open: those not known to be empty. Open must not be empty.
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

// Took records that a task was taken from a lane while the lanes in open were open.
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
	case low > 0: // else no lower priority had to wait
		q.high = min(q.high+1, LowerTurn-1)
	}
	t.levels[level{l.Queue, l.Priority}], t.lanes[l] = t.now, t.now
}

// pass is the progress of a queue. One that was empty rejoins at the position of the others.
func (t *Turns) pass(queue string) uint64 {
	if q := t.queues[queue]; q != nil && q.pass > t.clock {
		return q.pass
	}
	return t.clock
}

// priorities returns the highest priority of a queue, and the lower one whose turn it is; 0 if
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

// Validate refuses an invalid lane.
func (l Lane) Validate() error {
	if err := ValidQueue(l.Queue); err != nil {
		return err
	}
	return ValidPriority(l.Priority)
}
