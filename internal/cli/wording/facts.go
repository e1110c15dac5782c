// Package wording describes facts, states, reasons, times and sizes in words.
package wording

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/internal/cli/term"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/value"
)

// FactTime is when a fact happened, or was stored if it does not say.
func FactTime(r *events.Record) time.Time {
	if r.Fact.At.IsZero() {
		return r.Stored
	}
	return r.Fact.At
}

// FactType is the type of a fact, or what else the message is.
func FactType(r *events.Record) string {
	switch {
	case r.Err != nil:
		return "unreadable"
	case !r.IsFact():
		return "probe"
	}
	return string(r.Fact.Type)
}

// FactAttempt is the number of the attempt that a fact is about; "" for none.
func FactAttempt(r *events.Record) string {
	attempt := 0
	switch e := r.Fact.Event.(type) {
	case task.Queued:
		attempt = e.Attempt
	case task.AttemptStarted:
		attempt = e.Attempt
	case task.AttemptFinished:
		attempt = e.Attempt
	case task.AttemptFailed:
		attempt = e.Attempt
	case task.AttemptReleased:
		attempt = e.Attempt
	case task.AttemptLost:
		attempt = e.Attempt
	case task.AttemptExtended:
		attempt = e.Attempt
	case task.AttemptAdopted:
		attempt = e.Attempt
	case task.AttemptStepped:
		attempt = e.Attempt
	case task.AttemptParked:
		attempt = e.Attempt
	}
	if attempt == 0 {
		return ""
	}
	return strconv.Itoa(attempt)
}

// AttemptAndNode says which attempt a fact is about, and on which node.
func AttemptAndNode(r *events.Record) string {
	var parts []string
	if n := FactAttempt(r); n != "" {
		parts = append(parts, "attempt "+n)
	}
	if n := view.FactNode(r); n != "" && r.Fact.Task != "" {
		parts = append(parts, "on "+n)
	}
	return strings.Join(parts, " ")
}

// FactDetails describes the rest of a fact. The times of Millrace in it are on this machine's clock.
func FactDetails(r *events.Record) string {
	switch e := r.Fact.Event.(type) {
	case task.AttemptFinished, task.AttemptLate: // all times in it are those of a program
		return FactWords(r)
	case task.AttemptFailed:
		return failed(&e, Clock)
	}
	return Clocks(FactWords(r))
}

