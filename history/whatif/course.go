package whatif

import (
	"slices"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/value"
)

// played is a task of a course.
type played struct {
	task.Task
	began time.Time
	sure  string // the lowest certainty among its attempts
}

// course is the life of a log's tasks from a moment on: actions of people and machines come as
// recorded, a simulation decides how tasks and nodes react, and the model gives the durations of
// attempts.
type course struct {
	*model
	other  verify.Other
	sim    *Simulation // nil when it is over
	tasks  map[task.ID]*played
	depths map[string]*Depth
}

// Depth is the history of a queue's length.
type Depth struct {
	// Most is the largest number waiting at once. Emptied is when it last fell to none; zero if
	// some wait.
	Most    int       `json:"most"`
	Emptied time.Time `json:"emptied,omitzero"`
	now     int
}

// beyond is how long a course continues after the end of the log.
const beyond = 30 * 24 * time.Hour

// play plays a log from a sequence on under other settings.
func play(m *model, records []events.Record, from uint64, settings duties.Settings, other verify.Other) (*course, error) {
	c := &course{model: m, other: other, tasks: map[task.ID]*played{}, depths: map[string]*Depth{}}
	var past []events.Record
	var began time.Time
	if len(records) > 0 {
		began = records[0].Fact.At
	}
	last, ttls := began, map[node.ID]time.Duration{}
	at := make([]time.Time, len(records)) // when those from the sequence on come
	for i := range records {
		r := &records[i]
		if e, ok := r.Fact.Event.(node.Registered); ok {
			ttls[r.Fact.Node] = e.TTL.Std()
		}
		last = value.Later(last, r.Fact.At)
		if at[i] = c.recordedAt(r, records[i+1:], ttls[r.Fact.Node]); r.Seq < from {
			past = append(past, *r)
			past[i].Fact = c.otherwise(r, false)
		}
	}
	c.sim = NewSimulation(began, past, SimulationConfig{
		Settings: settings,
		Handover: m.handover,
		Runs:     c.runs,
		On:       func(t *task.Task) node.ID { return node.ID(c.nodeOf(t.ID, t.Attempt+1)) },
		Stepped:  c.stepped,
	})
	for t := range c.sim.Model().All() {
		if t.State == task.Pending {
			c.depth(t.QueueName(), 1)
		}
	}
	for i := len(past); i < len(records); i++ {
		if r := &records[i]; !at[i].IsZero() && !follows(r) {
			c.sim.At(at[i], func() { c.recorded(r) })
		}
	}
	err := c.sim.Run(last.Add(beyond))
	for t := range c.sim.Model().All() {
		c.of(t).Task = *t
	}
	c.sim = nil // which is large
	return c, err
}

// of is a task of the course.
func (c *course) of(t *task.Task) *played {
	k := c.tasks[t.ID]
	if k == nil {
		k = &played{sure: Recorded}
		c.tasks[t.ID] = k
	}
	return k
}

// runs is how long an attempt runs, and how it ends by itself.
func (c *course) runs(t *task.Task) (took time.Duration, ends task.Command) {
	took, ends, sure := c.run(t)
	k := c.of(t)
	if k.sure == Recorded || sure == Guessed {
		k.sure = sure
	}
	if k.began.IsZero() {
		k.began = t.StartedAt
	}
	switch e := ends.(type) {
	case task.Finish:
		e.Epoch = t.Epoch
		ends = e
	case task.Fail:
		e.Epoch = t.Epoch
		ends = e
	case task.Suspend:
		e.Epoch, e.First = t.Epoch, t.Durable.Done()
		ends = e
	}
	return took, ends
}

// recordedAt is when a recorded event comes: a node is found lost when its heartbeat has expired.
func (c *course) recordedAt(r *events.Record, behind []events.Record, ttl time.Duration) time.Time {
	e, ok := r.Fact.Event.(node.WentOffline)
	if ok && e.Lost && c.other.NodeTTL > 0 && ttl > 0 {
		at := r.Fact.At.Add(c.other.NodeTTL - ttl)
		for i := range behind {
			if b := &behind[i]; b.Fact.Node == r.Fact.Node && b.Kind == events.KindNode {
				if at.After(b.Fact.At) {
					return time.Time{} // it was back before
				}
				break
			}
		}
		return at
	}
	return r.Fact.At
}

// otherwise is a recorded fact with the other settings. Anew says that a birth comes now, and not
// with what followed from it.
func (c *course) otherwise(r *events.Record, anew bool) events.Fact {
	f := r.Fact
	e, born := f.Event.(task.Submitted)
	if !born || c.other.Spec == nil || e.Spec == nil {
		return f
	}
	was := e.Spec
	is := task.Task{Work: e.Work, Due: e.Due, SubmittedAt: f.At}.Otherwise(c.other.Spec(e.Job, was))
	if e.Work = is.Work; anew {
		if was.Limited() != e.Spec.Limited() {
			e.Holds = slices.DeleteFunc(slices.Clone(e.Holds), func(hold string) bool { return hold == task.HoldLimit })
			if e.Spec.Limited() {
				e.Holds = append(e.Holds, task.HoldLimit)
			}
		}
		if e.Window != nil {
			e.Due, e.Window = time.Time{}, nil // its claim asks when that opens
		}
	}
	f.Event = e
	return f
}

