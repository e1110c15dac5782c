package verify

import (
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	"millrace/events"
	"millrace/history/verify/findings"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/node"
)

// Config says what to check. Zero fields mean the default.
type Config struct {
	// From is the sequence at which the records begin. Default 1: the beginning of the log. With
	// more, nothing is assumed about earlier facts, and tasks born earlier are checked as far as
	// the range shows them.
	From uint64
	// Settled says that all work is done: every task must have ended.
	Settled bool
	// Settings are the bounds for deadlines. Default: as in package scheduler.
	Settings duties.Settings
	// Margin is how long after a deadline its fact may come: some sweeps of a scheduler, and the
	// difference between the clocks of hosts. Default 15s.
	Margin time.Duration
	// Acknowledged are the tasks whose submission was confirmed to a client; nil for none.
	Acknowledged []task.ID
	// Rules are the rules to check. Default: all.
	Rules []Rule
	// Keep is how many findings of each rule are kept. Default 100.
	Keep int
	// Other are settings under which decisions are repeated, in place of the recorded ones.
	Other Other
	// Import says what the log lacks because it was imported: what is hidden is not compared, and
	// the records begin behind what is missing. Default: nothing.
	events.Import
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&c.Settings.AckWait, 30*time.Second)
	set(&c.Settings.Slack, 3*time.Second)
	set(&c.Settings.Timer, 15*time.Second)
	set(&c.Margin, 15*time.Second)
	c.From = max(c.From, 1, c.Lacks+1)
	if len(c.Rules) == 0 {
		c.Rules = Rules()
	}
	if c.Keep == 0 {
		c.Keep = 100
	}
	return c
}

// Verifier reads a log once, from one end to the other. It is for one goroutine.
type Verifier struct {
	cfg  Config
	book *findings.Collector

	first, last uint64
	lastFact    uint64 // the last message that the read model reflects
	stored      time.Time
	facts       int
	probes      int
	poison      map[uint64]struct{} // unreadable messages that were not dismissed
	backwards   int                 // messages stored before an earlier one
	backSeqs    []uint64            // the first of them
	unknown     map[events.Type]int
	repairs     int

	tasks     *tasks
	nodes     map[node.ID]node.Node
	pasts     findings.Nodes
	guards    map[string]*guarded
	queuePast findings.Queues
	valves    map[string][]valve // of queues that ever had one, the latest last
	// world is the world of the latest decision, and worldTo the position in the log when it was
	// made.
	world   *node.Fleet
	worldTo uint64
	back    map[node.ID]time.Time // when a session that had counted as gone was heard again
	lives   map[findings.Session]life
	terms   *findings.Terms
	running *findings.Running
	lines   *findings.Lines
	ticks   *findings.Ticks
	causes  causes

	definitions map[task.Def]*remembered
	calendars   map[task.Def]findings.Latest[task.Definition]
	births      births
	claims      map[findings.Word]keyClaim // by the number of the key

	horizon  task.Horizon
	carried  *task.Carriage // nil if the record before was none
	complete uint64         // where all had been carried that lived before the range; 0 if it was not

	sooner  []Sooner
	tripped []string // jobs whose breaker was reported to open under other settings

	rowsCame bool // rows of a read model were compared
	rowsOpen int  // rows that have moved on since
}

// New returns a verifier that has read no records yet.
func New(cfg Config) *Verifier {
	cfg = cfg.withDefaults()
	v := &Verifier{
		cfg:         cfg,
		book:        findings.New(findings.Config{Rules: cfg.Rules, Keep: cfg.Keep, Otherwise: !cfg.Other.None(), Hidden: cfg.Hidden}),
		unknown:     map[events.Type]int{},
		tasks:       newTasks(cfg.From > 1),
		poison:      map[uint64]struct{}{},
		nodes:       map[node.ID]node.Node{},
		pasts:       findings.Nodes{},
		queuePast:   findings.Queues{},
		valves:      map[string][]valve{},
		guards:      map[string]*guarded{},
		back:        map[node.ID]time.Time{},
		lives:       map[findings.Session]life{},
		births:      newBirths(),
		claims:      map[findings.Word]keyClaim{},
		definitions: map[task.Def]*remembered{},
		calendars:   map[task.Def]findings.Latest[task.Definition]{},
		causes:      causes{seed: maphash.MakeSeed(), missing: map[string]effect{}},
	}
	v.terms = findings.NewTerms(&v.tasks.words)
	v.running = findings.NewRunning(v.book, v.terms)
	v.lines = findings.NewLines(v.book, v.terms, findings.Log{Whole: v.whole(), Margin: cfg.Margin, Queues: v.queuePast, Task: v.limitsOf})
	v.ticks = findings.NewTicks(v.book, findings.TickLog{Whole: v.whole(), When: cfg.Other.Schedule, EndAt: v.endAt})
	return v
}

// whole tells whether the records begin with the log.
func (v *Verifier) whole() bool { return v.cfg.From <= 1 }

