package projections

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mailru/easyjson/jlexer"

	"millrace/task"
)

// columns of a task, in the order of [appendRow] and [scanTask].
const (
	columns     = "id, state, queue, job, node, waits, deadline, doc"
	columnCount = 8
)

// appendRow appends the columns of a task to the arguments of a statement.
func appendRow(args []any, t *task.Task, doc string) []any {
	var waits, deadline any
	if t.State == task.Pending {
		waits = t.Since.UnixMicro()
	}
	if by := deadlineOf(t); !by.IsZero() {
		deadline = by.UnixMicro()
	}
	return append(args, string(t.ID), int64(t.State), t.Route.Queue(), t.Job, t.Node, waits, deadline, doc)
}

// deadlineOf is the deadline that a task bears itself, whatever its
// surroundings: [task.Owes] with no slack and its queue served. Zero means none.
func deadlineOf(t *task.Task) time.Time {
	by := ownDeadline(t)
	whole := !t.EndBy.IsZero() && (t.Waiting() || t.State == task.Running && t.Epoch == 0)
	if whole && (by.IsZero() || t.EndBy.Before(by)) {
		return t.EndBy
	}
	return by
}

func ownDeadline(t *task.Task) time.Time {
	if len(t.Holds) > 0 && t.Waiting() {
		if by := t.SignalBy(); !by.IsZero() {
			return by
		}
		return t.StartBy
	}
	switch t.State {
	case task.Scheduled, task.Retrying:
		return t.Due
	case task.Pending:
		if !t.Offered {
			return t.Since
		}
		if until := t.PreferredUntil(); !until.IsZero() && (t.StartBy.IsZero() || until.Before(t.StartBy)) {
			return until
		}
		return t.StartBy
	case task.Running:
		if until := t.RunUntil(); t.Spec != nil && !until.IsZero() && t.Epoch > 0 {
			return until.Add(t.Spec.Timeout.Grace() + task.StopMargin)
		}
	case task.Cancelling:
		if t.Epoch > 0 { // a parent's children have deadlines of their own
			return t.CancelBy
		}
	}
	return time.Time{}
}

// encode appends the part of a task that has no column of its own.
func (c *specCache) encode(dst []byte, t *task.Task) ([]byte, error) {
	d := doc{b: append(dst, '{')}
	d.time("submitted", t.SubmittedAt)
	d.str("reason", t.Reason)
	d.str("message", t.Message)
	d.num("revision", int64(t.Revision))
	if t.Spec != nil {
		text, err := c.Encode(t.Spec)
		if err != nil {
			return dst, fmt.Errorf("task %s: %w", t.ID, err)
		}
		d.key("spec")
		d.b = append(d.b, text...)
	}
	d.raw("params", t.Params)
	d.labels(t.Labels)
	d.str("route", string(t.Route))
	d.time("start_by", t.StartBy)
	d.time("end_by", t.EndBy)
	d.str("group", t.Group)
	d.str("retry_of", string(t.RetryOf))
	d.str("batch", t.Batch)
	d.str("parent", string(t.Parent))
	d.str("step", t.Step)
	d.str("schedule", t.Schedule)
	d.time("tick", t.Tick)
	d.str("trigger", t.Trigger)
	d.texts("holds", t.Holds)
	d.str("fair_key", t.FairKey)
	if t.Needs != nil {
		text, err := json.Marshal(t.Needs)
		if err != nil {
			return dst, fmt.Errorf("task %s: %w", t.ID, err)
		}
		d.raw("needs", text)
	}
	d.raw("inputs", t.Inputs)
	d.num("attempt", int64(t.Attempt))
	d.num("epoch", int64(t.Epoch))
	d.num("offer", int64(t.Offer))
	d.str("session", t.Session)
	d.num("head", int64(t.Head))
	d.num("turn", int64(t.Turn))
	if t.Offered {
		d.num("offered", 1)
	}
	d.num("rated", int64(t.Rated))
	if t.Throttled {
		d.num("throttled", 1)
	}
	d.num("seq", int64(t.Seq))
	d.num("failures", int64(t.Failures))
	d.num("losses", int64(t.Losses))
	d.num("late", int64(t.Late))
	d.dismissed(t.Dismissed)
	d.str("failed_on", t.FailedOn)
	d.texts("avoids", t.Avoids)
	if t.Handed != nil {
		d.str("home", string(t.Handed.Home))
		d.time("handed_until", t.Handed.Until)
	}
	if err := d.asked(t); err != nil {
		return dst, fmt.Errorf("task %s: %w", t.ID, err)
	}
	d.time("begun", t.Begun)
	d.time("due", t.Due)
	d.time("since", t.Since)
	d.time("started", t.StartedAt)
	d.time("ended", t.EndedAt)
	d.time("extended", t.Extended)
	d.num("ran", int64(t.Ran))
	d.time("cancel_by", t.CancelBy)
	if t.Exit != nil {
		d.key("exit")
		d.b = strconv.AppendInt(d.b, int64(*t.Exit), 10)
	}
	d.raw("result", t.Result)
	d.usage(t.Usage)
	if t.Children != nil {
		children, err := json.Marshal(t.Children)
		if err != nil {
			return dst, fmt.Errorf("task %s: %w", t.ID, err)
		}
		d.raw("children", children)
	}
	if len(t.Rivals) > 0 {
		rivals, err := json.Marshal(t.Rivals)
		if err != nil {
			return dst, fmt.Errorf("task %s: %w", t.ID, err)
		}
		d.raw("rivals", rivals)
	}
	return append(d.b, '}'), nil
}

