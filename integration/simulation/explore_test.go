package simulation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/value"
	"millrace/worker/claim"
)

// Random histories are long and miss faults that need three events at one moment. Small worlds can
// be explored whole: every order of all calls that two workers and a client make on the log, and of
// the mishaps that befall them, down to a depth. The workers run the real [claim.Protocol],
// [events.Recorder] and [task.Decide] on [events.Memory].
//
// An explorer keeps no copies of worlds. It plays each one again by the choices that lead there,
// and cuts off at a state that it has seen. Two states are the same if the log holds the same by
// each chain (sequences may differ), if every resident has seen the same of it, and if as much time
// has passed.

// small describes a small world: what exists in it, and which mishaps may happen.
type small struct {
	tasks, workers int
	// How often each may happen.
	restarts  int         // of the first worker's process, by kill -9
	lost      int         // answers, or requests, of writes
	blind     int         // reads that fail
	early     int         // offers that are handed out early
	cancels   int         // of the first task
	births    int         // of the first task, besides the first
	silences  int         // of the heartbeats of a worker that goes on otherwise
	drains    int         // of the first worker: it is asked to end
	passes    int         // of a third of a lease each
	reopens   int         // of the first task, by a client that finds it ended
	forgets   int         // moves of the horizon; before the first one a task begins to wait, for longer than the world lasts
	keyed     task.ID     // has a unique key, for which another task is submitted
	omits     events.Type // of the facts that are not carried
	loses     loss        // of what is carried of a task
	firstEnd  ending      // of a first attempt; that of all others is a success
	family    bool        // the first task is a parent with one step, and a scheduler follows it
	limited   int         // how many schedulers admit tasks, of which one at a time runs
	swift     bool        // a move of the horizon is one step
	adopts    bool        // the next process of a worker goes on with the attempt that a killed one leaves
	orphans   bool        // who moves the horizon sees no parents
	lead      int         // how many steps go by, without mishaps, before the choices begin
	depth     int         // choices from there at most
	broken    func(*claim.Protocol) *claim.Protocol
	unchecked bool // the log ignores the expected sequence
	hasty     bool // a worker says that it drains while it claims
	rash      bool // the front of the log goes before what lives there is carried
	patient   bool // what waits for its start takes any heartbeat for a confirmation
}

// loss takes something from what is carried.
type loss func(*task.Carried)

func noTurn(c *task.Carried)  { c.Fold.Turn = 0 }
func noHolds(c *task.Carried) { c.Fold.Holds = nil }
func noSteps(c *task.Carried) { c.Fold.Durable = nil }

// ending is how an attempt ends, and whether another one follows.
type ending func(t *task.Task, now time.Time) task.Command

func failing(t *task.Task, _ time.Time) task.Command {
	return task.Fail{Epoch: t.Epoch, Class: value.Exit}
}

// sleeping ends an attempt whose function has made one step and sleeps in the next one.
func sleeping(t *task.Task, now time.Time) task.Command {
	return task.Suspend{Epoch: t.Epoch, Park: task.Park{Step: "nap", Kind: task.StepSleep, Until: now.Add(passing)},
		Steps: []task.Step{{Name: "draw", Kind: task.StepDo, Result: json.RawMessage("7")}}}
}

// passing is how much time passes at once. Then every resident that is not silent beats.
const passing = ackWait / 3

// place is a small world under way.
type place struct {
	small
	now    time.Time
	mem    *events.Memory
	actors []*resident
	ids    int
	runs   []*stay
	fail   error
	past
}

// resident is an actor in a small world: a coroutine that stops before each call.
type resident struct {
	*actor
	next    func() (*call, bool)
	stop    func()
	pending *call
	fate    fate
	seen    []sight // since it was last idle
	node    node.ID // of a worker
	session string
	beaten  time.Time
	silent  bool
	run     *stay // its running attempt
	// claims is set while a claim is under way, leaving when no other may begin any more.
	claims, leaving bool
	looked          uint64    // what a scheduler has last seen of the log
	behind          *resident // whose claim must have ended before this one acts; nil for nobody's
}

// stay is an attempt that runs.
type stay struct {
	run
	of *resident
}

// choice is one thing that may happen next: who does what, and how that comes out.
type choice struct {
	who, what, how string
	do             func()
}

