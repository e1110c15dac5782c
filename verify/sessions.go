package verify

import (
	"time"

	"millrace/events"
	"millrace/node"
	"millrace/verify/limits"
	"millrace/verify/thin"
)

// life is what the log says of a session's life. A node forgets its older sessions.
type life struct {
	// left is when it said that it leaves, by its own clock; zero if it has not.
	left time.Time
	// gone is since when its attempts may start elsewhere, if another session has replaced it; else
	// zero.
	gone time.Time
}

// session names a session of a node.
func (v *Verifier) session(id, name string) limits.Session {
	return limits.Session{Node: v.tasks.words.Number(id), Session: v.tasks.words.Number(name)}
}

// lived notes what a fact of a node says about the lives of its sessions.
func (v *Verifier) lived(was, is *node.Node, r *events.Record) {
	before, now := v.session(string(is.ID), was.Session), v.session(string(is.ID), is.Session)
	if is.Session != was.Session {
		if l, ok := v.lives[before]; ok && is.Before.Session == was.Session {
			l.gone = is.Before.Gone
			v.lives[before] = l
		}
		if is.Session != "" {
			v.lives[now] = life{}
		}
		return
	}
	switch e := r.Fact.Event.(type) {
	case node.WentOnline:
		if l, ok := v.lives[now]; ok && e.Session == is.Session {
			l.left = time.Time{}
			v.lives[now] = l
		}
	case node.WentOffline:
		if l, ok := v.lives[now]; ok && e.Session == is.Session && !e.Lost {
			l.left = r.Fact.At
			v.lives[now] = l
		}
	}
}

// ofItsNode checks that the session which claims or adopts an attempt had registered before as a
// session of its node, and had not left (I-7). After its goodbye a process sends nothing, but an
// earlier message may come later: so the times of one clock count.
//
// A session that was replaced, or that others declared silent, may still claim: its process may have
// been suspended since before, and no time bounds that. A log that was deleted and made again does
// not begin at 1: a session of the lost one may still claim, beside the node's new one too.
func (s *story) ofItsNode(v *Verifier, id, session string, r *events.Record) {
	v.book.Checked[CauseFirst]++
	l, registered := v.lives[v.session(id, session)]
	switch {
	case !registered && v.whole() && v.first == 1:
		s.found(v, CauseFirst, []uint64{r.Seq}, "%s on node %s in session %s, and no such session of that node has registered before", r.Fact.Type, id, session)
	case !l.left.IsZero() && r.Fact.At.After(l.left.Add(writerError)):
		s.found(v, CauseFirst, []uint64{r.Seq}, "%s on node %s in session %s, which had left at %s", r.Fact.Type, id, session, when(thin.StampOf(l.left)))
	}
}
