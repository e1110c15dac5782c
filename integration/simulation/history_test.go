package simulation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/scheduler"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/worker/claim"
)

// history is one play: a log, a clock, actors and the events that befall them. All of it follows
// from the seed.
type history struct {
	seed uint64
	rng  *rand.Rand
	// policies is the source of chance for retry policies, so that a seed gives the same history
	// whatever policies exist.
	policies *rand.Rand
	weather  weather
	variant  variant
	began    time.Time
	mem      *events.Memory

	actors       []*actor
	doomed       []*actor // those that end once time has passed
	asks         chan ask // buffered, so that no actor waits to ask
	flying       []flight
	replacements []replacement
	runs         map[task.ID][]*run
	sessions     int
	ids          int
	calm         bool // faults are over: all come to an end
	calmed       time.Time

	asked    []task.ID        // all tasks that a client began to submit
	accepted map[task.ID]bool // those that the client was told are recorded

	feed    events.Feed
	seen    uint64
	records []events.Record
	stories map[task.ID]story
	late    map[task.ID]bool     // tasks for which a timer was set that they no longer owed
	rated   map[string]*ratedUse // of rates of queues
	ledger  ledger
	fold    fold

	dice       *rand.PCG // of rng; each step throws its own
	at         int       // the present step, from 1
	called     []string  // the cast
	faults     []int     // those that chance brought about, by when: spared ones included
	steps      []step
	schedulers []*scheduler.Scheduler
	failure    error
	workers    []*workerProcess
	lost       losses
	waited     int     // tasks that have waited for nodes to the end
	stranded   int     // open tasks that ran last on a node when it retired
	blamed     task.ID // the task that it is about, if it is about one
	moved      int     // times that the horizon moved
	// gone are the tasks that the log does not have any more.
	gone map[task.ID]bool
}

// variant is a rule that is broken on purpose; the zero value is an honest history.
type variant struct {
	log      func(*port) events.Log
	protocol func(*claim.Protocol) protocol
	// nameless workers name nothing in their heartbeats.
	nameless bool
	// crowded histories have as many actors as there can be, and limits on all tasks, one of which
	// all tasks share.
	crowded bool
	// windowed histories have a calendar, and windows on half of the tasks.
	windowed bool
	// roomy histories have nodes that run several tasks at once, and most tasks say how many of
	// their kind may run on one.
	roomy bool
	// patient histories have no start deadline, and some of their tasks wait for nodes that come only
	// at the end.
	patient bool
	// retiring histories have no start deadline, nodes that stay away for longer, and schedulers that
	// retire those.
	retiring bool
	// older histories have a server that now and then comes back with an older log.
	older bool
	// careless ones do not look whether a task names the node.
	careless bool
	// thrifty histories begin shortly before midnight, and most tasks have budgets.
	thrifty bool
	// families: few tasks, all of them graphs, which clients retry and cancel. No stranger writes:
	// what a step needs may have ended with a fact of his.
	families bool
	// forgets: servers move the horizon of the log, which front breaks.
	forgets bool
	front   func(*port) frontLog
	// mishears: they hear from the read model that there are new facts, and of nobody in them.
	mishears bool
	// durable: most of their tasks are functions with steps.
	durable bool
	// amnesic workers do not tell functions what they have done.
	amnesic bool
	// values: their steps leave results and messages of every kind, and read those of others.
	values bool
	// follows: the ends of their tasks make tasks of other jobs.
	follows bool
	// spared are the faults that do not happen, skipped the steps in which nothing happens, and
	// absent the actors that never appear.
	spared, skipped map[int]bool
	absent          map[string]bool
	// length is how many steps there are before the faults are over; 0 for all.
	length int
}

// faultsAStep is more faults than a step can have.
const faultsAStep = 8

// fault tells whether the next fault that chance brings about may happen. A fault keeps its name,
// whatever happens to those before it.
func (h *history) fault() bool {
	name := h.at * faultsAStep
	if n := len(h.faults); n > 0 && h.faults[n-1] >= name {
		name = h.faults[n-1] + 1
	}
	h.faults = append(h.faults, name)
	return !h.variant.spared[name]
}

// length is how many steps a history has before its faults are over.
const length = 220

