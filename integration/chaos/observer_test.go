package chaos

import (
	"strings"
	"testing"

	"millrace/events"
	"millrace/task"
)

// A log that loses or changes a record that it has shown breaks the first promise, whatever else it
// holds.
func TestVanished(t *testing.T) {
	var s story
	s.born(1, "t")
	s.finished(3, "t", s.started(2, "t", "worker-1", 0))
	for i := range s.records {
		s.records[i].Fact.ID = string(rune('a' + i))
	}
	o := newObserver(nil)
	for i := range s.records {
		o.add(&s.records[i])
	}
	if gone := vanished(o.facts(), s.records); len(gone) > 0 {
		t.Errorf("%v of a log that is as it was", gone)
	}
	if gone := vanished(o.facts(), s.records[:2]); len(gone) != 1 || !strings.Contains(gone[0], "the fact c at 3") {
		t.Errorf("%v, want the last fact", gone)
	}
	changed := append([]events.Record(nil), s.records...)
	changed[1].Fact.ID = "x"
	if gone := vanished(o.facts(), changed); len(gone) != 1 || !strings.Contains(gone[0], "the fact b at 2") {
		t.Errorf("%v, want the second fact", gone)
	}
	if !o.done([]task.ID{"t"}) || o.done([]task.ID{"t", "u"}) {
		t.Error("t has ended and u is not there")
	}
	before := o.facts()
	s.born(4, "v")
	o.add(&s.records[3])
	if gone := vanished(before, s.records[:3]); len(gone) > 0 {
		t.Errorf("%v, and it came only when the log had been read", gone)
	}
	if o.done([]task.ID{"t"}) {
		t.Error("v has not ended, although nobody was told of it")
	}
}