var smallBegin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newPlace(s small) *place {
	p := &place{small: s, now: smallBegin, past: newPast()}
	p.mem = events.NewMemory(func() time.Time { return p.now }, ackWait)
	rec := p.recorder(p.mem)
	if s.forgets > 0 {
		e := p.birth(waitingTask)
		e.Due = smallBegin.Add(time.Hour)
		p.must(rec.Submit(context.Background(), waitingTask, e))
	}
	for i := range s.tasks {
		p.must(rec.Submit(context.Background(), taskID(i+1), p.birth(taskID(i+1))))
	}
	if s.family {
		p.bear(rec)
	}
	for i := range s.workers {
		p.arrive(node.ID(fmt.Sprintf("n%d", i+1)), "a", nil)
	}
	if s.family {
		p.enter("scheduler", p.schedule)
	}
	for i := range s.limited {
		p.enter(fmt.Sprint("scheduler ", i+1), p.schedule)
	}
	if s.cancels > 0 {
		p.enter("canceller", p.cancel)
	}
	if s.births > 0 {
		p.enter("submitter", p.submitAgain)
	}
	if s.keyed != "" {
		p.enter("rival", p.rival)
	}
	if s.reopens > 0 {
		p.enter("reopener", p.reopen)
	}
	if s.forgets > 0 {
		p.enter("collector", p.forget)
	}
	for range s.lead {
		p.choices()[0].do()
	}
	return p
}

func (p *place) must(_ any, err error) {
	if err != nil {
		panic(err) // a log in memory takes everything
	}
}

func (p *place) birth(id task.ID) task.Submitted {
	spec := &job.Spec{Handler: "work"}
	if p.family && id == taskID(1) {
		spec = family()
	}
	if p.limited > 0 && id != waitingTask {
		spec.Concurrency = limit.Concurrencies{{Max: 1, Key: "/x"}}
	}
	if id == p.keyed || id == rivalTask {
		spec.Unique.Key = "/x"
	}
	if p.firstEnd != nil && !p.family {
		spec.Retry = job.Retry{Max: 1, Min: value.Duration(passing)}
	}
	e, err := birth.Of(birth.Submission{Spec: spec}, nil, 0, smallBegin)
	p.must(nil, err)
	return e
}

// rivalTask has the unique key of another task.
const rivalTask = task.ID("01JNAT00000000000000000098")

// rival submits a task whose unique key another one has or had.
func (p *place) rival(r *resident) {
	// Any result will do that gives the key to one of them.
	_, _ = p.recorder(&port{p.mem, r.actor}).Submit(context.Background(), rivalTask, p.birth(rivalTask))
}

// oneKey checks that no two tasks that are open have one unique key.
func (p *place) oneKey() error {
	if p.keyed == "" {
		return nil
	}
	one, other := events.FoldTask(p.keyed, p.story(p.keyed)), events.FoldTask(rivalTask, p.story(rivalTask))
	if other.Spec != nil && !other.State.Terminal() && !one.State.Terminal() {
		return broken(errForgets, "%s is %s, and %s has its unique key", short(p.keyed), one.State, short(rivalTask))
	}
	return nil
}

func (p *place) recorder(log events.Log) *events.Recorder {
	return &events.Recorder{Log: log, Now: func() time.Time { return p.now }, NewID: func(time.Time) string {
		p.ids++
		return fmt.Sprintf("01JNAF%020d", p.ids)
	}}
}

// enter adds a resident and lets it run to its first call.
func (p *place) enter(name string, body func(*resident)) *resident {
	r := &resident{actor: &actor{name: name}}
	r.next, r.stop = iter.Pull(func(yield func(*call) bool) {
		defer func() {
			e := recover()
			if err, is := e.(error); e != nil && !(is && errors.Is(err, errGone)) {
				panic(e)
			}
		}()
		r.await = func(c *call) fate {
			if !yield(c) {
				panic(errGone)
			}
			return r.fate
		}
		body(r)
	})
	p.actors = append(p.actors, r)
	r.pending, _ = r.next()
	return r
}

// errGone ends a coroutine whose process was killed.
var errGone = errors.New("killed")

// close ends all coroutines.
func (p *place) close() {
	for _, r := range p.actors {
		r.stop()
	}
}

