package findings

import (
	"iter"
	"maps"
	"slices"
	"strconv"
)

// Show is the command that shows a message.
func Show(seq uint64) string { return "`millrace events show " + strconv.FormatUint(seq, 10) + "`" }

// Sorted iterates over a map in the order of its keys, so that reports are reproducible.
func Sorted[K interface {
	comparable
	~string
}, V any](m map[K]V) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}
