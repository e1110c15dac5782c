package verify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"millrace/events"
	"millrace/history/verify/findings"
	"millrace/task"
	"millrace/task/node"
)

// started checks a claim (I-3): no attempt runs, or the running one is taken over by its epoch and
// under its offer; and the claim follows from an offer of this turn. I-7 covers the existence of
// the offer, and the attempt's number.
func (s *story) started(v *Verifier, e task.AttemptStarted, r *events.Record) {
	v.book.Checked[OneEpoch]++
	s.ofItsNode(v, e.Node, e.Session, r)
	s.attempts = append(s.attempts, attempt{epoch: r.Seq, number: int32(e.Attempt), on: v.tasks.words.Number(e.Node)})
	if s.cut && s.born && e.Attempt == 1 && e.TookOver == nil && s.ofBirth(e.Offer) {
		s.old, s.cut, s.attempt = false, false, 0
	}
	if s.cut {
		// Its first known attempt; earlier offers and turns are unknown.
		s.cut = false
	} else if !s.mayStart(v, e, r) {
		return // the fold ignores it, too
	} else {
		s.claimed(v, e, r)
	}
	s.unparked(true, nil)
	s.leaves(v, s.open, false)
	s.open, s.openOffer, s.attempt, s.asked = r.Seq, e.Offer, int32(e.Attempt), false
	s.openOn, s.held = v.session(e.Node, e.Session), nanoseconds(r.Stored)
	v.running.Enter(s.openOn, s.kin.onNode, r.Seq, v.tasks.specs.spec(s.now.spec).Cost())
	v.running.Occupy(s.id, s.limit, r.Seq)
}

// ofBirth tells whether an offer is the birth in the range, or the one for its turn: then the chain began
// there. An offer for a later turn may follow from an earlier birth, which that one repeats.
func (s *story) ofBirth(seq uint64) bool {
	return slices.ContainsFunc(s.offers, func(o offer) bool {
		return o.seq == seq && (o.after == 0 && seq == s.bornAt || o.after > 0 && o.after == s.bornAt)
	})
}

func (s *story) mayStart(v *Verifier, e task.AttemptStarted, r *events.Record) bool {
	switch {
	case s.open == 0 && e.TookOver == nil:
		return true
	case s.open == 0:
		s.found(v, OneEpoch, []uint64{e.TookOver.Epoch, r.Seq}, "epoch %d takes over epoch %d, and no attempt runs", r.Seq, e.TookOver.Epoch)
		return true // the fold accepts it
	case e.TookOver == nil:
		s.found(v, OneEpoch, []uint64{s.open, r.Seq}, "epoch %d starts while epoch %d runs, and does not take it over", r.Seq, s.open)
		return false
	case e.TookOver.Epoch != s.open:
		s.found(v, OneEpoch, []uint64{s.open, r.Seq}, "epoch %d takes over epoch %d, and the one that runs is %d", r.Seq, e.TookOver.Epoch, s.open)
		return false
	case s.openOffer != 0 && e.Offer != s.openOffer:
		s.found(v, OneEpoch, []uint64{s.open, s.openOffer, r.Seq}, "epoch %d takes over under offer %d, and the lease of epoch %d is that of offer %d",
			r.Seq, e.Offer, s.open, s.openOffer)
	}
	s.founded(v, e.TookOver, r)
	return true
}

// claimed checks the references of a claim.
func (s *story) claimed(v *Verifier, e task.AttemptStarted, r *events.Record) {
	v.book.Checked[CauseFirst]++
	i := slices.IndexFunc(s.offers, func(o offer) bool { return o.seq == e.Offer })
	switch {
	case e.Offer == 0:
		s.found(v, OneEpoch, []uint64{r.Seq}, "epoch %d follows from no offer", r.Seq)
	case i < 0 && !v.before(e.Offer):
		s.found(v, CauseFirst, []uint64{e.Offer, r.Seq}, "epoch %d follows from offer %d, which is no earlier offer of this life of the task", r.Seq, e.Offer)
	case i >= 0 && s.offers[i].after != s.turn:
		s.found(v, OneEpoch, []uint64{e.Offer, r.Seq}, "epoch %d was claimed with the stale offer %d: that is good for the turn since %d, and it is the turn since %d",
			r.Seq, e.Offer, s.offers[i].after, s.turn)
	case s.attempt != unknown && int32(e.Attempt) != s.attempt+1:
		s.found(v, CauseFirst, []uint64{r.Seq}, "attempt %d starts after attempt %d", e.Attempt, s.attempt)
	}
}

