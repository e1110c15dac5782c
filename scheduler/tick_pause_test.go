package scheduler

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/schedule"
)

// pauseWorld is a small world: a tick at noon, a schedule that is paused or removed around it, and a
// scheduler that is away or dies at some point.
type pauseWorld struct {
	decided bool          // a scheduler that died has admitted the tick
	fired   bool          // the fire of the tick is still to be handled
	pause   time.Duration // from the tick on
	resume  bool          // the schedule is resumed before a scheduler is back
	removed bool          // the schedule is removed instead of paused
	present bool          // a scheduler runs all the time
}

// remove removes a schedule.
func (s *stage) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	revision := s.defined[name].Revision + 1
	delete(s.defined, name)
	s.changed = append(s.changed, schedule.Change{Name: name})
	s.say(events.Fact{Def: task.Named(task.DefSchedule, name), Event: task.DefinitionRemoved{Revision: revision}})
}

// paused and resumed change a schedule as commands do.
func (s *stage) paused(name string) {
	s.mu.Lock()
	d := s.defined[name].Definition
	s.mu.Unlock()
	d.Paused = &schedule.Pause{At: s.now()}
	s.store(d)
}

func (s *stage) resumed(name string) {
	s.mu.Lock()
	d := s.defined[name].Definition
	s.mu.Unlock()
	s.store(d.Resumed(s.now()))
}

// A tick that was due before its schedule was paused gets a task or a reason, and one that was admitted
// gets its task, wherever a scheduler has died and whenever one is back.
func TestTicksBeforeAPause(t *testing.T) {
	t.Parallel()
	var worlds []pauseWorld
	for _, pause := range []time.Duration{-time.Millisecond, time.Millisecond, 3 * time.Second, time.Minute} {
		for bits := range 32 {
			w := pauseWorld{bits&1 > 0, bits&2 > 0, pause, bits&4 > 0, bits&8 > 0, bits&16 > 0}
			if w.decided && (w.present || pause < 0) || w.removed && w.resume || w.present && (w.resume || w.fired) {
				continue
			}
			worlds = append(worlds, w)
		}
	}
	for _, w := range worlds {
		t.Run(fmt.Sprintf("%+v", w), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { w.play(t) })
		})
	}
}

func (w pauseWorld) play(t *testing.T) {
	s := newStage(t, 0)
	tick := s.now().Add(5 * time.Second)
	s.define("s", "", tick, false)
	live := func() {
		if w.decided {
			pass(5*time.Second + time.Millisecond/2)
			s.decideUnheard(t, "s", tick)
			pass(w.pause - time.Millisecond/2)
		} else {
			pass(5*time.Second + w.pause)
		}
		if w.removed {
			s.remove("s")
		} else {
			s.paused("s")
		}
		pass(20 * time.Second)
		if w.resume {
			s.resumed("s")
			pass(20 * time.Second)
		}
	}
	if w.present {
		s.play(t, live)
	} else {
		live()
	}
	s.play(t, func() {
		var l *testLease
		if w.fired || w.decided {
			l = s.fire("s", 1, tick)
		}
		pass(10 * time.Second)
		if l != nil && !l.acked {
			t.Error("the fire was not acknowledged")
		}
	})
	s.mu.Lock()
	last := s.last["s"].Fact.Event
	s.mu.Unlock()
	born := s.birth("s", tick) != nil
	skip, skipped := last.(task.ScheduleSkipped)
	switch {
	case w.decided && !born:
		t.Errorf("the tick was admitted, and has no task; the last decision is %+v", last)
	case w.pause > 0 && !w.removed && !born && !(skipped && skip.Reason == task.SkipPaused && skip.Tick.Equal(tick)):
		t.Errorf("the tick was due before the pause, and has no task and no reason; the last decision is %+v", last)
	case w.pause < 0 && !w.fired && (born || last != nil):
		t.Errorf("the tick was due after the pause: a task: %t, the last decision is %+v", born, last)
	}
}
