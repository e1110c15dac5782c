package settings

import (
	"context"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync/atomic"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// How much garbage is allowed. By the runtime's own rule, as much as there is in use, a busy server
// with a small heap collects many times per second, which costs a tenth of all processor time, and
// an idle server keeps the garbage for hours. So the share follows the work: the cost of a
// collection grows with the memory in use, and how often one is due with the allocation rate. With
// ratePercent for each MiB/s it takes about a hundredth of a processor, whatever is in use. The rate
// is the highest of the last seconds.
const (
	ratePercent = 20
	maxPercent  = 400
	minPercent  = 10
	// leastSpare is always allowed: a small heap would be collected again and again.
	leastSpare = 4 << 20
	// tightPart is the part of the memory in use that is allowed as garbage when there is no room
	// for it. Otherwise the runtime would do nothing but collect.
	tightPart = 4
	// machinePart is the part of the machine's, or the control group's, memory that this process
	// may use.
	machinePart = 0.8

	// calmRate is the highest allocation rate of an idle process, in bytes per second.
	calmRate = 2 << 20

	// shortBurst is how many bytes a burst allocates that is over before more memory pays: twice
	// what ten thousand no-op tasks do. A process that was idle and has allocated more has lasting
	// work, and reaches the share for its rate within about workLooks, however patient its pace.
	shortBurst = 512 << 20
	workLooks  = 2

	weighEvery = time.Second
	// usedLooks is how many looks count for the memory in use, which is the least that was live
	// meanwhile. The NATS server releases blocks of messages that it has read only at a collection,
	// and then keeps their room for the next ones.
	usedLooks = 60
	// rateLooks is how many looks count for the work, which is the most that was done in one of them.
	// Work that comes in bursts would otherwise meet the share of an idle process each time, and a
	// busy server would collect several times before it has its share again.
	rateLooks = 20
)

// Pace is how a process approaches the share for its work.
type Pace struct {
	looks int    // until a higher share is reached, roughly
	least uint64 // bytes of garbage that are always allowed
	spare uint64 // and bytes that are enough, unless more is in use: then as much as that
}

var (
	// Slowly is for a long-lived process, so that a short burst takes little memory.
	Slowly = Pace{16, leastSpare, math.MaxUint64}
	// Briskly is for a process whose heap is always small: a worker gets work from one moment to
	// the next, and the garbage that it may leave is little memory.
	Briskly = Pace{1, 48 << 20, 64 << 20}
	// AtOnce is for a process with a single job. Its pages are all new ones, which cost the system
	// as much as collecting does.
	AtOnce = Pace{1, leastSpare, 512 << 20}
)

// restLooks are the looks, counted from when a process became idle, at which it returns memory to
// the system: blocks of messages are reused and survive some collections, and the NATS server drops
// its index of the latest ones after two minutes. By itself the runtime would keep much of it.
var restLooks = []int{20, 40, 60, 130}

// garbagePercent returns how much garbage is allowed, in per cent of the used bytes, given the
// allocation rate in bytes per second, the process's limit in bytes, and its pace.
func garbagePercent(used, rate, limit uint64, at Pace) int {
	if used == 0 {
		return maxPercent // nothing is known, and little is in use
	}
	used = max(used, leastSpare)
	percent := min(max(float64(rate)*ratePercent/(1<<20), minPercent), maxPercent)
	percent = max(percent, float64(at.least)*100/float64(used))
	room := max(min(max(float64(at.spare), float64(used)), float64(limit)-float64(used)), float64(used)/tightPart)
	return int(min(percent, room*100/float64(used)))
}

// looksAfter returns how many looks the way to a higher share takes for a process that has
// allocated that many bytes since it was idle.
func (p Pace) looksAfter(allocated uint64) int {
	if allocated > shortBurst {
		return min(p.looks, workLooks)
	}
	return p.looks
}

// approach returns the next share on the way to another, which takes that many looks; a lower one
// comes at once.
func approach(share, to, looks int) int {
	if share == 0 || to <= share {
		return to
	}
	return share + max((to-share)/looks, 1)
}

// heapLimit is from how many bytes on the runtime collects at any cost: what the process may use
// or, if that is too little for what is in use, a little more than that.
func heapLimit(used, may uint64) uint64 { return max(may, used+used/tightPart) }

// memory returns how many bytes this process may use: the setting, 0 for what there is, but at most
// a part of what its control group or the machine has.
func memory(setting uint64) uint64 {
	all, err := memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)()
	if err != nil {
		all = math.MaxInt64
	}
	may := uint64(float64(all) * machinePart)
	if setting == 0 {
		return may
	}
	return min(setting, may)
}

// eased tells that Ease decides how much garbage is allowed.
var eased atomic.Bool

// Spare puts off the first collection of this process until its heap has 16 MiB, not 4: most
// commands end before. The runtime's own rule follows, unless Ease was called or GOGC is set.
func Spare() {
	if os.Getenv("GOGC") != "" {
		return
	}
	usual := debug.SetGCPercent(maxPercent)
	// The first collection finds this value unused.
	runtime.AddCleanup(&struct{ _ *int }{}, func(usual int) {
		if !eased.Load() {
			debug.SetGCPercent(usual)
		}
	}, usual)
}

// Ease sets the runtime's garbage collection by the memory in use, the allocation rate and the
// process's limit, until ctx ends. If GOGC or GOMEMLIMIT is set, Ease leaves that part alone.
func Ease(ctx context.Context, setting uint64, at Pace) error {
	eased.Store(true)
	may := memory(setting)
	ownShare, ownLimit := os.Getenv("GOGC") == "", os.Getenv("GOMEMLIMIT") == ""
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	ticker := time.NewTicker(weighEvery)
	defer ticker.Stop()
	var w heapWatch
	calm, worked := 0, uint64(0)
	for share, limit := 0, uint64(0); ; {
		metrics.Read(sample)
		live := sample[0].Value.Uint64()
		least, rate, most := w.look(live, sample[1].Value.Uint64())
		nowLimit := heapLimit(least, may)
		if ownLimit && nowLimit != limit {
			limit = nowLimit
			debug.SetMemoryLimit(int64(min(limit, math.MaxInt64))) // bounded
		}
		worked += rate
		if now := approach(share, garbagePercent(live, most, nowLimit, at), at.looksAfter(worked)); ownShare && now != share {
			share = now
			debug.SetGCPercent(share)
		}
		if calm++; rate > calmRate {
			calm = 0
		}
		if slices.Contains(restLooks, calm) {
			debug.FreeOSMemory()
			worked = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// heapWatch remembers the latest looks at the heap.
type heapWatch struct {
	lived, rates []uint64
	allocated    uint64
}

// look takes how many bytes were live at the last collection, and how many were ever allocated. It
// returns the least that was live lately, the allocation rate per second, and the highest lately.
func (h *heapWatch) look(live, allocated uint64) (least, rate, most uint64) {
	if h.allocated > 0 {
		rate = uint64(float64(allocated-h.allocated) / weighEvery.Seconds())
	}
	h.allocated = allocated
	h.lived, h.rates = latest(h.lived, live, usedLooks), latest(h.rates, rate, rateLooks)
	return slices.Min(h.lived), rate, slices.Max(h.rates)
}

// latest adds a value to the latest n.
func latest(values []uint64, v uint64, n int) []uint64 {
	if len(values) == n {
		values = values[1:]
	}
	return append(values, v)
}
