package simulation

import (
	"fmt"
	"strings"
	"time"

	"millrace/events"
	"millrace/task"
)

// step is one thing that the simulator made happen. It becomes text only for a reader.
type step struct {
	at      time.Time
	actor   string
	call    *call // nil for a remark
	fate    fate
	landed  bool // a delayed write arrived
	stopped bool // the process was stopped for a while
	remark  string
}

func (h *history) note(s step) {
	s.at = time.Now()
	h.steps = append(h.steps, s)
}

func (h *history) remark(actor, text string) { h.note(step{actor: actor, remark: text}) }

// trace writes the steps of a history as lines, or only those about one task and the mishaps of
// actors.
func (h *history) trace(about task.ID) string {
	var b strings.Builder
	for i := range h.steps {
		if s := &h.steps[i]; about == "" || s.call == nil || s.call.task == about || s.fate >= killed {
			fmt.Fprintf(&b, "%9.3fs  %-12s %s\n", s.at.Sub(h.began).Seconds(), s.actor, s.text())
		}
	}
	return b.String()
}

func (s *step) text() string {
	if s.call == nil {
		return s.remark
	}
	c := s.call
	words := []string{c.op}
	if c.task != "" {
		words = append(words, short(c.task))
	}
	if c.fact != nil {
		words = append(words, string(c.fact.Type))
	}
	if c.kind != read && (c.fact != nil && c.op == "append" || c.last > 0) {
		words = append(words, fmt.Sprintf("@%d", c.last))
	}
	if s.landed {
		words = append(words, "(arrives late)")
	}
	switch {
	case s.fate != answered:
		words = append(words, "→ "+s.fate.String())
	case c.err != nil:
		words = append(words, "→ "+c.err.Error())
	case c.seq > 0:
		words = append(words, fmt.Sprintf("→ %d", c.seq))
	}
	return strings.Join(words, " ")
}

// taskID is the id of the n-th task of a history; short is what a trace calls it.
func taskID(n int) task.ID { return task.ID(fmt.Sprintf("01JNAT%020d", n)) }

func short(id task.ID) string {
	return "t" + strings.TrimLeft(strings.TrimPrefix(string(id), "01JNAT"), "0")
}

// telling writes the story of a task, as far as the log has it.
func telling(s story) string {
	var b strings.Builder
	for i := range s {
		r := &s[i]
		place := map[events.Kind]string{events.KindOffer: "queue", events.KindHold: "hold", events.KindChain: "chain"}[r.Kind]
		if r.Err != nil {
			fmt.Fprintf(&b, "%5d %s %v\n", r.Seq, place, r.Err)
			continue
		}
		fmt.Fprintf(&b, "%5d %s %s%s\n", r.Seq, place, r.Fact.Type, about(r))
	}
	return b.String()
}

// about returns the details of a fact that matter to a reader of its story.
func about(r *events.Record) string {
	said := ""
	switch e := r.Fact.Event.(type) {
	case task.Queued:
		said = fmt.Sprintf(" attempt %d after %d", e.Attempt, e.After)
	case task.AttemptStarted:
		said = fmt.Sprintf(" attempt %d offer %d on %s", e.Attempt, e.Offer, e.Session)
		if e.TookOver != nil {
			said += fmt.Sprintf(" took over %d", e.TookOver.Epoch)
		}
	case task.AttemptFinished:
		said = fmt.Sprintf(" epoch %d", e.Epoch)
	case task.AttemptFailed:
		said = fmt.Sprintf(" epoch %d: %s", e.Epoch, e.Class)
		if e.Retry != nil {
			said += fmt.Sprintf(", attempt %d follows", e.Retry.Attempt)
		}
	case task.AttemptReleased:
		said = fmt.Sprintf(" epoch %d: %s", e.Epoch, e.Reason)
	case task.AttemptLost:
		said = fmt.Sprintf(" epoch %d: %s", e.Epoch, e.Reason)
	case task.AttemptLate:
		said = fmt.Sprintf(" epoch %d", e.Epoch)
	case task.CancelConfirmed:
		said = fmt.Sprintf(" epoch %d", e.Epoch)
	case task.Reassigned:
		said = fmt.Sprintf(" from %s to %s: %s", e.From, e.To, e.Reason)
	case task.Postponed:
		said = fmt.Sprintf(" until %s: %s", e.Due, e.Detail)
	case task.Throttled:
		said = fmt.Sprintf(" until %s admits it", e.Limit)
	case task.GivenUp:
		said = fmt.Sprintf(" %s: %s", e.Reason, e.Detail)
	}
	if r.Fact.Actor != "" {
		said += " by " + r.Fact.Actor
	}
	return said
}
