package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"millrace/events"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/value"
)

// presence is the state of the worker's own node. It belongs to the goroutine that looks after the
// node.
type presence struct {
	w      *Worker
	offers events.Offers
	// node is the node as last read from the log.
	node events.KnownNode
	// connection counts the connections of this session, reason says why there is a new one, and
	// since is when it was made.
	connection uint64
	reason     string
	since      time.Time
	// kept and stopped count the attempts that went on and those that ended when they were
	// presented over it.
	kept, stopped int
	presented     bool
	beaten        time.Time // when the last heartbeat was stored
	silent        bool      // it sends no heartbeats, because nothing can be fetched
	told          bool      // Ready was called
	rests         string    // why the node takes no work, as last logged; "" while it takes some
	vain          int       // consecutive failures to look after the node
	routes        routes
}

// register begins the node's session and brings it online and, if that works soon, to readiness.
func (p *presence) register(ctx context.Context) error {
	w := p.w
	profile := profileOf(w.cfg, w.handlers)
	p.since = time.Now()
	n, _, err := w.protocol.Recorder.DoKnownNode(ctx, events.UnreadNode(w.cfg.Node), node.Register{
		Session: w.protocol.Session,
		Profile: profile,
		Until:   p.predecessorUntil(ctx),
	})
	if err != nil {
		return fmt.Errorf("register node %s: %w", w.cfg.Node, err)
	}
	// A log that has lost facts may still have this session, with an earlier connection.
	p.node, p.connection = n, n.Connection+1
	if err = p.attend(ctx); passes(err) {
		p.tried(err)
		return nil
	}
	return err
}

// tried notes whether the node could be looked after, and logs a failure once: finding a leader may
// take many tries.
func (p *presence) tried(err error) {
	switch {
	case err != nil:
		if p.vain++; p.vain == 1 {
			p.w.log.Warn("heartbeat not stored; trying again until it is", "error", err)
		}
	case p.vain > 0:
		p.w.log.Info("heartbeats are stored again", "tries", p.vain)
		p.vain = 0
	}
}

// passes tells whether an error may pass soon, as when a leader is being elected or an answer was
// lost.
func passes(err error) bool {
	return errors.Is(err, events.ErrNoStream) || errors.Is(err, events.ErrUnknown) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errLate)
}

// judge returns what decides whether the node is quarantined, or released.
func (p *presence) judge(ctx context.Context) node.Judge {
	w, now := p.w, p.w.cfg.Now()
	judge := node.Judge{At: now, Policy: w.cfg.Flap}
	if p.node.Settled(now) {
		judge.Alone = w.others.alone(ctx, &p.node.Node)
	}
	return judge
}

// predecessorUntil is when the heartbeat of this node's previous process expires: from then on its
// tasks may start elsewhere. Zero if unknown.
func (p *presence) predecessorUntil(ctx context.Context) time.Time {
	// Without the right to ask there is no answer.
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	pulse, err := p.w.nodes.Pulse(ctx, p.w.cfg.Node)
	switch {
	case err != nil:
		return time.Time{}
	case pulse.Beat.Session == "":
		return p.w.cfg.Now()
	}
	return pulse.Stored.Add(cmp.Or(pulse.Beat.TTL.Std(), p.w.cfg.NodeTTL)) // that process may have had other settings
}

