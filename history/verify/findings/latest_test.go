package findings

import (
	"slices"
	"testing"
	"time"
)

// The latest of many editions are kept, and it is known which earlier ones may have existed.
func TestLatest(t *testing.T) {
	for _, tt := range []struct {
		name             string
		editions         int // by the numbers 10, 20 and so on
		number           uint64
		there, forgotten bool
	}{
		{name: "none", number: 10},
		{name: "one of two", editions: 2, number: 20, there: true},
		{name: "between two", editions: 2, number: 15},
		{name: "before the first of all", editions: 2, number: 5},
		{name: "the first of as many as are kept", editions: Many, number: 10, there: true},
		{name: "one that is kept no more", editions: Many + 1, number: 10, forgotten: true},
		{name: "the earliest that is kept", editions: Many + 1, number: 20, there: true},
		{name: "between two, of many", editions: Many + 1, number: 25},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var all Latest[uint64]
			for i := range tt.editions {
				all.Add(uint64(10 * (i + 1)))
			}
			e, forgotten := all.At(tt.number, func(n *uint64) uint64 { return *n })
			if e != nil != tt.there || forgotten != tt.forgotten || e != nil && *e != tt.number {
				t.Errorf("there: %v, forgotten: %v", e != nil, forgotten)
			}
		})
	}
}

// Lately returns the edition in force at the beginning of the period, if there is one, and the
// later ones.
func TestLately(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	all := []time.Time{at(10), at(20), at(30)}
	for _, tt := range []struct {
		at     int
		held   []time.Time
		always bool
	}{
		{9, nil, false},
		{12, all[:1], false},
		{17, all[:1], true},
		{22, all[:2], true},
		{40, all[2:], true},
	} {
		held, always := Lately(all, 5*time.Second, at(tt.at), func(from *time.Time) time.Time { return *from })
		if !slices.EqualFunc(held, tt.held, time.Time.Equal) || always != tt.always {
			t.Errorf("at %d: %v, %v", tt.at, held, always)
		}
	}
}
