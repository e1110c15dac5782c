package whatif

import (
	"errors"
	"fmt"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
)

// Question is what is asked of a log.
type Question struct {
	Config
	// Only limits the other settings to a job or schedule. It is also in Other.
	Only Only
	// Since is the moment from which on decisions are reported. Earlier records are read as well.
	// Default: all.
	Since view.Moment
	// Simulate asks for [Report.Simulated].
	Simulate bool
}

// Reader reads a log once, in order, and answers a question about it. It is for one goroutine.
type Reader struct {
	asked  Question
	judge  *Judge
	player *Player // nil without a simulation
	first  uint64  // of the records from the moment of the question on
	last   uint64  // of all that were read
	// hasJob and hasSchedule tell that the log mentions the job or schedule of the question.
	hasJob, hasSchedule bool
}

// ErrIdle: the log has nothing of what a question chooses.
var ErrIdle = errors.New("the log has nothing of that")

// NewReader returns a reader that has read no records.
func NewReader(q Question) *Reader {
	q.From = q.Since.Begun
	r := &Reader{asked: q, judge: New(q.Config)}
	if q.Simulate {
		r.player = new(Player)
	}
	return r
}

// Last is the sequence of the last record that was read; 0 for none.
func (r *Reader) Last() uint64 { return r.last }

// Add reads the next record, and keeps no reference to it.
func (r *Reader) Add(is *events.Record) error {
	only := &r.asked.Only
	if r.last = is.Seq; r.first == 0 && r.asked.Since.Begun(is) {
		r.first = is.Seq
	}
	if birth, ok := is.Fact.Event.(task.Submitted); ok && birth.Job == only.Job {
		r.hasJob = true
	}
	if is.Fact.Schedule == only.Schedule || is.Fact.Def == task.Named(task.DefSchedule, only.Schedule) {
		r.hasSchedule = true
	}
	if r.player != nil {
		if err := r.player.Add(is); err != nil {
			return err
		}
	}
	return r.judge.Add(is)
}

// Report sums up, and simulates the log if that was asked for: from the moment of the question on,
// or else from the first difference. Call it once, at the end. The error wraps [ErrIdle], or the
// simulation does not come to an end.
func (r *Reader) Report() (*Report, error) {
	if err := r.idle(); err != nil {
		return nil, err
	}
	is := r.judge.Report()
	if r.player == nil {
		return is, nil
	}
	from := r.first
	if r.asked.Since == (view.Moment{}) && len(is.Changes) > 0 {
		from = is.Changes[0].Seq
	}
	var err error
	is.Simulated, err = r.player.Simulate(from, r.asked.Settings, r.asked.Other)
	return is, err
}

func (r *Reader) idle() error {
	only, problem := &r.asked.Only, ""
	switch {
	case r.last == 0:
		problem = "there are no messages"
	case r.asked.Since != (view.Moment{}) && r.first == 0:
		problem = fmt.Sprintf("there is nothing from that moment on: it ends at #%d", r.last)
	case only.Job != "" && !r.hasJob:
		problem = fmt.Sprintf("up to #%d there is no task of job %s", r.last, only.Job)
	case only.Schedule != "" && !r.hasSchedule:
		problem = fmt.Sprintf("up to #%d there is nothing of schedule %s", r.last, only.Schedule)
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", ErrIdle, problem)
}
