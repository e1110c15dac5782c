package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/mailru/easyjson/jlexer"

	"millrace/node"
	"millrace/task"
)

// Decode reads the wire form of a fact. A type that is not known is no error:
// Event is then nil. Fields that are not known of this type are kept in Extra.
// The strings of the fact may share data's memory, so data must not be modified
// afterwards.
//
// An error means that this is no fact: broken JSON, a field twice or of the
// wrong kind, or one that must be there and is not. Where a field's absence
// means something, null means the same.
func Decode(data []byte) (Fact, error) {
	w := wire{}
	if err := w.read(data); err != nil {
		return Fact{}, fmt.Errorf("decode fact: %w", err)
	}
	if err := w.check(); err != nil {
		return Fact{}, fmt.Errorf("decode fact: %w", err)
	}
	f := Fact{ID: w.id, At: w.at, Type: w.typ, Actor: w.actor, Cause: w.cause, Corr: w.corr, Event: w.event(), Extra: w.extra}
	switch {
	case w.task != "":
		f.Task = task.ID(w.task)
	case w.node != "":
		f.Node = node.ID(w.node)
	case w.seq != 0:
		f.Message = w.seq
	case w.job != "":
		f.Job = w.job
	case w.queue != "":
		f.Queue = w.queue
	case w.schedule != "":
		f.Schedule = w.schedule
	default:
		f.Key = w.key
	}
	return f, nil
}

// wire holds the fields of all types; each type uses some of them.
type wire struct {
	carries, seen             fields
	typ                       Type
	id, task, node            string
	actor, cause, corr        string
	at                        time.Time
	attempt, pid, slots       int
	epoch, offer, after       uint64
	session, reason           string
	class, message, detail    string
	exit                      *int
	due, deadline             time.Time
	job, route, group, parent string
	revision                  uint64
	spec                      *task.Spec
	params, result, said      json.RawMessage
	labels                    map[string]string
	deadlines                 deadlines
	host, version             string
	queues                    []string
	tookOver                  *task.TookOver
	retry                     *task.RetryPlan
	usage                     *task.Usage
	digest, from, to          string
	connection, low, seq      uint64
	kept, stopped             int
	took, grace, retryAfter   task.Duration
	order                     node.Order
	until                     time.Time
	lost, probes              bool
	schedule, trigger, made   string
	tick                      time.Time
	count                     int
	ledger                    task.Ledger
	removed                   []string // of labels: those whose value is null
	children                  task.Children
	state                     task.State
	left                      int
	retryOf                   string
	holds                     []string
	fairKey, queue            string
	running, waiting, ended   int
	key, holder               string
	grants                    []task.Grant
	rates                     map[string]time.Time
	before                    []task.ID
	hold, code                string
	needs                     *task.Needs
	inputs                    json.RawMessage
	extra                     map[string]json.RawMessage
}

func (w *wire) read(data []byte) error {
	if err := readable(data); err != nil {
		return err
	}
	l := &jlexer.Lexer{Data: data}
	l.Delim('{')
	for l.Ok() && !l.IsDelim('}') {
		key := l.UnsafeFieldName(false)
		l.WantColon()
		if w.carries == (fields{}) { // the first field, which in all that we write is the type
			w.begin(data)
		}
		if f := fieldOf(key); w.carries.has(f) {
			w.field(f, key, l)
		} else {
			w.unknown(key, l)
		}
		l.WantComma()
	}
	if before := bytes.TrimRight(data[:max(l.GetPos()-1, 0)], " \t\r\n"); bytes.HasSuffix(before, []byte(",")) {
		return errors.New("a comma stands before the end")
	}
	l.Delim('}')
	l.Consumed()
	if l.Ok() && w.task != "" && w.node != "" && !known(w.typ) {
		w.keep("node", appendString(nil, w.node)) // beside task, nothing says what it means
	}
	if l.Ok() && w.job != "" && (w.task != "" || w.node != "") && !known(w.typ) {
		w.keep("job", appendString(nil, w.job))
	}
	if l.Ok() && w.queue != "" && (w.task != "" || w.node != "" || w.job != "") && !known(w.typ) {
		w.keep("queue", appendString(nil, w.queue))
	}
	if l.Ok() && w.schedule != "" && (w.task != "" || w.node != "" || w.job != "" || w.queue != "") && !known(w.typ) {
		w.keep("schedule", appendString(nil, w.schedule))
	}
	return l.Error()
}

