package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"millrace/verify"
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
	select { // it takes a processor and much memory
	case s.verifying <- struct{}{}:
		defer func() { <-s.verifying }()
	default:
		return verdict{}, busy{"somebody has the log verified already"}
	}
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
