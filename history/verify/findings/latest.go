package findings

import (
	"slices"
	"time"
)

// Many is how many of the latest facts of a node, queue, breaker or calendar are remembered one by
// one. Deciders know states that are a moment old, and such facts are rare.
const Many = 64

// Latest are the latest editions of a subject, the latest last.
type Latest[T any] []T

// Add adds an edition, and forgets the oldest if necessary.
func (l *Latest[T]) Add(e T) {
	if l.Full() {
		*l = slices.Delete(*l, 0, 1)
	}
	*l = append(*l, e)
}

// Full tells whether earlier editions may have been forgotten.
func (l Latest[T]) Full() bool { return len(l) >= Many }

// At returns the edition with a number; nil if it is missing. Forgotten says that it may have
// existed.
func (l Latest[T]) At(number uint64, of func(*T) uint64) (e *T, forgotten bool) {
	for i := range l {
		if of(&l[i]) == number {
			return &l[i], false
		}
	}
	return nil, l.Full() && number < of(&l[0])
}

// Lately returns the editions, ordered by time, that were in force at some moment of the period
// before a time. Always tells whether one was in force at every moment.
func Lately[T any](all []T, while time.Duration, at time.Time, from func(*T) time.Time) (held []T, always bool) {
	since := at.Add(-while)
	for i := range all {
		if from(&all[i]).After(at) {
			break
		}
		if !from(&all[i]).After(since) {
			held, always = held[:0], true
		}
		held = append(held, all[i])
	}
	return held, always
}
