package api

import (
	"context"
	"errors"
	"fmt"
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
	reading, cancel := context.WithTimeout(ctx, verifyFor)
	defer cancel()
	for next := max(r.From, 1); next <= end; {
		records, err := s.Client.Store().Page(reading, next, verifyAtOnce)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
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
	return verdict{*v.Report(now), false}, nil
}
