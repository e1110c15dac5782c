package verify

import (
	"strconv"
	"strings"
	"time"

	"millrace/events"
	"millrace/history/verify/findings"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/queue"
)

// judgedNode repeats decisions of others about a node: that it has vanished, because of a missing
// heartbeat, that it comes and goes too often, by its score, and that it has been offline for too
// long. N is the node before the fact.
func (v *Verifier) judgedNode(n *node.Node, r *events.Record) {
	by := findings.By(r)
	var command node.Command
	switch e := r.Fact.Event.(type) {
	case node.WentOffline:
		if e.Lost == (by.Lease == nil) {
			v.wrongNode(n, r, "it is lost by a heartbeat that was not there, and by nothing else")
			return
		}
		if !e.Lost {
			return // its own word
		}
		mark := node.Pulse{
			Now:    by.Lease.At,
			Beat:   node.Heartbeat{Session: by.Lease.Session},
			Stored: by.Lease.Beat,
			RanOut: by.Lease.RanOut,
		}
		asked := *n
		pulse, lasts := v.pulse(&asked, mark)
		switch {
		case !lasts.IsZero():
			v.wrongNode(n, r, "its heartbeat would have lasted until "+lasts.UTC().Format(time.RFC3339Nano))
			return
		case pulse.Stored.Before(mark.Stored):
			v.wasSooner(r, mark.Stored.Sub(pulse.Stored))
		}
		if v.whole() && !asked.Vanished(pulse, by.Since) {
			v.wrongNode(n, r, "its heartbeat, or that there was none, did not say so")
			return
		}
		command = node.Vanish{Session: e.Session, Reason: node.RanOut}
	case node.WasQuarantined, node.WasReleased:
		if by.Flap == nil {
			if _, released := e.(node.WasReleased); !released || r.Fact.By != nil || r.Fact.Actor == scheduler {
				v.wrongNode(n, r, "it does not name what it was decided by")
			}
			return // a person's word
		}
		command = node.Judge{At: by.At, Alone: by.Alone, Policy: v.flap(by.Flap)}
	case node.WasRetired:
		if by.Bounds == nil {
			if r.Fact.By != nil || r.Fact.Actor == scheduler {
				v.wrongNode(n, r, "it does not name what it was decided by")
			}
			return // a person's word
		}
		command = node.Forget{At: by.At, After: by.Bounds.RetireAfter.Std()}
	default:
		return
	}
	if !v.whole() {
		return
	}
	v.book.Checked[Decisions]++
	event, err := node.Decide(*n, command)
	if err != nil || event == nil {
		v.wrongNode(n, r, "nothing follows")
		return
	}
	is := r.Fact
	is.Event, is.Type = event, events.TypeOf(event)
	if what := v.book.Differ(&r.Fact, &is); what != "" {
		v.wrongNode(n, r, what)
	}
}

func (v *Verifier) wrongNode(n *node.Node, r *events.Record, what string) {
	v.book.Find(Decisions, Finding{
		Node: n.ID,
		Seqs: []uint64{n.Head, r.Seq},
		What: string(r.Fact.Type) + ", decided again from what it names, is another one: " + what,
		Look: findings.Show(r.Seq),
	})
}

// throttled repeats the decision that the rate of a queue has not admitted a task. The name tells
// which rate.
func (s *story) throttled(v *Verifier, k *task.Task, e *task.Throttled, r *events.Record) {
	if !v.whole() {
		return
	}
	name, ok := limit.QueueOf(e.Limit)
	_, text, _ := strings.Cut(e.Limit, "#")
	since, err := strconv.ParseUint(text, 10, 64)
	q, _ := v.queuePast.At(name, since)
	if !ok || err != nil || q != nil && queue.RateOf(q) != (queue.Rate{Queue: name, Since: since}) || since >= r.Seq {
		v.book.Checked[Decisions]++
		s.found(v, Decisions, []uint64{since, r.Seq}, "%s by the limit %s, and no event has set that", r.Fact.Type, strings.Clone(e.Limit))
		return
	}
	c := task.Claim{Node: e.Node, After: k.Turn, Rate: queue.Rate{Queue: name, Since: since}}
	s.remade(v, s.bornFor(k, c, *e, r), c, r)
}
