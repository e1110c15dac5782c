package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/task/job"
)

// span is a period in which a zone's clock runs evenly.
type span struct {
	// begin and end are instants; zero means no such bound.
	begin, end time.Time
	// offset is how far the clock is ahead of UTC; before is the offset until begin.
	offset, before time.Duration
}

func spanAt(t time.Time, zone *time.Location) span {
	local := t.In(zone)
	begin, end := local.ZoneBounds()
	s := span{begin: begin.UTC(), end: end.UTC(), offset: offsetOf(local)}
	if begin.IsZero() {
		s.begin, s.before = time.Time{}, s.offset
	} else {
		s.before = offsetOf(begin.Add(-time.Nanosecond).In(zone))
	}
	if end.IsZero() {
		s.end = time.Time{}
	}
	return s
}

func offsetOf(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// wall is the clock's time at an instant, written as if it were UTC.
func (s span) wall(t time.Time) time.Time { return t.UTC().Add(s.offset) }

// instant is the reverse of wall.
func (s span) instant(w time.Time) time.Time { return w.Add(-s.offset) }

// gap is the range of wall times that the clock skipped when the span began.
func (s span) gap() (from, to time.Time, ok bool) {
	if s.begin.IsZero() || s.offset <= s.before {
		return time.Time{}, time.Time{}, false
	}
	return s.begin.Add(s.before), s.begin.Add(s.offset), true
}

// repeated is the instant until which, in this span, the clock repeats earlier wall times.
func (s span) repeated() time.Time {
	if s.begin.IsZero() || s.offset >= s.before {
		return time.Time{}
	}
	return s.begin.Add(s.before - s.offset)
}

// hit is an instant that matches the rules of a clock.
type hit struct {
	at   time.Time
	note string
}

// matcher finds wall times: the first that is not before w and before limit.
type matcher func(w, limit time.Time) (time.Time, bool)

// horizon is how far ahead a tick is searched. The rarest ones of an expression, a weekday on a
// leap day, come every 40 years at most.
const horizon = 45 * 366 * 24 * time.Hour

// nextOnClock is the first instant after a time at which a zone's clock shows a matching time.
// Policy decides about times that a change of clocks skips or repeats.
func nextOnClock(match matcher, zone *time.Location, policy string, after time.Time) (hit, bool) {
	t := after.UTC().Truncate(time.Second).Add(time.Second)
	limit := after.Add(horizon)
	left := "" // the tick that a gap on the way has skipped
	for t.Before(limit) {
		s := spanAt(t, zone)
		end := limit
		if !s.end.IsZero() && s.end.Before(limit) {
			end = s.end
		}
		moved, isMoved := s.moved(match, policy, t)
		if from, to, ok := s.gap(); ok && !t.After(s.begin) && (policy == job.DSTSkip || policy == job.DSTTwice) {
			if w, found := match(from, to); found {
				left = fmt.Sprintf("dst %s: %s does not exist and is left out", policy, w.Format("2006-01-02 15:04:05"))
			}
		}
		from := t
		if repeated := s.repeated(); policy != job.DSTTwice && from.Before(repeated) {
			from = repeated
		}
		w, found := match(s.wall(from), s.wall(end))
		switch {
		case isMoved && (!found || moved.at.Before(s.instant(w))):
			return moved, true
		case found:
			h := s.note(w, zone, policy)
			h.note = joinNotes(left, h.note)
			return h, true
		}
		if !end.After(t) { // beyond the tables the bounds of a year may be slightly off
			end = t.Add(time.Hour)
		}
		t = end
	}
	return hit{}, false
}

// moved is the first match, not before t, that the gap at the beginning of the span skipped and
// that the policy moves to a later time.
func (s span) moved(match matcher, policy string, t time.Time) (hit, bool) {
	from, to, ok := s.gap()
	if !ok {
		return hit{}, false
	}
	switch policy {
	case job.DSTOnce:
		w, found := match(from, to)
		if !found || t.After(s.begin) {
			return hit{}, false
		}
		return hit{s.begin, fmt.Sprintf("dst once: %s does not exist on this day, so it fires at the first moment after the gap", clockOf(w))}, true
	case job.DSTShift:
		// The skipped time, by the offset before the gap, is this instant.
		if earliest := t.Add(s.before); earliest.After(from) {
			from = earliest
		}
		w, found := match(from, to)
		if !found {
			return hit{}, false
		}
		return hit{w.Add(-s.before), fmt.Sprintf("dst shift: %s does not exist on this day, so it fires %v later", clockOf(w), s.offset-s.before)}, true
	}
	return hit{}, false
}

// note describes how a change of clocks affects a match; it is empty if it does not.
func (s span) note(w time.Time, zone *time.Location, policy string) hit {
	h := hit{at: s.instant(w)}
	if policy == job.DSTTwice && h.at.Before(s.repeated()) {
		h.note = fmt.Sprintf("dst twice: %s is there again on this day, this is the second time", clockOf(w))
		return h
	}
	if s.end.IsZero() {
		return h
	}
	next := spanAt(s.end, zone)
	if again := next.instant(w); next.offset < s.offset && !again.Before(s.end) && again.Before(next.repeated()) {
		if policy == job.DSTTwice {
			h.note = fmt.Sprintf("dst twice: %s is there twice on this day, this is the first time", clockOf(w))
		} else {
			h.note = fmt.Sprintf("dst %s: %s is there twice on this day, it fires the first time", policy, clockOf(w))
		}
	}
	return h
}

func joinNotes(notes ...string) string {
	return strings.Join(slices.DeleteFunc(notes, func(s string) bool { return s == "" }), "; ")
}

func clockOf(w time.Time) string {
	if w.Second() == 0 {
		return w.Format("15:04")
	}
	return w.Format("15:04:05")
}
