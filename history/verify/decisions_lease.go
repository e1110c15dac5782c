package verify

import (
	"cmp"
	"slices"
	"time"

	"millrace/events"
	"millrace/history/verify/findings"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/value"
)

// The end of a lease is repeated with an account from the facts of the node, from when the log
// stored the session's claim of the attempt, and from the heartbeat that the fact names: heartbeats
// are not in the log.

// account is the account behind a decision about the live attempt of k; false if it cannot be made.
func (s *story) account(v *Verifier, k *task.Task, r *events.Record) (account task.Account, ok bool) {
	by := findings.By(r)
	if !v.whole() {
		return account, false // the node's facts may lie before the range
	}
	if by.Lease == nil {
		s.found(v, Decisions, []uint64{k.Head, r.Seq}, "%s follows from the end of a lease, and does not say by what that was found", r.Fact.Type)
		return account, false
	}
	if s.held == 0 {
		return account, false // the time of the claim in the log is unknown
	}
	n, known := v.pasts.Of(k.Node).StoredAt(by.Lease.Node)
	if !known {
		if by.Lease.Node >= r.Seq || !v.pasts.Of(k.Node).Forgot(by.Lease.Node) {
			s.found(v, Decisions, []uint64{by.Lease.Node, r.Seq}, "%s was decided by the event of node %s at %d, and there is none", r.Fact.Type, k.Node, by.Lease.Node)
			return account, false
		}
		v.book.Forgotten++
		return account, false
	}
	from := by.Lease
	pulse := node.Pulse{Now: from.At, Stored: from.Beat, RanOut: from.RanOut, Beat: node.Heartbeat{Session: from.Session, TTL: from.TTL}}
	if from.Named {
		pulse.Beat.Runs = []uint64{k.Epoch}
	}
	held := time.Unix(0, s.held).UTC()
	account = n.Account(k, held, pulse, from.Lasts.Std())
	other, lasts := v.pulse(&n, pulse)
	if !lasts.IsZero() {
		s.found(v, Decisions, []uint64{k.Head, r.Seq}, "%s follows from the end of a heartbeat that would have lasted until %s", r.Fact.Type, lasts.UTC().Format(time.RFC3339Nano))
		return account, false
	}
	if v.cfg.Other.None() {
		return account, true
	}
	is := n.Account(k, held, other, cmp.Or(v.cfg.Other.Bounds.AckWait, from.Lasts).Std())
	if before, after := account.Until(k), is.Until(k); after.Before(before) {
		v.wasSooner(r, before.Sub(after))
	}
	return is, true
}

// tookOver repeats the decision that an attempt could be taken over. It does not check whether the
// node matches.
func (s *story) tookOver(v *Verifier, k *task.Task, e task.AttemptStarted, r *events.Record) {
	if !k.Live() || k.Offer != e.Offer {
		return // I-3 reports the fault
	}
	account, ok := s.account(v, k, r)
	if !ok {
		return
	}
	s.remade(v, anywhere(k), task.Claim{Node: e.Node, Session: e.Session, Offer: e.Offer, Account: &account}, r)
}

// anywhere is the task without requirements of nodes.
func anywhere(k *task.Task) *task.Task {
	other := *k
	other.Route = placement.QueueRoute(placement.DefaultQueue, placement.DefaultPriority)
	return &other
}

// lost repeats the decision that an attempt is lost.
func (s *story) lost(v *Verifier, k *task.Task, e *task.AttemptLost, r *events.Record) {
	if !k.Live() || k.Epoch != e.Epoch {
		return // I-3 reports that
	}
	lose := task.Lose{Epoch: e.Epoch, Reason: e.Reason}
	switch by := findings.By(r); {
	case by.Rule == task.RuleDead:
		s.undelivered(v, k, r)
	case by.Rule == task.RuleOwn:
		s.remade(v, k, task.Judged{Command: lose, By: by}, r)
	default:
		s.unruled(v, r)
	}
}

// rebirth is a later birth of the same id that asks for the same. Its bounds count from its own
// time, and apply to the claim of its offer.
type rebirth struct {
	seq            uint64
	startBy, endBy time.Time
}

