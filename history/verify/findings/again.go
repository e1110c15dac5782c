package findings

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/schedule"
)

// Decisions on ticks are repeated from the definition in force, the fire or rule that triggered
// them, the ledger of the decision before, and the progress of earlier ticks' tasks. The reason of
// a refused birth is not repeated, only that the tick was to get a task.

// ticking is the memory of a schedule for that.
type ticking struct {
	plans  []planned   // of its latest definitions, at most [plansKept]
	fires  []triggered // the latest of its fires, at most [firesKept]
	ledger task.Ledger
	seq    uint64    // of the latest decision, which left ledger
	at     time.Time // when it was made
}

const (
	plansKept = 4
	firesKept = 64
)

// planned is a definition; its plan is nil if it has no ticks.
type planned struct {
	revision uint64
	of       schedule.Definition // without what it makes
	plan     *schedule.Plan
}

// triggered is a fire, and what its fact says in words.
type triggered struct {
	seq    uint64
	fire   schedule.Fire
	detail string
}

// Again adds a fact about a schedule, and repeats it if it is a decision.
func (all *Ticks) Again(r *events.Record) {
	name := r.Fact.Schedule
	if r.Fact.Def.Kind() == task.DefSchedule {
		name = r.Fact.Def.Name()
	}
	if name == "" || !all.book.Asked(Decisions) || !all.log.Whole {
		return
	}
	s := all.schedules[name]
	if s == nil {
		s = &ticking{}
		all.schedules[strings.Clone(name)] = s
	}
	switch e := r.Fact.Event.(type) {
	case task.ScheduleFired:
		f := schedule.Fire{Tick: e.Tick, Due: e.Due, Stored: r.Stored}
		s.fires = append(s.fires[max(len(s.fires)-firesKept+1, 0):], triggered{r.Seq, f, strings.Clone(e.Detail)})
	case task.DefinitionEvent:
		s.plans = append(s.plans[max(len(s.plans)-plansKept+1, 0):], all.planOf(name, e))
	case task.ScheduleEvent:
		all.tickAgain(s, r, e)
		s.ledger, s.seq, s.at = ownLedger(schedule.LedgerOf(e)), r.Seq, r.Fact.At
	}
}

// planOf returns the plan of a definition.
func (all *Ticks) planOf(name string, e task.DefinitionEvent) planned {
	d := task.EvolveDefinition(task.Definition{}, 0, time.Time{}, "", e)
	p := planned{revision: d.Revision}
	is, err := schedule.Read(strings.Clone(name), d.Text)
	if err != nil {
		return p
	}
	if all.log.When != nil {
		is.When = all.log.When(name, is.When)
	}
	is.Make = birth.Submission{}
	p.of = is
	p.plan, _ = is.Plan() // it was valid when stored
	return p
}

// ownLedger returns a ledger in memory of its own.
func ownLedger(l task.Ledger) task.Ledger {
	l.Open, l.Waiting = slices.Clone(l.Open), slices.Clone(l.Waiting)
	for i, id := range l.Open {
		l.Open[i] = task.ID(strings.Clone(string(id)))
	}
	for i, w := range l.Waiting {
		l.Waiting[i].Trigger = strings.Clone(w.Trigger)
	}
	return l
}

// tickAgain makes a decision again.
func (all *Ticks) tickAgain(s *ticking, r *events.Record, e task.ScheduleEvent) {
	revision, tick := about(e)
	a := again{all: all, r: r, e: e, tick: tick, revision: revision}
	wrong := "by that revision nothing fires"
	switch i := slices.IndexFunc(s.plans, func(p planned) bool { return p.revision == revision }); {
	case i < 0:
		a.forgotten = len(s.plans) == plansKept && revision < s.plans[0].revision
	case s.plans[i].plan != nil:
		of := &s.plans[i].of
		a.of, a.plan, a.ledger = of, s.plans[i].plan, schedule.Remember(s.ledger, s.at, of.Since)
		if rule := By(r).Rule; of.Paused == nil || rule == task.RulePause || rule == task.RuleBirth || rule == task.RuleHand {
			wrong = a.judge(s)
		}
	}
	switch {
	case a.forgotten:
		all.book.Forgotten++
		return
	case a.overtaken:
		all.book.Overtaken++
		return
	}
	if all.book.Checked[Decisions]++; wrong != "" {
		seqs := []uint64{r.Seq}
		if s.seq > 0 {
			seqs = []uint64{s.seq, r.Seq}
		}
		all.book.Find(Decisions, Finding{Seqs: seqs,
			What: fmt.Sprintf("%s of schedule %s, decided again from what it names, is another one: %s", r.Fact.Type, strings.Clone(r.Fact.Schedule), wrong),
			Look: fmt.Sprintf("`millrace events show %d`, and `millrace schedule show`", r.Seq)})
	}
}

// about is the revision of a decision and its tick, or the first of several.
func about(e task.ScheduleEvent) (revision uint64, tick time.Time) {
	switch e := e.(type) {
	case task.ScheduleAdmitted:
		return e.Revision, e.Tick
	case task.ScheduleSkipped:
		return e.Revision, e.Tick
	case task.ScheduleQueued:
		return e.Revision, e.Tick
	}
	return 0, time.Time{}
}

// again is a decision being repeated.
type again struct {
	all      *Ticks
	r        *events.Record
	e        task.ScheduleEvent
	tick     time.Time
	revision uint64
	of       *schedule.Definition
	plan     *schedule.Plan
	ledger   task.Ledger // the ledger of the decision before

	forgotten, overtaken bool // it cannot be judged
}

