package api

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"millrace/client"
	"millrace/jet"
	"millrace/task"
	"millrace/task/output"
	"millrace/task/schedule"
	"millrace/view"
)

// Sight is the world at a moment, for who shows more of it than one answer.
type Sight struct {
	view.View
	// Sums are those of the same place; nil if there are none.
	Sums view.Summed
	// Point is the place in the log that lists reflect, and Last where the log ends.
	Point view.Point
	Last  uint64
	// Past tells that it is a moment of the past, and Now is the time by which things are judged.
	Past bool
	Now  time.Time
	// Rules are those by which the service judges.
	Rules view.Rules

	service *Service
}

// See has a caller look at the world at a moment: a sequence of the log or a time, "" for the present. It takes a place at the desk
// for as long as he looks. The error is one that [ProblemOf] explains.
func (d *Desk) See(ctx context.Context, caller, at string, look func(context.Context, *Sight) error) error {
	seat, err := d.sit(caller, len(at))
	if err != nil {
		return err
	}
	defer d.leave(seat)
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, seatKey{}, seat), patience)
	defer cancel()
	sight, err := d.service.as(caller).see(ctx, at)
	if err == nil {
		err = look(ctx, sight)
	}
	return d.blame(err)
}

func (s *Service) see(ctx context.Context, at string) (*Sight, error) {
	v, err := s.sight(ctx, at)
	if err != nil {
		return nil, err
	}
	is := &Sight{View: v, Sums: s.Model, Past: at != "", Now: s.now(), service: s}
	if is.Last, err = s.Client.Last(ctx); err != nil {
		return nil, err
	}
	if is.Past {
		is.Sums, _ = v.(view.Summed) // nil if it sums nothing up
		if is.Point, err = v.Point(ctx); err != nil {
			return nil, err
		}
		is.Now = is.Point.At
	} else {
		is.Point = view.Point{Seq: s.Model.Reached(), At: is.Now}
	}
	is.Rules = view.Rules{Task: s.Rules, Node: s.Nodes, Now: is.Now, Holders: holders}
	return is, nil
}

// Live is how a task stands in its program's own words; its epoch is 0 if that has said nothing, and of the past it is not known.
func (s *Sight) Live(ctx context.Context, id task.ID) (output.Live, error) {
	if s.Past {
		return output.Live{}, nil
	}
	return s.service.Client.Live(ctx, id)
}

// mostBatches bounds how often the stream of output is asked for the end of what a task has printed.
const mostBatches = 100

// Tail are the latest lines, at most about so many, that a task has printed up to the moment that is looked at, batch by batch, and the
// sequence of the last batch in the stream of output, 0 for none. More tells that there are others before them.
func (s *Sight) Tail(ctx context.Context, id task.ID, most int) (batches []output.Lines, last uint64, more bool, err error) {
	n := 0
	err = s.service.Client.Store().PrintedBack(ctx, id, func(seq uint64, b output.Lines) bool {
		if s.Past {
			kept := b.Lines[:0]
			for _, l := range b.Lines {
				if !l.At.After(s.Now) {
					kept = append(kept, l)
				}
			}
			if b.Lines = kept; len(kept) == 0 {
				return true
			}
		}
		if n >= most || len(batches) == mostBatches {
			more = true
			return false
		}
		last = max(last, seq)
		n += len(b.Lines)
		batches = append([]output.Lines{b}, batches...)
		return true
	})
	return batches, last, more, err
}

// Kept are the first records that a task has produced, at most about so many; more tells that there are others.
func (s *Sight) Kept(ctx context.Context, id task.ID, most int) (items []json.RawMessage, more bool, err error) {
	err = s.service.Client.Store().KeptOf(ctx, []task.ID{id}, client.OutputStart{}, false, func(_ uint64, b output.Records) error {
		if len(items) >= most {
			more = true
			return errEnough
		}
		items = append(items, b.Items...)
		return nil
	})
	if more {
		err = nil
	}
	return items, more, err
}

// Ticks is what became of the ticks of a schedule after one time and until another: of the latest so many.
func (s *Sight) Ticks(ctx context.Context, of *schedule.Stored, since, until time.Time, most int) ([]client.TickReport, error) {
	at := view.Point{At: s.Now}
	if s.Past {
		at = s.Point
	}
	return s.service.Client.TicksOf(ctx, s.View, at, of, since, until, most)
}

// Ask has a verb of the service done for a caller who may ask for it. The request and the answer are those of its endpoint, in their
// forms as JSON; into may be nil.
func (d *Desk) Ask(ctx context.Context, caller string, verb jet.Verb, request, into any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return badRequest{err}
	}
	for i := range endpoints {
		if endpoints[i].Verb != verb {
			continue
		}
		answer, err := d.Answer(ctx, caller, &endpoints[i], body)
		if err != nil || into == nil {
			return err
		}
		text, err := Encode(answer)
		if err != nil {
			return err
		}
		return json.Unmarshal(text, into)
	}
	return badRequest{fmt.Errorf("the service knows no %s", verb)}
}
