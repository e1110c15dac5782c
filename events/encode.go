package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"millrace/node"
	"millrace/task"
)

// MaxFact is the largest encoded fact, in bytes; parameters, results and
// messages of failures have to fit into it.
const MaxFact = 512 << 10

// ErrTooLarge refuses a fact of more than [MaxFact] bytes.
var ErrTooLarge = fmt.Errorf("the fact is larger than %d kB", MaxFact>>10)

// Encode appends the wire form of a fact to dst: one flat JSON object. The
// error says which part cannot be written; it wraps [ErrTooLarge] if it is the size.
func Encode(dst []byte, f *Fact) ([]byte, error) {
	o := object{b: append(dst, '{'), start: len(dst), about: f.Key}
	typ := TypeOf(f.Event)
	if typ == "" {
		if f.Event != nil || f.Type == "" || known(f.Type) {
			return dst, fmt.Errorf("encode fact: %T is no event of type %q", f.Event, f.Type)
		}
		typ = f.Type
	}
	if err := f.check(typ); err != nil {
		return dst, fmt.Errorf("encode %s: %w", typ, err)
	}
	o.str("type", string(typ))
	o.num("v", Version)
	o.str("id", f.ID)
	o.time("at", f.At)
	switch {
	case f.Task != "":
		o.str("task", string(f.Task))
	case f.Node != "":
		o.str("node", string(f.Node))
	case f.Message != 0:
		o.seq("seq", f.Message)
	case f.Queue != "":
		o.str("queue", f.Queue)
	case f.Schedule != "":
		o.str("schedule", f.Schedule)
	case f.Job != "":
		o.str("job", f.Job)
	default:
		o.str("key", f.Key)
	}
	o.str("actor", f.Actor)
	o.str("cause", f.Cause)
	o.str("corr", f.Corr)
	o.event(f.Event)
	if len(f.Extra) > 0 {
		o.extra(f, typ)
	}
	if o.err != nil {
		return dst, fmt.Errorf("encode %s: %w", typ, o.err)
	}
	o.b = append(o.b, '}')
	if size := len(o.b) - len(dst); size > MaxFact {
		return dst, fmt.Errorf("encode %s: %w: it has %d bytes; put large data into a file or a bucket and pass its name", typ, ErrTooLarge, size)
	}
	return o.b, nil
}

// check refuses what nobody could decode.
func (f *Fact) check(typ Type) error {
	about := 0
	if f.Message != 0 {
		about++
	}
	for _, name := range []string{string(f.Task), string(f.Node), f.Job, f.Key, f.Queue, f.Schedule} {
		if name != "" {
			about++
		}
	}
	right := true
	switch f.Event.(type) {
	case nil: // of a type that this version does not know
	case node.Event:
		right = f.Node != ""
	case task.JobEvent, task.BreakerEvent:
		right = f.Job != ""
	case task.QueueEvent:
		right = f.Queue != ""
	case task.ScheduleEvent:
		right = f.Schedule != ""
	case task.KeyEvent:
		right = f.Key != ""
	case task.MessageEvent:
		right = f.Message != 0
	case task.LimitEvent:
		about++
		right = about == 1
	default:
		right = f.Task != ""
	}
	switch {
	case f.ID == "":
		return errors.New("it has no id")
	case f.At.IsZero():
		return errors.New("it has no time (at)")
	case about == 0:
		return errors.New("it has neither task nor node, job, queue, schedule, key or message")
	case about > 1:
		return errors.New("it has more than one of task, node, job, queue, schedule, key and message")
	case known(typ) && !right:
		return fmt.Errorf("it is about %q, which is the wrong kind of thing", f.About())
	}
	return nil
}