// recorded replays a recorded event, if it comes from outside.
func (c *course) recorded(r *events.Record) {
	f := c.otherwise(r, true)
	id := f.Task
	k := c.sim.Task(id)
	if e, born := f.Event.(task.Submitted); born {
		if k == nil || k.State == task.Unknown {
			if parent := c.sim.Task(e.Parent); parent != nil && c.other.Spec != nil {
				for name, child := range birth.ChildIDs(parent) {
					if child == id { // as its parent makes it under the other settings
						e.Work = birth.Births(parent)(name).Work
						f.Event = e
					}
				}
			}
			c.sim.Record(&f)
		}
		return
	}
	if id == "" {
		c.others(r.Kind, &f)
		return
	}
	if k == nil {
		return
	}
	same := k.Live() && k.Epoch > 0
	switch e := f.Event.(type) {
	case task.AttemptReleased:
		if same && k.Attempt == e.Attempt && k.Node == c.nodeOf(id, e.Attempt) {
			c.sim.End(id, task.Release{Epoch: k.Epoch, Reason: e.Reason})
		}
	case task.AttemptExtended:
		if same && k.Attempt == e.Attempt {
			c.sim.Do(id, task.Extend{Epoch: k.Epoch, Until: e.Until})
		}
	case task.CancelRequested:
		c.sim.Do(id, task.Cancel{Reason: e.Reason})
	case task.CancelConfirmed:
		if e.Epoch == 0 && e.Code == "" {
			c.sim.Do(id, task.Cancel{Reason: e.Reason})
		}
	case task.Unheld:
		switch {
		case e.Hold == task.HoldNeeds:
		case k.Waits() == nil:
			c.sim.Do(id, task.Unhold{Hold: e.Hold, Reason: e.Reason})
		case len(e.Inputs) > 0: // otherwise the time of the wait was over, which the scheduler sees
			c.sim.Do(id, task.Unhold{Hold: e.Hold, Reason: e.Reason, Inputs: e.Inputs})
		}
	case task.Reopened:
		c.sim.Do(id, task.Reopen{Reason: e.Reason, Again: e.Again})
	case task.Expanded:
		if k.Children == nil {
			c.sim.Record(&f)
		}
	case task.Reassigned:
		if k.Waiting() && k.Route == e.From {
			c.sim.Record(&f)
		}
	case task.Collapsed:
		c.sim.Do(id, task.Collapse{Params: e.Params, Of: e.Of})
	case task.Postponed:
		if _, decided := job.Postpones(e.Reason); !decided && k.Waiting() && e.Due.After(c.sim.Now()) {
			c.sim.Record(&f)
		}
	}
}

// follows tells whether a fact only follows from others, by rules that the simulation has.
func follows(r *events.Record) bool {
	switch r.Fact.Event.(type) {
	case task.AttemptStarted, task.AttemptFinished, task.AttemptFailed, task.AttemptParked, task.AttemptStepped, task.AttemptLost, task.Queued, task.Due, task.Throttled, task.Granted:
		return true
	}
	return false
}

// others replays a recorded event that is not about a task.
func (c *course) others(kind events.Kind, f *events.Fact) {
	switch kind {
	case events.KindNode, events.KindQueue, events.KindDefinition:
	case events.KindBreaker:
		if f.By != nil {
			return // the rules decide that
		}
	default:
		return
	}
	f.At = c.sim.Now() // it may come at another time than recorded
	c.sim.Record(f)
}

// stepped counts the tasks that wait.
func (c *course) stepped(s *events.Step) {
	was, is := s.Was.State == task.Pending, s.Is.State == task.Pending
	if was == is && s.Was.Queue == s.Is.Queue {
		return
	}
	if was {
		c.depth(s.Was.Queue, -1)
	}
	if is {
		c.depth(s.Is.Queue, 1)
	}
}

func (c *course) depth(queue string, n int) {
	d := c.depths[queue]
	if d == nil {
		d = &Depth{}
		c.depths[queue] = d
	}
	d.now += n
	d.Most = max(d.Most, d.now)
	if d.Emptied = (time.Time{}); d.now == 0 {
		d.Emptied = c.sim.Now()
	}
}

// needed tells whether a record is needed to play a log.
func needed(r *events.Record) bool {
	switch r.Kind {
	case events.KindNode, events.KindQueue, events.KindBreaker, events.KindLimit:
		return true
	case events.KindDefinition:
		return r.Fact.Def.Kind() == task.DefCalendar
	}
	return r.Fact.Task != ""
}
