package metrics

import (
	"time"

	"millrace/events"
	"millrace/task/node"
)

// nodeReady is the fact with which a node proves that work reaches it.
const nodeReady events.Type = "node.ready"

// nodes counts how nodes come and go. It is part of a [Fold] and guarded by it.
type nodes struct {
	known map[node.ID]*presence

	names       *Names
	connections map[[2]string]uint64 // by node and kind
	offline     map[[2]string]uint64 // by node and reason
	session     *Histogram
	outage      *Histogram
	online      *Histogram
	ready       *Histogram
}

// presence is the progress of a node.
type presence struct {
	session string
	alive   bool
	// came is when the first fact of the present connection happened; online is since when it has
	// been alive, left since when it has been offline; zero if unknown.
	came, online, left time.Time
}

// Reasons why a node went offline.
const (
	saidGoodbye = "goodbye"
	fellSilent  = "silent"
	startedAnew = "restarted"
)

// How a node came.
const (
	newSession = "start"
	cameBack   = "return"
)

func newNodes(known []node.Node) *nodes {
	n := &nodes{
		known:       map[node.ID]*presence{},
		names:       NewNames(MaxNodes, Other),
		connections: map[[2]string]uint64{},
		offline:     map[[2]string]uint64{},
		session:     newHistogram(awayBounds),
		outage:      newHistogram(awayBounds),
		online:      newHistogram(awayBounds),
		ready:       newHistogram(awayBounds),
	}
	for i := range known {
		k := &known[i]
		p := &presence{session: k.Session, alive: alive(k.State)}
		if p.alive {
			p.online = k.Started
		} else {
			p.left = k.Since
		}
		n.known[k.ID] = p
		n.begin(k.ID)
	}
	return n
}

// begin creates a node's figures at 0, so that its first event shows as a rise.
func (n *nodes) begin(id node.ID) {
	name := n.names.Of(string(id))
	for _, kind := range []string{newSession, cameBack} {
		n.connections[[2]string{name, kind}] += 0
	}
	for _, reason := range []string{saidGoodbye, fellSilent, startedAnew} {
		n.offline[[2]string{name, reason}] += 0
	}
}

// alive tells whether a node in this state beats. Later versions may have more such states.
func alive(s node.State) bool {
	switch s.String() {
	case "unknown", "offline", "retired":
		return false
	}
	return true
}

// over tells whether a node is known to have ended such a session.
func (n *nodes) over(id node.ID, session string) bool {
	p, ok := n.known[id]
	return ok && (!p.alive || p.session != session)
}

// step takes a fact about a node, and counts it unless it is history.
func (n *nodes) step(r *events.Record, counts bool) {
	if r.Kind != events.KindNode || r.Fact.Node == "" || r.Err != nil {
		return
	}
	p, ok := n.known[r.Fact.Node]
	if !ok {
		p = &presence{}
		n.known[r.Fact.Node] = p
		n.begin(r.Fact.Node)
	}
	at := r.Fact.At
	switch e := r.Fact.Event.(type) {
	case node.Registered:
		if p.alive {
			n.leave(r, p, startedAnew, counts)
		}
		p.session, p.came = e.Session, at
		n.count(n.connections, r, newSession, counts)
	case node.WentOnline:
		if p.session != e.Session {
			return
		}
		if p.alive { // the connection was lost and came back before that was noticed
			n.leave(r, p, fellSilent, counts)
		}
		if p.came.IsZero() {
			p.came = at
			n.count(n.connections, r, cameBack, counts)
		}
		if counts {
			n.online.observe(at.Sub(p.came))
			if !p.left.IsZero() {
				n.outage.observe(at.Sub(p.left))
			}
		}
		p.alive, p.online, p.left = true, at, time.Time{}
	case node.WentOffline:
		if p.session != e.Session || !p.alive {
			return
		}
		reason := saidGoodbye
		if r.Fact.Actor != "" && r.Fact.Actor != string(r.Fact.Node) {
			reason = fellSilent // another component had to report it
		}
		n.leave(r, p, reason, counts)
	default:
		// A later version wrote it; its type is enough.
		if r.Fact.Type == nodeReady && !p.came.IsZero() {
			if counts {
				n.ready.observe(at.Sub(p.came))
			}
			p.came = time.Time{}
		}
	}
}

// leave ends a node's period online.
func (n *nodes) leave(r *events.Record, p *presence, reason string, counts bool) {
	at := r.Fact.At
	n.count(n.offline, r, reason, counts)
	if counts && !p.online.IsZero() {
		n.session.observe(at.Sub(p.online))
	}
	p.alive, p.came, p.online, p.left = false, time.Time{}, time.Time{}, at
}

func (n *nodes) count(in map[[2]string]uint64, r *events.Record, label string, counts bool) {
	if counts {
		in[[2]string{n.names.Of(string(r.Fact.Node)), label}]++
	}
}

func (n *nodes) collect(emit Emit) {
	for key, count := range n.connections {
		emit(NodeConnections, float64(count), nil, key[0], key[1])
	}
	for key, count := range n.offline {
		emit(NodeOffline, float64(count), nil, key[0], key[1])
	}
	emit(NodeSession, 0, n.session)
	emit(NodeOutage, 0, n.outage)
	emit(NodeComeback, 0, n.online, "online")
	emit(NodeComeback, 0, n.ready, "ready")
}
