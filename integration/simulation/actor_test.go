package simulation

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"millrace/events"
	"millrace/events/jet/request"
	"millrace/task"
	"millrace/task/node"
)

// kind classifies a call by what can go wrong with it.
type kind uint8

const (
	// turn is no call at all: the actor computes, or waits.
	turn kind = iota
	// read changes nothing; it can fail.
	read
	// write changes something; when its answer is lost, the actor does not know whether it
	// happened.
	write
	// tell is a write without an answer; when it is lost, no actor knows.
	tell
)

// call is the next call of an actor.
type call struct {
	kind kind
	op   string
	task task.ID      // the task it is about, if any
	fact *events.Fact // the fact it writes, if any
	last uint64       // the sequence that an append expects
	// after is when it may happen; zero for at once.
	after time.Time
	// cut is set if the connection was lost before it happened.
	cut bool
	// do does it; nil for a turn.
	do func() error
	// seq and err are the result: where the log put it, or why it did not.
	seq uint64
	err error
}

// fate is what the simulator makes of a call.
type fate uint8

const (
	answered fate = iota
	// requestLost: it does not happen, and the answer is [events.ErrUnknown].
	requestLost
	// answerLost: it happens, and the answer is [events.ErrUnknown].
	answerLost
	// delayed: it happens later, and the answer is [events.ErrUnknown].
	delayed
	// killed: the process dies before it happens.
	killed
	// killedAfter: it happens, and the process dies before it hears of that.
	killedAfter
)

func (f fate) String() string {
	return [...]string{"answered", "request lost", "answer lost", "delayed", "killed", "done, then killed"}[f]
}

// actor is a process as far as the simulator cares: it stops before each call that it makes, until
// the simulator decides the fate of that call.
type actor struct {
	h    *history
	name string
	// mortal actors can be killed, and stopped for a while.
	mortal bool
	// slow actors take their time before every other call: what they know is old when they write.
	slow bool
	// gone is called when the actor dies, or is believed to be dead.
	gone func()
	dead bool // truly gone, not only believed to be
	over bool // its goroutine has ended

	doomed bool // it dies at its next call

	// keep has, by node, the open tasks that named it when this scheduler last asked for them.
	keep map[node.ID][]task.ID

	clock *request.Clock
	asked time.Time // when it asked for the log's time

	// await has the simulator choose the fate of a call before the actor makes it.
	await   func(*call) fate
	fates   chan fate
	pending *call     // the next call; nil while it waits for time to pass by itself
	stopped time.Time // SIGSTOP until then
}

// ask is an actor before a call.
type ask struct {
	actor *actor
	call  *call
}

// start begins an actor and lets it run to its first call.
func (h *history) start(name string, mortal bool, body func(*actor)) *actor {
	a := &actor{h: h, name: name, mortal: mortal, fates: make(chan fate), keep: map[node.ID][]task.ID{}, clock: request.NewClock(h.machine())}
	a.await = func(c *call) fate {
		h.asks <- ask{a, c}
		return <-a.fates
	}
	h.actors = append(h.actors, a)
	go func() {
		defer func() {
			a.over = true
			if p := recover(); p != nil {
				h.fail(fmt.Errorf("%s panics: %v\n%s", name, p, debug.Stack()))
			}
		}()
		a.setClock(true)
		body(a)
	}()
	h.quiet()
	return a
}

// ready tells whether the actor can go on.
func (a *actor) ready(now time.Time) bool {
	return a.pending != nil && !now.Before(a.stopped) && !now.Before(a.pending.after)
}

// call stops the actor until the simulator has chosen the fate of c.
func (a *actor) call(c *call) error {
	if a.slow && !a.h.calm && c.after.IsZero() && a.h.rng.IntN(2) == 0 {
		c.after = a.h.in(2 * time.Second)
	}
	switch a.await(c) {
	case requestLost:
		return errFault(c)
	case answerLost:
		_ = c.run() // the caller never learns the result
		return errFault(c)
	case delayed:
		a.h.flying = append(a.h.flying, flight{a.name, c})
		return errFault(c)
	case killedAfter:
		_ = c.run()
		a.die()
	case killed:
		a.die()
	}
	return c.run()
}

// die ends the actor here and now.
func (a *actor) die() {
	a.dead = true
	if a.gone != nil {
		a.gone()
	}
	runtime.Goexit()
}

// turn lets others go first, at least until a time.
func (a *actor) turn(op string, after time.Time) { _ = a.call(&call{op: op, after: after}) }

func (c *call) run() error {
	if c.do != nil {
		c.err = c.do()
	}
	return c.err
}

// errFault is the error that a caller gets whose answer is lost.
func errFault(c *call) error {
	switch c.kind {
	case turn, tell:
		return nil
	case read:
		return fmt.Errorf("%s: no answer (a fault of the simulation)", c.op)
	}
	return fmt.Errorf("%s: %w (a fault of the simulation)", c.op, events.ErrUnknown)
}
