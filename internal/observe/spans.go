package observe

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/birth"
)

// TraceID and SpanID are OpenTelemetry's ids.
type (
	TraceID [16]byte
	SpanID  [8]byte
)

// Context is the place of a span in a trace.
type Context struct {
	Trace TraceID
	Span  SpanID
	// Sampled says that the span is to be kept.
	Sampled bool
}

// String is the context as a W3C traceparent.
func (c Context) String() string {
	flags := "00"
	if c.Sampled {
		flags = "01"
	}
	return "00-" + hex.EncodeToString(c.Trace[:]) + "-" + hex.EncodeToString(c.Span[:]) + "-" + flags
}

// Parse parses a traceparent; false if it is invalid.
func Parse(text string) (c Context, ok bool) {
	if !birth.ValidTrace(text) {
		return c, false
	}
	trace, _ := hex.DecodeString(text[3:35])
	span, _ := hex.DecodeString(text[36:52])
	flags, _ := strconv.ParseUint(text[53:], 16, 8)
	copy(c.Trace[:], trace)
	copy(c.Span[:], span)
	c.Sampled = flags&1 == 1
	return c, true
}

// Span is a span that has ended, or whose end is not known.
type Span struct {
	Context
	// Parent is zero for the first span of a trace.
	Parent SpanID
	// Remote says that the parent is not a span of Millrace.
	Remote bool
	Links  []Context
	Name   string
	From   time.Time
	To     time.Time
	// Own says that the span's attempt ended by its worker's report.
	Own bool
	// Failed says that the span's purpose was not reached, and Why why not.
	Failed     bool
	Why        string
	Attributes []Attribute
}

// Attribute is an attribute of a span. The value is a string or an int.
type Attribute struct {
	Key   string
	Value any
}

func spanID(of ...string) (id SpanID) {
	sum := sha256.Sum256([]byte(strings.Join(of, " ")))
	copy(id[:], sum[:])
	return id
}

// OfTask is the place of a task's own span. Root is its outermost parent, itself if it has none: a
// family that was submitted without a context has a trace of its own.
func OfTask(t *task.Task, root task.ID) (own Context, parent SpanID, remote bool) {
	given, ok := Parse(t.Trace)
	if own = given; !ok {
		sum := sha256.Sum256([]byte("trace " + string(root)))
		copy(own.Trace[:], sum[:])
		own.Sampled = true
	}
	own.Span = spanID("task", string(t.ID))
	if t.Parent != "" {
		return own, spanID("task", string(t.Parent)), false
	}
	return own, given.Span, ok
}

// OfAttempt is the place of the span of a task's present attempt, and of its parent.
func OfAttempt(t *task.Task, root task.ID) (own Context, parent SpanID) {
	own, _, _ = OfTask(t, root)
	parent, own.Span = own.Span, spanID("attempt", string(t.ID), strconv.FormatUint(t.Epoch, 10))
	return own, parent
}

// attributes are the attributes of all spans of a task.
func attributes(t *task.Task) []Attribute {
	all := []Attribute{{"millrace.task.id", string(t.ID)}, {"millrace.queue", t.QueueName()}}
	for _, a := range []Attribute{{"millrace.job", t.Job}, {"millrace.step", t.Step}, {"millrace.schedule", t.Schedule}, {"millrace.group", t.Group}} {
		if a.Value != "" {
			all = append(all, a)
		}
	}
	return all
}

// Attempt is the span of the present attempt of a task, from its start to a time.
func Attempt(t *task.Task, root task.ID, to time.Time) Span {
	s := Span{Name: "attempt " + strconv.Itoa(t.Attempt), From: t.StartedAt, To: to}
	s.Context, s.Parent = OfAttempt(t, root)
	s.Attributes = append(attributes(t), Attribute{"millrace.node", t.Node}, Attribute{"millrace.attempt", t.Attempt}, Attribute{"millrace.epoch", int(t.Epoch)}) // a sequence
	return s
}

