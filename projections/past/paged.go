package past

import (
	"iter"
	"slices"
)

// pageSize is how many numbers a page has. Lists share whole pages.
const pageSize = 1 << 10

const pageBytes = 4 * pageSize

type page [pageSize]uint32

// paged is a list of numbers in pages; the zero value is empty. A copy costs 9 bytes a page, and a
// change of a number that others share costs a page. Lists that do not change may be read and copied
// at the same time, but not copied by several goroutines at once.
type paged struct {
	pages []*page
	own   []bool // tells of each page whether no other list has it
	n     uint32
}

// Len is how many numbers there are.
func (l *paged) Len() uint32 { return l.n }

// At returns a number by its place, from 0 on.
func (l *paged) At(i uint32) uint32 { return l.pages[i/pageSize][i%pageSize] }

// Set changes a number.
func (l *paged) Set(i, v uint32) {
	at := i / pageSize
	if !l.own[at] {
		own := *l.pages[at]
		l.pages[at], l.own[at] = &own, true
	}
	l.pages[at][i%pageSize] = v
}

// Push appends a number.
func (l *paged) Push(v uint32) {
	if l.n%pageSize == 0 {
		l.pages, l.own = append(l.pages, new(page)), append(l.own, true)
	}
	l.n++
	l.Set(l.n-1, v)
}

// Copy returns a list with the same numbers. Either may change without the other.
func (l *paged) Copy() paged {
	clear(l.own)
	return paged{slices.Clone(l.pages), make([]bool, len(l.own)), l.n}
}

// Parts iterates over the numbers from one place to before another: some of them at a time, with the
// place of the first. The caller must not change them.
func (l *paged) Parts(from, to uint32) iter.Seq2[uint32, []uint32] {
	return func(yield func(uint32, []uint32) bool) {
		for to = min(to, l.n); from < to; {
			until := min(to, (from/pageSize+1)*pageSize)
			if !yield(from, l.pages[from/pageSize][from%pageSize:(until-1)%pageSize+1]) {
				return
			}
			from = until
		}
	}
}

// Shares tells whether another list has the same numbers from one place to before another, as far as
// that is known without a look at the numbers.
func (l *paged) Shares(other *paged, from, to uint32) bool {
	if to > l.n || to > other.n {
		return false
	}
	for ; from < to; from = (from/pageSize + 1) * pageSize {
		if l.pages[from/pageSize] != other.pages[from/pageSize] {
			return false
		}
	}
	return true
}

// Bytes is roughly the memory that the list takes beside another one.
func (l *paged) Bytes(other *paged) int {
	n := 9 * len(l.pages)
	for i, p := range l.pages {
		if i >= len(other.pages) || other.pages[i] != p {
			n += pageBytes
		}
	}
	return n
}
