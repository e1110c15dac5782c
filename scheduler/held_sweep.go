package scheduler

import (
	"context"
	"errors"
	"maps"
	"slices"

	"millrace/events"
	"millrace/task"
)

// Bounds of one sweep over held tasks.
const (
	heldAtOnce   = 250
	heldPerSweep = 5000 // including their needs
)

// heldSweep is the sweep's memory of held tasks. Only the sweep uses it.
type heldSweep struct {
	after task.ID // where the next sweep continues
	// free are tasks that should have been released, and since when that is known.
	free map[task.ID]miss
}

// sweepHeld examines some of the held tasks, by the read model alone, and others the next time. It
// examines tasks that were free to go every time. Releasing one that was free for longer than a
// step may take counts as a repair. One that this scheduler is about to release is left to that, unless
// it takes longer than a round may: a store that is slow is no fault.
func (s *Scheduler) sweepHeld(ctx context.Context) error {
	free := s.heldSweep.free
	s.heldSweep.free = map[task.ID]miss{}
	again := slices.Sorted(maps.Keys(free)) // in the same order for the same seed
	if _, err := s.sweepSomeHeld(ctx, again, free); err != nil {
		s.heldSweep.free = free
		return err
	}
	for seen := 0; seen < heldPerSweep; {
		ids, err := s.view.Held(ctx, s.heldSweep.after, heldAtOnce)
		if err != nil {
			return err
		}
		n, err := s.sweepSomeHeld(ctx, ids, free)
		if err != nil {
			return err
		}
		seen += n
		if len(ids) < heldAtOnce {
			s.heldSweep.after = "" // from the beginning again
			break
		}
		s.heldSweep.after = ids[len(ids)-1]
	}
	return nil
}

// sweepSomeHeld examines held tasks, some of which were free before. It returns how many tasks it
// read.
func (s *Scheduler) sweepSomeHeld(ctx context.Context, ids []task.ID, before map[task.ID]miss) (int, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	tasks, err := s.view.Known(ctx, ids)
	if err != nil {
		return 0, err
	}
	var of []task.ID
	for i := range tasks {
		if waitsForNeeds(&tasks[i]) {
			for _, need := range tasks[i].Needs.Of {
				of = append(of, need.Task)
			}
		}
	}
	known, _, err := s.view.Ends(ctx, of)
	if err != nil {
		return 0, err
	}
	for i := range tasks {
		t := &tasks[i]
		if !waitsForNeeds(t) {
			continue
		}
		ends, lacks := make([]task.End, len(t.Needs.Of)), false
		for k, need := range t.Needs.Of {
			end, is := known[need.Task]
			ends[k], lacks = end, lacks || !is
		}
		if lacks && s.rec.Now().Sub(t.SubmittedAt) > s.cfg.Slack && s.turns.First(string(t.ID)) {
			switch ended, err := s.rec.NeedsStay(ctx, t); {
			case errors.Is(err, events.ErrNeedForgotten) && !ended:
				continue // another scheduler was first
			case errors.Is(err, events.ErrNeedForgotten):
				s.repaired(RepairHold, "it needs what the log has forgotten, and its submitter has not said so; the sweep cancels it", "task", string(t.ID))
				continue
			case err != nil:
				return 0, err
			}
		}
		if verdict, _ := t.Needs.Judge(ends); verdict == task.NotYet {
			continue
		}
		now := s.rec.Now()
		m, ok := before[t.ID]
		if !ok || m.turn != t.Turn {
			m = miss{t.Turn, now}
		}
		s.heldSweep.free[t.ID] = m
		free := now.Sub(m.since)
		if free < s.cfg.Slack || free < StuckAfter && s.needs.has(t.ID) || !s.turns.First(string(t.ID)) {
			continue
		}
		if err := s.letGo(ctx, t); err != nil {
			return 0, err
		}
	}
	return len(tasks) + len(of), nil
}

// letGo releases t as should have happened at the end of the last task it needs.
func (s *Scheduler) letGo(ctx context.Context, t *task.Task) error {
	d := decided{id: t.ID, needs: t.Needs, known: make([]task.Input, len(t.Needs.Of))}
	of := make([]task.ID, len(t.Needs.Of))
	for i, need := range t.Needs.Of {
		of[i] = need.Task
	}
	ended, err := s.view.Known(ctx, of)
	if err != nil {
		return err
	}
	for i, id := range of {
		for k := range ended {
			if e := &ended[k]; e.ID == id {
				d.known[i] = task.InputOf(e)
			}
		}
	}
	did, err := s.judge(ctx, &d)
	if errors.Is(err, errJustGone) {
		return nil
	}
	if did {
		s.repaired(RepairHold, "what it needs has ended, and it was still held; the sweep lets it go", "task", string(t.ID))
	}
	return err
}