// arrive brings a session of a node online and lets it serve, and first go on with what another one left.
func (p *place) arrive(id node.ID, session string, left *stay) {
	rec := p.recorder(p.mem)
	session = string(id) + session
	for _, c := range []node.Command{node.Register{Session: session, Profile: node.Profile{Slots: 1, Queues: queues, TTL: value.Duration(nodeTTL)}}, node.Beat{Session: session}} {
		_, _, err := rec.DoNode(context.Background(), id, c)
		p.must(nil, err)
	}
	p.must(nil, p.mem.Beat(context.Background(), id, node.Heartbeat{Session: session}, nodeTTL))
	p.enter(session, func(r *resident) {
		r.node, r.session, r.beaten = id, session, p.now
		p.serve(r, left)
	})
}

// serve is the life of a worker with one slot.
func (p *place) serve(r *resident, left *stay) {
	port := &port{p.mem, r.actor}
	var log events.Log = port
	if p.unchecked {
		log = unchecked{port}
	}
	protocol := &claim.Protocol{Recorder: p.recorder(log), Node: r.node, Session: r.session, Accounts: &events.Accounts{Log: port, Beats: port, Lease: ackWait}}
	if p.broken != nil {
		protocol = p.broken(protocol)
	}
	ctx := context.Background()
	offers, err := p.mem.Offers(ctx, queues)
	p.must(nil, err)
	if left != nil && p.adopt(r, left) {
		p.work(r, protocol)
	}
	for {
		r.seen = nil
		offer := port.pull(offers.(*events.MemoryOffers))
		if offer == nil {
			continue
		}
		received := p.now
		var t task.Task
		r.claims = true
		mine, err := protocol.Claim(ctx, offer, &t)
		r.claims = false
		if err != nil || !mine {
			continue
		}
		r.run = &stay{run{task: t, began: received, confirmed: received, beaten: r.beaten, waits: true, offer: offer}, r}
		if p.waits(r.run) {
			r.turn("waits", time.Time{})
		}
		r.run.waits = false
		p.work(r, protocol)
	}
}

// work runs what a worker has claimed or adopted, and reports how it ends.
func (p *place) work(r *resident, protocol *claim.Protocol) {
	t := r.run.task
	command := task.Command(task.Finish{Epoch: t.Epoch})
	if p.firstEnd != nil && t.Attempt == 1 && t.Life == 0 {
		command = p.firstEnd(&t, p.now)
	}
	if p.now.Before(r.run.stops()) {
		p.begin(r.run)
		r.turn("ends", time.Time{})
	}
	if !p.now.Before(r.run.stops()) {
		command = task.Release{Epoch: t.Epoch, Reason: "its lease is not confirmed"}
	}
	p.runs = slices.DeleteFunc(p.runs, func(o *stay) bool { return o == r.run })
	for range 3 {
		err := protocol.Report(context.Background(), &t, r.run.offer, command)
		if err == nil || errors.Is(err, task.ErrFenced) || errors.Is(err, task.ErrEnded) {
			break
		}
	}
	r.run = nil
}

// begin records that an attempt runs from now on, and checks that no other one does.
func (p *place) begin(s *stay) {
	for _, o := range p.runs {
		if o.task.ID == s.task.ID && (!o.of.dead || o.outlives) && p.now.Before(o.stops().Add(goneAfter)) {
			p.fail = fmt.Errorf("%w: %s begins %s, which %s runs", errOverlap, s.of.session, short(s.task.ID), o.of.session)
		}
	}
	p.runs = append(p.runs, s)
}

// beat stores a heartbeat of a worker, which another goroutine of it does beside everything else.
func (p *place) beat(r *resident) {
	h := node.Heartbeat{Session: r.session}
	named := r.run != nil
	if named {
		h.Runs = []uint64{r.run.task.Epoch}
	}
	err := p.mem.Beat(context.Background(), r.node, h, nodeTTL)
	if errors.Is(err, events.ErrConflict) { // the one before has expired
		err = p.mem.Beat(context.Background(), r.node, h, nodeTTL)
	}
	p.must(nil, err)
	if r.beaten = p.now; r.run != nil {
		if named {
			if p.patient && r.run.waits {
				r.run.confirmed, r.run.beaten = p.now, p.now
			}
			r.run.confirm(p.now)
		}
		if p.now.Before(r.run.stops()) {
			r.run.beaten = p.now
		}
	}
}