// live looks after the node until ctx ends: it sends heartbeats, proves the route of the offers
// after each interruption, and does what the log asks of the node. It returns an error if another
// process has taken the node's name, the node was retired, or the log is gone for good.
func (p *presence) live(ctx context.Context) error {
	w := p.w
	declared := make(chan placement.Declaration, heardAtOnce)
	stopDeclared, err := w.offers.OnDeclared(func(d placement.Declaration) {
		select {
		case declared <- d:
		default: // the look at all of them finds it
		}
	})
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	defer stopDeclared()
	p.routes.stale = true // one may have come since the first look
	p.choose(ctx)
	ticker := time.NewTicker(w.safety.beat)
	defer ticker.Stop()
	soon := time.NewTimer(p.next())
	defer soon.Stop()
	gone, why := goneOf(w.protocol.Recorder.Log)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-gone:
			w.log.Error("this worker stops: it can be given no work any more; start it again", "error", why())
			return fmt.Errorf("worker: %w", why())
		case b := <-w.broken:
			p.broke(b)
		case <-ticker.C:
		case <-w.poke:
		case d := <-declared:
			p.hear(ctx, d)
			soon.Reset(p.next())
			continue
		case <-soon.C:
		}
		switch err := p.attend(ctx); {
		case errors.Is(err, node.ErrSuperseded):
			w.log.Error("this worker stops; give one of the two another name", "error", err)
			return fmt.Errorf("worker: %w", err)
		case errors.Is(err, node.ErrRetired) && p.forgotten(ctx):
			w.log.Warn("this node was offline for so long that it was retired; it registers anew", "error", err)
			p.anew(ctx)
		case errors.Is(err, node.ErrRetired):
			w.log.Error("this worker stops: its node was retired; start it again if that was wrong", "error", err)
			return fmt.Errorf("worker: %w", err)
		case errors.Is(err, node.ErrUnknown):
			w.log.Error("the log has lost facts of this node, or is another one; this node registers anew", "error", err)
			p.anew(ctx)
		case ctx.Err() == nil:
			p.tried(err)
		}
		soon.Reset(p.next())
	}
}

// anew registers the node once more, in the same session.
func (p *presence) anew(ctx context.Context) {
	p.w.gate.set(false) // whatever it proved, it did for a session that the log does not have
	p.presented, p.routes.stale, p.beaten = false, true, time.Time{}
	if err := p.register(ctx); err != nil && ctx.Err() == nil {
		p.w.log.Warn("not registered yet; trying again", "error", err)
	}
}

// forgotten tells whether the node was retired by itself, because it was offline for long, and not by an
// operator, who meant it: its process, or its machine, was only asleep.
func (p *presence) forgotten(ctx context.Context) bool {
	records, err := p.w.protocol.Recorder.Log.Node(ctx, p.w.cfg.Node, 0)
	if err != nil || len(records) == 0 {
		return false
	}
	last := records[len(records)-1].Fact
	_, retired := last.Event.(node.WasRetired)
	return retired && last.By != nil
}

// broke notes that the route of the offers was interrupted: the node takes no work until the route
// is proved again.
func (p *presence) broke(b events.Break) {
	p.w.gate.set(false)
	p.connection++
	p.reason, p.since, p.presented = b.Reason, b.At, false
	p.routes.stale = true
	p.beaten = time.Time{}
	say := p.w.log.Info
	if b.Foreign {
		say = p.w.log.Warn
	}
	say("proving anew that work reaches this node", "reason", b.Reason)
}

const (
	// proveAgain is the pause after a failed proof.
	proveAgain = time.Second
	// attendAgain is the first pause after a failed heartbeat; each further pause is twice as long,
	// up to proveAgain.
	attendAgain = 20 * time.Millisecond
)

// errLate: the stored heartbeat was sent so long ago that nothing may begin on its strength.
var errLate = errors.New("the heartbeat is too old already")

// next is how long the node may be left alone, apart from its heartbeats.
func (p *presence) next() time.Duration {
	now := p.w.cfg.Now()
	wait := p.w.safety.beat
	if p.vain > 0 { // nothing else is done before that has succeeded
		return min(attendAgain<<min(p.vain-1, 10), proveAgain, wait)
	}
	until := func(at time.Time) { wait = min(wait, max(at.Sub(now), time.Millisecond)) }
	if p.node.Link == node.Online && p.node.Quarantine == nil {
		until(now.Add(proveAgain))
	}
	if p.routes.stale {
		until(now.Add(p.routes.soon()))
	}
	if q := p.node.Quarantine; q != nil && q.Until.After(now) {
		until(q.Until)
	}
	if by, ok := p.giveBackAt(); ok && by.After(now) {
		until(by)
	}
	return wait
}

