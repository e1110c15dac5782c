package past

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Lists and their copies have the numbers that plain lists have, whatever is changed in which order.
func TestPaged(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	lists, plain := make([]paged, 4), make([][]uint32, 4)
	for range 20_000 {
		i, v := r.IntN(4), r.Uint32()
		switch r.IntN(40) {
		case 0:
			j := r.IntN(4)
			lists[j], plain[j] = lists[i].Copy(), slices.Clone(plain[i])
		case 1, 2, 3:
			for range r.IntN(200) {
				lists[i].Push(v)
				plain[i] = append(plain[i], v)
			}
		default:
			if n := uint32(len(plain[i])); n > 0 {
				at := r.Uint32N(n)
				lists[i].Set(at, v)
				plain[i][at] = v
			}
		}
	}
	for i := range lists {
		n := uint32(len(plain[i]))
		if lists[i].Len() != n {
			t.Fatalf("list %d has %d numbers, want %d", i, lists[i].Len(), n)
		}
		for range 200 {
			from := r.Uint32N(n)
			to := from + r.Uint32N(n-from+2*pageSize)
			var have []uint32
			for at, part := range lists[i].Parts(from, to) {
				if at != from+uint32(len(have)) || lists[i].At(at) != part[0] {
					t.Fatalf("a part from %d on is said to be at %d", from+uint32(len(have)), at)
				}
				have = append(have, part...)
			}
			if !slices.Equal(have, plain[i][from:min(to, n)]) {
				t.Fatalf("list %d differs from %d to %d", i, from, to)
			}
		}
	}
}

// A copy shares all pages but those that were changed since.
func TestShares(t *testing.T) {
	var l paged
	for range 3*pageSize - 10 {
		l.Push(1)
	}
	one := l.Copy()
	if n := l.Len(); !l.Shares(&one, 0, n) || l.Shares(&one, 0, n+1) || one.Bytes(&l) != 27 || l.Bytes(&paged{}) != 3*pageBytes+27 {
		t.Errorf("a copy takes %d bytes", one.Bytes(&l))
	}
	one.Set(pageSize+5, 2)
	one.Push(3)
	for _, c := range []struct {
		from, to uint32
		shared   bool
	}{{0, pageSize, true}, {pageSize - 1, pageSize + 1, false}, {pageSize, pageSize, true}, {2 * pageSize, 2*pageSize + 5, false}} {
		if is := l.Shares(&one, c.from, c.to); is != c.shared {
			t.Errorf("from %d to %d: shared is %v", c.from, c.to, is)
		}
	}
	if l.At(pageSize+5) != 1 || one.At(pageSize+5) != 2 || l.Len() != one.Len()-1 || one.Bytes(&l) != 2*pageBytes+27 {
		t.Errorf("the copy takes %d bytes now", one.Bytes(&l))
	}
	l.Set(pageSize+5, 7)
	if one.At(pageSize+5) != 2 || !one.Shares(&l, 0, pageSize) {
		t.Error("a change of the first one reaches the copy")
	}
}
