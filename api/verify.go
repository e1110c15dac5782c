package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/verify"
	"millrace/view"
)

// verifyFor is how long a request holds the log against the promises, and verifyAtOnce how many records it reads at once.
const (
	verifyFor    = 15 * time.Second
	verifyAtOnce = 1000
)

// verifyRequest chooses a range of the log, and promises.
type verifyRequest struct {
	// From and To are sequences; nothing is expected of what came before From. Default: all.
	From uint64 `json:"from,omitempty"`
	To   uint64 `json:"to,omitempty"`
	// Rules are those to check, as I-3. Default: all.
	Rules []verify.Rule `json:"rules,omitempty"`
}

func (r *verifyRequest) check() error {
	if r.To > 0 && r.To < r.From {
		return fmt.Errorf("to is %d, before from, which is %d", r.To, r.From)
	}
	return nil
}

// verdict is how far the log keeps the promises.
type verdict struct {
	verify.Report
	// Interrupted says that there was no time for all: Last is how far it has come.
	Interrupted bool `json:"interrupted,omitempty"`
}

func (s *Service) verify(ctx context.Context, r verifyRequest) (verdict, error) {
	return s.hold(ctx, r, verifyFor, math.MaxInt, func(_, _ uint64) {})
}

// hold holds a range against the promises, for so long and so many records at most, and tells after each page how far it is.
func (s *Service) hold(ctx context.Context, r verifyRequest, within time.Duration, most int, progress func(at, end uint64)) (verdict, error) {
	leave, err := s.reads()
	if err != nil {
		return verdict{}, err
	}
	defer leave()
	end, err := s.Client.Last(ctx)
	if err != nil {
		return verdict{}, err
	}
	now := s.now() // before the end of the log is known: what was due by then is there
	if r.To > 0 && r.To < end {
		end, now = r.To, time.Time{}
	}
	v := verify.New(verify.Config{From: r.From, Settings: s.Rules, Rules: r.Rules})
	v.Nothing(verify.ReadModel, "`millrace verify` compares it")
	reading, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	read := 0
	for next := max(r.From, 1); next <= end; {
		progress(next-1, end)
		records, err := s.Client.Store().Page(reading, next, verifyAtOnce)
		if read += len(records); read > most || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return verdict{*v.Report(time.Time{}), true}, nil
		}
		if err != nil {
			return verdict{}, err
		}
		if len(records) == 0 {
			break
		}
		for i := range records {
			if records[i].Seq > end {
				break
			}
			if err := v.Add(&records[i]); err != nil {
				return verdict{}, err
			}
		}
		next = records[len(records)-1].Seq + 1
	}
	progress(end, end)
	return verdict{*v.Report(now), false}, nil
}

// reads takes the one place for who reads the whole log, until leave is called: it takes a processor and much memory.
func (s *Service) reads() (leave func(), err error) {
	select {
	case s.verifying <- struct{}{}:
		return func() { <-s.verifying }, nil
	default:
		return nil, busy{"somebody has the log verified or exported already"}
	}
}

// Bounds of a run that nobody waits for.
const (
	verifyLong = 10 * time.Minute
	// VerifyMost is how many messages [Desk.Verify] reads at most: what it has to know of them is in memory.
	VerifyMost = 2_000_000
)

// Verify holds a range of the log against the promises, from a sequence (0 is the beginning) to another one (0 is the end), for who
// waits for no answer: it takes no place at the desk. Interrupted says that the bounds did not suffice for all of it. The error is one that
// [ProblemOf] explains; another run, also one that a request has begun, refuses it.
func (d *Desk) Verify(ctx context.Context, from, to uint64, progress func(at, end uint64)) (report *verify.Report, interrupted bool, err error) {
	r := verifyRequest{From: from, To: to}
	if err := r.check(); err != nil {
		return nil, false, badRequest{err}
	}
	is, err := d.service.hold(ctx, r, verifyLong, VerifyMost, progress)
	if err != nil {
		return nil, false, d.blame(err)
	}
	return &is.Report, is.Interrupted, nil
}

// Now is the time by which the service judges.
func (d *Desk) Now() time.Time { return d.service.now() }

// SurveyFor is how long [Desk.Survey] takes at most.
const SurveyFor = 2 * time.Minute

// Survey is the log for who needs all of it.
type Survey struct{ service *Service }

// Survey has somebody read all of the log, for [SurveyFor] at most: one at a time, and none while it is verified. It takes no place at the desk. The error
// is one that [ProblemOf] explains.
func (d *Desk) Survey(ctx context.Context, look func(context.Context, Survey) error) error {
	leave, err := d.service.reads()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, SurveyFor)
	defer cancel()
	return d.blame(look(ctx, Survey{d.service}))
}

// AckWait is how long a lease lasts.
func (s Survey) AckWait() time.Duration { return s.service.Client.Store().AckWait() }

// History are all facts of a task in order. The error wraps [task.ErrUnknown] if there is no such task.
func (s Survey) History(ctx context.Context, id task.ID) ([]events.Record, error) {
	return s.service.Client.History(ctx, id)
}

// PointAt is the place that a moment chooses, the end for the zero one; false if the log begins later.
func (s Survey) PointAt(ctx context.Context, m view.Moment) (view.Point, bool, error) {
	last, err := s.service.Client.Last(ctx)
	if err == nil && m.Seq > last {
		err = badRequest{fmt.Errorf("the sequence is %d, and the log ends at %d", m.Seq, last)}
	}
	if err != nil {
		return view.Point{}, false, err
	}
	return s.service.Client.PointAt(ctx, m)
}

// Until hands on all records of the log up to a sequence, in order: [VerifyMost] at most.
func (s Survey) Until(ctx context.Context, seq uint64, each func(*events.Record) error) error {
	read := 0
	for next := uint64(1); next <= seq; {
		records, err := s.service.Client.Store().Page(ctx, next, verifyAtOnce)
		if err != nil || len(records) == 0 {
			return err
		}
		if read += len(records); read > VerifyMost {
			return tooLarge{fmt.Errorf("the log has more than the %d messages that are read here", VerifyMost)}
		}
		for i := range records {
			if records[i].Seq > seq {
				return nil
			}
			if err := each(&records[i]); err != nil {
				return err
			}
		}
		next = records[len(records)-1].Seq + 1
	}
	return nil
}

// Printed hands on the messages in which the lines of some tasks lie, as they are stored.
func (s Survey) Printed(ctx context.Context, ids []task.ID, each func(seq uint64, stored time.Time, subject string, body []byte) error) error {
	return s.service.Client.Store().PrintedAs(ctx, ids, each)
}
