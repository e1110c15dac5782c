package scheduler

import (
	"context"
	"time"
)

// First tells whether this scheduler goes first with the subject named what.
func (s *Scheduler) First(what string) bool { return s.turns.First(what) }

// meet announces this scheduler to the others while it is fit, and listens to them, until ctx ends.
func (s *Scheduler) meet(ctx context.Context) error {
	peers := s.cfg.Peers
	if peers == nil {
		return nil
	}
	leave, err := peers.Meet(s.turns.Hear)
	if err != nil {
		return err
	}
	defer leave()
	ticker := time.NewTicker(HereEvery)
	defer ticker.Stop()
	for here := false; ; {
		if fit := s.fitness.Fit(); fit || here {
			here = fit
			s.turns.Join(here)
			_ = peers.Say(s.turns.Name, here) // or the next time
		}
		select {
		case <-ctx.Done():
			_ = peers.Say(s.turns.Name, false) // else they find out
			return nil
		case <-ticker.C:
		case <-s.turns.came: // so that the newcomer hears of this one at once
		}
	}
}

// keepLevel checks repeatedly whether the read model is level with the log, until ctx ends. A
// scheduler without peers need not know.
func (s *Scheduler) keepLevel(ctx context.Context) {
	view, hurried := s.view.(Hurried)
	repeat(ctx, func() time.Duration {
		if !hurried || s.cfg.Last == nil || s.turns.Joined() && s.turns.Alone() {
			s.fitness.Level()
		} else {
			waiting, cancel := context.WithTimeout(ctx, StuckAfter)
			last, err := s.cfg.Last(waiting)
			if err == nil {
				err = view.Wait(waiting, last)
			}
			if cancel(); err == nil {
				s.fitness.Level()
			}
		}
		return Patience
	})
}