func (p *place) cancel(r *resident) {
	rec := p.recorder(&port{p.mem, r.actor})
	if t, err := rec.Load(context.Background(), taskID(1)); err == nil {
		// Any result will do.
		_, _, _ = rec.Do(context.Background(), t, task.Cancel{Reason: "a whim"})
	}
}

func (p *place) submitAgain(r *resident) {
	// Any result will do.
	_, _ = p.recorder(&port{p.mem, r.actor}).Submit(context.Background(), taskID(1), p.birth(taskID(1)))
}

// drain has a worker that was asked to end claim no more, and say so when no claim is under way.
func (p *place) drain(r *resident) {
	p.drains--
	r.leaving = true
	p.enter(r.name+" leaves", func(d *resident) {
		if !p.hasty {
			d.behind = r
		}
		// If that fails, the others find out by its silence.
		_, _, _ = p.recorder(&port{p.mem, d.actor}).DoNode(context.Background(), r.node, node.Drain{Session: r.session, Reason: "asked to end"})
	})
}

// errDrained: a node has said that it drains, and claims all the same.
var errDrained = errors.New("a node claims that is draining")

// drained tells whether a session has claimed something after its node was draining.
func (p *place) drained() error {
	draining := map[string]bool{}
	sessions := map[node.ID]string{}
	for _, r := range p.everything() {
		switch e := r.Fact.Event.(type) {
		case node.Registered:
			sessions[r.Fact.Node] = e.Session
		case node.Drained:
			draining[sessions[r.Fact.Node]] = true
		case task.AttemptStarted:
			if draining[e.Session] {
				return fmt.Errorf("%w: %s begins %s", errDrained, e.Session, short(r.Fact.Task))
			}
		}
	}
	return nil
}

// choices are the things that may happen next, always in the same order; none when all is over.
func (p *place) choices() []choice {
	var all []choice
	if p.over() {
		return nil
	}
	for _, r := range p.actors {
		c := r.pending
		if c == nil || r.dead || c.op == "pull" && !p.available(r) || c.op == "waits" && p.waits(r.run) || c.op == "looks" && !p.news(r) || r.behind != nil && r.behind.claims {
			continue
		}
		all = append(all, choice{r.name, c.op, "", func() { p.goOn(r, answered) }})
		if p.lost > 0 && c.kind == write && c.op != "pull" {
			all = append(all,
				choice{r.name, c.op, ", which is lost", func() { p.lost--; p.goOn(r, requestLost) }},
				choice{r.name, c.op, ", and the answer is lost", func() { p.lost--; p.goOn(r, answerLost) }})
		}
		if p.blind > 0 && c.kind == read {
			all = append(all, choice{r.name, c.op, ", which fails", func() { p.blind--; p.goOn(r, requestLost) }})
		}
		if p.restarts > 0 && r.node == "n1" {
			all = append(all, choice{r.name, c.op, ", before which it is killed", func() { p.restart(r) }})
		}
	}
	for _, r := range p.actors {
		if p.drains > 0 && r.node == "n1" && !r.dead {
			all = append(all, choice{r.name, "is asked to end", "", func() { p.drain(r) }})
		}
		if p.silences > 0 && r.node != "" && !r.dead && !r.silent {
			all = append(all, choice{r.name, "falls silent", "", func() { p.silences--; r.silent = true }})
		}
	}
	if p.early > 0 {
		for _, seq := range p.mem.Out() {
			all = append(all, choice{fmt.Sprint("offer ", seq), "is handed out early", "", func() { p.early--; p.mem.Redeliver(seq, true) }})
		}
	}
	if p.passes > 0 && !p.looking() {
		all = append(all, choice{"time", "passes", "", func() { p.passes--; p.pass() }})
	}
	return all
}

// pass lets time pass, and heartbeats come.
func (p *place) pass() {
	p.now = p.now.Add(passing)
	p.fire()
	if p.family || p.limited > 0 {
		p.mem.AppendRaw(events.Fact{Message: 1}, []byte("{}")) // something goes on elsewhere: what is older is the front
	}
	for _, r := range p.actors {
		if r.node != "" && !r.dead && !r.silent {
			p.beat(r)
		}
	}
}

// fire has timers that are due fire as part of a step: a log in memory does so only when it is asked.
func (p *place) fire() { p.must(p.mem.Timers(context.Background())) }

