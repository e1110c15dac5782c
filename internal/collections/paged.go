// Package collections has lists of numbers whose copies share what they have in common.
//
// A [Heap] keeps elements so that the first of them by an order is at hand. It is container/heap
// with types: an order is one function, and elements are stored as they are.
package collections

import (
	"iter"
	"slices"
)

// Size is how many numbers a page has. Lists share whole pages.
const Size = 1 << 10

const pageBytes = 4 * Size

type page [Size]uint32

// List is a list of numbers in pages; the zero value is empty. A copy costs 9 bytes a page, and a
// change of a number that others share costs a page. Lists that do not change may be read and copied
// at the same time, but not copied by several goroutines at once.
type List struct {
	pages []*page
	own   []bool // tells of each page whether no other list has it
	n     uint32
}

// Len is how many numbers there are.
func (l *List) Len() uint32 { return l.n }

// At returns a number by its place, from 0 on.
func (l *List) At(i uint32) uint32 { return l.pages[i/Size][i%Size] }

// Set changes a number.
func (l *List) Set(i, v uint32) {
	at := i / Size
	if !l.own[at] {
		own := *l.pages[at]
		l.pages[at], l.own[at] = &own, true
	}
	l.pages[at][i%Size] = v
}

// Push appends a number.
func (l *List) Push(v uint32) {
	if l.n%Size == 0 {
		l.pages, l.own = append(l.pages, new(page)), append(l.own, true)
	}
	l.n++
	l.Set(l.n-1, v)
}

// Copy returns a list with the same numbers. Either may change without the other.
func (l *List) Copy() List {
	clear(l.own)
	return List{slices.Clone(l.pages), make([]bool, len(l.own)), l.n}
}

// Parts iterates over the numbers from one place to before another: some of them at a time, with the
// place of the first. The caller must not change them.
func (l *List) Parts(from, to uint32) iter.Seq2[uint32, []uint32] {
	return func(yield func(uint32, []uint32) bool) {
		for to = min(to, l.n); from < to; {
			until := min(to, (from/Size+1)*Size)
			if !yield(from, l.pages[from/Size][from%Size:(until-1)%Size+1]) {
				return
			}
			from = until
		}
	}
}

// Shares tells whether another list has the same numbers from one place to before another, as far as
// that is known without a look at the numbers.
func (l *List) Shares(other *List, from, to uint32) bool {
	if to > l.n || to > other.n {
		return false
	}
	for ; from < to; from = (from/Size + 1) * Size {
		if l.pages[from/Size] != other.pages[from/Size] {
			return false
		}
	}
	return true
}

// Bytes is roughly the memory that the list takes beside another one.
func (l *List) Bytes(other *List) int {
	n := 9 * len(l.pages)
	for i, p := range l.pages {
		if i >= len(other.pages) || other.pages[i] != p {
			n += pageBytes
		}
	}
	return n
}