// gaveUp repeats the decision to give up a task.
func (s *story) gaveUp(v *Verifier, k *task.Task, e *task.GivenUp, r *events.Record) {
	switch findings.By(r).Rule {
	case task.RuleClaim:
		claim := task.Claim{Offer: findings.By(r).Offer, After: k.Turn}
		if !k.Live() {
			k = s.bornFor(k, claim, *e, r)
		}
		if k.Live() {
			account, ok := s.account(v, k, r)
			if !ok {
				return
			}
			claim.Account, k = &account, anywhere(k)
		} else if e.Reason == value.Unplaced {
			self, known := s.known(v, findings.By(r).Self, r)
			if !known {
				return
			}
			claim.Node, claim.Labels, claim.At = self.Node, self.Labels, self.At
		} else if !v.before(claim.Offer) && !slices.Contains(s.offers, offer{claim.Offer, k.Turn}) {
			v.book.Checked[Decisions]++
			s.found(v, Decisions, []uint64{claim.Offer, r.Seq}, "%s follows from a claim of offer %d, which is none of this turn of the task", r.Fact.Type, claim.Offer)
			return
		}
		s.remade(v, k, claim, r)
	case task.RuleDead:
		s.undelivered(v, k, r)
	case task.RuleHorizon:
		s.outlived(v, r)
	case value.Breaker:
		s.ruledOut(v, k, r)
	case task.RuleLimit:
		s.refused(v, k, e.Detail, r)
	case task.RuleOwn:
		s.remade(v, k, task.Judged{Command: task.Lose{Epoch: k.Epoch}, By: findings.By(r)}, r)
	default:
		if e.Reason == value.Rejected && r.Fact.By == nil && r.Fact.Actor != scheduler {
			s.remade(v, k, task.Reject{By: r.Fact.Actor, Detail: e.Detail}, r)
			return
		}
		if v.hidesList(k) {
			return
		}
		if short, _ := birth.Follow(k, nil); r.Fact.By == nil && short != nil { // regardless of its children
			if _, ends := short.(task.GiveUp); ends {
				s.remade(v, k, short, r)
				return
			}
		}
		s.unruled(v, r)
	}
}

// bornFor returns the task with the bounds of the birth by which a claim leads to the recorded
// event. A claim uses the bounds in its offer, or those of the first birth if the worker has read
// the whole task.
func (s *story) bornFor(k *task.Task, c task.Claim, recorded task.Event, r *events.Record) *task.Task {
	comes := func(k *task.Task) bool {
		event, _ := k.Decide(c, r.Fact.At)
		return event == recorded
	}
	if s.reborn == nil {
		return k
	}
	for _, b := range *s.reborn {
		if comes(k) {
			break
		}
		other := *k
		if other.StartBy, other.EndBy = b.startBy, b.endBy; comes(&other) {
			return &other
		}
	}
	return k
}

// undelivered repeats the consequence of an offer that was handed out too often.
func (s *story) undelivered(v *Verifier, k *task.Task, r *events.Record) {
	by := findings.By(r)
	dead := task.Recorded{Seq: by.Offer, Event: task.Queued{After: r.Seq}} // a missing offer is for no turn
	if i := slices.IndexFunc(s.offers, func(o offer) bool { return o.seq == by.Offer }); i >= 0 {
		dead.Event = task.Queued{After: s.offers[i].after}
	}
	command, ok := task.Undelivered(*k, dead)
	if !ok {
		v.book.Checked[Decisions]++
		s.found(v, Decisions, []uint64{by.Offer, r.Seq}, "%s follows from offer %d, which the task did not wait or run under", r.Fact.Type, by.Offer)
		return
	}
	s.accounted(v, k, command, true, by, r)
}

// accounted repeats the decision of a command that may take the task from its node: it then has the
// log's account of the lease, if it needs one.
func (s *story) accounted(v *Verifier, k *task.Task, c task.Command, needs bool, by task.By, r *events.Record) {
	if lose, ok := c.(task.Lose); ok && needs {
		account, ok := s.account(v, k, r)
		if !ok {
			return
		}
		lose.Account = &account
		c = lose
	}
	by.Lease = nil
	s.remade(v, k, task.Judged{Command: c, By: by}, r)
}

// refused repeats the decision on a task for which a limit has no place. Package limits checks that
// the limit had none.
func (s *story) refused(v *Verifier, k *task.Task, detail string, r *events.Record) {
	by := findings.By(r)
	v.book.Checked[Decisions]++
	i := v.terms.Index(s.limit, by.Limit)
	on := ""
	if i >= 0 {
		on = s.limit.OnLimit(i)
	}
	end, failed := r.Fact.Event.(task.GivenUp)
	failed = failed && end.Reason == value.Limit
	said := detail == "no place under "+by.Limit || v.book.HidesText(detail)
	if want := on == limit.Fail; !k.Admissible() || on != limit.Fail && on != limit.Skip || failed != want || !said {
		s.found(v, Decisions, []uint64{k.Head, r.Seq}, "%s, because limit %q had no place: on_limit is %q there, the task was %s, and it says %q", r.Fact.Type, by.Limit, on, k.State, detail)
	}
	v.lines.Stopped(s.id, r, "")
}

// unruled reports a decision that does not name its rule.
func (s *story) unruled(v *Verifier, r *events.Record) {
	v.book.Checked[Decisions]++
	s.found(v, Decisions, []uint64{r.Seq}, "%s names no rule by which it was decided, or one that does not lead to it: %q", r.Fact.Type, findings.By(r).Rule)
}
