package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"millrace/events"
	"millrace/task"
)

// Deliveries is a scheduler's port to the server that hands out offers.
type Deliveries interface {
	// OnDead calls dead for each offer that the server gives up after too many deliveries, until
	// stop is called. Some may be missed.
	OnDead(dead func(seq uint64)) (stop func(), err error)
	// Message reads one message of the log; false if it does not exist.
	Message(ctx context.Context, seq uint64) (events.Record, bool, error)
	// KeepQueue applies a queue's settings to its consumers.
	KeepQueue(ctx context.Context, name string) error
	// Idle tells whether no offer of a queue can be handed out any more.
	Idle(ctx context.Context, queue string) (bool, error)
}

// bury ends tasks whose offers were given up, as it hears of them.
func (s *Scheduler) bury(ctx context.Context) error {
	if s.cfg.Deliveries == nil {
		return nil
	}
	stop, err := s.cfg.Deliveries.OnDead(func(seq uint64) { s.dead.touch(strconv.FormatUint(seq, 10)) })
	if err != nil {
		return err
	}
	defer stop()
	s.dead.run(ctx, s.dead.left.Mine, func() (again []string, after time.Duration) {
		for _, key := range s.dead.take() {
			seq, _ := strconv.ParseUint(key, 10, 64) // the key was made from a sequence
			holds, err := s.Dead(ctx, seq)
			if holds > 0 {
				again, after = append(again, key), s.cfg.Sweep // its attempt continues
			}
			if err != nil && ctx.Err() == nil {
				s.log.Warn("a dead offer could not be dealt with; the sweep comes back to its task", "error", err, "offer", seq)
			}
		}
		return again, after
	})
	return nil
}

// Dead handles an offer that the server has given up. If its task still waits for that very offer,
// Dead ends the task. If an attempt ran under the offer and its lease has ended, Dead offers the
// task anew. If the lease holds, Dead changes nothing and returns for how long it holds at least.
// Any number of schedulers may call it.
func (s *Scheduler) Dead(ctx context.Context, seq uint64) (holds time.Duration, err error) {
	r, found, err := s.cfg.Deliveries.Message(ctx, seq)
	if err != nil || !found || r.Kind != events.KindOffer {
		return 0, err
	}
	t, err := s.rec.Load(ctx, r.Fact.Task)
	if errors.Is(err, task.ErrUnknown) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	// An unreadable message is no offer of any task: the read model lists it.
	command, ok := task.Undelivered(t, r.Task())
	if !ok {
		return 0, nil
	}
	if lose, ok := command.(task.Lose); ok {
		account, err := s.accounts.Of(ctx, &t)
		if err != nil {
			return s.cfg.AckWait, err
		}
		lose.Account = &account
		command = lose
	}
	ctx, done := lasting(ctx)
	defer done()
	t, event, err := s.rec.Do(ctx, t, task.Judged{Command: task.Unmoved{Command: command, Head: t.Head}, By: task.By{Rule: task.RuleDead, Offer: seq}})
	var leased *task.Leased
	switch {
	case errors.As(err, &leased):
		return leased.For, nil
	case errors.Is(err, task.ErrLeased), errors.Is(err, task.ErrMovedOn): // another session has adopted the attempt, for example
		return s.cfg.AckWait, nil
	case errors.Is(err, task.ErrEnded), errors.Is(err, task.ErrFenced):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("task %s: %w", t.ID, err)
	case event != nil:
		s.repaired(RepairDead, "its offer was handed out too often and is dead", "task", string(t.ID), "offer", seq)
	}
	return 0, s.rec.Settle(ctx, &t)
}

// sweepIdle offers tasks anew that wait in a served queue while no offer of it can be handed out.
// Two sweeps in a row must agree. The pause before each further offer of a turn grows.
func (s *Scheduler) sweepIdle(ctx context.Context, queue string, now time.Time) error {
	if s.cfg.Deliveries == nil || !s.turns.First(queue) {
		return nil
	}
	before := now.Add(-s.cfg.AckWait - s.cfg.Slack)
	ids, err := s.view.Waiting(ctx, queue, before, "", batch)
	if err != nil || len(ids) == 0 {
		delete(s.idle, queue)
		return err
	}
	idle, err := s.cfg.Deliveries.Idle(ctx, queue)
	if err != nil || !idle {
		delete(s.idle, queue)
		return err
	}
	if !s.idle[queue] {
		s.idle[queue] = true
		return nil
	}
	var errs []error
	for _, id := range ids {
		records, err := s.rec.Log.Task(ctx, id)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		t := events.FoldTask(id, records)
		if t.State != task.Pending || !t.Offered || !t.Since.Before(before) || t.Route.Queue() != queue {
			continue
		}
		offers, last := events.Offered(records, t.Turn)
		if now.Before(last.Add(task.OfferAgainAfter(offers, s.cfg.AckWait+s.cfg.Slack))) {
			continue
		}
		s.repaired(RepairOffer, "it waits, and its offer is gone; the sweep offers it again", "task", string(id), "offers", offers)
		t.Offered = false
		errs = append(errs, s.rec.Settle(ctx, &t))
	}
	return errors.Join(errs...)
}

// deadElsewhere notices dead offers that other schedulers have handled.
type deadElsewhere struct{ left *Deferred }

// observe implements [reactor].
func (d deadElsewhere) observe(step *events.Step) {
	if f := &step.Record.Fact; f.By != nil && f.By.Rule == task.RuleDead {
		d.left.Drop(strconv.FormatUint(f.By.Offer, 10))
	}
}
