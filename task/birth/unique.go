package birth

import (
	"slices"
	"strings"
	"time"

	"millrace/task"
	"millrace/task/job"
)

// KeyClaimed records that a submission claims a unique key for the task that it is about to make.
// The birth follows. It is accepted only if no other claim has come in between.
type KeyClaimed struct {
	// Holder is the claiming task.
	Holder task.ID `json:"holder,omitzero" redact:"keep"`
	// Before are earlier claimants, the latest first. One of them may be the holder if this one is
	// never born.
	Before []task.ID `json:"before,omitzero" redact:"keep"`
}

// roomKey begins the keys that announce births in bounded queues. Unique keys of tasks never begin
// like this.
const roomKey = "queue:"

// RoomKey is the key that announces the births of a bounded queue, with claims that lock nothing.
func RoomKey(queue string) string { return roomKey + queue }

// IsRoomKey tells whether a key is one of those.
func IsRoomKey(key string) bool { return strings.HasPrefix(key, roomKey) }

// Claimant is a task that has claimed a unique key, as far as it is known. With only the ID set, it
// was never born.
type Claimant struct {
	ID    task.ID
	State task.State
	// Submitted is when it was born, Born the sequence of its birth, and Seq its last known
	// message.
	Submitted time.Time
	Born, Seq uint64
	// Takes is until when it stands for others with its key, too ([task.Task.Takes]).
	Takes time.Time
	// Key is its own unique key. A claimant whose id already belonged to another task was never
	// born under the key that it claimed.
	Key string
}

// InTheWay returns the first claimant of a key that blocks a task from having it; nil if none does.
func InTheWay(u *job.Unique, id task.ID, key string, claimants []Claimant, now time.Time) *Claimant {
	for i := range claimants {
		c := &claimants[i]
		locks := now.Before(c.Takes)
		if u.OnConflict != job.ConflictCollapse {
			locks = Locks(&task.Task{State: c.State, SubmittedAt: c.Submitted}, u, now)
		}
		if c.ID != id && c.ID != "" && c.Key == key && locks {
			return c
		}
	}
	return nil
}

// NextClaim returns a task's claim of a key, to follow the claim at a sequence. Known is the holder
// of that claim and, with lapsed, the claimants before it as well. If one of them blocks the claim,
// NextClaim returns it as taken. Otherwise more tells that the holder may still be born, or has
// claimed the key to be reopened. The caller must then wait for that and look at the earlier
// claimants.
func NextClaim(u *job.Unique, id task.ID, key string, at uint64, known []Claimant, lapsed bool, now time.Time) (next KeyClaimed, taken *Claimant, more bool) {
	next.Holder = id
	if len(known) == 0 {
		return next, nil, false
	}
	holder := &known[0]
	switch taken = InTheWay(u, id, key, known, now); {
	case taken != nil:
		return next, taken, false
	case holder.Born >= at || holder.Born == 0 && holder.ID == id:
		next.Before = []task.ID{holder.ID}
		return next, nil, false
	case !lapsed:
		return next, nil, true
	}
	next.Before = []task.ID{holder.ID}
	found := false
	for _, c := range known[1:] { // all that have not ended, and of the ended ones the latest
		if c.Seq > 0 && (!found || !c.State.Terminal()) {
			next.Before, found = append(next.Before, c.ID), true
		}
	}
	return next, nil, false
}

// ClaimedBy returns the inputs of a claim: the known claimants, and when others block it.
func ClaimedBy(u *job.Unique, known []Claimant, lapsed bool) *task.By {
	if len(known) == 0 {
		return nil
	}
	by := &task.By{Ends: make([]uint64, len(known))}
	for i := range known {
		by.Ends[i] = known[i].Seq
	}
	if lapsed {
		by.Rule = task.RuleLapsed
	}
	switch {
	case u.OnConflict == job.ConflictCollapse:
		by.Unique = &job.Unique{OnConflict: u.OnConflict}
	case len(u.While) > 0 || u.TTL > 0:
		by.Unique = &job.Unique{While: u.While, TTL: u.TTL}
	}
	return by
}

// KeyEvent is a fact about a unique key. The set is closed.
type KeyEvent interface{ isKeyEvent() }

func (KeyClaimed) isKeyEvent() {}

// Locks tells whether the task blocks another task with its key. A task that was never born does
// not.
func Locks(t *task.Task, u *job.Unique, now time.Time) bool {
	switch {
	case t.State == task.Unknown:
		return false
	case u.OnConflict == job.ConflictCollapse:
		return now.Before(t.Takes())
	case u.TTL > 0 && now.After(t.SubmittedAt.Add(u.TTL.Std())):
		return false
	case len(u.While) == 0:
		return !t.State.Terminal()
	}
	return slices.Contains(u.While, t.State.String())
}
