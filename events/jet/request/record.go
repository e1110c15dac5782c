package request

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/task"
	"millrace/task/placement"
)

// Delivery is what the server says about a message that it delivers, in the message's reply
// subject:
//
//	$JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>[.<token>]
type delivery struct {
	Delivered   int
	streamSeq   uint64
	ConsumerSeq uint64
	stored      time.Time
	Pending     uint64
}

func parseDelivery(reply string) (delivery, bool) {
	rest, ok := strings.CutPrefix(reply, "$JS.ACK.")
	if !ok {
		return delivery{}, false
	}
	var parts [12]string
	n := 0
	for n < len(parts) {
		var more bool
		parts[n], rest, more = strings.Cut(rest, ".")
		n++
		if !more {
			break
		}
	}
	first := 2 // after stream and consumer
	if n > 7 {
		first = 4
	}
	if n < first+5 {
		return delivery{}, false
	}
	var v [5]uint64
	for i := range v {
		x, err := strconv.ParseUint(parts[first+i], 10, 64)
		if err != nil {
			return delivery{}, false
		}
		v[i] = x
	}
	return delivery{Delivered: int(v[0]), streamSeq: v[1], ConsumerSeq: v[2], stored: time.Unix(0, int64(v[3])).UTC(), Pending: v[4]}, true
}

// From sets r, which must be zero, to the record of a message that a consumer delivered; ok is
// false for anything else, such as a status message.
func From(r *events.Record, m *nats.Msg) (d delivery, ok bool) {
	if d, ok = parseDelivery(m.Reply); ok {
		readRecord(r, m.Subject, d.streamSeq, d.stored, cameWith(m.Header, 0), m.Data)
	}
	return d, ok
}

// sourcedLine finds [names.FiredHeader] in the stored headers of a message.
var sourcedLine = []byte("\r\n" + names.FiredHeader + ":")

// copiedLine finds the header that every message from a direct get has.
var copiedLine = []byte("\r\n" + jetstream.StreamHeader + ":")

// came says how a message got into the log.
type came int

const (
	byPublisher came = iota
	byTimer          // a timer has brought it
	// byCopy marks a message that no user published: a client that gets a message directly from a
	// stream names a subject for the answer, and the NATS server does not check whether that client
	// may publish there.
	byCopy
)

// cameWith derives it from a message's headers, as [Record] gets them.
func cameWith(h nats.Header, added int) came {
	switch {
	case len(h[jetstream.StreamHeader]) > added:
		return byCopy
	case len(h[names.FiredHeader]) > 0:
		return byTimer
	}
	return byPublisher
}

// cameStored derives it from stored headers.
func cameStored(header []byte) came {
	switch {
	case bytes.Contains(header, copiedLine):
		return byCopy
	case bytes.Contains(header, sourcedLine):
		return byTimer
	}
	return byPublisher
}

// Record decodes a message of the log. added is how many of its headers were added by the way of
// reading it, to say where it lay. It never fails: an unreadable message becomes a record that says
// so.
func Record(subject string, seq uint64, stored time.Time, header nats.Header, added int, data []byte) (r events.Record) {
	readRecord(&r, subject, seq, stored, cameWith(header, added), data)
	return r
}

// readRecord decodes a message of the log in place. r must be zero.
func readRecord(r *events.Record, subject string, seq uint64, stored time.Time, how came, data []byte) {
	r.Seq, r.Stored, r.Place, r.Raw = seq, stored, subject, data
	kind, about := names.Place(subject)
	r.Kind = kind
	if r.Kind == events.KindOther || r.Kind == events.KindProbe {
		return
	}
	f := &r.Fact
	switch err := events.DecodeInto(f, data); {
	case err != nil:
		r.Err = err
	case how == byCopy:
		r.Err = fmt.Errorf("it is a copy of a message that lay elsewhere, which was not published on %s", subject)
	case f.Task != about.Task || f.Node != about.Node || f.Def != about.Def || f.Job != about.Job ||
		f.Queue != about.Queue || f.Schedule != about.Schedule || f.Scope != about.Scope ||
		f.Message != about.Message,
		r.Kind == events.KindKey && names.UniqueSubject(f.Key) != subject, r.Kind != events.KindKey && f.Key != "":
		r.Err = fmt.Errorf("the fact is about %s, its subject is %s", f.About(), subject)
	case !belongs(r.Kind, f.Type):
		r.Err = fmt.Errorf("a fact of type %s does not belong on %s", f.Type, subject)
	case how == byTimer && f.Type != events.TaskDue && f.Type != events.ScheduleFired:
		r.Err = fmt.Errorf("a timer has brought a fact of type %s to %s, and what fires only refers to what is due", f.Type, subject)
	case f.Type == events.TaskDue:
		if e := f.Event.(task.Due); !liesAt(e.Route, subject) {
			r.Err = fmt.Errorf("the fact offers its task on %s, its subject is %s", e.Route, subject)
		}
	}
	if r.Err != nil {
		r.Fact = about
	}
}