// play plays the history of a seed to its end, or to the first broken promise.
func play(t *testing.T, seed uint64, v variant) *history {
	dice := rand.NewPCG(seed, 0)
	rng := rand.New(dice)
	h := &history{
		seed: seed, dice: dice, rng: rng, policies: rand.New(rand.NewPCG(seed, 11)), weather: forecast(rng), variant: v,
		runs: map[task.ID][]*run{}, accepted: map[task.ID]bool{}, stories: map[task.ID]story{}, late: map[task.ID]bool{}, rated: map[string]*ratedUse{}, fold: newFold(),
		lost: losses{tasks: map[task.ID]bool{}}, gone: map[task.ID]bool{}, ledger: ledger{},
	}
	if v.older || v.durable || v.crowded { // what a log forgets, and that a wait is over, nobody but a scheduler may know
		h.weather.watched = true
	}
	if v.forgets {
		h.weather.noise = 0
	}
	if v.families || v.follows { // what a stranger writes about a task may look like its end
		h.weather.noise, h.weather.watched = 0, true
	}
	// In the bubble the clock moves only while the simulator sleeps.
	synctest.Test(t, func(*testing.T) {
		defer h.endAll()
		if v.thrifty {
			time.Sleep(24*time.Hour - time.Minute)
		}
		h.began, h.asks = time.Now(), make(chan ask, 100)
		h.mem = events.NewMemory(time.Now, ackWait)
		h.feed, _ = h.mem.Follow(context.Background(), 1)
		if v.windowed {
			h.openAndClose()
		}
		if v.follows {
			h.define()
		}
		h.cast()
		for h.at = 1; h.at <= cmp.Or(v.length, length) && h.failure == nil; h.at++ {
			// Each step has its own chance: it stays the same when another step is left out.
			if h.dice.Seed(seed, uint64(h.at)); v.skipped[h.at] {
				continue
			}
			h.step()
			h.observe()
		}
		if h.failure == nil {
			h.dice.Seed(seed, 0)
			h.settle()
		}
	})
	return h
}

// cast brings the actors on.
func (h *history) cast() {
	clients, workers, schedulers := 1+h.rng.IntN(3), 1+h.rng.IntN(3), 1+h.rng.IntN(2)
	if h.variant.crowded {
		clients, workers, schedulers = 3, 3, 3
	}
	come := func(count int, name string, start func(string)) {
		for i := range count {
			name := fmt.Sprintf("%s%d", name, i+1)
			h.called = append(h.called, name)
			if h.dice.Seed(h.seed, uint64(length+len(h.called))); !h.variant.absent[name] {
				start(name)
			}
		}
	}
	come(clients, "client-", h.startClient)
	come(workers, "n", func(name string) { h.startWorker(node.ID(name), true, nil) })
	if h.variant.forgets {
		come(1+h.policies.IntN(2), "horizon-", func(name string) { h.startCollector(name, true) })
	}
	if h.variant.follows {
		come(1+h.policies.IntN(2), "follows-", func(name string) { h.startFollowing(name, true) })
	}
	if h.weather.watched {
		come(schedulers, "sched-", func(name string) {
			h.startScheduler(name, true)
			h.startAdmitter(name+"-limits", true)
		})
	}
}

// step lets one thing happen.
func (h *history) step() {
	if h.chance(h.weather.leap) {
		if d := time.Second + h.upTo(2*ackWait); h.fault() {
			h.pass(d)
		}
	} else {
		h.pass(h.upTo(h.weather.pace))
	}
	if h.variant.older && h.rng.IntN(losesOnce) == 0 {
		if h.fault() {
			h.lose()
		}
		return
	}
	if n := len(h.flying); n > 0 && h.chance(h.weather.swift) {
		h.land(h.rng.IntN(n))
		return
	}
	if h.chance(h.weather.noise) {
		if h.fault() {
			h.disturb()
		}
		return
	}
	if h.chance(h.weather.early) {
		if h.fault() {
			h.redeliver()
		}
		return
	}
	h.replace()
	var ready []*actor
	for _, a := range h.actors {
		if a.ready(time.Now()) {
			ready = append(ready, a)
		}
	}
	if len(ready) == 0 {
		h.pass(h.upTo(time.Second))
		return
	}
	a := ready[h.rng.IntN(len(ready))]
	if a.mortal && h.chance(h.weather.stop) && h.fault() {
		a.stopped = h.in(0).Add(ackWait + h.upTo(ackWait))
		h.note(step{actor: a.name, stopped: true, remark: "is stopped for " + time.Until(a.stopped).String()})
		if a.gone != nil && h.rng.IntN(3) == 0 {
			a.gone() // another actor believes it dead and starts a successor
		}
		return
	}
	h.resume(a, h.fateOf(a))
}

