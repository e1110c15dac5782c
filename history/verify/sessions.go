package verify

import (
	"fmt"
	"time"

	"millrace/events"
	"millrace/history/verify/findings"
	"millrace/task/node"
)

// life is what the log says of a session's life. A node forgets its older sessions.
type life struct {
	// left is when it said that it leaves, by its own clock; zero if it has not.
	left time.Time
	// gone is since when its attempts may start elsewhere, if another session has replaced it; else
	// zero.
	gone time.Time
	// heard is until when it is known to have been alive, by the log's clock, if it was found lost;
	// else zero.
	heard time.Time
}

// session names a session of a node.
func (v *Verifier) session(id, name string) findings.Session {
	return findings.Session{Node: v.tasks.words.Number(id), Session: v.tasks.words.Number(name)}
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
			l.left, l.heard = time.Time{}, time.Time{}
			v.lives[now] = l
		}
	case node.WentOffline:
		if l, ok := v.lives[now]; ok && e.Session == is.Session {
			if e.Lost {
				l.heard = heardOf(was, r)
			} else {
				l.left = r.Fact.At
			}
			v.lives[now] = l
		}
	}
}

// registersFirst checks that a fact of a node follows the registration of the node's present life and,
// if the fact names a session, that of this session (I-7). Who writes such a fact has read the node:
// the fact is a compare-and-set on the node's chain. Was is the node before it.
func (v *Verifier) registersFirst(was *node.Node, r *events.Record) {
	if r.Err != nil || r.Fact.Event == nil || !v.whole() || v.first != 1 || r.Retold() {
		return
	}
	session := was.Session
	switch e := r.Fact.Event.(type) {
	case node.Registered:
		return
	case node.WentOnline:
		session = e.Session
	case node.BecameReady:
		session = e.Session
	case node.Drained:
		session = e.Session
	case node.WentOffline:
		session = e.Session
	}
	why := ""
	switch {
	case was.State == node.Unknown:
		why = "no worker has registered as that node before"
	case was.State == node.Retired:
		why = "it was retired before, and no worker has registered as it since"
	case session != was.Session:
		why = fmt.Sprintf("its session is %s", was.Session)
	}
	v.book.Checked[CauseFirst]++
	if why != "" {
		of := ""
		if session != "" {
			of = " in session " + session
		}
		v.book.Find(CauseFirst, Finding{Node: was.ID, Seqs: []uint64{r.Seq}, Look: findings.Show(r.Seq),
			What: fmt.Sprintf("%s of node %s%s, and %s", r.Fact.Type, was.ID, of, why)})
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
		s.found(v, CauseFirst, []uint64{r.Seq}, "%s on node %s in session %s, which had left at %s", r.Fact.Type, id, session, when(findings.StampOf(l.left)))
	}
}

// heardOf is when the heartbeat was stored by whose end a node was found lost; the fact's own time if
// it names none.
func heardOf(n *node.Node, r *events.Record) time.Time {
	from := findings.By(r).Lease
	switch {
	case from == nil || from.Beat.IsZero():
		return r.Fact.At
	case from.Session == "": // the mark of its end, which came when it had lasted
		return from.Beat.Add(-n.TTL.Std())
	}
	return from.Beat
}