// extra appends the fields that this version does not know, in a fixed order.
func (o *object) extra(f *Fact, typ Type) {
	own, ok := carries[typ]
	if !ok {
		own = unknownCarries
		if f.Task != "" {
			own = own.without(fNode)
		}
		if f.Job == "" {
			own = own.without(fJob)
		}
		if f.Queue == "" {
			own = own.without(fQueue)
		}
		if f.Schedule == "" {
			own = own.without(fSchedule)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(f.Extra)) {
		if own.has(fieldOf(k)) {
			o.fail(fmt.Errorf("the extra field %q is one of the type's own", k))
			return
		}
		o.raw(k, f.Extra[k])
	}
}

func (o *object) event(event any) {
	switch e := event.(type) {
	case task.Submitted:
		o.work(&e.Work)
		o.time("due", e.Due)
		o.str("retry_of", string(e.RetryOf))
	case task.Queued:
		o.num("attempt", e.Attempt)
		o.key("after").b = strconv.AppendUint(o.b, e.After, 10)
		o.str("reason", e.Reason)
		o.time("due", e.Due)
		o.work(&e.Work)
	case task.AttemptStarted:
		o.num("attempt", e.Attempt)
		o.str("node", e.Node)
		o.str("session", e.Session)
		o.seq("offer", e.Offer)
		if e.TookOver != nil {
			o.json("took_over", e.TookOver)
		}
	case task.AttemptFinished:
		o.attempt(e.Attempt, e.Epoch)
		o.exit(e.Exit)
		o.raw("result", e.Result)
		o.usage(e.Usage)
	case task.AttemptFailed:
		o.attempt(e.Attempt, e.Epoch)
		o.str("class", e.Class)
		o.exit(e.Exit)
		o.str("message", e.Message)
		o.retry(e.Retry)
		o.str("reason", e.Reason)
		o.duration("retry_after", e.RetryAfter)
		o.usage(e.Usage)
	case task.AttemptReleased:
		o.attempt(e.Attempt, e.Epoch)
		o.str("reason", e.Reason)
	case task.AttemptLost:
		o.attempt(e.Attempt, e.Epoch)
		o.str("reason", e.Reason)
	case task.AttemptExtended:
		o.attempt(e.Attempt, e.Epoch)
		o.time("until", e.Until)
	case task.AttemptLate:
		o.seq("epoch", e.Epoch)
		o.str("node", e.Node)
		o.raw("said", e.Said)
	case task.CancelRequested:
		o.str("reason", e.Reason)
		o.time("deadline", e.Deadline)
	case task.CancelConfirmed:
		o.str("reason", e.Reason)
		o.str("code", e.Code)
		o.seq("epoch", e.Epoch)
		o.exit(e.Exit)
	case task.GivenUp:
		o.str("reason", e.Reason)
		o.str("detail", e.Detail)
	case task.Reassigned:
		o.str("from", string(e.From))
		o.str("to", string(e.To))
		o.str("reason", e.Reason)
		o.time("until", e.Until)
		if err := e.To.Validate(); err != nil {
			o.fail(err)
		}
	case task.Postponed:
		o.str("reason", e.Reason)
		o.str("detail", e.Detail)
		o.time("due", e.Due)
	case task.Reopened:
		o.str("reason", e.Reason)
	case task.Expanded:
		o.json("children", e.Children)
	case task.Concluded:
		o.str("state", e.State.String())
		o.str("reason", e.Reason)
		o.str("message", e.Message)
		o.raw("result", e.Result)
		if !e.State.Terminal() {
			o.fail(fmt.Errorf("a parent does not end as %s", e.State))
		}
	case task.Dismissed:
		o.str("reason", e.Reason)
	case task.MessageDismissed:
		o.str("reason", e.Reason)
	case task.BreakerOpened:
		o.str("reason", e.Reason)
		o.time("until", e.Until)
	case task.BreakerHalfOpened:
		o.str("reason", e.Reason)
		o.time("until", e.Until)
		o.num("left", e.Left)
	case task.BreakerTried:
		o.str("reason", e.Reason)
		o.time("until", e.Until)
		o.num("left", e.Left)
	case task.BreakerClosed:
		o.str("reason", e.Reason)
	case task.Unheld:
		o.str("hold", e.Hold)
		o.str("reason", e.Reason)
		o.raw("inputs", e.Inputs)
	case task.Granted:
		if len(e.Grants) > 0 {
			o.json("grants", e.Grants)
		}
		o.rates(e.Rates)
	case task.KeyClaimed:
		o.str("holder", string(e.Holder))
		if len(e.Before) > 0 {
			o.json("before", e.Before)
		}
		if e.Key != "" && e.Key != o.about {
			o.fail(fmt.Errorf("it claims %q and is about %q", e.Key, o.about))
		}
	case node.Registered:
		o.str("session", e.Session)
		o.profile(&e.Profile)
	case node.WentOnline:
		o.session(e.Session, e.Reason)
		o.seq("connection", e.Connection)
	case node.BecameReady:
		o.session(e.Session, e.Reason)
		o.seq("connection", e.Connection)
		o.duration("took", e.Took)
		o.num("kept", e.Kept)
		o.num("stopped", e.Stopped)
		o.seq("low", e.Low)
	case node.Drained:
		o.session(e.Session, e.Reason)
	case node.WentOffline:
		o.session(e.Session, e.Reason)
		o.yes("lost", e.Lost)
		o.seq("low", e.Low)
	case node.Changed:
		o.order(e.Order)
		o.str("reason", e.Reason)
		o.duration("grace", e.Grace)
	case node.Labelled:
		o.json("labels", e.Labels)
		o.str("reason", e.Reason)
	case node.WasQuarantined:
		o.str("reason", e.Reason)
		o.time("until", e.Until)
	case node.WasReleased:
		o.str("reason", e.Reason)
	case node.WasRetired:
		o.str("reason", e.Reason)
	case task.JobApplied:
		o.seq("revision", e.Revision)
		o.str("digest", e.Digest)
	case task.JobRemoved:
		o.seq("revision", e.Revision)
	case task.QueuePaused:
		o.str("reason", e.Reason)
		o.time("until", e.Until)
	case task.QueueResumed:
		o.str("reason", e.Reason)
	case task.QueueLimited:
		o.num("running", e.Running)
		o.num("waiting", e.Waiting)
		o.str("reason", e.Reason)
	case task.QueuePurged:
		o.str("reason", e.Reason)
		o.num("ended", e.Ended)
	case task.ScheduleEvent:
		o.schedule(e)
	}
}

func (o *object) work(w *task.Work) {
	if w.Spec == nil {
		o.fail(errors.New("the task has no spec"))
		return
	}
	if err := w.Route.Validate(); err != nil {
		o.fail(err)
		return
	}
	o.str("job", w.Job)
	o.seq("revision", w.Revision)
	spec, err := specs.Encode(w.Spec)
	if err != nil {
		o.fail(err)
		return
	}
	o.key("spec").b = append(o.b, spec...)
	o.raw("params", w.Params)
	if len(w.Labels) > 0 {
		o.json("labels", w.Labels)
	}
	o.str("route", string(w.Route))
	o.num("priority", w.Route.Priority())
	if !w.StartBy.IsZero() || !w.EndBy.IsZero() {
		o.json("deadlines", deadlines{Start: w.StartBy.UTC(), End: w.EndBy.UTC()})
	}
	o.str("group", w.Group)
	o.str("parent", string(w.Parent))
	o.str("schedule", w.Schedule)
	o.time("tick", w.Tick)
	o.str("trigger", w.Trigger)
	if len(w.Holds) > 0 {
		o.json("holds", w.Holds)
	}
	o.str("fair_key", w.FairKey)
	if w.Needs != nil {
		o.json("needs", w.Needs)
	}
	o.raw("inputs", w.Inputs)
}

// deadlines are the absolute bounds of a task.
type deadlines struct {
	Start time.Time `json:"start,omitzero"`
	End   time.Time `json:"end,omitzero"`
}

// rates are written in UTC, like any time.
func (o *object) rates(rates map[string]time.Time) {
	if len(rates) == 0 {
		return
	}
	all := make(map[string]time.Time, len(rates))
	for name, at := range rates {
		if all[name] = at.UTC(); !writable(all[name]) {
			o.fail(fmt.Errorf("rates: the year %d is out of range", all[name].Year()))
			return
		}
	}
	o.json("rates", all)
}

func (o *object) profile(p *node.Profile) {
	o.str("host", p.Host)
	o.num("pid", p.PID)
	o.str("version", p.Version)
	if len(p.Labels) > 0 {
		o.json("labels", p.Labels)
	}
	o.num("slots", p.Slots)
	if len(p.Queues) > 0 {
		o.json("queues", p.Queues)
	}
	o.yes("probes", p.Probes)
}

func (o *object) session(session, reason string) {
	o.str("session", session)
	o.str("reason", reason)
}

// order is always there: that nothing is asked any more is the fact.
func (o *object) order(v node.Order) {
	if v > node.OrderDrain {
		o.fail(fmt.Errorf("there is no %s", v))
		return
	}
	o.str("order", v.String())
}

func (o *object) attempt(attempt int, epoch uint64) {
	o.num("attempt", attempt)
	o.seq("epoch", epoch)
}

func (o *object) exit(code *int) {
	if code != nil {
		o.key("exit").b = strconv.AppendInt(o.b, int64(*code), 10)
	}
}

// retry is null where there is none: that this failure is the end is worth a word.
func (o *object) retry(p *task.RetryPlan) {
	if p == nil {
		o.json("retry", nil)
		return
	}
	o.json("retry", task.RetryPlan{Attempt: p.Attempt, Due: p.Due.UTC()})
}

func (o *object) usage(u *task.Usage) {
	if u != nil {
		o.json("usage", u)
	}
}

// object appends the fields of a JSON object. Empty values are left out.
type object struct {
	b     []byte
	start int
	about string // the key, if it is about one
	err   error
}

func (o *object) key(k string) *object {
	if len(o.b) > o.start+1 {
		o.b = append(o.b, ',')
	}
	o.b = appendString(o.b, k)
	o.b = append(o.b, ':')
	return o
}

func (o *object) str(k, v string) {
	if v != "" {
		o.key(k).b = appendString(o.b, v)
	}
}

func (o *object) num(k string, v int) {
	if v != 0 {
		o.key(k).b = strconv.AppendInt(o.b, int64(v), 10)
	}
}

func (o *object) seq(k string, v uint64) {
	if v != 0 {
		o.key(k).b = strconv.AppendUint(o.b, v, 10)
	}
}

func (o *object) time(k string, v time.Time) {
	if v.IsZero() {
		return
	}
	v = v.UTC()
	if !writable(v) {
		o.fail(fmt.Errorf("%s: the year %d is out of range", k, v.Year()))
		return
	}
	o.key(k)
	o.b = append(o.b, '"')
	o.b = v.AppendFormat(o.b, time.RFC3339Nano)
	o.b = append(o.b, '"')
}

func (o *object) duration(k string, v task.Duration) {
	if v != 0 {
		o.str(k, v.String())
	}
}

func (o *object) yes(k string, v bool) {
	if v {
		o.key(k).b = append(o.b, "true"...)
	}
}

// fail keeps the first error.
func (o *object) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// raw appends a value that is JSON already; it must be valid.
func (o *object) raw(k string, v json.RawMessage) {
	if len(v) == 0 {
		return
	}
	if !json.Valid(v) || !utf8.Valid(v) {
		o.fail(fmt.Errorf("%s is not valid JSON in UTF-8", k))
		return
	}
	o.key(k).b = append(o.b, v...)
}

func (o *object) json(k string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		o.fail(fmt.Errorf("%s: %w", k, err))
		return
	}
	o.key(k).b = append(o.b, b...)
}

// appendString quotes a string. Nearly all of ours are plain, which needs no escapes.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			q, _ := json.Marshal(s) // a string always marshals
			return append(b, q...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
