package jet

import (
	"testing"

	"millrace/events"
	"millrace/jet/streams"
	"millrace/task"
)

// More facts than may be on their way at once are placed all the same, each once and told in order.
func TestPlaceAllBeyondItsWindow(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	facts := make([]*events.Fact, placeWindow+500)
	for i := range facts {
		facts[i] = newFact(newTask(), task.Submitted{Work: testWork("default")})
	}
	told := 0
	var last uint64
	s.PlaceAll(within(t), facts, false, func(i int, seq uint64, err error) {
		if i != told || err != nil || seq <= last {
			t.Errorf("fact %d told as number %d at %d after %d: %v", i, told, seq, last, err)
		}
		told++
		last = seq
	})
	if told != len(facts) || last != uint64(len(facts)) {
		t.Errorf("told of %d facts, the last at %d, want %d", told, last, len(facts))
	}
}