// over tells whether all tasks have ended and every resident is idle.
func (p *place) over() bool {
	for _, r := range p.actors {
		if !r.dead && r.pending != nil && !r.idle() {
			return false
		}
	}
	return p.ended()
}

// idle tells whether a resident waits for something to do.
func (r *resident) idle() bool { return r.pending.op == "pull" || r.pending.op == "looks" }

// available tells whether a worker that pulls would get an offer. A worker whose last beat is long
// ago does not pull.
func (p *place) available(r *resident) bool {
	return !r.leaving && p.now.Sub(r.beaten) < stopAfter && slices.ContainsFunc(p.mem.Leases(), func(l events.MemoryLease) bool { return l.Left == 0 })
}

// waits tells whether an attempt waits for a heartbeat before anything of it starts.
func (p *place) waits(s *stay) bool {
	return !s.mayStart(p.now) && (p.patient || p.now.Before(s.stops()))
}

// restart kills a worker and starts the next session of its node.
func (p *place) restart(r *resident) {
	p.restarts--
	r.dead = true
	r.stop()
	var left *stay
	if i := slices.Index(p.runs, r.run); p.adopts && i >= 0 {
		left = r.run
		left.outlives = true
	}
	p.arrive(r.node, "b", left)
}

// goOn lets a resident make its call, and run to the next one.
func (p *place) goOn(r *resident, f fate) {
	p.everything() // before some of it goes
	c := r.pending
	r.fate = f
	r.pending, _ = r.next()
	p.fire()
	if r.seen == nil && c.op != "pull" && r.pending != nil && r.idle() {
		return
	}
	saw := sight{of: c, fate: f}
	switch {
	case c.kind == read:
		saw.looked = p.looked(c)
	case c.op == "pull" && c.seq > 0:
		saw.got = p.nameOf(c.seq)
	}
	// When counts only for what is received, and for the time of an account.
	if c.op == "pull" || strings.HasPrefix(c.op, "read the heartbeat") {
		saw.at = p.now
	}
	r.seen = append(r.seen, saw)
}

// judge holds the world against the promises.
func (p *place) judge() error {
	if p.fail != nil {
		return p.fail
	}
	if err := errors.Join(p.drained(), p.oneKey(), p.withinLimit(), p.keepsFamily()); err != nil {
		return err
	}
	for i := range p.tasks {
		s := p.story(taskID(i + 1))
		for _, promise := range promises {
			if err := promise(s); err != nil {
				return err
			}
		}
		if err := p.remembers(taskID(i+1), s); err != nil {
			return err
		}
	}
	if p.first > 1 {
		return p.remembers(waitingTask, p.story(waitingTask))
	}
	return nil
}

// waitingTask is due when the world is over.
const waitingTask = task.ID("01JNAT00000000000000000099")

// rest lets every resident act in turn, without further mishaps, until all tasks have ended. It
// returns an error if they do not end.
func (p *place) rest() error {
	p.restarts, p.lost, p.blind, p.early, p.silences, p.drains, p.passes = 0, 0, 0, 0, 0, 0, 0
	for _, r := range p.actors {
		r.silent = false
	}
	for range 40 {
		for range 200 {
			c := p.choices()
			if len(c) == 0 {
				break
			}
			c[0].do()
			if err := p.judge(); err != nil {
				return err
			}
		}
		if p.ended() {
			return nil
		}
		p.pass()
	}
	return broken(errI2, "a task has not ended, and nobody does anything about it")
}

// explored is the result of an exploration.
type explored struct {
	states, edges, ends, deepest int
	// cut is how many states lie at the greatest depth, beyond which nothing was explored.
	cut   int
	err   error
	trail []string
}

// explore plays every world that s can become, down to its depth, or to the first broken promise.
func explore(s small) explored {
	var found explored
	known := map[uint64]struct{}{}
	todo := [][]uint8{nil}
	for len(todo) > 0 && found.err == nil {
		path := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		p := newPlace(s)
		for _, i := range path {
			p.choices()[i].do()
		}
		for found.err == nil { // from here straight on, as far as it leads to something new
			found.edges++
			if found.err = p.judge(); found.err != nil {
				break
			}
			state := p.state()
			if _, seen := known[state]; seen {
				break
			}
			known[state] = struct{}{}
			found.deepest = max(found.deepest, len(path))
			c := p.choices()
			if len(c) == 0 {
				found.ends++
				found.err = p.rest()
				break
			}
			if len(path) >= s.depth {
				found.cut++
				break
			}
			for i := len(c) - 1; i > 0; i-- {
				todo = append(todo, append(path[:len(path):len(path)], uint8(i)))
			}
			path = append(path[:len(path):len(path)], 0)
			c[0].do()
		}
		p.close()
		if found.err != nil {
			found.trail = trail(s, path)
		}
	}
	found.states = len(known)
	return found
}

