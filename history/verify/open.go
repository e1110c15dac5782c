package verify

import (
	"fmt"
	"time"

	"millrace/history/verify/findings"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/node"
	"millrace/task/queue"
	"millrace/task/value"
)

// judgeOpen judges the tasks that have not ended at now, and counts all and open tasks.
func (v *Verifier) judgeOpen(now time.Time) (all, open int) {
	queues, skipped := v.queues(), 0
	all = v.tasks.packed.size
	for id, s := range v.tasks.unended() {
		if s.now.state == task.Unknown {
			continue // none of its facts could be read
		}
		if s.kept {
			all++
		}
		if s.now.state.Terminal() {
			continue
		}
		if s.lone {
			continue
		}
		open++
		if s.old {
			skipped++
			continue
		}
		if !s.born {
			continue // its spec is unknown, and I-7 has reported that
		}
		k := v.tasks.task(id, &s.now)
		if s.elsewise(v) && !s.runsOut(v, &k, now, v.heard(&k)) {
			s.misses(v, &k, now)
		}
		if v.cfg.Settled {
			s.found(v, OneEnd, []uint64{s.now.seq}, "it has not ended, it is %s since %s", k.State, when(s.now.since))
		}
		v.judge(s, &k, v.around(&k, queues, now), now)
	}
	if skipped > 0 {
		for _, rule := range []Rule{Deadlines, OneEnd, NoScheduler} {
			v.book.Note(rule, "%d open tasks may have begun before %d and are not judged", skipped, v.cfg.From)
		}
	}
	if !v.cfg.Settled && open > 0 {
		v.book.Note(OneEnd, "%d tasks have not ended yet", open)
	}
	return all, open
}

// judge checks an open task's duty. A duty to place an offer, which needs no scheduler, belongs to
// I-10, any other to I-1. What was due while all servers were down is done within the margin after
// they came.
func (v *Verifier) judge(s *story, k *task.Task, around duties.Surroundings, now time.Time) {
	duty := duties.Owes(*k, around, v.cfg.Settings)
	if duty.By.IsZero() || duty.Look { // a check ends nothing
		return
	}
	rule, limit := Deadlines, value.Later(duty.By, v.cfg.Settings.Watched).Add(v.cfg.Margin)
	if _, missing := task.NextOffer(k); missing {
		// The holder of the offer before may still do it, when its lease has expired.
		rule, limit = NoScheduler, limit.Add(v.cfg.Settings.AckWait)
	}
	if rule == Deadlines {
		v.book.Checked[rule]++ // those of offers were counted when their turn began
	}
	if !now.After(limit) {
		return
	}
	late := now.Sub(duty.By).Truncate(time.Millisecond)
	switch rule {
	case NoScheduler:
		since := s.turn
		if since == 0 {
			since = s.now.seq
		}
		s.found(v, rule, []uint64{since}, "it is %s, and its next offer should have come by %s (%v ago): %s", k.State, when(findings.StampOf(duty.By)), late, duty.What)
	default:
		s.found(v, rule, []uint64{s.now.seq}, "it is %s and past its deadline of %s (%v ago), and no event says so: %s was to %s", k.State, when(findings.StampOf(duty.By)), late, duty.Who, duty.What)
	}
}

// waiting is the number of nodes that serve a queue.
type waiting struct {
	serving  int
	served   time.Time // since when the first of them does
	unserved time.Time // since when none does, if one did
}

func (v *Verifier) queues() map[string]waiting {
	all := map[string]waiting{}
	for _, n := range v.nodes {
		for _, name := range n.Queues {
			q := all[name]
			if n.Serves(name) {
				if q.serving++; q.serving == 1 || n.TakesSince().Before(q.served) {
					q.served = n.TakesSince()
				}
			} else if n.TakesSince().After(q.unserved) {
				q.unserved = n.TakesSince()
			}
			all[name] = q
		}
	}
	return all
}

// around returns the facts outside a task on which its duty depends, as a scheduler derives them
// from the nodes. Heartbeats are not in the log: a silent node counts as online until a fact says
// otherwise.
func (v *Verifier) around(k *task.Task, queues map[string]waiting, now time.Time) duties.Surroundings {
	q, home := queues[k.Route.Queue()], k.Route.Queue()
	if k.Route.Selected() {
		home, _ = k.Asks()
	}
	around := duties.Surroundings{Serving: q.serving, Served: q.served, Unserved: q.unserved, Seen: now}
	around.Paused, around.Resumed = v.pause(home, now)
	said, _ := v.queuePast.Now(home)
	around.Windowed = said.Window != ""
	on, own := k.Route.Node()
	switch {
	case own:
		if n, ok := v.nodes[node.ID(on)]; ok && n.Serves(k.Route.Queue()) {
			around.Serving, around.Served = 1, n.TakesSince()
		} else if ok {
			around.Unserved = n.TakesSince()
		}
	case k.Route.Selected():
		queue, needs := k.Asks()
		for _, n := range v.nodes {
			if rule, _ := n.Excluded(node.Want{Queue: queue, Needs: needs}); rule == "" {
				if around.Serving++; around.Serving == 1 || n.TakesSince().Before(around.Served) {
					around.Served = n.TakesSince()
				}
			} else if rule.Passing() && n.TakesSince().After(around.Unserved) {
				around.Unserved = n.TakesSince()
			}
		}
	}
	if n, ok := v.nodes[node.ID(k.Node)]; ok && k.Live() {
		switch {
		case n.Session != k.Session:
			around.NodeGone = n.Started // the process that ran it has ended
		case n.State == node.Offline:
			around.NodeGone = n.Since
		}
	}
	return around
}

// pause is the pause of a queue, and when it ended. One that ended less than the margin ago counts as
// well: deadlines that passed meanwhile are due only since then.
func (v *Verifier) pause(name string, now time.Time) (p *queue.Pause, ended time.Time) {
	lately := now.Add(-v.cfg.Margin)
	q, _ := v.queuePast.Now(name)
	ended = q.OpenSince(now)
	if p = q.PausedAt(lately); p == nil && ended.After(lately) {
		p = &queue.Pause{Until: ended}
	}
	return p, ended
}

// survival checks I-9: each acknowledged submission has its birth in the log, or had it.
func (v *Verifier) survival() {
	missing := 0
	for _, id := range v.cfg.Acknowledged {
		v.book.Checked[Survival]++
		if v.hasBirth(id) {
			continue
		}
		if missing++; !v.whole() {
			continue
		}
		v.book.Find(Survival, Finding{
			Task: id,
			What: fmt.Sprintf("its submission was acknowledged, and the log to sequence %d holds no birth of it", v.last),
			Look: "`millrace task events " + string(id) + "`; was the log restored from a backup, or a server without `sync: always` lost its machine?",
		})
	}
	if missing > 0 && !v.whole() {
		v.book.Checked[Survival] -= missing
		v.CouldNot(Survival, fmt.Sprintf("%d of the acknowledged tasks are not in the range, which begins at %d: check the whole log", missing, v.cfg.From))
	}
}

func (v *Verifier) hasBirth(id task.ID) bool {
	if s, ok := v.tasks.open[id]; ok {
		return s.born
	}
	key, ok := keyOf(id)
	if !ok {
		return false
	}
	place, taken := v.tasks.packed.place(key)
	if !taken {
		return false
	}
	e := v.tasks.packed.at(place)
	return e.born || e.away // the log has forgotten its end
}

func when(s findings.Stamp) string {
	if s == 0 {
		return "at once"
	}
	return s.Time().Format(time.RFC3339Nano)
}