// before tells whether a sequence lies before the range and is thus unknown.
func (v *Verifier) before(seq uint64) bool { return !v.whole() && seq < v.cfg.From }

// errBackwards: the records are not in the order of the log.
var errBackwards = errors.New("the log goes backwards")

// Add reads the next record. It keeps no reference to r. The only error is that r does not come
// after the record before; then r is not counted.
func (v *Verifier) Add(r *events.Record) error {
	if r.Seq <= v.last {
		return fmt.Errorf("%w: sequence %d comes after %d", errBackwards, r.Seq, v.last)
	}
	v.last = r.Seq
	if r.Seq <= v.cfg.Lacks {
		return nil
	}
	if v.first == 0 {
		v.first = r.Seq
	}
	v.book.Turn(r)
	defer v.book.Turn(nil)
	v.uncarried(r)
	v.lines.Next(r)
	v.clock(r)
	if !r.IsFact() {
		v.probes++
		return nil
	}
	v.lastFact = r.Seq
	r = v.timely(r)
	switch {
	case r.Err != nil:
		v.poison[r.Seq] = struct{}{}
	case r.Fact.Repeats > 0 && !v.before(r.Fact.Repeats) && r.Fact.Task == "" && r.Fact.Node == "" && r.Fact.Queue == "":
		v.facts++
		v.retold(r)
		return nil
	case r.Fact.Event == nil:
		v.unknown[events.Type(strings.Clone(string(r.Fact.Type)))]++
		v.causes.visit(v, r)
	default:
		v.facts++
		v.causes.visit(v, r)
		v.ticks.Add(r)
		v.revisionsOf(r)
		v.ticks.Again(r)
		v.dismissed(r)
	}
	switch r.Kind {
	case events.KindNode:
		v.node(r)
		return nil
	case events.KindQueue:
		v.queueFact(r)
	case events.KindHorizon:
		v.horizonFact(r)
	case events.KindKey:
		v.claimFact(r)
	case events.KindLimit:
		v.lines.Granted(r)
		v.grants(r)
	case events.KindBreaker:
		if r.Err == nil {
			v.breakerFact(r)
		}
	}
	if r.Fact.Task != "" {
		v.task(r)
	}
	return nil
}

// clock notes when the log stored a message. Its time goes back if the server's clock was set back,
// or if somebody has altered an export.
func (v *Verifier) clock(r *events.Record) {
	if r.Stored.After(v.stored) {
		v.stored = r.Stored
		return
	}
	if !r.Stored.Before(v.stored.Add(-v.cfg.Margin)) {
		return
	}
	if v.backwards++; len(v.backSeqs) < maxPoisonSeqs {
		v.backSeqs = append(v.backSeqs, r.Seq)
	}
}

// task adds a record of a task's history, readable or not.
func (v *Verifier) task(r *events.Record) {
	s := v.tasks.take(r.Fact.Task)
	if s.forgotten() && r.Kind == events.KindOffer && r.Fact.Type != events.TaskSubmitted {
		return // a timer that was set before it ended, or an offer that was sent again: no worker starts it
	}
	switch r.Fact.Event.(type) {
	case task.Reopened:
		s.lone = v.horizon.Step == task.HorizonClosed && s.now.head < v.horizon.Below
	case task.Kept:
		s.lone = false
	}
	s.fold(v, r)
	if r.Err == nil && r.Fact.Event != nil {
		s.visit(v, r)
	}
	s.standing(v, r)
	v.tasks.put(s)
}

func (v *Verifier) node(r *events.Record) {
	id := r.Fact.Node
	n, ok := v.nodes[id]
	if !ok {
		id = node.ID(strings.Clone(string(id)))
		n.ID = id
	}
	known := v.pasts.Of(string(id))
	v.pasts[id] = known
	was := n
	if r.Err == nil && v.book.Asked(Decisions) {
		v.judgedNode(&n, r)
	}
	if v.book.Asked(Decisions) && !known.Takes() {
		v.waited(r)
	}
	v.keptNode(known.Now(), r)
	known.Add(r)
	n = known.Now()
	if was.State == node.Offline && n.Session == was.Session && n.State != node.Offline {
		v.back[n.ID] = r.Stored
	}
	v.registersFirst(&was, r)
	v.lived(&was, &n, r)
	if e, ok := r.Fact.Event.(node.Registered); ok && r.Err == nil {
		v.running.Register(string(n.ID), n.Session, e.Slots)
	}
	n.Reason = ""
	v.nodes[n.ID] = n
}

// limitsOf returns the limits of a task, and since when it waits; false if there is no such task.
func (v *Verifier) limitsOf(id task.ID) (under findings.Bounds, turn uint64, ok bool) {
	s := v.tasks.known(id)
	if s == nil || s.now.seq == 0 {
		return nil, 0, false
	}
	return s.limit, s.now.turn, true
}

