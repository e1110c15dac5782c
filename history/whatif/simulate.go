package whatif

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/placement"
	"millrace/task/value"
)

// Player keeps a log, to play alternative lives of its tasks. It is for one goroutine.
type Player struct{ records []events.Record }

// Add adds a copy of the next record.
func (p *Player) Add(r *events.Record) error {
	if r.Err != nil || !needed(r) {
		return nil
	}
	is := *r
	is.Raw, is.Place = nil, ""
	switch e := r.Fact.Event.(type) {
	case task.Due: // which Millrace does not write itself
		e.Route, is.Fact.Task = placement.Route(strings.Clone(string(e.Route))), task.ID(strings.Clone(string(r.Fact.Task)))
		is.Fact.Event = e
	default:
		if len(r.Raw) > 0 { // otherwise the record owns it
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

// Simulated is the alternative life of a log's tasks, with a model of attempts.
type Simulated struct {
	// From is the first played sequence, and At its time.
	From uint64    `json:"from"`
	At   time.Time `json:"at"`
	// Handover is the time between a place for a task and its start: the log's median.
	Handover value.Duration `json:"handover"`
	// Attempts counts the played tasks by the lowest certainty among their attempts.
	Attempts map[string]int `json:"attempts"`
	// Misses are the errors of the model when no setting is changed.
	Misses Misses `json:"misses"`
	// Tasks are those that would have fared differently, by more than the model's error.
	Tasks []Fare `json:"tasks"`
	// Sum counts these tasks.
	Sum Sum `json:"sum"`
	// Queues are those in which tasks would have waited otherwise.
	Queues []Wait `json:"queues"`
}

// Misses are the differences between recorded starts and those played without a change.
type Misses struct {
	// Starts is how many starts are compared. Median, P90 and Max are by how much the model misses
	// them: half of them, nine of ten, and all by less.
	Starts int            `json:"starts"`
	Median value.Duration `json:"median"`
	P90    value.Duration `json:"p90"`
	Max    value.Duration `json:"max"`
	// Ends is how many tasks have ended in the log, and SameEnd how many of them end in the same
	// state when played.
	Ends    int `json:"ends"`
	SameEnd int `json:"same_end"`
}

// Sum counts tasks that would have fared differently; one may count several times. Later and Sooner
// compare the ends, or the starts if the end would have been another.
type Sum struct {
	// Tasks counts all that were played. Later and Sooner are by when they would have ended.
	Tasks  int `json:"tasks"`
	Later  int `json:"later"`
	Sooner int `json:"sooner"`
	// Finished would have finished, and did not in the log. Unended is the reverse.
	Finished int `json:"finished"`
	Unended  int `json:"not_finished"`
	// TakenOver would have been taken over more often, and Retried retried more often.
	TakenOver int `json:"taken_over"`
	Retried   int `json:"retried"`
}

// Lot is the life of a task.
type Lot struct {
	// Started is when the first attempt began, and Ended when the task ended; missing if it did not.
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	// State is the last one, and Reason its code.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Attempts counts its attempts, and Losses those that were lost.
	Attempts int `json:"attempts"`
	Losses   int `json:"losses,omitempty"`
}

// Fare is a task that would have fared differently: by the model without the change, and with it.
type Fare struct {
	// Task is its id, and What its job or command.
	Task task.ID `json:"task"`
	What string  `json:"what"`
	// Was is what became of it, and Is what would have.
	Was Lot `json:"was"`
	Is  Lot `json:"is"`
	// Sure is one of [Recorded], [Median] and [Guessed].
	Sure string `json:"sure"`
}

// Wait is how tasks would have waited in a queue.
type Wait struct {
	// Queue is its name. Was is how tasks waited, and Is how they would have.
	Queue string `json:"queue"`
	Was   Depth  `json:"was"`
	Is    Depth  `json:"is"`
}

// Simulate plays the log from a sequence on, without other settings and with them. It fails if what
// follows does not come to an end.
func (p *Player) Simulate(from uint64, settings duties.Settings, other verify.Other) (*Simulated, error) {
	m := modelOf(p.records)
	s := &Simulated{From: max(from, 1), Handover: value.Duration(m.handover), Attempts: map[string]int{}, Tasks: []Fare{}, Queues: []Wait{}}
	if i, _ := slices.BinarySearchFunc(p.records, s.From, func(r events.Record, seq uint64) int { return cmp.Compare(r.Seq, seq) }); i < len(p.records) {
		s.At = p.records[i].Fact.At
	}
	was, err := play(m, p.records, s.From, settings, verify.Other{})
	if err != nil {
		return nil, err
	}
	s.Misses = m.misses(was, s.At)
	is := was
	if !other.None() {
		if b := other.Bounds; b.StartDeadline > 0 {
			settings.StartDeadline = b.StartDeadline.Std()
		}
		if b := other.Bounds; b.AckWait > 0 {
			settings.AckWait = b.AckWait.Std()
		}
		if is, err = play(m, p.records, s.From, settings, other); err != nil {
			return nil, err
		}
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
	return s, nil
}

// misses returns the errors of a course without changes.
func (m *model) misses(c *course, from time.Time) (all Misses) {
	var off []time.Duration
	for id, k := range c.tasks {
		recorded := m.ends[id]
		if first := m.tries[id][1]; first != nil && !first.start.Before(from) && !k.began.IsZero() { // otherwise its state tells
			off = append(off, k.began.Sub(first.start).Abs())
		}
		if recorded != nil && recorded.State.Terminal() && !recorded.EndedAt.Before(from) {
			if all.Ends++; k.State == recorded.State {
				all.SameEnd++
			}
		}
	}
	all.Starts = len(off)
	all.Median, all.P90, all.Max = value.Duration(median(off)), value.Duration(share(off, 0.9)), value.Duration(share(off, 1))
	return all
}

// leastMiss is the smallest difference of two starts that counts, however precise the model is.
const leastMiss = 100 * time.Millisecond

// compare keeps a task that would have fared differently.
func (s *Simulated) compare(was, is *played) {
	if was == nil {
		return // it would not exist without the change
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