// resume lets an actor go on to its next call.
func (h *history) resume(a *actor, f fate) {
	c := a.pending
	a.pending = nil
	switch {
	case c.cut && (f == killed || f == killedAfter):
		f = killed
	case c.cut:
		f = requestLost
	}
	a.fates <- f
	h.quiet()
	h.note(step{actor: a.name, call: c, fate: f})
}

// replace starts the processes that follow those that ended.
func (h *history) replace() {
	h.replacements = slices.DeleteFunc(h.replacements, func(r replacement) bool {
		if time.Now().Before(r.at) {
			return false
		}
		h.startWorker(r.node, true, r.left)
		return true
	})
}

// quiet waits until no goroutine but the simulator's can go on.
func (h *history) quiet() {
	synctest.Wait()
	for {
		select {
		case q := <-h.asks:
			if q.actor.doomed {
				q.actor.fates <- killed
				synctest.Wait()
				continue
			}
			q.actor.pending = q.call
		default:
			return
		}
	}
}

// pass lets time pass.
func (h *history) pass(d time.Duration) {
	time.Sleep(d)
	h.quiet()
}

func (h *history) upTo(d time.Duration) time.Duration {
	return time.Duration(h.rng.Int64N(int64(d) + 1))
}

// round is the pace at which all actors act once the faults are over.
const round = 2 * time.Second

// in returns a moment at most d from now; while all is calm, that of the next round. The first
// rounds are short, so that an actor that has been in time so far is not late by a whole round.
func (h *history) in(d time.Duration) time.Time {
	if h.calm {
		pace := round
		if time.Since(h.calmed) < 3*round {
			pace = round / 4
		}
		return time.Now().Truncate(pace).Add(pace)
	}
	return time.Now().Add(h.upTo(d))
}

// log is the log as an actor sees it.
func (h *history) log(a *actor) events.Log {
	p := &port{h.mem, a}
	if h.variant.log != nil {
		return h.variant.log(p)
	}
	return p
}

func (h *history) recorder(a *actor, who string) *events.Recorder {
	return &events.Recorder{Log: h.log(a), Actor: who, Now: a.now, NewID: h.newID}
}

func (h *history) newID(time.Time) string {
	h.ids++
	return fmt.Sprintf("01JNAF%020d", h.ids)
}

// observe reads the new records of the log and checks them against the promises.
func (h *history) observe() {
	last, err := h.mem.Last(context.Background())
	if err != nil || last == h.seen {
		h.fail(err)
		return
	}
	batch, err := h.feed.Next(context.Background())
	h.fail(err)
	h.seen = last
	for i := range batch {
		r := &batch[i]
		h.learn(r)
		if id := r.Fact.Task; id != "" {
			h.judge(id)
		}
		h.judgeLimits()
	}
}

// learn adds a record to what is known of the log.
func (h *history) learn(r *events.Record) {
	h.records = append(h.records, *r)
	if carries(r) { // what the log forgets, is known here
		return
	}
	h.fold.add(r)
	if id := r.Fact.Task; id != "" {
		h.stories[id] = append(h.stories[id], *r)
	}
	if h.variant.forgets {
		h.judgeKeys()
	}
	h.judgeRates(r)
}

// judge holds the story of a task against the promises.
func (h *history) judge(id task.ID) {
	s := h.stories[id]
	if h.lost.times > 0 && !h.says(id) {
		return // nothing is promised of it
	}
	t := h.fold.tasks[id]
	firm := promises
	if h.lost.tasks[id] { // what it says may follow from what is lost
		firm = lasting
	}
	for _, promise := range firm {
		h.blame(id, promise(s))
	}
	h.blame(id, agrees(&t, s))
}

func (h *history) blame(id task.ID, err error) {
	if err != nil && h.failure == nil {
		h.blamed = id
		h.fail(fmt.Errorf("task %s: %w\n%s", short(id), err, telling(h.stories[id])))
	}
}

// fail keeps the first error.
func (h *history) fail(err error) {
	if h.failure == nil {
		h.failure = err
	}
}