// queueFact adds a fact about a queue.
func (v *Verifier) queueFact(r *events.Record) {
	was, is := v.queuePast.Add(r)
	if is.Valve != was.Valve {
		v.valves[is.Name] = append(v.valves[is.Name], valve{r.Fact.At, is.Valve})
	}
	if v.book.Asked(Decisions) && v.whole() {
		v.lines.Said(r.Seq, is)
	}
}

// Judged counts the decisions repeated so far, and those that could not be: with them a caller can
// tell which records are decisions.
func (v *Verifier) Judged() (checked, not int) {
	return v.book.Checked[Decisions], v.book.Forgotten + v.book.Overtaken
}

// Found tells whether anything is found yet. What is only open is judged by [Verifier.Report].
func (v *Verifier) Found() bool { return v.book.Any() }

// Last is the sequence of the last record that the read model reflects, 0 for none.
func (v *Verifier) Last() uint64 { return v.lastFact }

// CouldNot records why a rule cannot be checked, for example because no read model answers.
func (v *Verifier) CouldNot(rule Rule, why string) { v.book.CouldNot(rule, why) }

// Nothing records why a rule has nothing to check, where that is normal.
func (v *Verifier) Nothing(rule Rule, why string) { v.book.Note(rule, "%s", why) }

// Report judges the open tasks at now, and sums up. A zero now means the time at which the log
// stored the last record. Call it once, at the end.
func (v *Verifier) Report(now time.Time) *Report {
	if now.IsZero() {
		now = v.stored
	}
	r := &Report{From: v.cfg.From, First: v.first, Last: v.last, Now: now, Facts: v.facts, Probes: v.probes,
		Poison: len(v.poison), PoisonSeqs: v.poisonSeqs(), Unknown: v.unknown, Backwards: v.backwards, BackwardsSeqs: v.backSeqs, Repairs: v.repairs}
	v.uncarried(nil)
	v.lines.CatchUp(v.last)
	r.Tasks, r.Open = v.judgeOpen(now)
	v.ticks.Open(now)
	v.causes.end(v)
	v.survival()
	v.remarks()
	v.book.Sum(r)
	return r
}

// remarks are the notes of every report.
func (v *Verifier) remarks() {
	if v.horizonNotes(); !v.whole() && v.horizon.Head == 0 {
		v.book.Note(OneEnd, "what happened before %d is not known", v.cfg.From)
	}
	if v.book.Forgotten > 0 {
		v.book.Note(Decisions, "%d were made by events that lie too far back, or that not all have known", v.book.Forgotten)
	}
	if v.book.Overtaken > 0 {
		v.book.Note(Decisions, "%d were made while an offer was on its way", v.book.Overtaken)
	}
	if v.cfg.Hidden > 0 {
		v.book.Note(Decisions, "values that an incident file has hidden, up to %d, are not compared", v.cfg.Hidden)
	}
	v.book.Note(Limits, "slots of nodes, and concurrency; rates and budgets are checked by %s", Decisions)
	if v.book.Checked[OneTask] == 0 {
		v.book.Note(OneTask, "no event names a schedule")
	}
	switch {
	case !v.rowsCame && !v.book.Noted(ReadModel):
		v.book.Note(ReadModel, "no read model was given")
	case v.rowsOpen > 0:
		v.book.Note(ReadModel, "%d rows have moved on since", v.rowsOpen)
	}
	if v.cfg.Acknowledged == nil {
		v.book.Note(Survival, "no list of acknowledged tasks was given")
	}
	if v.repairs > 0 {
		v.book.Note(NoScheduler, "the sweep of a scheduler placed %d offers that were missing", v.repairs)
	}
}

// The parts of a report, from package findings.
type (
	Rule        = findings.Rule
	Finding     = findings.Finding
	Report      = findings.Report
	RuleReport  = findings.RuleReport
	Status      = findings.Status
	Difference  = findings.Difference
	Differences = findings.Differences
)

// The statuses of a rule.
const (
	StatusOK       = findings.StatusOK
	StatusBroken   = findings.StatusBroken
	StatusNothing  = findings.StatusNothing
	StatusUnknown  = findings.StatusUnknown
	StatusNotAsked = findings.StatusNotAsked
)

// The promises.
const (
	Deadlines   = findings.Deadlines   // I-1
	OneEnd      = findings.OneEnd      // I-2
	OneEpoch    = findings.OneEpoch    // I-3
	Limits      = findings.Limits      // I-4
	ExitSeen    = findings.ExitSeen    // I-5
	OneTask     = findings.OneTask     // I-6
	CauseFirst  = findings.CauseFirst  // I-7
	ReadModel   = findings.ReadModel   // I-8
	Survival    = findings.Survival    // I-9
	NoScheduler = findings.NoScheduler // I-10
	Decisions   = findings.Decisions   // I-11
)

// Rules lists all rules.
func Rules() []Rule { return findings.Rules() }

// ParseRule parses I-1 to I-11, in either case. The error lists the rules.
func ParseRule(s string) (Rule, error) { return findings.ParseRule(s) }
