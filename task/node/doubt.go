package node

import (
	"cmp"
	"fmt"
	"time"

	"millrace/task"
)

// Doubt says why the node of a task may be lost: it has vanished, or was silent for suspiciously
// long.
type Doubt struct {
	// Node is its id.
	Node ID `json:"node"`
	// Reason says it in words.
	Reason string `json:"reason"`
	// Since is when the node was last heard; zero if it never was.
	Since time.Time `json:"since,omitzero"`
	// By is when its running tasks move at the latest, if it stays silent; zero for a task that
	// only waits for the node, where the task's policy decides.
	By time.Time `json:"by,omitzero"`
}

// Gone is since when a session of the node counts as gone; zero if it has not ended.
func (n *Node) Gone(session string) time.Time {
	switch {
	case n.State == Retired:
		return n.Since // all of its sessions have ended
	case n.Session == session && n.State == Offline:
		return n.Since
	case n.Session == session:
		return time.Time{}
	case n.Before.Session == session:
		return n.Before.Gone
	case n.Before.Session == "": // an old log, or a node that was retired
		return n.Started.Add(Succession)
	case n.Before.Older.IsZero(): // an unknown session
		return n.Before.Gone
	}
	return n.Before.Older
}

// Silent tells whether the node's last heartbeat, zero for none, is so old that its recorded state
// is outdated, though that is not recorded yet: no scheduler runs, or the log accepts no messages.
func (n *Node) Silent(last, now time.Time, s Settings) bool {
	return n.State != Offline && n.State != Retired && (last.IsZero() || now.Sub(last) > s.TTL)
}

// Doubts is the nodes and their heartbeats at one moment.
type Doubts struct {
	nodes map[ID]*Node
	beats map[ID]Heartbeat
	now   time.Time
	ttl   time.Duration
}

// NewDoubts takes the present nodes, and the heartbeats that have not expired. The settings apply
// to heartbeats without a lifetime of their own.
func NewDoubts(nodes []Node, beats map[ID]Heartbeat, now time.Time, s Settings) *Doubts {
	d := &Doubts{nodes: make(map[ID]*Node, len(nodes)), beats: beats, now: now, ttl: s.TTL}
	for i := range nodes {
		d.nodes[nodes[i].ID] = &nodes[i]
	}
	return d
}

// DependsOn returns the node on which a task depends, and in which session ("" for any): the node
// that runs it, or the only one that may. "" if there is none.
func DependsOn(t *task.Task) (id ID, session string) {
	if t.Live() && t.Node != "" {
		return ID(t.Node), t.Session
	}
	if on, own := t.Route.Node(); own && t.State == task.Pending {
		return ID(on), ""
	}
	return "", ""
}

// Of returns the doubt about the node on which a task depends; nil for none.
func (d *Doubts) Of(t *task.Task) *Doubt {
	id, session := DependsOn(t)
	if id == "" {
		return nil
	}
	n := d.nodes[id]
	if n == nil {
		return &Doubt{Node: id, Reason: fmt.Sprintf("no worker has registered as node %s", id)}
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
		return &Doubt{
			Node:   n.ID,
			Reason: fmt.Sprintf("node %s is late with its heartbeat", n.ID),
			Since:  beat.At,
			By:     beat.At.Add(beat.lasts(d.ttl)),
		}
	}
	return nil
}

// lasts is the lifetime of the heartbeat; ttl if it names none.
func (h Heartbeat) lasts(ttl time.Duration) time.Duration { return cmp.Or(h.TTL.Std(), ttl) }

// late is after what time the next heartbeat counts as missing: when it is half an interval late,
// because it takes time to arrive. If the node names no interval, it beats three times in a ttl,
// and one of these is missing.
func (h Heartbeat) late(ttl time.Duration) time.Duration {
	if h.Every > 0 {
		return min(h.Every.Std()*3/2, h.lasts(ttl))
	}
	return h.lasts(ttl) * 2 / 3
}

// String describes the doubt in a line.
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