// ends checks that the end of an attempt names the running one (I-3), which started before under
// the same number (I-7). It returns whether the attempt has ended.
func (s *story) ends(v *Verifier, r *events.Record, epoch uint64, number int, own bool) bool {
	if !s.ran(v, r, epoch, number, own) {
		return false
	}
	if s.open != epoch && !s.cut {
		if s.open == 0 {
			s.found(v, OneEpoch, []uint64{epoch, r.Seq}, "%s of epoch %d, which does not run any more", r.Fact.Type, epoch)
		} else {
			s.found(v, OneEpoch, []uint64{epoch, s.open, r.Seq}, "%s of the fenced epoch %d; the one that runs is %d", r.Fact.Type, epoch, s.open)
		}
		return false
	}
	s.stopped(v, r, epoch, own)
	return true
}

// ran checks that an epoch has started, with this number.
func (s *story) ran(v *Verifier, r *events.Record, epoch uint64, number int, own bool) bool {
	v.book.Checked[CauseFirst]++
	a := s.attemptAt(epoch)
	switch {
	case a == nil && !v.before(epoch):
		s.found(v, CauseFirst, []uint64{r.Seq}, "%s of epoch %d, and no attempt of the task has started there", r.Fact.Type, epoch)
		return false
	case a == nil: // it started before the range
		s.attempts = append(s.attempts, attempt{epoch: epoch, number: int32(number)})
		s.attempt = max(s.attempt, int32(number))
	case int(a.number) != number:
		s.found(v, CauseFirst, []uint64{epoch, r.Seq}, "%s of attempt %d under epoch %d, which was attempt %d", r.Fact.Type, number, epoch, a.number)
	}
	return true
}

// stopped closes the running attempt.
func (s *story) stopped(v *Verifier, r *events.Record, epoch uint64, own bool) {
	if a := s.attemptAt(epoch); a != nil {
		a.own = own
	}
	s.leaves(v, epoch, own)
	s.open, s.cut = 0, false
}

// leaves closes an epoch, on its node and under its limits.
func (s *story) leaves(v *Verifier, epoch uint64, own bool) {
	v.running.Leave(s.id, s.openOn, s.kin.onNode, epoch, own)
	v.running.Vacate(s.limit, epoch)
}

func (s *story) attemptAt(epoch uint64) *attempt {
	i := slices.IndexFunc(s.attempts, func(a attempt) bool { return a.epoch == epoch })
	if i < 0 {
		return nil
	}
	return &s.attempts[i]
}

// late checks that a report kept as refused had to be refused. An epoch that ended by its own
// report has nothing more to report (I-3), and one that never started has nothing at all (I-7), nor
// has a node that did not run it.
func (s *story) late(v *Verifier, e task.AttemptLate, r *events.Record) {
	v.book.Checked[CauseFirst]++
	a := s.attemptAt(e.Epoch)
	switch {
	case a == nil && !v.before(e.Epoch):
		s.found(v, CauseFirst, []uint64{r.Seq}, "a late word of epoch %d, and no attempt of the task has started there", e.Epoch)
	case a != nil && a.on != 0 && e.Node != "" && v.tasks.words.Text(a.on) != e.Node:
		s.found(v, CauseFirst, []uint64{e.Epoch, r.Seq}, "a late word of epoch %d from node %s, and node %s ran it", e.Epoch, e.Node, v.tasks.words.Text(a.on))
	case a != nil && a.own:
		s.found(v, OneEpoch, []uint64{e.Epoch, r.Seq}, "a word of epoch %d is kept as refused, and its end was accepted before", e.Epoch)
	}
}

func (s *story) askedToStop(v *Verifier, r *events.Record) {
	v.book.Checked[CauseFirst]++
	if s.open == 0 && !s.cut {
		s.found(v, CauseFirst, []uint64{r.Seq}, "asked to stop, and no attempt runs")
		return
	}
	s.asked = true
}

