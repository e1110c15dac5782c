package node

import (
	"cmp"
	"fmt"
	"time"

	"millrace/task"
)

// Doubt says why nothing may be expected of the node on which a task depends:
// it has vanished, or nothing was heard of it for suspiciously long.
type Doubt struct {
	Node ID `json:"node"`
	// Reason says it in words.
	Reason string `json:"reason"`
	// Since is the last that was heard of the node; zero if there is nothing.
	Since time.Time `json:"since,omitzero"`
	// By is when what runs there is moved at the latest, if nothing more is heard; zero of
	// a task that only waits for the node, of which its policy decides.
	By time.Time `json:"by,omitzero"`
}

// Gone is since when nothing is to be expected of a session of the node; zero if
// that is not over.
func (n *Node) Gone(session string) time.Time {
	switch {
	case n.State == Retired:
		return n.Since // none of its sessions goes on
	case n.Session == session && n.State == Offline:
		return n.Since
	case n.Session == session:
		return time.Time{}
	case n.Before.Session == session:
		return n.Before.Gone
	case n.Before.Session == "": // an old log, or a node that was retired
		return n.Started.Add(Succession)
	case n.Before.Older.IsZero(): // one of which nothing is known
		return n.Before.Gone
	}
	return n.Before.Older
}

// Silent tells whether the node's last heartbeat, zero for none that is left, is so old that its state
// holds no longer, though nobody has recorded that yet: no scheduler looks, or the log
// takes no messages.
func (n *Node) Silent(last, now time.Time, s Settings) bool {
	return n.State != Offline && n.State != Retired && (last.IsZero() || now.Sub(last) > s.TTL)
}

// Doubts knows the nodes and their heartbeats at one look.
type Doubts struct {
	nodes map[ID]*Node
	beats map[ID]Heartbeat
	now   time.Time
	ttl   time.Duration
}

// NewDoubts is what these nodes, and the heartbeats that have not run out, say now. The settings are for
// heartbeats that do not say themselves how long they last.
func NewDoubts(nodes []Node, beats map[ID]Heartbeat, now time.Time, s Settings) *Doubts {
	d := &Doubts{nodes: make(map[ID]*Node, len(nodes)), beats: beats, now: now, ttl: s.TTL}
	for i := range nodes {
		d.nodes[nodes[i].ID] = &nodes[i]
	}
	return d
}

// DependsOn is the node on which a task depends, and in which session ("" for
// whichever it has): the one that runs it, or the only one that may. "" if there is none.
func DependsOn(t *task.Task) (id ID, session string) {
	if t.Live() && t.Node != "" {
		return ID(t.Node), t.Session
	}
	if on, own := t.Route.Node(); own && t.State == task.Pending {
		return ID(on), ""
	}
	return "", ""
}

// Of says what is to be doubted about the node on which a task depends; nil for nothing.
func (d *Doubts) Of(t *task.Task) *Doubt {
	id, session := DependsOn(t)
	if id == "" {
		return nil
	}
	n := d.nodes[id]
	if n == nil {
		return &Doubt{Node: id, Reason: fmt.Sprintf("nobody has registered as node %s", id)}
	}
	waits := session == ""
	if waits {
		session = n.Session
	}
	doubt := d.of(n, session)
	if doubt != nil && waits {
		doubt.By = time.Time{}
	}
	return doubt
}

func (d *Doubts) of(n *Node, session string) *Doubt {
	if gone := n.Gone(session); !gone.IsZero() {
		words := fmt.Sprintf("node %s is %s", n.ID, n.State)
		if n.Session != session && n.State != Retired {
			words = fmt.Sprintf("node %s has begun another session", n.ID)
		}
		return &Doubt{Node: n.ID, Reason: words, Since: gone, By: gone}
	}
	beat, beats := d.beats[n.ID]
	switch silent := d.now.Sub(beat.At); {
	case !beats || beat.Session != session:
		return &Doubt{Node: n.ID, Reason: fmt.Sprintf("the heartbeat of node %s has run out", n.ID), By: d.now}
	case silent > beat.late(d.ttl):
		return &Doubt{Node: n.ID, Reason: fmt.Sprintf("node %s is late with its heartbeat", n.ID), Since: beat.At, By: beat.At.Add(beat.lasts(d.ttl))}
	}
	return nil
}

// lasts is how long the heartbeat lasts; one that does not say lasts for ttl.
func (h Heartbeat) lasts(ttl time.Duration) time.Duration { return cmp.Or(h.TTL.Std(), ttl) }

// late is after what time the next heartbeat is missing: when it is half an interval late, for it
// takes its way. Of a node that does not say how often it beats, one of the three in a ttl is missing.
func (h Heartbeat) late(ttl time.Duration) time.Duration {
	if h.Every > 0 {
		return min(h.Every.Std()*3/2, h.lasts(ttl))
	}
	return h.lasts(ttl) * 2 / 3
}

// String says it in a line.
func (d *Doubt) String() string {
	text := d.Reason
	if !d.Since.IsZero() {
		text += ", since " + d.Since.Format(time.RFC3339)
	}
	if !d.By.IsZero() {
		text += "; moved by " + d.By.Format(time.RFC3339)
	}
	return text
}
