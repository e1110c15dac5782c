package incident

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"millrace/events"
	"millrace/task"
)

// Archive is what was found of the past of a log before its horizon.
type Archive struct {
	// Segments follow each other, and are whole.
	Segments []Sealed
	// Faults are what is wrong, in the order of the log.
	Faults []Fault
	// Spare are segments that cover what others cover.
	Spare []Segment

	place Place
}

// Sealed is a whole segment, and what it holds.
type Sealed struct {
	Segment
	Held
	// Recorded tells that the log, or another segment of it, has its digest.
	Recorded bool
}

// Fault is a part of the past that is missing, or not what it was.
type Fault struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Segment is the name of the segment that should have it; "" if none is known.
	Segment string `json:"segment,omitempty"`
	Why     string `json:"why"`
}

// OpenArchive reads what lies in a place, twice: here to find out what is whole, and with
// [Archive.Records]. sealed are what the log has recorded of segments; older ones are in segments.
func OpenArchive(ctx context.Context, place Place, sealed []task.HorizonSealed) (*Archive, error) {
	names, err := place.List(ctx)
	if err != nil {
		return nil, err
	}
	a := &Archive{place: place}
	recorded := map[string]task.HorizonSealed{}
	for _, is := range sealed {
		recorded[is.Segment] = is
	}
	var whole []Sealed
	for _, name := range slices.Sorted(maps.Keys(names)) {
		s, is := segmentOf(name, names[name])
		if !is {
			continue
		}
		held, err := s.Read(ctx, place, func(r *events.Record) error {
			if is, ok := r.Fact.Event.(task.HorizonSealed); ok {
				recorded[is.Segment] = is
			}
			return nil
		})
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			a.fault(s.First, s.Last, s.Name, err.Error())
		default:
			whole = append(whole, Sealed{Segment: s, Held: held})
		}
	}
	for i := range whole {
		s := &whole[i]
		is, known := recorded[s.Name]
		if s.Recorded = known && is.Digest == s.Digest && is.Messages == s.Messages; known && !s.Recorded {
			a.fault(s.First, s.Last, s.Name, "the log has recorded another digest")
		}
	}
	a.chain(whole)
	a.missing(recorded)
	return a, nil
}

func (a *Archive) fault(first, last uint64, name, why string) {
	a.Faults = append(a.Faults, Fault{first, last, name, why})
}

// chain puts whole segments in their order. Of several that cover the same, the one that is recorded
// counts.
func (a *Archive) chain(whole []Sealed) {
	order := func(x, y Sealed) int {
		return cmp.Or(cmp.Compare(x.First, y.First), cmp.Compare(x.Last, y.Last), cmp.Compare(x.Name, y.Name))
	}
	for _, recorded := range []bool{true, false} {
		for _, s := range whole {
			if s.Recorded != recorded {
				continue
			}
			if slices.ContainsFunc(a.Segments, func(o Sealed) bool { return o.First <= s.Last && s.First <= o.Last }) {
				a.Spare = append(a.Spare, s.Segment)
				continue
			}
			at, _ := slices.BinarySearchFunc(a.Segments, s, order)
			a.Segments = slices.Insert(a.Segments, at, s)
		}
	}
}

// missing finds segments that were recorded and are not there, and what no segment has. What was removed
// from the beginning is not missing.
func (a *Archive) missing(recorded map[string]task.HorizonSealed) {
	there := map[string]bool{}
	var spans []Fault
	for i := range a.Segments {
		s := &a.Segments[i]
		there[s.Name] = true
		spans = append(spans, Fault{First: s.First, Last: s.Last})
	}
	for _, s := range a.Spare {
		there[s.Name] = true
	}
	for _, f := range a.Faults {
		there[f.Segment] = true
	}
	spans = append(spans, a.Faults...)
	slices.SortFunc(spans, inOrder)
	for _, name := range slices.Sorted(maps.Keys(recorded)) {
		if is := recorded[name]; !there[name] && len(spans) > 0 && is.Last >= spans[0].First {
			a.fault(is.First, is.Last, name, "the log has recorded it, and it is not there")
			spans = append(spans, Fault{First: is.First, Last: is.Last})
		}
	}
	slices.SortFunc(spans, inOrder)
	for i := range spans {
		if i > 0 && spans[i].First > spans[i-1].Last+1 {
			a.fault(spans[i-1].Last+1, spans[i].First-1, "", "no segment has it")
		} else if i > 0 {
			spans[i].Last = max(spans[i].Last, spans[i-1].Last)
		}
	}
	slices.SortFunc(a.Faults, inOrder)
}

func inOrder(x, y Fault) int {
	return cmp.Or(cmp.Compare(x.First, y.First), cmp.Compare(x.Last, y.Last))
}

// List returns the segments in a place by their names and first lines, in their order. What else is wrong
// with one only [OpenArchive] finds out.
func List(ctx context.Context, place Place) ([]Listed, error) {
	names, err := place.List(ctx)
	if err != nil {
		return nil, err
	}
	all := []Listed{}
	for name, bytes := range names {
		if s, is := segmentOf(name, bytes); is {
			header, err := s.header(ctx, place)
			all = append(all, Listed{s, header.Before, err})
		}
	}
	slices.SortFunc(all, func(x, y Listed) int { return cmp.Compare(x.Name, y.Name) })
	return all, ctx.Err()
}

// Listed is a segment in a list.
type Listed struct {
	Segment
	// Before is later than all its messages were stored; zero if Err says why that cannot be read.
	Before time.Time
	Err    error
}

// Span is which sequences the segments cover; false if there are none.
func (a *Archive) Span() (first, last uint64, some bool) {
	if len(a.Segments) == 0 {
		return 0, 0, false
	}
	return a.Segments[0].First, a.Segments[len(a.Segments)-1].Last, true
}

// errEnough ends a reading.
var errEnough = errors.New("enough")

// Records returns the records of all whole segments, in their order.
func (a *Archive) Records(ctx context.Context) iter.Seq2[events.Record, error] {
	return func(yield func(events.Record, error) bool) {
		for i := range a.Segments {
			s := &a.Segments[i]
			_, err := s.Read(ctx, a.place, func(r *events.Record) error {
				if !yield(*r, nil) {
					return errEnough
				}
				return nil
			})
			if errors.Is(err, errEnough) {
				return
			}
			if err != nil {
				yield(events.Record{}, fmt.Errorf("%s: %w", s.Name, err))
				return
			}
		}
	}
}