// cancelled checks I-5: no attempt runs, or the running one reports its end.
func (s *story) cancelled(v *Verifier, e task.CancelConfirmed, r *events.Record) {
	v.book.Checked[ExitSeen]++
	switch {
	case e.Epoch != s.open && !s.cut:
		if s.open == 0 {
			s.found(v, ExitSeen, []uint64{e.Epoch, r.Seq}, "cancelled by the word of epoch %d, which did not run", e.Epoch)
		} else if e.Epoch == 0 {
			s.found(v, ExitSeen, []uint64{s.open, r.Seq}, "cancelled while epoch %d ran: nobody has seen its end", s.open)
		} else {
			s.found(v, ExitSeen, []uint64{s.open, r.Seq}, "cancelled by the word of epoch %d while epoch %d ran: nobody has seen the end of that one", e.Epoch, s.open)
		}
		s.leaves(v, s.open, false)
	case e.Epoch != 0:
		if v.book.Checked[CauseFirst]++; !s.asked && !s.cut {
			s.found(v, CauseFirst, []uint64{e.Epoch, r.Seq}, "epoch %d was stopped because of a cancel that nobody had asked for", e.Epoch)
		}
		s.stopped(v, r, e.Epoch, true)
	}
	s.over(r)
}

// adopted moves the running attempt to another session of its node (I-3).
func (s *story) adopted(v *Verifier, e task.AttemptAdopted, r *events.Record) {
	s.ofItsNode(v, e.Node, e.Session, r)
	if !s.ran(v, r, e.Epoch, e.Attempt, false) {
		return
	}
	if s.open != e.Epoch {
		if !s.cut {
			s.found(v, OneEpoch, []uint64{e.Epoch, r.Seq}, "%s of epoch %d, which does not run any more", r.Fact.Type, e.Epoch)
		}
		return
	}
	if on := v.tasks.words.Text(s.openOn.Node); on != "" && on != e.Node {
		s.found(v, CauseFirst, []uint64{e.Epoch, r.Seq}, "epoch %d is adopted on node %s, and node %s runs it", e.Epoch, e.Node, on)
	}
	v.running.Leave(s.id, s.openOn, s.kin.onNode, e.Epoch, false)
	s.held = nanoseconds(r.Stored)
	s.openOn = v.session(e.Node, e.Session)
	v.running.Enter(s.openOn, s.kin.onNode, e.Epoch, v.tasks.specs.spec(s.now.spec).Cost())
}

// Bounds on what the log proves about a lease. Heartbeats are not in it.
const (
	leastLease = time.Second // assumed length of a lease, for a takeover that names none
	// serverError is how far the clocks of the log's servers may differ, and writerError those of
	// its writers.
	serverError = 250 * time.Millisecond
	writerError = 2 * time.Second
)

// founded checks that the attempt taken over could not hold its lease any more by the log itself
// (I-3): its session had ended, or a lease had passed since its claim; and that the takeover's own
// evidence agrees.
func (s *story) founded(v *Verifier, o *task.TookOver, r *events.Record) {
	if s.held == 0 || r.Stored.IsZero() {
		return // the claim is unknown
	}
	v.book.Checked[OneEpoch]++
	from := task.LeaseBy{}
	if by := r.Fact.By; by != nil && by.Lease != nil {
		from = *by.Lease
	}
	lease := max(from.Lasts.Std(), leastLease)
	early := nanoseconds(r.Stored)-s.held < int64(lease-serverError)
	for _, c := range []struct {
		wrong bool
		why   string
	}{
		{early && v.knows(s.openOn) && !v.over(s.openOn, r.Stored, &from), "which was held for less than a lease, and of which the session was not over"},
		{o.Ground == task.GroundSession && v.whole() && !v.over(s.openOn, r.Stored, &from), "because its session was over, and that was not"},
		{o.Ground == task.GroundBeat && from.At.Sub(o.Heard) < min(lease, v.beats(s.openOn, lease)), "because of a heartbeat that was not too old"},
		{o.Ground == task.GroundBeat && nanoseconds(o.Heard) < s.held-int64(serverError), "because of a heartbeat of before its claim"},
		{o.Ground != "" && from.At.After(r.Stored.Add(serverError)), "and says that this was found out later"},
	} {
		if c.wrong {
			s.found(v, OneEpoch, []uint64{s.open, r.Seq}, "epoch %d takes over epoch %d, %s", r.Seq, s.open, c.why)
		}
	}
}

