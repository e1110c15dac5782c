package findings

import (
	"math/rand/v2"
	"testing"
)

// A set holds what a map holds, with hashes that collide, and 0.
func TestSet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var s Set
	want := map[uint64]bool{}
	for range 20_000 {
		hash := random.Uint64N(1<<14) << (random.IntN(3) * 20)
		if s.Has(hash) != (want[hash] || hash == 0 && want[1] || hash == 1 && want[0]) {
			t.Fatalf("%d is in the set: %v", hash, s.Has(hash))
		}
		if random.IntN(2) == 0 {
			s.Add(hash)
			want[hash] = true
		}
	}
}