// readable refuses what the lexer would let pass, though it is no JSON.
func readable(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("it is not UTF-8")
	}
	for _, c := range data {
		if c < ' ' { // good between values and bad in a string; what we write has none at all
			if !json.Valid(data) {
				return errors.New("it is not valid JSON")
			}
			break
		}
	}
	return nil
}

// begin finds out which fields are to be expected.
func (w *wire) begin(data []byte) {
	w.carries = unknownCarries
	l := &jlexer.Lexer{Data: data}
	l.Delim('{')
	for l.Ok() && !l.IsDelim('}') {
		key := l.UnsafeFieldName(false)
		l.WantColon()
		if key == "type" {
			if c, ok := carries[Type(l.UnsafeString())]; ok {
				w.carries = c
			}
			return
		}
		l.SkipRecursive()
		l.WantComma()
	}
}

func known(t Type) bool { _, ok := carries[t]; return ok }

// unknown keeps a field that this version does not know of the type.
func (w *wire) unknown(key string, l *jlexer.Lexer) {
	if _, twice := w.extra[key]; twice {
		l.AddError(errTwice(key))
		return
	}
	w.keep(key, raw(l))
}

func (w *wire) keep(key string, v json.RawMessage) {
	if w.extra == nil {
		w.extra = make(map[string]json.RawMessage)
	}
	w.extra[key] = v
}

func (w *wire) field(f field, key string, l *jlexer.Lexer) {
	if w.seen.has(f) {
		l.AddError(errTwice(key))
		return
	}
	w.seen = w.seen.with(f)
	if l.IsNull() && f != fResult && f != fSaid {
		l.Skip()
		return
	}
	switch f {
	case fType:
		w.typ = Type(l.UnsafeString())
	case fV, fPriority:
		signed(l) // repeats what the type and the route say
	case fID:
		w.id = l.UnsafeString()
	case fAt:
		w.at = instant(l)
	case fTask:
		w.task = l.UnsafeString()
	case fNode:
		w.node = l.UnsafeString()
	case fActor:
		w.actor = l.UnsafeString()
	case fCause:
		w.cause = l.UnsafeString()
	case fCorr:
		w.corr = l.UnsafeString()
	case fAttempt:
		w.attempt = signed(l)
	case fEpoch:
		w.epoch = unsigned(l)
	case fOffer:
		w.offer = unsigned(l)
	case fAfter:
		w.after = unsigned(l)
	case fSession:
		w.session = l.UnsafeString()
	case fReason:
		w.reason = l.UnsafeString()
	case fClass:
		w.class = l.UnsafeString()
	case fMessage:
		w.message = l.UnsafeString()
	case fDetail:
		w.detail = l.UnsafeString()
	case fExit:
		code := signed(l)
		w.exit = &code
	case fDue:
		w.due = instant(l)
	case fDeadline:
		w.deadline = instant(l)
	case fJob:
		w.job = l.UnsafeString()
	case fRoute:
		w.route = l.UnsafeString()
	case fGroup:
		w.group = l.UnsafeString()
	case fParent:
		w.parent = l.UnsafeString()
	case fRevision:
		w.revision = unsigned(l)
	case fSpec:
		if text := l.Raw(); l.Ok() {
			spec, err := specs.Decode(text)
			l.AddError(err)
			w.spec = spec
		}
	case fParams:
		w.params = raw(l)
	case fResult:
		w.result = raw(l)
	case fSaid:
		w.said = raw(l)
	case fHost:
		w.host = l.UnsafeString()
	case fVersion:
		w.version = l.UnsafeString()
	case fPID:
		w.pid = signed(l)
	case fSlots:
		w.slots = signed(l)
	case fLabels:
		w.readLabels(l)
	case fQueues:
		if v := value[[]string](l); len(v) > 0 {
			w.queues = v
		}
	case fDeadlines:
		w.deadlines = value[deadlines](l)
		w.deadlines.Start, w.deadlines.End = utc(l, w.deadlines.Start), utc(l, w.deadlines.End)
	case fTookOver:
		w.tookOver = value[*task.TookOver](l)
	case fRetry:
		if w.retry = value[*task.RetryPlan](l); w.retry != nil {
			w.retry.Due = utc(l, w.retry.Due)
		}
	case fUsage:
		w.usage = value[*task.Usage](l)
	case fDigest:
		w.digest = l.UnsafeString()
	case fFrom:
		w.from = l.UnsafeString()
	case fTo:
		w.to = l.UnsafeString()
	case fConnection:
		w.connection = unsigned(l)
	case fTook:
		w.took = value[task.Duration](l)
	case fKept:
		w.kept = signed(l)
	case fStopped:
		w.stopped = signed(l)
	case fLow:
		w.low = unsigned(l)
	case fOrder:
		w.order = value[node.Order](l)
	case fGrace:
		w.grace = value[task.Duration](l)
	case fUntil:
		w.until = instant(l)
	case fLost:
		w.lost = value[bool](l)
	case fProbes:
		w.probes = value[bool](l)
	case fSchedule:
		w.schedule = l.UnsafeString()
	case fTick:
		w.tick = instant(l)
	case fTrigger:
		w.trigger = l.UnsafeString()
	case fMade:
		w.made = l.UnsafeString()
	case fCount:
		w.count = signed(l)
	case fLedger:
		w.ledger = value[task.Ledger](l)
		w.ledger.Last = utc(l, w.ledger.Last)
		for i := range w.ledger.Waiting {
			w.ledger.Waiting[i].Tick = utc(l, w.ledger.Waiting[i].Tick)
		}
	case fChildren:
		w.children = value[task.Children](l)
	case fState:
		w.state = value[task.State](l)
	case fSeq:
		w.seq = unsigned(l)
	case fLeft:
		w.left = signed(l)
	case fRetryOf:
		w.retryOf = l.UnsafeString()
	case fHolds:
		if v := value[[]string](l); len(v) > 0 {
			w.holds = v
		}
	case fHold:
		w.hold = l.UnsafeString()
	case fFairKey:
		w.fairKey = l.UnsafeString()
	case fQueue:
		w.queue = l.UnsafeString()
	case fRunning:
		w.running = signed(l)
	case fWaiting:
		w.waiting = signed(l)
	case fEnded:
		w.ended = signed(l)
	case fKey:
		w.key = l.UnsafeString()
	case fHolder:
		w.holder = l.UnsafeString()
	case fGrants:
		if v := value[[]task.Grant](l); len(v) > 0 {
			w.grants = v
		}
	case fRetryAfter:
		w.retryAfter = value[task.Duration](l)
	case fBefore:
		if v := value[[]task.ID](l); len(v) > 0 {
			w.before = v
		}
	case fRates:
		if v := value[map[string]time.Time](l); len(v) > 0 {
			for name, at := range v {
				v[name] = utc(l, at)
			}
			w.rates = v
		}
	case fCode:
		w.code = l.UnsafeString()
	case fNeeds:
		w.needs = value[*task.Needs](l)
	case fInputs:
		w.inputs = raw(l)
	}
}

