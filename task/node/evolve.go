package node

// Evolve adds one recorded event to a node. It is total. An event of an ended session changes only
// Head; one at or below n.Head changes nothing.
func Evolve(n Node, r Recorded) Node {
	if r.Seq <= n.Head {
		return n
	}
	n.Head = r.Seq
	switch e := r.Event.(type) {
	case Carried:
		if e.Fold.ID == n.ID {
			n = e.Fold
			n.Head = r.Seq
		}
	case Registered:
		if n.State == Retired {
			n = Node{ID: n.ID, Head: n.Head}
		}
		n.end(r, true) // the session ended without announcing it
		n.Before = n.Before.succeeded(n.Session, r.At, e.Until)
		n.Session, n.Profile, n.Started = e.Session, e.Profile, r.At
		n.OwnLabels = nil
		if n.Relabels != nil {
			n.OwnLabels = e.Labels
			n.addLabels()
		}
		n.Leaving, n.LeavingReason = false, ""
		n.Took, n.Kept, n.Stopped, n.Connection = 0, 0, 0, 0
		n.link(r, Offline, firstReason)
	case WentOnline:
		if n.is(e.Session) {
			n.end(r, true) // a connection was lost
			n.Sessions++
			n.Connection = e.Connection
			n.OnlineSince = r.At
			n.link(r, Online, e.Reason)
		}
	case BecameReady:
		if n.is(e.Session) && n.Alive() {
			n.ReadySince = r.At
			n.Took, n.Kept, n.Stopped = e.Took, e.Kept, e.Stopped
			n.Low = max(n.Low, e.Low)
			n.link(r, Ready, e.Reason)
		}
	case Drained:
		if n.is(e.Session) {
			n.Leaving, n.LeavingReason = true, e.Reason
			n.stand(r, false)
		}
	case WentOffline:
		if n.is(e.Session) {
			n.end(r, e.Lost)
			n.Low = max(n.Low, e.Low)
			n.link(r, Offline, e.Reason)
		}
	case Changed:
		if n.registered() {
			n.Standing = Standing{Since: r.At}
			if e.Order != OrderServe {
				n.Standing = Standing{Order: e.Order, Reason: e.Reason, By: r.Actor, Grace: e.Grace, Since: r.At}
			}
			n.stand(r, false)
		}
	case Labelled:
		if n.registered() {
			n.relabel(e.Labels)
		}
	case WasQuarantined:
		if n.registered() {
			q := Quarantine{Reason: e.Reason, Since: r.At, Until: e.Until}
			if n.Quarantine != nil {
				q.Since = n.Quarantine.Since
			}
			n.Quarantine = &q
			n.stand(r, false)
		}
	case WasReleased:
		if n.registered() {
			n.Quarantine, n.Flap = nil, Flap{}
			n.stand(r, false)
		}
	case WasRetired:
		if n.registered() {
			n = Node{
				ID:      n.ID,
				Head:    n.Head,
				Profile: n.Profile,
				Started: n.Started,
				State:   Retired,
				Reason:  e.Reason,
				Since:   r.At,
				Link:    Offline,
				Low:     n.Low,
			}
		}
	}
	return n
}

// registered tells whether the node has a life that facts can concern.
func (n *Node) registered() bool { return n.State != Unknown && n.State != Retired }

// is tells whether the session is the present one. A node that never registered has none.
func (n *Node) is(session string) bool { return n.registered() && n.Session == session }

// end closes the present period online, if there is one.
func (n *Node) end(r Recorded, dropped bool) {
	if n.Alive() {
		n.Stability.end(n.OnlineSince, r.At, dropped)
	}
}

// link records the progress of the session.
func (n *Node) link(r Recorded, s State, reason string) {
	n.Link, n.LinkReason = s, reason
	switch s {
	case Offline:
		n.OnlineSince, n.ReadySince = zero, zero
	case Online:
		n.ReadySince = zero
	}
	n.stand(r, true)
}

// stand derives the node's state from all of its parts. A report of the node about its link begins
// the state anew, even if it is the same.
func (n *Node) stand(r Recorded, moved bool) {
	s, reason := n.Link, n.LinkReason
	switch {
	case s == Offline:
	case n.Leaving:
		s, reason = Draining, n.LeavingReason
	case n.Standing.Order == OrderDrain:
		s, reason = Draining, n.Standing.Words()
	case n.Quarantine != nil:
		s, reason = Quarantined, n.Quarantine.Reason
	}
	if s != n.State || reason != n.Reason || moved && s == n.Link {
		n.State, n.Reason, n.Since = s, reason, r.At
	}
}

// Words describes an operator's order, its author and reason; "" for none.
func (s Standing) Words() string {
	said := map[Order]string{OrderCordon: "cordoned", OrderDrain: "drained"}[s.Order]
	if said != "" && s.By != "" {
		said += " by " + s.By
	}
	if said != "" && s.Reason != "" {
		said += ": " + s.Reason
	}
	return said
}