// Of returns the spans of a task, from its facts: its own first, then those of its attempts, each
// with its worker's measurements, and those of the phases in which it waited. A span without an end
// lasts to now.
func Of(records []events.Record, root task.ID, now time.Time) []Span {
	var t task.Task
	var attempts []Span
	for i := range records {
		t.ID = records[i].Fact.Task
		was := t
		t = task.Evolve(t, records[i].Task())
		ran := was.Live() && was.Epoch > 0
		if ran && (!t.Live() || t.Epoch != was.Epoch) {
			attempts = append(attempts, ended(&was, records[i].Fact.Event, root, records[i].Fact.At))
		}
	}
	if t.State == task.Unknown {
		return nil
	}
	if t.Live() && t.Epoch > 0 {
		attempts = append(attempts, Attempt(&t, root, now))
	}
	own := Span{
		Name:       name(&t),
		From:       t.SubmittedAt,
		To:         now,
		Attributes: append(attributes(&t), Attribute{"millrace.state", t.State.String()}, Attribute{"millrace.attempts", t.Attempt}),
	}
	own.Context, own.Parent, own.Remote = OfTask(&t, root)
	if t.State.Terminal() {
		own.To = t.EndedAt
		own.Failed, own.Why = t.State != task.Finished, t.Message
	}
	if t.Needs != nil && t.Parent != "" {
		for _, n := range t.Needs.Of {
			link := own.Context
			link.Span = spanID("task", string(n.Task))
			own.Links = append(own.Links, link)
		}
	}
	all := append([]Span{own}, attempts...)
	for _, p := range view.Phases(records, now) {
		all = append(all, phase(&t, &p, &own, attempts)...)
	}
	for _, k := range t.Durable.Taken() {
		all = append(all, step(&t, &k, &own, attempts, now))
	}
	return all
}

// step is the span of a step of a function: below that of the attempt that did it, a wait below the task's own.
func step(t *task.Task, k *task.Taken, own *Span, attempts []Span, now time.Time) Span {
	s := Span{
		Context: own.Context, Parent: own.Span, Name: strings.TrimSpace(k.Kind + " " + k.Name), From: k.From, To: k.From.Add(k.Lasted(now)),
		Failed: k.Is == task.StepFailed, Why: k.Error, Attributes: append(attributes(t), Attribute{"millrace.step.kind", k.Kind}),
	}
	s.Span = spanID("step", string(t.ID), strconv.Itoa(k.Place))
	if k.Tries > 0 {
		s.Attributes = append(s.Attributes, Attribute{"millrace.step.tries", k.Tries})
	}
	for i := range attempts {
		if a := &attempts[i]; !a.From.After(s.From) && !a.To.Before(s.To) && k.Kind != task.StepSleep && k.Kind != task.StepAwait && k.Kind != task.StepCall {
			s.Parent = a.Span
		}
	}
	return s
}

// name is the name of a task's span: its job and step, or its handler. Readers of traces do not see
// its command.
func name(t *task.Task) string {
	switch {
	case t.Job != "":
		return t.What()
	case t.Step != "":
		return t.Step
	case t.Spec != nil && t.Spec.Run != nil:
		return "command"
	}
	return t.Spec.Text()
}

// ended is the span of an attempt that an event has ended.
func ended(t *task.Task, e any, root task.ID, at time.Time) Span {
	s := Attempt(t, root, at)
	s.Own = true
	switch e := e.(type) {
	case task.AttemptFailed:
		s.Failed, s.Why = true, e.Message
		s.Attributes = append(s.Attributes, Attribute{"millrace.class", e.Class})
	case task.AttemptLost:
		s.Own, s.Failed, s.Why = false, true, e.Reason
	case task.AttemptStarted:
		if s.Own, s.Failed = false, true; e.TookOver != nil {
			s.Why = e.TookOver.Reason
		}
	case task.CancelConfirmed:
		s.Failed, s.Why = true, e.Reason
	case task.GivenUp:
		s.Own, s.Failed, s.Why = false, true, e.Reason
	case task.AttemptParked:
		s.Attributes = append(s.Attributes, Attribute{"millrace.parked", e.Park.Words()})
	case task.AttemptReleased:
		s.Attributes = append(s.Attributes, Attribute{"millrace.released", e.Reason})
	}
	return s
}

// phase is the span of a phase; none for a phase that another span covers.
func phase(t *task.Task, p *view.Phase, own *Span, attempts []Span) []Span {
	s := Span{Context: own.Context, Parent: own.Span, Name: p.Name, From: p.From, To: p.To, Attributes: attributes(t)}
	s.Span = spanID("phase", string(t.ID), strconv.FormatUint(p.Seq, 10), p.Name)
	if p.Reason != "" {
		s.Attributes = append(s.Attributes, Attribute{"millrace.reason", p.Reason})
	}
	if p.Attempt == 0 {
		if p.Name == task.PhaseRun { // a parent runs as long as its children
			return nil
		}
		return []Span{s}
	}
	for i := range attempts {
		a := &attempts[i]
		if a.Name != fmt.Sprintf("attempt %d", p.Attempt) || p.From.Equal(a.From) && p.To.Equal(a.To) {
			continue
		}
		s.Parent = a.Span
		return []Span{s}
	}
	return nil
}