// decode is the reverse of encode. The strings of the task share data's memory.
func (c *specCache) decode(t *task.Task, data []byte) error {
	l := &jlexer.Lexer{Data: data}
	l.Delim('{')
	for l.Ok() && !l.IsDelim('}') {
		key := l.UnsafeFieldName(false)
		l.WantColon()
		c.field(t, key, l)
		l.WantComma()
	}
	l.Delim('}')
	if err := l.Error(); err != nil {
		return fmt.Errorf("row of task %s: %w", t.ID, err)
	}
	return nil
}

func (c *specCache) field(t *task.Task, key string, l *jlexer.Lexer) {
	switch key {
	case "reason":
		t.Reason = l.UnsafeString()
	case "message":
		t.Message = l.UnsafeString()
	case "revision":
		t.Revision = unsigned(l)
	case "spec":
		spec, err := c.Decode(l.Raw())
		l.AddError(err)
		t.Spec = spec
	case "rivals":
		l.AddError(json.Unmarshal(l.Raw(), &t.Rivals))
	case "params":
		t.Params = l.Raw()
	case "labels":
		l.AddError(json.Unmarshal(l.Raw(), &t.Labels))
	case "route":
		t.Route = task.Route(l.UnsafeString())
	case "start_by":
		t.StartBy = instant(l)
	case "end_by":
		t.EndBy = instant(l)
	case "group":
		t.Group = l.UnsafeString()
	case "retry_of":
		t.RetryOf = task.ID(l.UnsafeString())
	case "batch":
		t.Batch = l.UnsafeString()
	case "parent":
		t.Parent = task.ID(l.UnsafeString())
	case "step":
		t.Step = l.UnsafeString()
	case "fair_key":
		t.FairKey = l.UnsafeString()
	case "schedule":
		t.Schedule = l.UnsafeString()
	case "tick":
		t.Tick = instant(l)
	case "trigger":
		t.Trigger = l.UnsafeString()
	case "needs":
		l.AddError(json.Unmarshal(l.Raw(), &t.Needs))
	case "inputs":
		t.Inputs = l.Raw()
	case "holds":
		l.AddError(json.Unmarshal(l.Raw(), &t.Holds))
	case "attempt":
		t.Attempt = l.Int()
	case "epoch":
		t.Epoch = unsigned(l)
	case "offer":
		t.Offer = unsigned(l)
	case "session":
		t.Session = l.UnsafeString()
	case "head":
		t.Head = unsigned(l)
	case "turn":
		t.Turn = unsigned(l)
	case "offered":
		t.Offered = l.Int() != 0
	case "rated":
		t.Rated = unsigned(l)
	case "throttled":
		t.Throttled = l.Int() != 0
	case "seq":
		t.Seq = unsigned(l)
	case "failures":
		t.Failures = l.Int()
	case "losses":
		t.Losses = l.Int()
	case "late":
		t.Late = l.Int()
	case "dismissed":
		t.Dismissed = dismissal(l)
	case "failed_on":
		t.FailedOn = l.UnsafeString()
	case "avoids":
		l.AddError(json.Unmarshal(l.Raw(), &t.Avoids))
	case "home":
		t.Handed = handedFrom(t.Handed)
		t.Handed.Home = task.Route(l.UnsafeString())
	case "handed_until":
		t.Handed = handedFrom(t.Handed)
		t.Handed.Until = instant(l)
	case "asked":
		l.AddError(json.Unmarshal(l.Raw(), &t.Asked))
	case "home_asked":
		t.Handed = handedFrom(t.Handed)
		l.AddError(json.Unmarshal(l.Raw(), &t.Handed.Asked))
	case "begun":
		t.Begun = instant(l)
	case "submitted":
		t.SubmittedAt = instant(l)
	case "due":
		t.Due = instant(l)
	case "since":
		t.Since = instant(l)
	case "started":
		t.StartedAt = instant(l)
	case "ended":
		t.EndedAt = instant(l)
	case "extended":
		t.Extended = instant(l)
	case "ran":
		t.Ran = task.Duration(l.Int64())
	case "cancel_by":
		t.CancelBy = instant(l)
	case "exit":
		code := l.Int()
		t.Exit = &code
	case "result":
		t.Result = l.Raw()
	case "usage":
		t.Usage = usage(l)
	case "children":
		l.AddError(json.Unmarshal(l.Raw(), &t.Children))
	default:
		l.SkipRecursive()
	}
}

