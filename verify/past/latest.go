package past

import (
	"slices"
	"time"
)

// Many is how many of the latest facts of a node, queue, breaker or calendar are remembered singly. Who decides knows each as it
// was a moment ago, and facts about them are rare.
const Many = 64

// Latest are the latest editions of something, the latest last.
type Latest[T any] []T

// Add takes another edition in.
func (l *Latest[T]) Add(e T) {
	if l.Full() {
		*l = slices.Delete(*l, 0, 1)
	}
	*l = append(*l, e)
}

// Full tells whether earlier editions may have been forgotten.
func (l Latest[T]) Full() bool { return len(l) >= Many }

// At is the edition of a number; nil if it is not among them. Forgotten says that it may have been.
func (l Latest[T]) At(number uint64, of func(*T) uint64) (e *T, forgotten bool) {
	for i := range l {
		if of(&l[i]) == number {
			return &l[i], false
		}
	}
	return nil, l.Full() && number < of(&l[0])
}

// Lately are those of the editions of something, in the order of their times, that held at some moment of a while before a time; always
// tells whether one of them held at each.
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
