// Package garbage fits what garbage may lie about to what a process does.
package garbage

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// How much garbage may lie about. The runtime's own share, as much as there is in use, has a busy server
// collect many times a second while its heap is small, which cost a tenth of all processor time; and a
// server at rest keeps it for hours. So the share follows the work: what a collection costs grows with
// what is in use, and how often one is due with what is allocated in a second. By ratePercent for each
// MiB in a second it takes about a hundredth of a processor, whatever is in use.
const (
	ratePercent = 20
	maxPercent  = 400
	minPercent  = 10
	// leastSpare is never too much: a small heap would be collected again and again.
	leastSpare = 4 << 20
	// tightPart is the part of what is in use that is free for garbage when there is no room for it. The
	// runtime would else do nothing but collect.
	tightPart = 4
	// machinePart is the part of the memory of the machine, or of the control group, that is there for this process.
	machinePart = 0.8

	// calmRate is how many bytes are allocated in a second, at most, by a process at rest.
	calmRate = 2 << 20

	// shortBurst is how many bytes a burst allocates that is over before memory is worth taking for it: twice what
	// ten thousand no-op tasks do. Whoever has come from rest and allocated more has work that lasts, and takes to
	// the share that this asks for within about workLooks, however patient its pace.
	shortBurst = 512 << 20
	workLooks  = 2

	weighEvery = time.Second
	// usedLooks is how many looks count for what must be there, which is the least that lived meanwhile. The
	// NATS server lets go of blocks of messages that it has read only when garbage is collected, and then
	// keeps their room for the next ones.
	usedLooks = 60
)

// Pace is how a process takes to a share that its work asks for.
type Pace struct {
	looks int    // that the way to a higher share takes, more or less
	least uint64 // how many bytes of garbage are never too much
	spare uint64 // and how many are enough
}

var (
	// Slowly is for a process that stays, so that a short burst takes little memory.
	Slowly = Pace{16, leastSpare, math.MaxUint64}
	// Briskly is for one whose heap is small whatever it does: a worker has work from one moment to the next, and what it may
	// leave about is little memory.
	Briskly = Pace{1, 48 << 20, 64 << 20}
	// AtOnce is for one that has but one thing to do. Its pages are all new ones, which cost the system as much as
	// collecting does.
	AtOnce = Pace{1, leastSpare, 512 << 20}
)

// restLooks are the looks, counted from when a process has come to rest, at which it gives memory back to the
// system: blocks of messages are reused and outlive some collections, and what the NATS server has
// indexed of the latest ones goes after two minutes. By itself the runtime would keep much of it.
var restLooks = []int{20, 40, 60, 130}

// garbagePercent is how much garbage may lie about, in per cent of the bytes in use, where rate bytes
// are allocated in a second, the process may take limit bytes, at the pace at.
func garbagePercent(used, rate, limit uint64, at Pace) int {
	if used == 0 {
		return maxPercent // nothing is known, and little is in use
	}
	used = max(used, leastSpare)
	percent := min(max(float64(rate)*ratePercent/(1<<20), minPercent), maxPercent)
	percent = max(percent, float64(at.least)*100/float64(used))
	room := max(min(float64(at.spare), float64(limit)-float64(used)), float64(used)/tightPart)
	return int(min(percent, room*100/float64(used)))
}

// looksAfter is how many looks the way to a higher share takes for a process that has allocated so many bytes since it was
// at rest.
func (p Pace) looksAfter(allocated uint64) int {
	if allocated > shortBurst {
		return min(p.looks, workLooks)
	}
	return p.looks
}

// approach is the share of garbage that follows one on the way to another, so many looks long; a lower one comes at once.
func approach(share, to, looks int) int {
	if share == 0 || to <= share {
		return to
	}
	return share + max((to-share)/looks, 1)
}

// heapLimit is from how many bytes on the runtime collects whatever it costs: what the process may
// take or, where that is too little for what is in use, a little more than that.
func heapLimit(used, may uint64) uint64 { return max(may, used+used/tightPart) }

// memory is how many bytes this process may take: so many as the settings say, 0 for what there is, but no
// more than a part of what its control group or the machine has.
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

// Ease sets the runtime's garbage collection by what is in use, what is allocated and what the
// process may take, until ctx ends. Whoever sets GOGC or GOMEMLIMIT has decided that for themselves.
func Ease(ctx context.Context, setting uint64, at Pace) error {
	may := memory(setting)
	ownShare, ownLimit := os.Getenv("GOGC") == "", os.Getenv("GOMEMLIMIT") == ""
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	tick := time.NewTicker(weighEvery)
	defer tick.Stop()
	var w heapWatch
	calm, worked := 0, uint64(0)
	for share, limit := 0, uint64(0); ; {
		metrics.Read(sample)
		live := sample[0].Value.Uint64()
		least, rate := w.look(live, sample[1].Value.Uint64())
		nowLimit := heapLimit(least, may)
		if ownLimit && nowLimit != limit {
			limit = nowLimit
			debug.SetMemoryLimit(int64(min(limit, math.MaxInt64))) // #nosec G115 -- bounded
		}
		worked += rate
		if now := approach(share, garbagePercent(live, rate, nowLimit, at), at.looksAfter(worked)); ownShare && now != share {
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
		case <-tick.C:
		}
	}
}

// heapWatch remembers the latest looks at the heap.
type heapWatch struct {
	lived     []uint64
	allocated uint64
}

// look takes in how many bytes lived when garbage was last collected, and how many were ever allocated. It
// returns the least that lived lately, and how many are allocated in a second.
func (h *heapWatch) look(live, allocated uint64) (least, rate uint64) {
	if len(h.lived) == usedLooks {
		h.lived = h.lived[1:]
	}
	h.lived = append(h.lived, live)
	if h.allocated > 0 {
		rate = uint64(float64(allocated-h.allocated) / weighEvery.Seconds())
	}
	h.allocated = allocated
	return slices.Min(h.lived), rate
}