// over tells whether a session had ended by the facts of its node known to a writer at a time, up
// to the sequence it names, if it names one. If another session began in between, the earlier one
// counts as ended a little later.
func (v *Verifier) over(key findings.Session, at time.Time, looked *task.LeaseBy) bool {
	n, ok := v.nodes[node.ID(v.tasks.words.Text(key.Node))]
	if !ok {
		return false
	}
	session := v.tasks.words.Text(key.Session)
	if then, known := v.pasts.Of(string(n.ID)).StoredAt(looked.Node); known && looked.Node > 0 {
		if gone := then.Gone(session); !gone.IsZero() && !gone.After(looked.At.Add(serverError)) {
			return true
		}
	}
	if back, ok := v.back[n.ID]; ok && n.Session == session && (at.Sub(back) <= writerError || !looked.At.IsZero() && back.After(looked.At.Add(-serverError))) {
		return true // it was until then
	}
	if gone := v.lives[key].gone; !gone.IsZero() && !gone.After(at.Add(writerError)) {
		return true
	}
	gone := n.Gone(session)
	return !gone.IsZero() && !gone.After(at.Add(writerError))
}

// knows tells whether the facts read tell the end of a session: in a part of a log it may have
// ended before.
func (v *Verifier) knows(key findings.Session) bool {
	n, ok := v.nodes[node.ID(v.tasks.words.Text(key.Node))]
	return v.whole() || ok && n.Session == v.tasks.words.Text(key.Session)
}

// beats is the lifetime of a session's heartbeat; lease if unknown.
func (v *Verifier) beats(key findings.Session, lease time.Duration) time.Duration {
	n, ok := v.nodes[node.ID(v.tasks.words.Text(key.Node))]
	if !ok || n.TTL == 0 {
		return lease
	}
	return n.TTL.Std()
}

// nanoseconds returns a time as a number, 0 for none.
func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// MostReleases is how often a node may give one task back within a second. A node that gives a task
// back cannot run it, and would repeat this if it claimed the task again at once.
const MostReleases = 3

// Spins finds the tasks that a node has claimed and given back more than [MostReleases] times
// within a second, each once. That breaks no promise to submitters, but it wears out the log and
// the node.
func Spins(log []events.Record) (spins []string) {
	type giver struct {
		task task.ID
		node string
	}
	holders := map[task.ID]string{}
	last, told := map[giver][]time.Time{}, map[giver]bool{}
	for _, r := range log {
		switch e := r.Fact.Event.(type) {
		case task.AttemptStarted:
			holders[r.Fact.Task] = e.Node
		case task.AttemptReleased:
			g := giver{r.Fact.Task, holders[r.Fact.Task]}
			times := append(last[g], cmp.Or(r.Stored, r.Fact.At))
			if n := len(times) - 1; n == MostReleases && times[n].Sub(times[0]) < time.Second && !told[g] {
				told[g] = true
				spins = append(spins, fmt.Sprintf("task %s: node %s gave it back more than %d times within a second, the last time in message %d: %s", g.task, g.node, MostReleases, r.Seq, e.Reason))
			}
			if len(times) > MostReleases {
				times = times[1:]
			}
			last[g] = times
		}
	}
	return spins
}

// The steps of a function are made once (I-3): each fact that records some names the place of its first
// one, and only the attempt that runs records any. So no step is recorded twice, and none is left out.

// made are the steps that a task's function has done.
type made struct {
	failed []bool // for each step whether it failed
	open   bool   // the last one is tried again
	waits  *task.Park
	before *wants // the needs of the task itself, while it waits for children
}

// next is the place of the step that is done next.
func (m *made) next() int {
	if m.open {
		return len(m.failed) - 1
	}
	return len(m.failed)
}