// handedFrom is where the fields of a hand-over go.
func handedFrom(h *task.Handed) *task.Handed {
	if h == nil {
		return &task.Handed{}
	}
	return h
}

// unsigned reads what [doc.num] made of a uint64.
func unsigned(l *jlexer.Lexer) uint64 { return uint64(l.Int64()) }

func instant(l *jlexer.Lexer) time.Time {
	t, err := parseTime(string(l.Raw()))
	l.AddError(err)
	return t
}

// usage is the reverse of [doc.usage].
func usage(l *jlexer.Lexer) *task.Usage {
	var u task.Usage
	l.Delim('{')
	for l.Ok() && !l.IsDelim('}') {
		key := l.UnsafeFieldName(false)
		l.WantColon()
		switch key {
		case "user":
			u.UserTime = task.Duration(l.Int64())
		case "system":
			u.SystemTime = task.Duration(l.Int64())
		case "memory":
			u.MaxMemory = l.Int64()
		case "read":
			u.Read = l.Int64()
		case "written":
			u.Written = l.Int64()
		case "signal":
			u.Signal = l.UnsafeString()
		case "setup":
			u.Setup = task.Duration(l.Int64())
		case "run":
			u.Run = task.Duration(l.Int64())
		case "stop":
			u.Stop = task.Duration(l.Int64())
		case "limits":
			u.Limits = l.UnsafeString()
		case "refused":
			u.Refused = l.Int()
		default:
			l.SkipRecursive()
		}
		l.WantComma()
	}
	l.Delim('}')
	return &u
}

// doc appends the fields of a JSON object; empty ones are left out.
type doc struct{ b []byte }

func (d *doc) key(k string) {
	if d.b[len(d.b)-1] != '{' {
		d.b = append(d.b, ',')
	}
	d.b = append(d.b, '"')
	d.b = append(d.b, k...)
	d.b = append(d.b, '"', ':')
}

func (d *doc) str(k, v string) {
	if v != "" {
		d.key(k)
		d.b = appendString(d.b, v)
	}
}

func (d *doc) num(k string, v int64) {
	if v != 0 {
		d.key(k)
		d.b = strconv.AppendInt(d.b, v, 10)
	}
}

