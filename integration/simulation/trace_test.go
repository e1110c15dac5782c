package simulation

import (
	"fmt"
	"strings"
	"time"

	"millrace/events"
	"millrace/task"
)

// step is one thing that the simulator made happen. It becomes text only if
// somebody wants to read it.
type step struct {
	at     time.Time
	actor  string
	call   *call // nil for a remark
	fate   fate
	landed bool // a delayed write arrived
	err    error
	remark string
	head   uint64 // the log's last sequence afterwards
}

func (h *history) note(s step) {
	s.at, s.head = time.Now(), h.seen
	h.steps = append(h.steps, s)
}

func (h *history) remark(actor, text string) { h.note(step{actor: actor, remark: text}) }

// trace writes the last steps of a history as lines, at most limit.
func (h *history) trace(limit int) string {
	var b strings.Builder
	from := max(len(h.steps)-limit, 0)
	if from > 0 {
		fmt.Fprintf(&b, "… %d earlier steps\n", from)
	}
	for _, s := range h.steps[from:] {
		fmt.Fprintf(&b, "%9.3fs  %-12s %s\n", s.at.Sub(h.began).Seconds(), s.actor, s.text())
	}
	return b.String()
}

func (s *step) text() string {
	if s.call == nil {
		return "-- " + s.remark
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
	case s.err != nil:
		words = append(words, "→ "+s.err.Error())
	case c.seq > 0:
		words = append(words, fmt.Sprintf("→ %d", c.seq))
	}
	return strings.Join(words, " ")
}

// taskID is the n-th task of a history, short what a trace calls it.
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
		event := ""
		switch e := r.Fact.Event.(type) {
		case task.Submitted, nil: // long, or nothing
		case task.Queued:
			event = fmt.Sprintf("attempt %d after %d", e.Attempt, e.After)
		case task.AttemptStarted:
			event = fmt.Sprintf("attempt %d offer %d on %s", e.Attempt, e.Offer, e.Session)
			if e.TookOver != nil {
				event += fmt.Sprintf(" took over %d", e.TookOver.Epoch)
			}
		default:
			event = fmt.Sprintf("%+v", e)
		}
		fmt.Fprintf(&b, "%5d %s %s %s %s\n", r.Seq, place, r.Fact.Type, event, r.Fact.Actor)
	}
	return b.String()
}
