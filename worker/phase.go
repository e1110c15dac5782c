package worker

import "time"

// Phase reports the attempt's current phase, such as [task.PhaseSetup]. It is stored with the
// progress; it counts neither as output nor as a sign of life.
func (o *Output) Phase(phase string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.standing()
	if l.Phase == phase {
		return
	}
	l.Phase, l.PhaseSince, l.changed = phase, o.worker.cfg.Now(), true
	if l.timer == nil {
		l.timer = time.AfterFunc(max(flushAfter, livePause-time.Since(l.saved)), o.saveLive)
	}
}
