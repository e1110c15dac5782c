package main

import (
	"context"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"
)

// What a server may have on its heap before somebody looks whether it must.
const (
	heapFree  = 512 << 20
	heapEvery = time.Second
	heapSpan  = 60 // looks; what was the least that lived meanwhile is what must be there
)

// relief collects garbage when the heap is larger than the runtime would let it be if there were only what
// must be there. The NATS server lets go of blocks of messages that it has read only when garbage is collected,
// and then keeps their room for the next ones; the runtime takes that for the heap's proper size and waits until
// that has grown by as much again. Without relief a node that fetches a bundle of 3 GiB makes the server as large as that.
func relief(ctx context.Context) error {
	all := memory()
	tick := time.NewTicker(heapEvery)
	defer tick.Stop()
	var h heapWatch
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		metrics.Read(sample)
		if h.tooMuch(sample[0].Value.Uint64(), sample[1].Value.Uint64(), all) {
			runtime.GC()
		}
	}
}

// heapWatch remembers how much lived on the heap at the latest looks.
type heapWatch struct{ lived []uint64 }

// tooMuch tells whether objects are clearly more than the least that lived and its garbage, and more than
// heapFree; live is what the last collection has found, and memory as in [garbagePercent].
func (h *heapWatch) tooMuch(live, objects, memory uint64) bool {
	if len(h.lived) == heapSpan {
		h.lived = h.lived[1:]
	}
	h.lived = append(h.lived, live)
	least := slices.Min(h.lived)
	proper := least + least*uint64(garbagePercent(least, memory))/100
	return objects > max(heapFree, proper+proper/4) // or it would forestall the runtime
}
