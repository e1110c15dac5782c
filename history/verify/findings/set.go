package findings

// Set is a set of hashes. It takes 11 to 21 bytes for each, and mostly one access to memory where a
// map needs several. The zero value is empty.
type Set struct {
	slots []uint64 // a power of two, at most three quarters of them used; 0 is free
	used  int
}

// place returns where a hash is, or would be. There must be a free slot.
func (s *Set) place(hash uint64) *uint64 {
	mask := uint64(len(s.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		if at := &s.slots[i]; *at == hash || *at == 0 {
			return at
		}
	}
}

// some is a hash other than 0, which marks free slots.
func some(hash uint64) uint64 { return max(hash, 1) }

// Has tells whether a hash is in the set.
func (s *Set) Has(hash uint64) bool { return s.used > 0 && *s.place(some(hash)) != 0 }

// Add adds a hash.
func (s *Set) Add(hash uint64) {
	if 4*s.used >= 3*len(s.slots) {
		s.grow()
	}
	if at := s.place(some(hash)); *at == 0 {
		*at = some(hash)
		s.used++
	}
}

func (s *Set) grow() {
	was := s.slots
	s.slots = make([]uint64, max(2*len(was), 1<<10))
	for _, hash := range was {
		if hash != 0 {
			*s.place(hash) = hash
		}
	}
}
