package whatif

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/value"
	"millrace/task/where"
	"millrace/verify"
)

// Player keeps a log, to play what would have become of its tasks. It is for one goroutine.
type Player struct{ records []events.Record }

// Add adds the next record, of which it keeps a copy.
func (p *Player) Add(r *events.Record) error {
	if r.Err != nil || r.Kind != events.KindNode && r.Kind != events.KindQueue && r.Fact.Task == "" {
		return nil
	}
	is := *r
	is.Raw, is.Place = nil, ""
	switch e := r.Fact.Event.(type) {
	case task.Due: // which is no message of ours
		e.Route, is.Fact.Task = where.Route(strings.Clone(string(e.Route))), task.ID(strings.Clone(string(r.Fact.Task)))
		is.Fact.Event = e
	default:
		if len(r.Raw) > 0 { // else it is the record's own
			f, err := events.Decode(bytes.Clone(r.Raw))
			if err != nil {
				return err
			}
			is.Fact = f
		}
	}
	p.records = append(p.records, is)
	return nil
}

// Simulated is what would have become of the tasks of a log, by a model of how attempts run.
type Simulated struct {
	// From is the first sequence that is played, At when that was.
	From uint64    `json:"from"`
	At   time.Time `json:"at"`
	// Handover is what passes between a place for a task and its start: the median of the log.
	Handover value.Duration `json:"handover"`
	// Attempts counts the tasks that run by how sure it is how long that takes: by the worst of their attempts.
	Attempts map[string]int `json:"attempts"`
	// Misses say how far the model is from what was recorded, if nothing is other.
	Misses Misses `json:"misses"`
	// Tasks are those that would have fared otherwise: by more than the model misses.
	Tasks  []Fare `json:"tasks"`
	Sum    Sum    `json:"sum"`
	Queues []Wait `json:"queues"`
}

// Misses are how far from what was recorded the starts of tasks are that are played without a change.
type Misses struct {
	Starts int            `json:"starts"`
	Median value.Duration `json:"median"`
	P90    value.Duration `json:"p90"`
	Max    value.Duration `json:"max"`
	// Ends is how many tasks have ended in the log, SameEnd how many of them end in the same state when they are played.
	Ends    int `json:"ends"`
	SameEnd int `json:"same_end"`
}

// Sum counts tasks that would have fared otherwise; one may count several times. Later and sooner are by the end, or by the start if it
// would have been another end.
type Sum struct {
	Tasks     int `json:"tasks"`
	Later     int `json:"later"`
	Sooner    int `json:"sooner"`
	Finished  int `json:"finished"` // that did not
	Unended   int `json:"not_finished"`
	TakenOver int `json:"taken_over"` // more often
	Retried   int `json:"retried"`    // more often
}

// Lot is what became of a task.
type Lot struct {
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	State    string    `json:"state"`
	Reason   string    `json:"reason,omitempty"`
	Attempts int       `json:"attempts"`
	Losses   int       `json:"losses,omitempty"`
}

// Fare is a task that would have fared otherwise: as the model has it without the change, and with it.
type Fare struct {
	Task task.ID `json:"task"`
	What string  `json:"what"`
	Was  Lot     `json:"was"`
	Is   Lot     `json:"is"`
	// Sure is one of [Recorded], [Median] and [Guessed].
	Sure string `json:"sure"`
}

// Wait is how a queue would have waited.
type Wait struct {
	Queue string `json:"queue"`
	Was   Depth  `json:"was"`
	Is    Depth  `json:"is"`
}