// FactWords is FactDetails with times in UTC.
func FactWords(r *events.Record) string {
	if r.Err != nil {
		return r.Err.Error()
	}
	switch e := r.Fact.Event.(type) {
	case task.Submitted:
		return Words(workDetails(&e.Work), holdsText(e.Holds), due(e.Due), stamped("start by", e.StartBy))
	case task.Queued:
		return Words(e.Reason, due(e.Due))
	case task.Due:
		return Words("its timer has fired", due(e.Due))
	case task.AttemptStarted:
		if e.TookOver != nil {
			return fmt.Sprintf("took over from epoch %d: %s", e.TookOver.Epoch, e.TookOver.Reason)
		}
	case task.AttemptFinished:
		return Words(exitDetails(e.Exit), result(e.Result), Usage(e.Usage))
	case task.AttemptFailed:
		return failed(&e, value.Clock)
	case task.AttemptReleased:
		return e.Reason
	case task.AttemptLost:
		return e.Reason
	case task.Carried:
		return Words("older events are no longer kept: it was "+e.Fold.State.String(), Attempts("after", e.Fold.Attempt), workDetails(&e.Fold.Work))
	case task.Kept:
		return "what was carried counts from here on"
	case node.Carried:
		return "older events are no longer kept: it was " + e.Fold.State.String()
	case queue.Carried:
		return "older events are no longer kept"
	case task.DefinitionCarried:
		return Words(fmt.Sprintf("revision %d", e.Edition.Revision), e.Reason)
	case task.HorizonChosen:
		return Words(horizonText(e.Below, e.Before), e.Why)
	case task.HorizonSealed:
		return Words(horizonText(e.Below, e.Before), "in "+e.Segment)
	case task.HorizonCarried:
		return Words(horizonText(e.Below, e.Before), Plural(e.Chains, "chain")+" carried")
	case task.HorizonPurged:
		return horizonText(e.Below, e.Before)
	case task.ArchiveRemoved:
		return Words(Plural(len(e.Segments)+e.More, "segment")+" of the archive removed", e.Archive, strings.Join(e.Segments, " "))
	case task.JobTallied:
		return fmt.Sprintf("forgotten so far: %d finished, %d error, %d cancelled, %d abnormal", e.Finished, e.Error, e.Cancelled, e.Abnormal)
	case task.AttemptExtended:
		return Words(stamped("may run until", e.Until))
	case task.AttemptAdopted:
		return adopted(e)
	case task.AttemptStepped:
		return StepsText(e.Steps)
	case task.AttemptParked:
		return Words(StepsText(e.Steps), e.Park.Words(), stamped("until", e.Park.Until))
	case task.AttemptLate:
		return fmt.Sprintf("what epoch %d wanted to say, too late: %s", e.Epoch, e.Said)
	case task.CancelRequested:
		return Words(e.Reason, stamped("gone by", e.Deadline))
	case task.CancelConfirmed:
		return Words(e.Reason, exitDetails(e.Exit), Usage(e.Usage))
	case task.GivenUp:
		return Words(e.Reason, e.Detail)
	case task.Reassigned:
		to := placeText(e.To)
		if e.Asked != nil {
			to = askedText(e.Asked.Queue, e.Asked.Needs, e.To.Priority())
		}
		return Words(fmt.Sprintf("from %s to %s: %s", placeText(e.From), to, e.Reason), stamped("until", e.Until))
	case task.Postponed:
		return Words(stamped("until", e.Due), e.Detail)
	case task.Collapsed:
		return Words("one more submission", stamped("until", e.Due))
	case task.Throttled:
		return "held until " + e.Limit + " admits it"
	case task.Reopened:
		switch e.Again {
		case "":
			return e.Reason
		case task.AllAgain:
			return Words(e.Reason, "with its children that did not finish")
		}
		return Words(e.Reason, "with "+e.Again)
	case task.Expanded:
		at := ""
		if e.AtSeq > 0 {
			at = fmt.Sprintf(" by the nodes at sequence %d", e.AtSeq)
		}
		return term.Cut(fmt.Sprintf("into %d%s: %s", len(e.Names), at, strings.Join(e.Names, ", ")), 200)
	case task.Concluded:
		return Words(e.State.String(), e.Message)
	case task.Granted:
		return grantedText(&e)
	case node.Labelled:
		return Words(labelChanges(e.Labels), e.Reason)
	case task.Dismissed:
		if e.Undo {
			return Words("back on the list of dead letters", e.Reason)
		}
		return e.Reason
	case task.MessageDismissed:
		return e.Reason
	case limit.Opened:
		return Words(e.Reason, stamped("until", e.Until))
	case limit.HalfOpened:
		return Words(e.Reason, Plural(e.Left, "trial"))
	case limit.Tried:
		return Words(e.Reason, fmt.Sprintf("%d left", e.Left))
	case limit.Closed:
		return e.Reason
	case task.Unheld:
		return Words(e.Hold+" opened", e.Reason)
	case node.Registered:
		return Words(e.Host, Plural(e.Slots, "slot"), "queues "+strings.Join(e.Queues, ", "), Pairs(e.Labels))
	case node.WentOnline:
		return e.Reason
	case node.BecameReady:
		return Words(e.Reason, Took(e.Took), Attempts("kept", e.Kept), Attempts("stopped", e.Stopped))
	case node.Drained:
		return e.Reason
	case node.WentOffline:
		return e.Reason
	case task.CopiesRestored:
		return Restored(e)
	case task.DefinitionApplied:
		digest := term.Cut(e.Digest, 19)
		if r.Fact.Def.Kind() == task.DefBundle {
			digest = bundleDigest(e.Text)
		}
		return fmt.Sprintf("revision %d, %s", e.Revision, digest)
	case task.DefinitionRemoved:
		return fmt.Sprintf("revision %d", e.Revision)
	case task.SchedulePaused:
		return Words(fmt.Sprintf("revision %d", e.Revision), e.Reason)
	case task.ScheduleResumed:
		return Words(fmt.Sprintf("revision %d", e.Revision), e.Reason)
	case queue.Paused:
		return Words(e.Reason, stamped("until", e.Until))
	case queue.Resumed:
		return e.Reason
	case queue.Limited:
		return Words(e.Words(), e.Reason)
	case queue.Purged:
		return Words(Plural(e.Ended, "task")+" cancelled", e.Reason)
	case task.ScheduleEvent:
		return scheduleFact(e)
	case node.Changed:
		return Words(orderWords[e.Order], e.Reason, graceText(e.Grace))
	case node.WasQuarantined:
		return Words(e.Reason, stamped("until", e.Until))
	case node.WasReleased:
		return e.Reason
	case node.WasRetired:
		return e.Reason
	case nil:
		if r.IsFact() {
			return "a type that this version does not know"
		}
		return r.Place
	}
	return ""
}

// horizonText says what the log keeps.
func horizonText(below uint64, before time.Time) string {
	return Words(fmt.Sprintf("keeps #%d and later", below), stamped("since", before))
}

// failed describes the failure of an attempt.
func failed(e *task.AttemptFailed, clock func(time.Time) string) string {
	next := "no more attempts"
	if e.Retry != nil {
		next = fmt.Sprintf("attempt %d at %s", e.Retry.Attempt, clock(e.Retry.Due))
	}
	return Words(e.Class+": "+e.Message, next, e.Reason, Usage(e.Usage))
}

// grantedText says which tasks an admission lets run, and which it has refused.
func grantedText(e *task.Granted) string {
	var may, not []string
	for i := range e.Grants {
		may = append(may, string(e.Grants[i].Task))
	}
	for _, id := range e.Refused {
		not = append(not, string(id))
	}
	list := func(what string, ids []string) string {
		if len(ids) == 0 {
			return ""
		}
		return fmt.Sprintf("%s %d: %s", what, len(ids), strings.Join(ids, ", "))
	}
	return term.Cut(Words(list("admits", may), list("refuses", not)), 200)
}