// liesAt tells whether an offer on a route may lie on a subject.
func liesAt(route placement.Route, subject string) bool {
	at, _, ok := names.RouteAt(subject)
	return ok && at == route
}

// belongs tells whether facts of a type may lie in this part of the log. An unknown type may lie
// anywhere; no process acts on it.
func belongs(kind events.Kind, t events.Type) bool {
	switch t {
	case events.TaskSubmitted:
		return kind == events.KindOffer || kind == events.KindHold || kind == events.KindChain
	case events.TaskQueued, events.TaskDue:
		return kind == events.KindOffer
	case events.NodeRegistered, events.NodeOnline, events.NodeReady, events.NodeDraining, events.NodeOffline, events.NodeChanged,
		events.NodeQuarantined, events.NodeReleased, events.NodeRetired, events.NodeLabelled, events.NodeCarried:
		return kind == events.KindNode
	case events.DefinitionApplied, events.DefinitionRemoved, events.SchedulePaused, events.ScheduleResumed:
		return kind == events.KindDefinition
	case events.QueuePaused, events.QueueResumed, events.QueueLimited, events.QueuePurged, events.QueueCarried:
		return kind == events.KindQueue
	case events.ScheduleFired:
		return kind == events.KindFire
	case events.ScheduleAdmitted, events.ScheduleSkipped, events.ScheduleQueued:
		return kind == events.KindTick
	case events.LimitGranted:
		return kind == events.KindLimit
	case events.CopiesRestored:
		return kind == events.KindCopies
	case events.UniqueClaimed:
		return kind == events.KindKey
	case events.MessageDismissed:
		return kind == events.KindDead
	case events.HorizonChosen, events.HorizonSealed, events.HorizonCarried, events.HorizonPurged, events.ArchiveRemoved:
		return kind == events.KindHorizon
	case events.TaskCarried, events.DefinitionCarried:
		return kind == events.KindCarried
	case events.JobTallied:
		return kind == events.KindTally
	case events.BreakerOpened, events.BreakerHalfOpened, events.BreakerTried, events.BreakerClosed:
		return kind == events.KindBreaker
	}
	return kind == events.KindChain || !slices.Contains(events.Types, t)
}

// SubjectOf returns the subject of a record: the one it has or, if it comes from a log of another
// kind, the one for a fact of its kind.
func SubjectOf(r *events.Record) string {
	if kind, _ := names.Place(r.Place); kind != events.KindOther {
		return r.Place
	}
	f := &r.Fact
	switch r.Kind {
	case events.KindOther, events.KindProbe:
		return names.LogProbe
	case events.KindHold:
		return names.HoldPrefix + string(f.Task)
	case events.KindFire:
		return names.FirePrefix + f.Schedule
	case events.KindOffer:
		switch e := f.Event.(type) {
		case task.Submitted:
			return names.OfferSubject(&e.Work, f.Task)
		case task.Queued:
			return names.OfferSubject(&e.Work, f.Task)
		case task.Due:
			return names.DueSubject(&e, f.Task)
		}
	}
	return names.ChainSubject(f)
}

// HeaderOf returns the headers that the record's message has in the log.
func HeaderOf(r *events.Record) nats.Header {
	h := nats.Header{}
	if r.Fact.Type != "" {
		h.Set(events.TypeHeader, string(r.Fact.Type))
	}
	if r.Fact.Type == events.TaskDue || r.Fact.Type == events.ScheduleFired {
		// From no stream that the log still sources.
		h[names.FiredHeader] = []string{"loaded 1 > > " + SubjectOf(r)}
	}
	return h
}
