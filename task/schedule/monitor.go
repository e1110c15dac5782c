package schedule

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/param"
	"millrace/task/value"
)

// A monitor watches what another scheduler runs. It is a job whose planned runs are held by a signal, the ping of
// the program that is watched, and go on without it when that is late. Then a server's worker ends them as the
// ping says, or as silent. So a run that waits takes no slot, and all that is so for tasks of schedules is so for
// monitors.

// Monitor says what is watched.
type Monitor struct {
	Name string
	When job.Schedule
	// Grace is how late a ping may be, and Max how long it may take from start to ok or fail. Default of Max: as
	// long as Grace.
	Grace, Max time.Duration
}

// MinGrace is the least [Monitor.Grace].
const MinGrace = time.Second

// Job is the job that watches.
func (m *Monitor) Job() job.Job {
	when := m.When
	when.CatchUp = cmp.Or(when.CatchUp, job.CatchUpNone) // nobody heard the pings of what has passed
	j := job.Job{Name: m.Name, Queue: job.MonitorQueue, Schedule: &when, Params: param.Params{Defaults: map[string]json.RawMessage{
		paramMax: value.Must(json.Marshal(value.Duration(cmp.Or(m.Max, m.Grace)))),
	}}}
	j.Handler = job.MonitorHandler
	// A fixed interval says how often, not when: its planned run is answered at any time before the next.
	j.Spec.Signal = &job.Signal{Name: signalPing, Timeout: value.Duration(m.Grace) + when.Every, OnTimeout: job.SignalGoOn}
	return j
}

// Names of a monitor's parameters, signal and steps.
const (
	paramMax   = "max"
	paramPing  = "ping" // of a run that a ping made by itself
	signalPing = "ping"
	stepEnd    = "end"  // after start
	stepLate   = "late" // more time, because nobody listened
)

// Ping is what a watched program says.
type Ping struct {
	// Word is start, ok or fail. Default, that of a person's approval, too: ok.
	Word string `json:"word,omitempty"`
	// Exit is the exit code of one that failed, and Lines the last lines that it printed.
	Exit  *int   `json:"exit,omitempty"`
	Lines string `json:"lines,omitempty"`
	// ID is the same for one that is sent again. Default: none.
	ID string `json:"id,omitempty"`
	// At is when a server heard it.
	At time.Time `json:"at,omitzero"`
}

// The words of a ping.
const (
	PingStart = "start"
	PingOK    = "ok"
	PingFail  = "fail"
)

// Bounds of a ping.
const (
	MaxPingLines = 4096 // bytes
	maxPingID    = 200  // bytes
)

// Complete puts a ping right, as a program may send it, and says what is wrong with it.
func (p *Ping) Complete(at time.Time) error {
	if p.Word = cmp.Or(p.Word, PingOK); p.Word == PingOK && p.Exit != nil && *p.Exit != 0 {
		p.Word = PingFail
	}
	switch {
	case !slices.Contains([]string{PingStart, PingOK, PingFail}, p.Word):
		return fmt.Errorf("the ping says %q, want start, ok, fail or an exit code", p.Word)
	case p.Exit != nil && (*p.Exit < 0 || *p.Exit > 255):
		return fmt.Errorf("exit is %d, want 0 to 255", *p.Exit)
	case len(p.ID) > maxPingID:
		return fmt.Errorf("id has %d bytes, want at most %d", len(p.ID), maxPingID)
	}
	if over := len(p.Lines) - MaxPingLines; over > 0 {
		p.Lines = p.Lines[over:]
		if i := strings.IndexByte(p.Lines, '\n'); i >= 0 {
			p.Lines = p.Lines[i+1:] // the first one is not whole
		}
	}
	p.Lines, p.At = strings.TrimRight(strings.ToValidUTF8(p.Lines, "�"), "\r\n"), at
	return nil
}