// trail names the choices that lead to a world.
func trail(s small, path []uint8) []string {
	p := newPlace(s)
	defer p.close()
	var names []string
	for _, i := range path {
		c := p.choices()[i]
		names = append(names, fmt.Sprintf("%5.1fs %s", p.now.Sub(smallBegin).Seconds(), c.who+" "+c.what+c.how))
		c.do()
	}
	return names
}

func (e explored) String() string {
	return fmt.Sprintf("%d states by %d steps, %d deep; %d ends, %d cut off at the greatest depth", e.states, e.edges, e.deepest, e.ends, e.cut)
}

// usualDepth leaves time for the other tests. A greater -depth explores all worlds whole, those
// with two mishaps included.
const usualDepth = 4

var depthFlag = flag.Int("depth", usualDepth, "how many `steps` of the small world in which everything may happen are explored; "+
	"each takes four times as long, and with more than usual all the others are explored whole, those of two mishaps as well")

// Every history of these worlds keeps the promises, and comes to its end.
func TestExploration(t *testing.T) {
	worlds := maps.Clone(smallWorlds)
	for name, s := range worldsThatForget {
		worlds["the horizon, and "+name] = s
	}
	if *depthFlag > usualDepth {
		maps.Copy(worlds, worldsOfTwo)
		for name, s := range worlds {
			s.depth = min(s.depth, 1) * whole // except the depth that the flag sets
			worlds[name] = s
		}
	}
	for name, s := range worlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.depth = cmp.Or(s.depth, *depthFlag)
			began := time.Now()
			found := explore(s)
			if found.err != nil {
				t.Fatalf("%v\n%s", found.err, strings.Join(found.trail, "\n"))
			}
			t.Logf("%v, in %v", found, time.Since(began).Round(time.Millisecond))
		})
	}
}

// smallWorlds are small enough to be explored whole. Those with a depth are the largest, and a run of
// all tests looks at some of their states; test:long explores them whole, as all the others.
var smallWorlds = map[string]small{
	"early redelivery":              {tasks: 1, workers: 2, early: 1, passes: 3, depth: 11},
	"lost answer":                   {tasks: 1, workers: 2, lost: 1, passes: 3, depth: 11},
	"restart":                       {tasks: 1, workers: 2, restarts: 1, passes: 3, depth: 11},
	"silence":                       {tasks: 1, workers: 2, silences: 1, passes: 3, depth: 13},
	"a worker that is asked to end": {tasks: 1, workers: 2, drains: 1, early: 1, passes: 1, depth: whole},
	"cancel":                        {tasks: 1, workers: 2, cancels: 1, early: 1, passes: 1, depth: 13},
	"second birth":                  {tasks: 1, workers: 2, births: 1, early: 1, passes: 1, depth: 13},
	"two tasks":                     {tasks: 2, workers: 2, early: 1, passes: 1, depth: 12},
	"two tasks and a restart":       {tasks: 2, workers: 2, restarts: 1, passes: 1, depth: whole},
	"a claim that nobody knows of":  {tasks: 1, workers: 2, lost: 1, blind: 1, passes: 1, depth: whole},
	"everything, for as many steps as -depth": {tasks: 2, workers: 2, restarts: 1, lost: 1, early: 1, cancels: 1, births: 1, passes: 3},
}