// settle ends all faults and lets all actors run until nothing is left to do.
func (h *history) settle() {
	h.remark("simulator", "the faults are over")
	h.calm, h.calmed = true, time.Now()
	for len(h.flying) > 0 {
		h.land(0)
	}
	if !h.weather.fair() && h.rng.IntN(2) == 0 {
		h.remark("simulator", "and all that can die are dead")
		h.actors = slices.DeleteFunc(h.actors, func(a *actor) bool {
			if a.mortal {
				h.end(a)
			}
			return a.mortal
		})
		h.replacements = nil
	}
	h.startWorker("n0", false, nil)
	if h.weather.watched {
		h.startScheduler("sched-0", false)
		h.startAdmitter("sched-0-limits", false)
	}
	if h.variant.forgets {
		h.startCollector("horizon-0", false)
	}
	if h.variant.durable {
		h.startCaller()
	}
	if h.variant.follows {
		h.startFollowing("follows-0", false)
	}
	for _, a := range h.actors {
		if a.stopped = (time.Time{}); a.pending != nil {
			a.pending.after = time.Time{}
		}
	}
	// Long enough for every retry, lease and deadline to be over several times.
	h.round() // clients finish what they were at
	for days := 0; !h.over() && (days == 0 || h.variant.thrifty && days < 30); days++ {
		if days > 0 {
			h.nextDay()
		}
		h.rounds()
	}
	if h.patient() && !h.over() {
		h.bringBack()
		h.rounds()
	}
	for _, id := range slices.Sorted(maps.Keys(h.accepted)) {
		h.blame(id, kept(id, h.stories[id]))
	}
	for _, id := range slices.Sorted(maps.Keys(h.stories)) {
		if h.lost.times > 0 && !h.says(id) || !h.remembers(id) {
			continue
		}
		h.blame(id, over(h.stories[id]))
		h.blame(id, h.retried(id))
		h.blame(id, h.once(id))
		h.blame(id, h.durablyEnded(id))
	}
	if h.variant.follows {
		h.fail(h.followed())
	}
	if h.failure != nil {
		return // verify is to judge this log, and what is broken now may end later
	}
	// Nothing may happen any more: no forgotten timer fires, and no offer comes for ever.
	for range 3 {
		h.pass(time.Minute)
		h.round()
	}
	if h.variant.older {
		h.judgeWorkers()
	}
	// An offer on the route of a node that is gone may stay there: it is stale.
	offers, _ := h.mem.Offers(context.Background(), append(slices.Clone(queues), placement.NodeQueue("n0")))
	if o := offers.(*events.MemoryOffers).Try(); o != nil {
		h.blame(o.Fact.Task, fmt.Errorf("offer %d was never acknowledged", o.Seq))
	}
	// In a roomy one, one attempt of a process stands still while another runs. In families, and where
	// functions call others, no scheduler hears of the ends that are waited for, and the sweep lets them go.
	if h.weather.fair() && h.lost.times == 0 && !h.variant.roomy && !h.variant.families && !h.variant.durable && !h.variant.forgets && !h.variant.follows {
		h.fail(h.undisturbed())
	}
}

// rounds lets all actors act until the history is over, for a while.
func (h *history) rounds() {
	for limit := time.Now().Add(15 * time.Minute); !h.over() && time.Now().Before(limit); {
		h.round()
	}
}

// round lets every actor do all that it can do now, and then lets time pass.
func (h *history) round() {
	h.replace()
	for _, a := range h.actors {
		for first := true; h.failure == nil && a.ready(time.Now()) && (first || a.pending.kind != turn); first = false {
			h.resume(a, answered)
			h.observe()
		}
	}
	h.pass(time.Until(h.in(0)))
	h.observe()
}

// over tells whether the history is finished: all tasks have ended, or the history is broken.
func (h *history) over() bool {
	if h.failure != nil {
		return true
	}
	for id, s := range h.stories {
		if over(s) != nil && (h.lost.times == 0 || h.says(id)) && h.remembers(id) {
			return false
		}
	}
	return !h.variant.follows || h.followed() == nil
}

// end ends actors.
func (h *history) end(actors ...*actor) {
	for _, a := range actors {
		switch {
		case a.pending != nil:
			a.pending = nil
			a.fates <- killed
			h.quiet()
		case !a.over: // it waits for time to pass
			a.doomed, a.gone = true, nil
			h.doomed = append(h.doomed, a)
		}
	}
}

// endAll ends all actors, also those that wait for time to pass before their next call.
func (h *history) endAll() {
	h.end(h.actors...)
	for n := 0; n < 1000 && slices.ContainsFunc(h.doomed, func(a *actor) bool { return !a.over }); n++ {
		h.pass(round)
	}
}