// heard are the pings that a run has heard, in their order.
func heard(t *task.Task) (all []Ping) {
	add := func(text json.RawMessage) {
		var p Ping
		if len(text) > 0 && json.Unmarshal(text, &p) != nil {
			p = Ping{} // a person has sent something else
		}
		p.Word = cmp.Or(p.Word, PingOK)
		all = append(all, p)
	}
	var inputs map[string]struct{ Data json.RawMessage }
	_ = json.Unmarshal(t.Inputs, &inputs) // else there are none
	if ping, told := inputs[signalPing]; told {
		add(ping.Data)
	}
	if t.Durable != nil {
		for i := range t.Durable.Steps {
			var said struct{ Data json.RawMessage }
			if s := &t.Durable.Steps[i]; s.Error == "" && json.Unmarshal(s.Result, &said) == nil {
				add(said.Data)
			}
		}
	}
	var params map[string]json.RawMessage
	_ = json.Unmarshal(t.Params, &params)
	if own := params[paramPing]; len(all) == 0 && len(own) > 0 && t.State != task.Held { // else it is about to be told
		add(own)
	}
	return all
}

// Verdict is what becomes of a run that a worker takes.
type Verdict struct {
	// Park is what it waits for on; nil if it ends.
	Park *task.Park
	// Class is "" if it has finished, and Message, Exit and Lines say how it failed.
	Class, Message, Lines string
	Exit                  *int
	// Took is how long it took from start to its end; 0 if it did not say start.
	Took time.Duration
}

// overslept is how much later than its end a wait is found to be over if no server ran meanwhile.
const overslept = time.Minute

// Judge says what becomes of a run at a time, by what it has heard.
func Judge(t *task.Task, now time.Time) Verdict {
	all := heard(t)
	var last Ping
	if len(all) > 0 {
		last = all[len(all)-1]
	}
	switch last.Word {
	case PingOK, PingFail:
		v := Verdict{Lines: last.Lines, Exit: last.Exit}
		if last.Word == PingFail {
			v.Class, v.Message = value.Task, "the program says that it failed"
			if last.Exit != nil && *last.Exit != 0 {
				v.Class, v.Message = value.Exit, fmt.Sprintf("exit code %d", *last.Exit)
			}
			if at := strings.LastIndexByte(last.Lines, '\n'); last.Lines != "" {
				v.Message += ": " + value.Cut(last.Lines[at+1:], 200)
			}
		}
		if all[0].Word == PingStart && !all[0].At.IsZero() {
			v.Took = max(last.At.Sub(all[0].At), 0)
		}
		return v
	}
	if t.Spec.Signal == nil {
		return Verdict{Class: value.User, Message: "it is the run of no monitor: `millrace monitor add` makes one"}
	}
	grace, most := t.Spec.Signal.Timeout.Std(), maxOf(t)
	waited, bound, step, ended := now.Sub(value.Later(t.SubmittedAt, t.Due)), grace, task.Step{}, false
	if d := t.Durable; d != nil && len(d.Steps) > 0 {
		step = d.Steps[len(d.Steps)-1]
		waited, ended = step.Took.Std(), slices.ContainsFunc(d.Steps, func(s task.Step) bool { return s.Name == stepEnd })
		if ended {
			bound = most
		}
	}
	silent := Verdict{Class: value.Silent, Message: fmt.Sprintf("no ping within %v of %s", value.Duration(grace), value.Clock(t.Tick.UTC()))}
	if last.Word == PingStart {
		silent.Message = fmt.Sprintf("it started at %s, and said neither ok nor fail within %v", value.Clock(last.At.UTC()), value.Duration(most))
		if !ended {
			return Verdict{Park: &task.Park{Step: stepEnd, Kind: task.StepAwait, Until: now.Add(most)}}
		}
	}
	switch {
	case step.Name == stepLate:
		silent.Message += ", nor since a server was there again"
	case waited > bound+overslept:
		return Verdict{Park: &task.Park{Step: stepLate, Kind: task.StepAwait, Until: now.Add(grace)}}
	}
	return silent
}

func maxOf(t *task.Task) time.Duration {
	var params struct{ Max value.Duration }
	_ = json.Unmarshal(t.Params, &params)
	return cmp.Or(params.Max.Std(), t.Spec.Signal.Timeout.Std())
}