// worldsThatForget move the horizon once, between any two steps of the others.
var worldsThatForget = map[string]small{
	"a claim and a redelivery":     {tasks: 1, workers: 2, early: 1, passes: 1, forgets: 1, depth: 13},
	"an end and a retry by hand":   {tasks: 1, workers: 1, reopens: 1, passes: 2, forgets: 1, depth: 20},
	"a takeover":                   {tasks: 1, workers: 2, restarts: 1, passes: 2, forgets: 1, depth: 13},
	"a second birth":               {tasks: 1, workers: 1, births: 1, passes: 2, forgets: 1, depth: 16},
	"a cancel":                     {tasks: 1, workers: 1, cancels: 1, passes: 2, forgets: 1, depth: 16},
	"a unique key that is held":    {tasks: 1, workers: 1, keyed: waitingTask, passes: 2, forgets: 1, depth: 13},
	"a unique key that gets free":  {tasks: 1, workers: 1, keyed: taskID(1), passes: 2, forgets: 1, depth: 13},
	"a retry and its timer":        {tasks: 1, workers: 1, firstEnd: failing, passes: 3, forgets: 1, depth: 17},
	"a function that sleeps":       {tasks: 1, workers: 1, firstEnd: sleeping, passes: 3, forgets: 1, depth: 17},
	"a limit":                      {tasks: 2, workers: 1, limited: 1, passes: 2, forgets: 1, swift: true, depth: 16},
	"a parent that is retried":     {tasks: 1, workers: 1, family: true, firstEnd: failing, reopens: 1, passes: 2, forgets: 1, swift: true, lead: 6, depth: 14},
	"an adoption":                  {tasks: 1, workers: 1, restarts: 1, adopts: true, passes: 2, forgets: 1, depth: 18},
	"two tasks, one of which ends": {tasks: 2, workers: 1, passes: 2, forgets: 1, depth: 18},
}

// worldsOfTwo have two mishaps each, and take as long as all of the others.
var worldsOfTwo = map[string]small{
	"a lost answer and an early redelivery": {tasks: 1, workers: 2, lost: 1, early: 1, passes: 2, depth: whole},
	"a restart and an early redelivery":     {tasks: 1, workers: 2, restarts: 1, early: 1, passes: 2, depth: whole},
	"silence and an early redelivery":       {tasks: 1, workers: 2, silences: 1, early: 1, passes: 2, depth: whole},
}

// whole is deeper than any of these worlds.
const whole = 100

// An exploration that finds no fault proves something only if it finds the planted ones.
func TestExplorationFindsFaults(t *testing.T) {
	for _, c := range []struct {
		name    string
		world   small
		promise error
	}{
		{"an offer that is delivered ends a lease", small{tasks: 1, workers: 2, early: 1, passes: 1, depth: whole, broken: credulous}, errOverlap},
		{"the log ignores the expected sequence", small{tasks: 1, workers: 2, births: 1, depth: whole, unchecked: true}, errI2},
		{"what waits for its start takes any heartbeat for a confirmation", small{tasks: 1, workers: 2, lost: 1, passes: 4, depth: whole, patient: true}, errOverlap},
		{"a node says that it drains while it claims", small{tasks: 1, workers: 2, drains: 1, depth: whole, hasty: true}, errDrained},
		{"the front of the log goes too early", small{tasks: 1, workers: 1, passes: 2, forgets: 1, depth: 18, rash: true}, errForgets},
		{"a task is carried without its turn", small{tasks: 1, workers: 1, passes: 2, forgets: 1, depth: 18, loses: noTurn}, errForgets},
		{"a kind of chain is forgotten: unique keys", small{tasks: 1, workers: 1, keyed: waitingTask, passes: 2, forgets: 1, depth: 18, omits: events.UniqueClaimed}, errForgets},
		{"a task is carried without the steps of its function", small{tasks: 1, workers: 1, firstEnd: sleeping, passes: 3, forgets: 1, depth: 18, loses: noSteps}, errForgets},
		{"a task is carried without its holds", small{tasks: 2, workers: 1, limited: 1, passes: 2, forgets: 1, swift: true, depth: 15, loses: noHolds}, errForgets},
		{"a step goes before its parent", small{tasks: 1, workers: 1, family: true, firstEnd: failing, reopens: 1, passes: 2, forgets: 1, swift: true, lead: 6, depth: 14, orphans: true}, errForgets},
		{"a node that beats holds all its leases", small{tasks: 1, workers: 2, lost: 1, blind: 1, passes: 1, depth: whole, broken: trustful}, errI2},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := explore(c.world)
			if !errors.Is(found.err, c.promise) {
				t.Fatalf("found %v in %v, want that %v", found.err, found, c.promise)
			}
			t.Logf("%v after %v:\n%s", found.err, found, strings.Join(found.trail, "\n"))
		})
	}
}