// attend does once what is due.
func (p *presence) attend(ctx context.Context) error {
	w := p.w
	ctx, cancel := context.WithTimeout(ctx, w.cfg.NodeTTL)
	defer cancel()
	rec, session := w.protocol.Recorder, w.protocol.Session
	// A node that cannot fetch must not seem alive: its silence gives its work to other nodes.
	trouble := p.offers.Trouble()
	if trouble != nil && !p.silent {
		w.log.Error("nothing can be fetched, so this node does not beat until that is over", "error", trouble)
	}
	p.silent = trouble != nil
	var err error
	switch {
	case trouble != nil:
		p.node, err = rec.UpdateNode(ctx, p.node)
		if err == nil {
			_, err = node.Decide(p.node.Node, node.Beat{Session: session}) // whether the session is still the node's
		}
	case time.Since(p.beaten) < w.safety.beat/2:
		p.node, _, err = rec.DoKnownNode(ctx, p.node, node.Beat{Session: session, Connection: p.connection, Reason: p.reason})
	default:
		err = p.beat(ctx)
	}
	if err != nil {
		return err
	}
	judge := p.judge(ctx)
	if event, err := node.Decide(p.node.Node, judge); err != nil || event != nil { // what was just read needs no second look at the log
		if p.node, _, err = rec.DoKnownNode(ctx, p.node, judge); err != nil {
			return err
		}
	}
	if trouble == nil && p.node.Link == node.Online && p.node.Quarantine == nil {
		if err := p.prove(ctx); err != nil {
			w.log.Warn("this node takes no work: it has not proved yet that work reaches it; trying again", "error", err)
		}
	}
	p.choose(ctx)
	// A gate that shut for want of a fresh heartbeat stays shut until there is one.
	w.gate.set(p.node.Takes() && (w.mayBegin(time.Now()) || w.gate.isOpen()))
	p.giveBack()
	if !p.node.Leaving && (p.node.Link == node.Ready || p.node.Quarantine != nil) {
		p.ready()
	}
	return nil
}

// ready logs when the node begins to take no work, and when it takes some again. The first time, it
// says that the worker is ready.
func (p *presence) ready() {
	rests := ""
	if !p.node.Takes() {
		rests = cmp.Or(p.node.Standing.Words(), p.node.State.String())
	}
	switch {
	case rests == p.rests:
	case rests != "":
		p.w.log.Warn("this node takes no work for now", "state", p.node.State.String(), "order", p.node.Standing.Words(), "reason", p.node.Reason)
	default:
		p.w.log.Info("this node takes work again")
	}
	p.rests = rests
	if !p.told && p.w.cfg.Ready != nil {
		p.w.cfg.Ready()
	}
	p.told = true
}

// beat stores a heartbeat and makes sure that the log says online: a scheduler may have declared
// the node silent in between.
func (p *presence) beat(ctx context.Context) error {
	w, rec := p.w, p.w.protocol.Recorder
	var asked time.Time
	sent, known := 0, p.node
	meanwhile := make(chan events.KnownNode, 1)
	w.background.Go(func() {
		defer close(meanwhile)
		if n, err := rec.UpdateNode(ctx, known); err == nil {
			meanwhile <- n
		}
	})
	// A process is refused if its last heartbeat has expired or another process has succeeded it:
	// the log says whose node it is.
	chain := events.Chain[events.KnownNode, node.Beat]{
		Read: func(ctx context.Context, _ node.Beat) (events.KnownNode, uint64, bool, error) {
			n, err := rec.UpdateNode(ctx, p.node)
			return n, n.Head, false, err
		},
		Write: func(ctx context.Context, _ node.Beat, _ uint64) (_ uint64, err error) {
			sent++
			asked, err = w.beat(ctx)
			return 0, err
		},
	}
	beat := node.Beat{Session: w.protocol.Session, Connection: p.connection, Reason: p.reason}
	d, err := chain.DecideFrom(ctx, p.node, p.node.Head, func(n events.KnownNode) (node.Beat, bool, error) {
		_, err := node.Decide(n.Node, beat)
		return beat, true, err
	})
	p.node = d.Is
	if err != nil {
		return err
	}
	p.beaten = asked
	// What was read meanwhile will do if the heartbeat before had not expired, for then none has found
	// the node silent since. So a slow log is waited for once.
	n, ok := <-meanwhile
	if event, err := node.Decide(n.Node, beat); !ok || sent > 1 || err != nil || event != nil {
		if n, _, err = rec.DoKnownNode(ctx, p.node, beat); err != nil { // while the log says otherwise, nothing could begin here safely
			p.node = n
			return err
		}
	}
	p.node = n
	w.lives(asked)
	w.pace.beat(asked, time.Now())
	if took := time.Since(asked); !w.safety.mayBegin(took) {
		return fmt.Errorf("%w: its answer took %v", errLate, took.Round(time.Millisecond))
	}
	return nil
}