func (m *made) add(failed, open bool) {
	m.failed, m.open = append(m.failed[:m.next():m.next()], failed), open
}

// steps returns what is known of the steps of a task; first is the place that a fact names, for a task whose
// beginning is not known.
func (s *story) steps(v *Verifier, first int) *made {
	if s.made == nil {
		s.made = &made{}
		if s.old || s.cut || !v.whole() {
			s.made.failed = make([]bool, min(max(first, 0), task.MaxSteps))
		}
	}
	return s.made
}

// stepped reads the steps of a fact of the running attempt.
func (s *story) stepped(v *Verifier, steps []task.Step, first int, r *events.Record) {
	m := s.steps(v, first)
	v.book.Checked[OneEpoch]++
	if len(steps) > 0 && first != m.next() {
		s.found(v, OneEpoch, []uint64{r.Seq}, "%s is recorded as step %d, and %d were done before: each is made once", called(&steps[0]), first+1, m.next())
	}
	for i := range steps {
		m.add(steps[i].Error != "", steps[i].Open)
	}
}

func called(s *task.Step) string { return fmt.Sprintf("%s %q", s.Kind, s.Name) }

// remembers checks that the attempt which records steps is the one that runs.
func (s *story) remembers(v *Verifier, e *task.AttemptStepped, r *events.Record) {
	if !s.ran(v, r, e.Epoch, e.Attempt, false) {
		return
	}
	if s.open != e.Epoch && !s.cut {
		s.found(v, OneEpoch, []uint64{e.Epoch, r.Seq}, "%s of epoch %d, which does not run any more", r.Fact.Type, e.Epoch)
		return
	}
	s.stepped(v, e.Steps, e.First, r)
}

// parked ends an attempt whose function waits.
func (s *story) parked(v *Verifier, e *task.AttemptParked, r *events.Record) {
	if !s.ends(v, r, e.Epoch, e.Attempt, true) {
		return
	}
	s.stepped(v, e.Steps, e.First, r)
	park := e.Park
	s.steps(v, e.First).waits = &park
	due := park.Until
	switch park.Kind {
	case task.StepCall:
		s.made.before, s.kin.needs = s.kin.needs, v.tasks.wants(&task.Needs{Of: park.Of})
		due = time.Time{}
	case task.StepAwait:
		due = time.Time{}
	}
	s.waits(v, r, due)
	s.byOthers = s.byOthers && !due.IsZero() // whoever opens a hold offers it
}

// unparked ends the wait of the function, with the step behind it done if done is set.
func (s *story) unparked(done bool, inputs json.RawMessage) {
	if s.made == nil || s.made.waits == nil {
		return
	}
	m, park := s.made, s.made.waits
	if m.waits = nil; park.Kind == task.StepCall {
		m.before, s.kin.needs = nil, m.before
	}
	if done && park.Kind != task.StepDo {
		m.add(park.Kind == task.StepAwait && len(inputs) == 0, false)
	}
}

// drew reads the steps with which an attempt ended.
func (s *story) drew(v *Verifier, drawn []task.Step) {
	if len(drawn) == 0 || s.made == nil && (s.old || s.cut || !v.whole()) { // a fact that names a place says the rest
		return
	}
	m := s.steps(v, 0)
	for range drawn {
		m.add(false, false)
	}
}

// triedAgain forgets a last step that failed, when its attempt has. It tells whether there was one.
func (s *story) triedAgain() bool {
	if s.made == nil {
		return false
	}
	if n := len(s.made.failed); n > 0 && s.made.failed[n-1] {
		s.made.failed, s.made.open = s.made.failed[:n-1], false
		return true
	}
	return false
}

// carriedSteps takes over the steps of a task that was carried.
func (s *story) carriedSteps(v *Verifier, is *task.Task) {
	if is.Durable == nil {
		return
	}
	m := &made{}
	for i := range is.Durable.Steps {
		m.add(is.Durable.Steps[i].Error != "", is.Durable.Steps[i].Open)
	}
	if p := is.Durable.Parked; p != nil {
		if m.waits = &p.Park; p.Kind == task.StepCall {
			m.before = v.tasks.wants(p.Before)
		}
	}
	s.made = m
}