// Simulate plays the log from a sequence on, without other settings and with them.
func (p *Player) Simulate(from uint64, settings task.Settings, other verify.Other) *Simulated {
	m := modelOf(p.records)
	s := &Simulated{From: max(from, 1), Handover: value.Duration(m.handover), Attempts: map[string]int{}, Tasks: []Fare{}, Queues: []Wait{}}
	if i, _ := slices.BinarySearchFunc(p.records, s.From, func(r events.Record, seq uint64) int { return cmp.Compare(r.Seq, seq) }); i < len(p.records) {
		s.At = p.records[i].Fact.At
	}
	was := play(m, p.records, s.From, settings, verify.Other{})
	s.Misses = m.misses(was, s.At)
	is := was
	if !other.None() {
		if b := other.Bounds; b.StartDeadline > 0 {
			settings.StartDeadline = b.StartDeadline.Std()
		}
		if b := other.Bounds; b.AckWait > 0 {
			settings.AckWait = b.AckWait.Std()
		}
		is = play(m, p.records, s.From, settings, other)
	}
	for _, id := range slices.Sorted(maps.Keys(is.tasks)) {
		k := is.tasks[id]
		if k.State == task.Unknown || k.State.Terminal() && k.EndedAt.Before(s.At) {
			continue
		}
		if s.Sum.Tasks++; k.Attempt > 0 {
			s.Attempts[k.sure]++
		}
		s.compare(was.tasks[id], k)
	}
	for _, name := range slices.Sorted(maps.Keys(is.depths)) {
		w := Wait{Queue: name, Is: *is.depths[name]}
		if d := was.depths[name]; d != nil {
			w.Was = *d
		}
		s.Queues = append(s.Queues, w)
	}
	return s
}

// misses are those of a course in which nothing is other.
func (m *model) misses(c *course, from time.Time) (all Misses) {
	var off []time.Duration
	for id, k := range c.tasks {
		recorded := m.ends[id]
		if first := m.tries[id][1]; first != nil && !first.start.Before(from) && !k.began.IsZero() { // else its state says so
			off = append(off, k.began.Sub(first.start).Abs())
		}
		if recorded.State.Terminal() && !recorded.EndedAt.Before(from) {
			if all.Ends++; k.State == recorded.State {
				all.SameEnd++
			}
		}
	}
	all.Starts = len(off)
	all.Median, all.P90, all.Max = value.Duration(median(off)), value.Duration(share(off, 0.9)), value.Duration(share(off, 1))
	return all
}

// leastMiss is what two starts differ by before that counts, however near the model comes.
const leastMiss = 100 * time.Millisecond

// compare keeps a task that would have fared otherwise.
func (s *Simulated) compare(was, is *played) {
	if was == nil {
		return // nobody has submitted it otherwise
	}
	f := Fare{Task: is.ID, What: is.What(), Was: lotOf(was), Is: lotOf(is), Sure: is.sure}
	least := max(s.Misses.P90.Std(), leastMiss)
	by, both := f.Is.Ended.Sub(f.Was.Ended), is.State.Terminal() && is.State == was.State
	if !both {
		by, both = f.Is.Started.Sub(f.Was.Started), !f.Is.Started.IsZero() && !f.Was.Started.IsZero()
	}
	count := func(n *int, is bool) bool {
		if is {
			*n++
		}
		return is
	}
	differs := []bool{
		count(&s.Sum.Later, both && by > least),
		count(&s.Sum.Sooner, both && by < -least),
		count(&s.Sum.Finished, is.State == task.Finished && was.State != task.Finished),
		count(&s.Sum.Unended, is.State != task.Finished && was.State == task.Finished),
		count(&s.Sum.TakenOver, is.Losses > was.Losses),
		count(&s.Sum.Retried, is.Attempt-is.Losses > was.Attempt-was.Losses),
		is.State != was.State || is.Reason != was.Reason || is.Attempt != was.Attempt,
	}
	if slices.Contains(differs, true) {
		s.Tasks = append(s.Tasks, f)
	}
}

func lotOf(k *played) Lot {
	return Lot{Started: k.began, Ended: k.EndedAt, State: k.State.String(), Reason: k.Reason, Attempts: k.Attempt, Losses: k.Losses}
}
