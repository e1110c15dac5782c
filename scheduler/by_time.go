package scheduler

import "time"

// byTime is a heap that has what comes first on top.
type byTime[T interface{ when() time.Time }] []T

func (h byTime[T]) Len() int           { return len(h) }
func (h byTime[T]) Less(i, j int) bool { return h[i].when().Before(h[j].when()) }
func (h byTime[T]) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byTime[T]) Push(it any)       { *h = append(*h, it.(T)) }
func (h *byTime[T]) Pop() any {
	old := *h
	n := len(old) - 1
	it := old[n]
	clear(old[n:]) // let go of it
	*h = old[:n]
	return it
}

func (f *fire) when() time.Time        { return f.due }
func (t *watchedTick) when() time.Time { return t.at }