// prove sends a probe through the node's own route, presents the attempts that still run, and
// records that the node is ready.
func (p *presence) prove(ctx context.Context) error {
	w := p.w
	ctx, cancel := context.WithTimeout(ctx, w.cfg.NodeTTL/3) // the next heartbeat must not wait for it
	defer cancel()
	if err := p.offers.Prove(ctx); err != nil {
		return err
	}
	if !p.presented {
		kept, stopped, err := w.present(ctx)
		if err != nil {
			return fmt.Errorf("ask for what this node still runs: %w", err)
		}
		p.kept, p.stopped, p.presented = kept, stopped, true
	}
	n, event, err := w.protocol.Recorder.DoKnownNode(ctx, p.node, node.Prove{
		Session:    w.protocol.Session,
		Connection: p.connection,
		Reason:     "its probe came through",
		Took:       value.Duration(max(time.Since(p.since), 1)),
		Kept:       p.kept,
		Stopped:    p.stopped,
		Low:        p.offers.Low(),
	})
	p.node = n
	if event != nil {
		w.log.Info("ready: work reaches this node", "took", time.Since(p.since).Round(time.Millisecond).String(), "kept", p.kept, "stopped", p.stopped)
	}
	if errors.Is(err, node.ErrNotOnline) {
		return nil // the node was declared silent meanwhile; the next heartbeat repairs that
	}
	return err
}

// giveBackAt is when the worker gives back running tasks because an operator has drained the node.
func (p *presence) giveBackAt() (time.Time, bool) {
	o := p.node.Standing
	if o.Order != node.OrderDrain {
		return time.Time{}, false
	}
	grace := o.Grace.Std()
	if grace == 0 {
		grace = p.w.cfg.Grace
	}
	return o.Since.Add(grace), true
}

// giveBack stops what still runs when the grace of a drain is over.
func (p *presence) giveBack() {
	by, ok := p.giveBackAt()
	if !ok || p.w.cfg.Now().Before(by) {
		return
	}
	for _, a := range p.w.leases.all() {
		a.stop(ErrDrained)
	}
}

func (w *Worker) sayDraining(ctx context.Context) {
	// A log that takes no messages must not delay the worker.
	ctx, cancel := context.WithTimeout(ctx, partingWords)
	defer cancel()
	// A node that has said this claims nothing any more: else its tasks would begin on a node that
	// everybody takes for leaving.
	if !w.pace.stop(ctx) {
		w.log.Warn("could not say that this node is draining: a claim is still under way")
		return
	}
	_, _, err := w.protocol.Recorder.DoKnownNode(ctx, w.known.Load().node, node.Drain{Session: w.protocol.Session, Reason: "asked to end"})
	if err != nil && !errors.Is(err, node.ErrSuperseded) {
		w.log.Warn("could not say that this node is draining", "error", err)
	}
}

// leave records that the node goes, so that no scheduler has to find out by its silence.
func (p *presence) leave() {
	w := p.w
	patience := partingWords
	if w.hurried() {
		patience = hurry
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, _, err := w.protocol.Recorder.DoKnownNode(ctx, p.node, node.Leave{
		Session: w.protocol.Session,
		Reason:  "the worker has ended",
		Low:     p.offers.Low(),
	})
	if errors.Is(err, node.ErrSuperseded) || errors.Is(err, node.ErrRetired) {
		return // the heartbeat is the other one's
	}
	if err == nil {
		err = w.nodes.Forget(ctx, w.cfg.Node)
	}
	if err != nil {
		w.log.Warn("could not say goodbye; the heartbeat runs out by itself", "error", err)
	}
}

func profileOf(c Config, h handlers) node.Profile {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return node.Profile{
		Host: host, PID: os.Getpid(), Version: c.Version, Labels: c.Labels, Slots: c.Slots, Queues: c.Queues, Probes: true,
		Announces: true, Handlers: slices.Sorted(maps.Keys(h)), Commands: c.Commands != nil, Runtimes: c.Runtimes, TTL: value.Duration(c.NodeTTL),
	}
}

// pong is the worker's answer to a client that asks it about itself.
func (w *Worker) pong() node.Pong {
	s := w.Stats()
	return node.Pong{
		Node: w.cfg.Node, Session: w.protocol.Session, Version: w.cfg.Version,
		Serving: s.Fetching && w.gate.isOpen(), Running: s.Busy, Slots: s.Slots, LastBeat: s.LastBeat,
	}
}