// readLabels reads names and values. In a change of labels null removes one.
func (w *wire) readLabels(l *jlexer.Lexer) {
	text := l.Raw()
	if !l.Ok() {
		return
	}
	if w.carries == carries[NodeLabelled] && bytes.Contains(text, []byte("null")) {
		var all map[string]*string
		l.AddError(json.Unmarshal(text, &all))
		for name, value := range all {
			if value == nil {
				w.removed = append(w.removed, name)
			}
		}
	}
	var labels map[string]string
	l.AddError(json.Unmarshal(text, &labels))
	if len(labels) > 0 {
		w.labels = labels
	}
}

func (w *wire) labelChanges() map[string]*string {
	if len(w.labels) == 0 {
		return nil
	}
	changes := make(map[string]*string, len(w.labels))
	for name, value := range w.labels {
		changes[name] = &value
	}
	for _, name := range w.removed {
		changes[name] = nil
	}
	return changes
}

type errTwice string

func (key errTwice) Error() string { return fmt.Sprintf("the field %q is there twice", string(key)) }

func signed(l *jlexer.Lexer) int {
	n, err := strconv.Atoi(string(integer(l)))
	if l.Ok() {
		l.AddError(err)
	}
	return n
}

func unsigned(l *jlexer.Lexer) uint64 {
	n, err := strconv.ParseUint(string(integer(l)), 10, 64)
	if l.Ok() {
		l.AddError(err)
	}
	return n
}