// judge describes the fault, "" for none.
func (a *again) judge(s *ticking) string {
	by := By(a.r)
	if by.Rule == task.RuleBirth {
		return a.left()
	}
	if by.Rule == task.RulePause {
		return a.lapsed()
	}
	seen, wrong := a.seen(by.Ends, s)
	if wrong != "" || a.overtaken {
		return wrong
	}
	if by.Rule == task.RuleHand {
		if is, why := a.plan.ByHand(seen, a.tick, a.revision); is == nil {
			return why
		} else {
			return a.differs(*is)
		}
	}
	if by.Rule == task.RuleRelease {
		return a.differs(a.plan.Release(seen, a.revision))
	}
	fire, detail, wrong := a.trigger(&by, s)
	if wrong != "" || a.forgotten {
		return wrong
	}
	decided := a.ledger.Last
	if !a.tick.After(decided) {
		decided = a.tick.Add(-time.Nanosecond) // later ticks were decided meanwhile
	}
	look := a.plan.Look(fire, detail, decided, a.r.Fact.At)
	for _, m := range look.Missed {
		if e, ok := a.e.(task.ScheduleSkipped); ok && m.From.Equal(a.tick) && e.Reason == m.Reason {
			return a.differs(m.Skip(a.ledger, a.revision))
		}
	}
	wrong = "that planned run was not owed"
	for _, o := range look.Owed {
		first := a.plan.Decide(seen, o, a.revision)[0]
		if _, tick := about(first); !tick.Equal(a.tick) {
			continue // another tick had to make room
		}
		if wrong = a.differs(a.refused(first, seen, o)); wrong == "" {
			return ""
		}
	}
	return wrong
}

// refused is the decision after a refused birth, if the fact says that it was refused.
func (a *again) refused(first task.ScheduleEvent, seen task.Ledger, o schedule.Owed) task.ScheduleEvent {
	e, skipped := a.e.(task.ScheduleSkipped)
	if _, admitted := first.(task.ScheduleAdmitted); !admitted || !skipped || !schedule.Refuses(e.Reason) {
		return first
	}
	is := a.plan.Refuse(seen, o, a.revision, e.Reason, "")
	is.Detail = e.Detail
	return is
}

// left judges that an admitted tick got no task.
func (a *again) left() string {
	e, ok := a.e.(task.ScheduleSkipped)
	t := a.all.ticks[tick{a.r.Fact.Schedule, a.tick.UnixNano()}]
	switch {
	case !ok || !schedule.Refuses(e.Reason):
		return "no birth is refused for that"
	case t == nil || t.admitted == 0:
		return "that planned run was to get no task"
	}
	is := a.plan.Leave(a.ledger, e.Tick, a.revision, e.Reason, "")
	is.Detail = e.Detail
	return a.differs(is)
}

// lapsed judges that ticks from before a pause are left out.
func (a *again) lapsed() string {
	if all := a.of.Lapsed(a.plan, a.ledger.Last); len(all) > 0 {
		return a.differs(all[0].Skip(a.ledger, a.revision))
	}
	return "no planned run before a pause lacks a decision"
}

// trigger is the fire from which the decision followed, or what stands in for one that did not come.
func (a *again) trigger(by *task.By, s *ticking) (fire schedule.Fire, detail, wrong string) {
	if by.Rule == task.RuleWatch {
		fire, detail, ok := a.plan.Watched(by.At)
		if !ok {
			wrong = "the schedule has no planned run at the time that it names"
		}
		return fire, detail, wrong
	}
	i := slices.IndexFunc(s.fires, func(f triggered) bool { return f.seq == by.Offer })
	switch {
	case i >= 0:
		return s.fires[i].fire, s.fires[i].detail, ""
	case len(s.fires) == firesKept && by.Offer < s.fires[0].seq && by.Offer > 0:
		a.forgotten = true
		return fire, "", ""
	}
	return fire, "", "it names no fire of the schedule, and no other rule by which it was decided"
}

// seen is the ledger without the tasks that are known to have ended.
func (a *again) seen(ends []uint64, s *ticking) (l task.Ledger, wrong string) {
	if e, ok := a.e.(task.ScheduleSkipped); !a.plan.Watches() || ok && len(ends) == 0 && (e.Reason == task.SkipMissed || e.Reason == task.SkipWindow) {
		return a.ledger, "" // they do not count
	}
	if len(ends) != len(a.ledger.Open) {
		return l, fmt.Sprintf("%d tasks of earlier planned runs were open, and it names %d", len(a.ledger.Open), len(ends))
	}
	known := make([]schedule.Seen, len(ends))
	for i, id := range a.ledger.Open {
		if ends[i] == 0 {
			continue
		}
		in, overtaken, wrong := a.all.log.EndAt(id, ends[i])
		if wrong != "" {
			return l, wrong
		}
		if a.overtaken = a.overtaken || overtaken; overtaken {
			return l, ""
		}
		known[i] = schedule.Seen{Seq: ends[i], State: in.State}
	}
	return schedule.Heed(a.ledger, known, a.r.Fact.At.Sub(s.at)), ""
}

// differs compares the decision with its repetition.
func (a *again) differs(is task.ScheduleEvent) string {
	if is == nil {
		return "nothing follows"
	}
	f := a.r.Fact
	f.Event, f.Type = is, events.TypeOf(is)
	return a.all.book.Differ(&a.r.Fact, &f)
}