// orderWords describe an operator's orders to a node.
var orderWords = map[node.Order]string{
	node.OrderServe: "takes work again", node.OrderCordon: "cordoned: no new work", node.OrderDrain: "drained: no new work, and what runs ends or is given back",
}

// Took says how long something took; "" for no time.
func Took(d value.Duration) string {
	if d == 0 {
		return ""
	}
	return "took " + Span(d.Std())
}

func graceText(d value.Duration) string {
	if d == 0 {
		return ""
	}
	return "grace " + Span(d.Std())
}

// Attempts counts attempts of a kind; "" for none.
func Attempts(what string, n int) string {
	if n == 0 {
		return ""
	}
	return what + " " + Plural(n, "attempt")
}

func workDetails(w *task.Work) string {
	text := term.Cut(w.Spec.Text(), 60)
	if w.Job != "" {
		text = fmt.Sprintf("job %s, revision %d: %s", w.Job, w.Revision, text)
	}
	return Words(stepText(w), text, WorkRoute(w), originText(w.Origin))
}

func stepText(w *task.Work) string {
	if w.Step == "" {
		return ""
	}
	return "step " + w.Step
}

// WorkRoute says where a task waits, with its labels if it asks for any.
func WorkRoute(w *task.Work) string {
	if !w.Route.Selected() || w.Spec == nil {
		return routeText(w.Route)
	}
	queue, needs := w.Asks()
	return askedText(queue, needs, w.Route.Priority())
}

// askedText describes what a selector's route asks of nodes; a route of named nodes asks for no
// queue.
func askedText(queue string, needs placement.Selector, priority int) string {
	text := "nodes with " + needs.String()
	if queue == "" {
		return text
	}
	return routeText(placement.QueueRoute(queue, priority)) + ", " + text
}

// routeText describes a route.
func routeText(r placement.Route) string {
	if _, own := r.Node(); own {
		return "for " + placeText(r)
	}
	return placeText(r)
}

func placeText(r placement.Route) string {
	if on, own := r.Node(); own {
		return "node " + on
	}
	text := "queue " + r.Queue()
	if r.Selected() { // the route does not say which
		text = "nodes with certain labels"
	}
	if p := r.Priority(); p != placement.DefaultPriority {
		text += fmt.Sprintf(" (priority %d)", p)
	}
	return text
}

func holdsText(holds []string) string {
	if len(holds) == 0 {
		return ""
	}
	return "held: " + strings.Join(holds, ", ")
}

func due(at time.Time) string { return stamped("due", at) }

// stamped is [By] in UTC.
func stamped(what string, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return what + " " + value.Clock(at.UTC())
}

// By says when something is due or happened; "" for no time.
func By(what string, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return what + " " + Clock(at)
}

func exitDetails(code *int) string {
	if code == nil {
		return ""
	}
	return fmt.Sprintf("exit %d", *code)
}

func result(r json.RawMessage) string {
	if len(r) == 0 {
		return ""
	}
	return "result " + term.Cut(string(r), 60)
}

// Usage describes what an attempt has used; "" if it was not measured.
func Usage(u *task.Usage) string {
	if u == nil || *u == (task.Usage{}) {
		return ""
	}
	text := "cpu " + Span(u.UserTime.Std()+u.SystemTime.Std())
	if u.MaxMemory > 0 {
		text += ", memory " + ByteCount(u.MaxMemory)
	}
	if u.Read > 0 || u.Written > 0 {
		text += fmt.Sprintf(", disk %s read, %s written", ByteCount(u.Read), ByteCount(u.Written))
	}
	if u.Signal != "" {
		text += ", ended by " + u.Signal
	}
	if u.Setup > 0 || u.Stop > 0 {
		text += fmt.Sprintf(", setup %s, run %s, stop %s", Span(u.Setup.Std()), Span(u.Run.Std()), Span(u.Stop.Std()))
	}
	if u.Limits != "" {
		text += ", limits: " + u.Limits
	}
	if u.Refused > 0 {
		text += fmt.Sprintf(", %s refused (see its log)", Plural(u.Refused, "message"))
	}
	return text
}

// Words joins the non-empty parts.
func Words(parts ...string) string {
	var said []string
	for _, p := range parts {
		if p != "" {
			said = append(said, p)
		}
	}
	return strings.Join(said, "; ")
}

// Actor is the author of a fact, if the fact names it.
func Actor(r *events.Record) string { return r.Fact.Actor }

// Restored names the copies that were restored.
func Restored(e task.CopiesRestored) string {
	var all []string
	for _, c := range e.Copies {
		all = append(all, c.Of+" "+c.Name)
	}
	if e.More > 0 {
		all = append(all, fmt.Sprintf("and %d more", e.More))
	}
	return "changed by hand, and set back: " + strings.Join(all, ", ")
}

// bundleDigest is the version that a name points to.
func bundleDigest(text json.RawMessage) string {
	var n definitions.NamedVersion
	if json.Unmarshal(text, &n) != nil {
		return "which cannot be read"
	}
	return "version " + n.Digest.Short()
}