func (d *doc) raw(k string, v json.RawMessage) {
	if len(v) > 0 {
		d.key(k)
		d.b = append(d.b, v...)
	}
}

func (d *doc) time(k string, v time.Time) {
	if !v.IsZero() {
		d.key(k)
		d.b = appendTime(d.b, v)
	}
}

func (d *doc) labels(labels map[string]string) {
	if len(labels) == 0 {
		return
	}
	d.key("labels")
	d.b = append(d.b, '{')
	for i, k := range slices.Sorted(maps.Keys(labels)) {
		if i > 0 {
			d.b = append(d.b, ',')
		}
		d.b = appendLabel(d.b, k, labels[k])
	}
	d.b = append(d.b, '}')
}

func appendLabel(b []byte, k, v string) []byte {
	return appendString(append(appendString(b, k), ':'), v)
}

func (d *doc) texts(k string, list []string) {
	if len(list) == 0 {
		return
	}
	d.key(k)
	sep := byte('[')
	for _, s := range list {
		d.b = appendString(append(d.b, sep), s)
		sep = ','
	}
	d.b = append(d.b, ']')
}

func (d *doc) usage(u *task.Usage) {
	if u == nil {
		return
	}
	d.key("usage")
	d.b = append(d.b, '{')
	d.num("user", int64(u.UserTime))
	d.num("system", int64(u.SystemTime))
	d.num("memory", u.MaxMemory)
	d.num("read", u.Read)
	d.num("written", u.Written)
	d.str("signal", u.Signal)
	d.num("setup", int64(u.Setup))
	d.num("run", int64(u.Run))
	d.num("stop", int64(u.Stop))
	d.str("limits", u.Limits)
	d.num("refused", int64(u.Refused))
	d.b = append(d.b, '}')
}

// asked writes what the task's route, and that to which it goes back, ask of nodes.
func (d *doc) asked(t *task.Task) error {
	write := func(name string, a *task.Asked) error {
		if a == nil {
			return nil
		}
		text, err := json.Marshal(a)
		d.raw(name, text)
		return err
	}
	err := write("asked", t.Asked)
	if t.Handed != nil {
		err = errors.Join(err, write("home_asked", t.Handed.Asked))
	}
	return err
}

func (d *doc) dismissed(v *task.Dismissal) {
	if v == nil {
		return
	}
	d.key("dismissed")
	d.b = append(d.b, '{')
	d.time("at", v.At)
	d.str("by", v.By)
	d.str("reason", v.Reason)
	d.b = append(d.b, '}')
}

func dismissal(l *jlexer.Lexer) *task.Dismissal {
	var v task.Dismissal
	l.Delim('{')
	for l.Ok() && !l.IsDelim('}') {
		key := l.UnsafeFieldName(false)
		l.WantColon()
		switch key {
		case "at":
			v.At = instant(l)
		case "by":
			v.By = l.UnsafeString()
		case "reason":
			v.Reason = l.UnsafeString()
		default:
			l.SkipRecursive()
		}
		l.WantComma()
	}
	l.Delim('}')
	return &v
}

// appendString quotes a string and keeps every other byte as it is, valid UTF-8
// or not, so that the row equals the fold and can be searched.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		if c < ' ' {
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		} else {
			b = append(b, '\\', c)
		}
		start = i + 1
	}
	return append(append(b, s[start:]...), '"')
}

// appendTime writes an instant as seconds since 1970 with nine digits of their
// fraction: exact for every year and half as long as RFC 3339.
func appendTime(b []byte, t time.Time) []byte {
	b = strconv.AppendInt(b, t.Unix(), 10)
	b = append(b, '.')
	ns := strconv.AppendInt(b, int64(t.Nanosecond())+1e9, 10)
	return append(b, ns[len(b)+1:]...)
}

// parseTime reads what appendTime writes; the empty text is the zero time.
func parseTime(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	whole, fraction, _ := strings.Cut(s, ".")
	sec, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("instant %q: %w", s, err)
	}
	ns, err := strconv.ParseInt(fraction, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("instant %q: %w", s, err)
	}
	return time.Unix(sec, ns).UTC(), nil
}
