package answers

import (
	"context"
	"fmt"
	"math"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/projections/view"
	"millrace/task"
)

// verifyFor bounds the time of a request that checks the log, and verifyAtOnce is how many records
// it reads at once.
const (
	verifyFor    = 15 * time.Second
	verifyAtOnce = 1000
)

// verifyRequest chooses a range of the log, and promises.
type verifyRequest struct {
	// From and To are sequences; nothing is assumed about what came before From. Default: all.
	From uint64 `json:"from,omitempty"`
	To   uint64 `json:"to,omitempty"`
	// Rules are the promises to check, such as I-3. Default: all.
	Rules []verify.Rule `json:"rules,omitempty"`
}

func (r *verifyRequest) check() error {
	if r.To > 0 && r.To < r.From {
		return fmt.Errorf("to is %d, before from, which is %d", r.To, r.From)
	}
	return nil
}

// verdict is the result of a check of the log.
type verdict struct {
	verify.Report
	// Interrupted tells that time ran out: Last is how far it has come.
	Interrupted bool `json:"interrupted,omitempty"`
}

func (s *Service) verify(ctx context.Context, r verifyRequest) (verdict, error) {
	return s.hold(ctx, r, verifyFor, math.MaxInt, func(_, _ uint64) {})
}

// hold checks a range of the log, within a time and a number of records, and reports its position
// after each page.
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
	now := s.now() // before the log's end is read: everything due by then is in it
	if r.To > 0 && r.To < end {
		end, now = r.To, time.Time{}
	}
	rules := s.Rules
	if !now.IsZero() {
		rules.Watched = s.watched()
	}
	lacks, err := s.Client.Import(ctx)
	if err != nil {
		return verdict{}, err
	}
	v := verify.New(verify.Config{From: r.From, Settings: rules, Margin: s.Margin, Rules: r.Rules, Import: lacks})
	v.Nothing(verify.ReadModel, "`millrace verify` compares it")
	whole, err := s.readLog(ctx, r.From, end, bounds{within, most}, func(at uint64) { progress(at, end) }, v.Add)
	if err != nil {
		return verdict{}, err
	}
	if !whole {
		now = time.Time{}
	}
	return verdict{*v.Report(now), !whole}, nil
}

// bounds limit what is read of the log: the time, and the number of records.
type bounds struct {
	within time.Duration
	most   int
}

// readLog passes the records of the log from a sequence to another one to each, and its position to
// progress after each page. Whole is false if the bounds did not suffice.
func (s *Service) readLog(ctx context.Context, from, end uint64, b bounds, progress func(at uint64), each func(*events.Record) error) (whole bool, err error) {
	reading, cancel := context.WithTimeout(ctx, b.within)
	defer cancel()
	read := 0
	for next := max(from, 1); next <= end; {
		progress(next - 1)
		records, err := s.Client.Store().Page(reading, next, verifyAtOnce)
		if read += len(records); read > b.most || reading.Err() != nil && ctx.Err() == nil {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if len(records) == 0 {
			break
		}
		for i := range records {
			if records[i].Seq > end {
				break
			}
			if err := each(&records[i]); err != nil {
				return false, err
			}
		}
		next = records[len(records)-1].Seq + 1
	}
	progress(end)
	return true, nil
}

// reads takes the one place for reading the whole log, until leave is called: that needs a
// processor and much memory.
func (s *Service) reads() (leave func(), err error) {
	select {
	case s.verifying <- struct{}{}:
		return func() { <-s.verifying }, nil
	default:
		return nil, busy{"another verification or export of the log is under way"}
	}
}

// Bounds of a check that no caller waits for.
const (
	verifyLong = 10 * time.Minute
	// VerifyMost is how many messages [Desk.Verify] reads at most: it keeps what it must know of
	// them in memory.
	VerifyMost = 2_000_000
)

// Verify checks the promises over a range of the log, from a sequence (0 is the beginning) to
// another one (0 is the end), outside a request: it takes no place at the desk. interrupted tells
// that the bounds did not suffice. [ProblemOf] explains the error; only one check runs at a time,
// those of requests included.
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

// SurveyFor bounds the time of [Desk.Survey].
const SurveyFor = 2 * time.Minute

// Survey gives access to the whole log.
type Survey struct{ service *Service }

// Survey calls look with access to the whole log, for [SurveyFor] at most: one at a time, and none
// while the log is being verified. It takes no place at the desk. [ProblemOf] explains the error.
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

// Import says what the log lacks, because it was imported or has forgotten its front.
func (s Survey) Import(ctx context.Context) (events.Import, error) {
	return s.service.Client.Import(ctx)
}

// History returns all facts of a task in order. The error wraps [task.ErrUnknown] if there is no
// such task.
func (s Survey) History(ctx context.Context, id task.ID) ([]events.Record, error) {
	return s.service.Client.History(ctx, id)
}

// PointAt returns the place of a moment, the end for the zero moment; false if the log begins
// later.
func (s Survey) PointAt(ctx context.Context, m view.Moment) (view.Point, bool, error) {
	return s.service.Client.PointAt(ctx, m)
}

// StepResult returns the result of a step that the log keeps apart; the error says if it is gone.
func (s Survey) StepResult(ctx context.Context, id task.ID, digest string, size int) ([]byte, error) {
	return s.service.Client.Store().StepResult(ctx, id, digest, size)
}

// Until passes all records of the log up to a sequence to each, in order: [VerifyMost] at most.
func (s Survey) Until(ctx context.Context, seq uint64, each func(*events.Record) error) error {
	whole, err := s.service.readLog(ctx, 1, seq, bounds{SurveyFor, VerifyMost}, func(uint64) {}, each)
	if err == nil && !whole {
		err = tooLarge{fmt.Errorf("the log has more than the %d messages that are read here", VerifyMost)}
	}
	return err
}

// Printed passes the stored messages with the lines of some tasks to each.
func (s Survey) Printed(ctx context.Context, ids []task.ID, each func(seq uint64, stored time.Time, subject string, body []byte) error) error {
	return s.service.Client.Store().PrintedAs(ctx, ids, each)
}