// integer takes a number as text; the lexer's own methods let 007 pass.
func integer(l *jlexer.Lexer) []byte {
	text := l.Raw()
	if digits := bytes.TrimPrefix(text, []byte("-")); len(digits) > 1 && digits[0] == '0' {
		l.AddError(fmt.Errorf("%q is no integer", text))
	}
	return text
}

func instant(l *jlexer.Lexer) time.Time {
	s := l.UnsafeString()
	if !l.Ok() {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	l.AddError(err)
	return utc(l, t)
}

// utc refuses what in UTC has no year of four digits and so could not be written again.
func utc(l *jlexer.Lexer, t time.Time) time.Time {
	t = t.UTC()
	if !writable(t) {
		l.AddError(fmt.Errorf("the year %d is out of range", t.Year()))
	}
	return t
}

func writable(t time.Time) bool { return t.Year() >= 0 && t.Year() <= 9999 }

// raw takes any valid JSON value as it is. The lexer checks objects and arrays, but
// takes strings and numbers on trust if it need not convert them.
func raw(l *jlexer.Lexer) json.RawMessage {
	v := l.Raw()
	if l.Ok() && v[0] != '{' && v[0] != '[' && !json.Valid(v) {
		l.AddError(fmt.Errorf("%.20q is not valid JSON", v))
	}
	return v
}

func value[T any](l *jlexer.Lexer) T {
	var v T
	if text := l.Raw(); l.Ok() {
		l.AddError(json.Unmarshal(text, &v))
	}
	return v
}

// check refuses what no fact can be without.
func (w *wire) check() error {
	switch {
	case w.typ == "":
		return errors.New("it has no type")
	case w.id == "":
		return errors.New("it has no id")
	case w.at.IsZero():
		return errors.New("it has no time (at)")
	case w.task == "" && w.carries.has(fTask) && known(w.typ):
		return fmt.Errorf("%s has no task", w.typ)
	case w.key == "" && w.carries.has(fKey) && known(w.typ):
		return fmt.Errorf("%s has no key", w.typ)
	case w.typ == MessageDismissed && w.seq == 0:
		return fmt.Errorf("%s has no sequence (seq)", w.typ)
	case w.task == "" && w.node == "" && w.job == "" && w.queue == "" && w.schedule == "" && w.key == "" && w.seq == 0 && w.typ != LimitGranted:
		return errors.New("it has neither task nor node, job, queue, schedule, key or message")
	}
	if w.carries.has(fRoute) {
		if w.spec == nil {
			return fmt.Errorf("%s has no spec", w.typ)
		}
		return task.Route(w.route).Validate()
	}
	if w.carries.has(fTo) {
		return task.Route(w.to).Validate()
	}
	if w.typ == TaskConcluded && !w.state.Terminal() {
		return fmt.Errorf("%s has no state in which a task ends", w.typ)
	}
	return nil
}

func (w *wire) event() any {
	switch w.typ {
	case TaskSubmitted:
		return task.Submitted{Work: w.work(), Due: w.due, RetryOf: task.ID(w.retryOf)}
	case TaskQueued:
		return task.Queued{Work: w.work(), Attempt: w.attempt, After: w.after, Reason: w.reason, Due: w.due}
	case AttemptStarted:
		return task.AttemptStarted{Attempt: w.attempt, Node: w.node, Session: w.session, Offer: w.offer, TookOver: w.tookOver}
	case AttemptFinished:
		return task.AttemptFinished{Attempt: w.attempt, Epoch: w.epoch, Exit: w.exit, Result: w.result, Usage: w.usage}
	case AttemptFailed:
		return task.AttemptFailed{Attempt: w.attempt, Epoch: w.epoch, Class: w.class, Exit: w.exit, Message: w.message, Retry: w.retry, Reason: w.reason, RetryAfter: w.retryAfter, Usage: w.usage}
	case AttemptReleased:
		return task.AttemptReleased{Attempt: w.attempt, Epoch: w.epoch, Reason: w.reason}
	case AttemptLost:
		return task.AttemptLost{Attempt: w.attempt, Epoch: w.epoch, Reason: w.reason}
	case AttemptExtended:
		return task.AttemptExtended{Attempt: w.attempt, Epoch: w.epoch, Until: w.until}
	case AttemptLate:
		return task.AttemptLate{Epoch: w.epoch, Node: w.node, Said: w.said}
	case TaskCancelRequested:
		return task.CancelRequested{Reason: w.reason, Deadline: w.deadline}
	case TaskCancelled:
		return task.CancelConfirmed{Reason: w.reason, Code: w.code, Epoch: w.epoch, Exit: w.exit}
	case TaskAbnormal:
		return task.GivenUp{Reason: w.reason, Detail: w.detail}
	case TaskReassigned:
		return task.Reassigned{From: task.Route(w.from), To: task.Route(w.to), Reason: w.reason, Until: w.until}
	case TaskPostponed:
		return task.Postponed{Reason: w.reason, Detail: w.detail, Due: w.due}
	case BreakerOpened:
		return task.BreakerOpened{Reason: w.reason, Until: w.until}
	case BreakerHalfOpened:
		return task.BreakerHalfOpened{Reason: w.reason, Until: w.until, Left: w.left}
	case BreakerTried:
		return task.BreakerTried{Reason: w.reason, Until: w.until, Left: w.left}
	case BreakerClosed:
		return task.BreakerClosed{Reason: w.reason}
	case TaskReopened:
		return task.Reopened{Reason: w.reason}
	case TaskExpanded:
		return task.Expanded{Children: w.children}
	case TaskConcluded:
		return task.Concluded{State: w.state, Reason: w.reason, Message: w.message, Result: w.result}
	case TaskDismissed:
		return task.Dismissed{Reason: w.reason}
	case MessageDismissed:
		return task.MessageDismissed{Reason: w.reason}
	case TaskUnheld:
		return task.Unheld{Hold: w.hold, Reason: w.reason, Inputs: w.inputs}
	case LimitGranted:
		return task.Granted{Grants: w.grants, Rates: w.rates}
	case UniqueClaimed:
		return task.KeyClaimed{Key: w.key, Holder: task.ID(w.holder), Before: w.before}
	case NodeRegistered:
		return node.Registered{Session: w.session, Profile: node.Profile{Host: w.host, PID: w.pid, Version: w.version, Labels: w.labels, Slots: w.slots, Queues: w.queues, Probes: w.probes}}
	case NodeOnline:
		return node.WentOnline{Session: w.session, Reason: w.reason, Connection: w.connection}
	case NodeReady:
		return node.BecameReady{Session: w.session, Reason: w.reason, Connection: w.connection, Took: w.took, Kept: w.kept, Stopped: w.stopped, Low: w.low}
	case NodeDraining:
		return node.Drained{Session: w.session, Reason: w.reason}
	case NodeOffline:
		return node.WentOffline{Session: w.session, Reason: w.reason, Lost: w.lost, Low: w.low}
	case JobApplied:
		return task.JobApplied{Revision: w.revision, Digest: w.digest}
	case JobRemoved:
		return task.JobRemoved{Revision: w.revision}
	case QueuePaused:
		return task.QueuePaused{Reason: w.reason, Until: w.until}
	case QueueResumed:
		return task.QueueResumed{Reason: w.reason}
	case QueueLimited:
		return task.QueueLimited{Running: w.running, Waiting: w.waiting, Reason: w.reason}
	case QueuePurged:
		return task.QueuePurged{Reason: w.reason, Ended: w.ended}
	case ScheduleApplied, ScheduleRemoved, SchedulePaused, ScheduleResumed, ScheduleFired, ScheduleAdmitted, ScheduleSkipped, ScheduleQueued:
		return w.scheduleEvent()
	case NodeChanged:
		return node.Changed{Order: w.order, Reason: w.reason, Grace: w.grace}
	case NodeLabelled:
		return node.Labelled{Labels: w.labelChanges(), Reason: w.reason}
	case NodeQuarantined:
		return node.WasQuarantined{Reason: w.reason, Until: w.until}
	case NodeReleased:
		return node.WasReleased{Reason: w.reason}
	case NodeRetired:
		return node.WasRetired{Reason: w.reason}
	}
	return nil
}

func (w *wire) work() task.Work {
	return task.Work{
		Job: w.job, Revision: w.revision, Spec: w.spec, Params: w.params, Labels: w.labels, Route: task.Route(w.route),
		StartBy: w.deadlines.Start, EndBy: w.deadlines.End, Group: w.group, Parent: task.ID(w.parent), Holds: w.holds, Needs: w.needs, Inputs: w.inputs,
		FairKey: w.fairKey,
		Origin:  task.Origin{Schedule: w.schedule, Tick: w.tick, Trigger: w.trigger},
	}
}
