package chaos

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"millrace/events"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
)

const (
	// tryTime bounds one exchange with the server.
	tryTime = 2 * time.Second
	// tryAgain is the pause of a client after a failed exchange.
	tryAgain = 100 * time.Millisecond
)

// submitter plays the clients: it submits the orders, again and again under the same id until they
// are acknowledged, and cancels those to be cancelled.
type submitter struct {
	client  *client.Client
	shelf   *shelf // nil without files
	running sync.WaitGroup

	mu           sync.Mutex
	acknowledged []task.ID           // guarded by mu
	open         int                 // guarded by mu; submitted and not acknowledged
	refused      []string            // guarded by mu
	delays       map[task.ID]delayed // guarded by mu; of those submitted with a delay
	limited      map[task.ID]limited // guarded by mu; those submitted, or tried, under limits
	// Guarded by mu; when each was to come and might run, since the beginning.
	comes map[task.ID]time.Duration
}

// run submits each order at its time after start, and returns when all have been begun or ctx has
// ended; acknowledgements may come later, until patient ends.
func (s *submitter) run(ctx, patient context.Context, start time.Time, orders []order) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for _, o := range orders {
		timer.Reset(time.Until(start.Add(o.at)))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		s.running.Go(func() { s.play(patient, o) })
	}
}

// delayed is a submission with a delay, and how long it took until it was acknowledged: by so much
// the server may have stored it later than the caller read its clock.
type delayed struct{ delay, took time.Duration }

func (s *submitter) play(ctx context.Context, o order) {
	o.submission.ID = task.ID(events.NewID(s.client.Now()))
	s.mu.Lock()
	s.comes[o.submission.ID] = o.at + o.submission.Delay.Std()
	s.mu.Unlock()
	s.count(+1)
	defer s.count(-1)
	if o.version > 0 {
		files, err := s.shelf.pushed(ctx, o.version)
		if err != nil {
			s.refuse("submission of "+string(o.submission.ID), ctx, err)
			return
		}
		o.submission.Spec.Files = files
	}
	if err := s.restrained(&o.submission); err != nil {
		s.refuse("submission of "+string(o.submission.ID), ctx, err)
		return
	}
	asked := time.Now()
	err := s.insist(ctx, func(ctx context.Context) error {
		_, err := s.client.Submit(ctx, o.submission)
		return err
	})
	if err != nil {
		s.refuse("submission of "+string(o.submission.ID), ctx, err)
		return
	}
	s.mu.Lock()
	s.acknowledged = append(s.acknowledged, o.submission.ID)
	if d := o.submission.Delay.Std(); d > 0 {
		s.delays[o.submission.ID] = delayed{d, time.Since(asked)}
	}
	s.mu.Unlock()
	if o.cancel == 0 {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(o.cancel):
	}
	err = s.insist(ctx, func(ctx context.Context) error {
		_, err := s.client.Cancel(ctx, o.submission.ID, "chaos")
		return err
	})
	if err != nil && !errors.Is(err, task.ErrEnded) {
		s.refuse("cancel of "+string(o.submission.ID), ctx, err)
	}
}

// restrained records a task that is about to be submitted under limits.
func (s *submitter) restrained(o *birth.Submission) error {
	if !o.Spec.Limited() {
		return nil
	}
	up, err := uptime()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limited[o.ID] = limited{o.Spec, up.Seconds()}
	return err
}

// insist repeats do until it succeeds or is refused for good.
func (s *submitter) insist(ctx context.Context, do func(context.Context) error) error {
	for {
		once, cancel := context.WithTimeout(ctx, tryTime)
		err := do(once)
		cancel()
		if err == nil || ctx.Err() != nil || errors.Is(err, client.ErrInvalid) || errors.Is(err, task.ErrEnded) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(tryAgain):
		}
	}
}

func (s *submitter) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open += n
}

// refuse records what failed although there was time.
func (s *submitter) refuse(what string, ctx context.Context, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() == nil || errors.Is(context.Cause(ctx), errPatience) {
		s.refused = append(s.refused, what+": "+err.Error())
	}
}

// all returns the acknowledged submissions so far.
func (s *submitter) all() []task.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]task.ID(nil), s.acknowledged...)
}

// delayed returns the acknowledged submissions with a delay.
func (s *submitter) delayed() map[task.ID]delayed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.delays)
}

// underLimits returns the tasks that were submitted under limits, as far as known.
func (s *submitter) underLimits() map[task.ID]limited {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.limited)
}

// waiting returns how many submissions or cancels have no answer yet.
func (s *submitter) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}
