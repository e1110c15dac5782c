package projections

import (
	"context"
	"sync"

	"millrace/events"
)

// inbox holds the records that have come and are not folded yet, at most size of
// them. One goroutine fills it and one takes from it.
type inbox struct {
	size int
	// some holds one while there is something to take, full one while there is
	// no more space, space one after something was taken.
	some, full, space chan struct{}

	mu      sync.Mutex
	records []events.Record // guarded by mu
	taken   []events.Record // guarded by mu; what the last take returned, to be used again
	err     error           // guarded by mu; why no more will come
}

func newInbox(size int) *inbox {
	return &inbox{size: size, some: make(chan struct{}, 1), full: make(chan struct{}, 1), space: make(chan struct{}, 1)}
}

// fill moves records from the feed into the inbox until the feed fails.
func (in *inbox) fill(ctx context.Context, feed events.Feed) {
	for {
		records, err := feed.Next(ctx)
		for err == nil && len(records) > 0 {
			if n := in.put(records); n > 0 {
				records = records[n:]
				continue
			}
			select {
			case <-in.space:
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		if err != nil {
			in.mu.Lock()
			in.err = err
			in.mu.Unlock()
			set(in.some)
			set(in.full)
			return
		}
	}
}

// put copies as many records as there is space for, for they belong to the feed.
func (in *inbox) put(records []events.Record) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	n := min(len(records), in.size-len(in.records))
	in.records = append(in.records, records[:n]...)
	if n > 0 {
		set(in.some)
	}
	if len(in.records) == in.size {
		set(in.full)
	}
	return n
}

// take returns what has come; the slice is valid until the next call. The error
// of the feed comes after all its records.
func (in *inbox) take() ([]events.Record, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.records) == 0 && in.err != nil {
		return nil, in.err
	}
	clear(in.taken) // let go of the messages
	in.records, in.taken = in.taken[:0], in.records
	if in.err == nil {
		unset(in.some)
		unset(in.full)
	} else {
		set(in.some)
	}
	set(in.space)
	return in.taken, nil
}

func set(flag chan struct{}) {
	select {
	case flag <- struct{}{}:
	default:
	}
}

func unset(flag chan struct{}) {
	select {
	case <-flag:
	default:
	}
}