// Meant is what a ping is for: one of these.
type Meant struct {
	// Run is the task that waits for it.
	Run task.ID
	// Next says that the planned run that comes, that of Tick, is to be made first; Own that one is to be made for
	// the ping alone, as if there were such a tick.
	Next, Own bool
	Tick      time.Time
	// Nothing says why it changes nothing.
	Nothing string
}

// Pinged is what a ping meets.
type Pinged struct {
	Stored *Stored
	Plan   *Plan
	// Open are the runs that have not ended, the oldest first, and Last is the latest of those that have; nil
	// if there is none.
	Open []task.Task
	Last *task.Task
	Now  time.Time
}

// early is how long before a planned run a ping may come that is for it: clocks differ.
const early = time.Minute

// For says what a ping is for. One that is sent twice, or comes late or out of order, changes nothing: with no run
// that waits, it counts only if it says that what failed is well, or the other way round.
func (w *Pinged) For(p *Ping) Meant {
	again := func(t *task.Task) bool {
		return p.ID != "" && slices.ContainsFunc(heard(t), func(is Ping) bool { return is.ID == p.ID })
	}
	started, told := false, false
	for i := range w.Open {
		if again(&w.Open[i]) {
			return Meant{Nothing: "it came before"}
		}
	}
	if w.Last != nil && again(w.Last) {
		return Meant{Nothing: "it came before"}
	}
	for i := range w.Open {
		said := heard(&w.Open[i])
		switch n := len(said); {
		case n == 0, said[n-1].Word == PingStart && p.Word != PingStart:
			return Meant{Run: w.Open[i].ID}
		case said[n-1].Word == PingStart:
			started = true
		case said[n-1].Word == p.Word && (p.Word == PingOK || same(p, &said[n-1])): // that run is on its way to its end
			told = true
		}
	}
	switch next, comes := w.Plan.Next(w.Now); {
	case started:
		return Meant{Nothing: "it has started already"}
	case comes && w.Stored.Paused == nil && w.Plan.Every == 0 && (w.Last == nil || w.Last.ID != TaskID(w.Stored.Name, next.At)) && next.At.Sub(w.Now) <= min(early, w.gap(next)/4):
		return Meant{Next: true, Tick: next.At}
	case p.Word == PingStart:
		return Meant{Nothing: "no planned run waits for it"}
	case told:
		return Meant{Nothing: "the same was said before"}
	}
	base := w.Stored.Since
	if last := w.Last; last != nil {
		base = last.EndedAt
		if p.Word == PingOK && !last.State.Failed() {
			return Meant{Nothing: "no planned run waits for it, and the last one did not fail"}
		}
		said := heard(last)
		if n := len(said); p.Word == PingFail && n > 0 && said[n-1].Word == PingFail && last.State.Failed() && same(p, &said[n-1]) {
			return Meant{Nothing: "the last run has failed already"}
		}
	}
	return Meant{Own: true, Tick: base.UTC().Add(time.Nanosecond)} // no planned run has such a time
}

// gap is how long before a tick another one is, at most: that after it tells.
func (w *Pinged) gap(next Tick) time.Duration {
	after, comes := w.Plan.Next(next.At)
	if !comes {
		return 4 * early
	}
	return after.At.Sub(next.At)
}

// same tells whether two pings say the same.
func same(a, b *Ping) bool {
	exits := a.Exit == nil && b.Exit == nil || a.Exit != nil && b.Exit != nil && *a.Exit == *b.Exit
	return exits && a.Lines == b.Lines
}

// Params are the parameters of a task that is made for a ping alone.
func (p *Ping) Params() map[string]json.RawMessage {
	return map[string]json.RawMessage{paramPing: value.Must(value.JSON(p))}
}

// Check says what is wrong with a monitor.
func (m *Monitor) Check() error {
	switch {
	case m.When.Cron == "" && m.When.Every == 0:
		return errors.New("a monitor has cron, or every: when a ping is due")
	case m.Grace < MinGrace:
		return fmt.Errorf("grace is %v, want at least %v: how late a ping may be", m.Grace, MinGrace)
	case m.Max < 0:
		return fmt.Errorf("max is %v, want more than 0", m.Max)
	}
	j := m.Job()
	if err := ValidateOfJob(&j, "schedule", nil); err != nil {
		return err
	}
	return j.Validate()
}
