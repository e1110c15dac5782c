package task

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/task/job"
)

// UniqueKey is the key of the task, filled in and with its scope in front; "" if it
// has none. The error says that it names something that the task was not given.
func (w *Work) UniqueKey() (string, error) {
	if w.Spec == nil || w.Spec.Unique.Key == "" {
		return "", nil
	}
	name, err := w.counter("unique:", "unique:", w.Spec.Unique.Key)
	if err != nil {
		return "", fmt.Errorf("unique.key: %w", err)
	}
	return strings.TrimPrefix(name, "unique:"), nil
}

// KeyClaimed says that a submission claims a unique key for the task that it will make. The
// birth follows, and is taken only as long as no other claim has come in between.
type KeyClaimed struct {
	// Holder is the task.
	Holder ID `json:"holder,omitzero"`
	// Before are claimants of earlier, the latest first, of which one may be the holder if
	// this one is never born.
	Before []ID `json:"before,omitzero"`
}

// roomKey begins the keys under which births of queues with a bound are announced. Those of tasks never begin like this.
const roomKey = "queue:"

// RoomKey is the key under which the births of a queue with a bound are announced, by claims that lock nothing.
func RoomKey(queue string) string { return roomKey + queue }

// IsRoomKey tells whether a key is one of those.
func IsRoomKey(key string) bool { return strings.HasPrefix(key, roomKey) }

// Claimant is a task that has claimed a unique key, as far as it is known. The zero value but for its ID is one that was never born.
type Claimant struct {
	ID    ID
	State State
	// Submitted is when it was born, Born the sequence of its birth, and Seq its last message that is known.
	Submitted time.Time
	Born, Seq uint64
	// Key is its own unique key. A claimant whose id had another task already was never born under the key that it claimed.
	Key string
}

// InTheWay is the first of the claimants of a key that keeps a task from having it; nil if none does.
func InTheWay(u *job.Unique, id ID, key string, claimants []Claimant, now time.Time) *Claimant {
	for i := range claimants {
		c := &claimants[i]
		t := Task{State: c.State, SubmittedAt: c.Submitted}
		if c.ID != id && c.ID != "" && c.Key == key && t.Locks(u, now) {
			return c
		}
	}
	return nil
}

// NextClaim is the claim by which a task claims a key, behind the claim at a sequence. Known is the holder of that, or with
// lapsed the claimants before it as well. If one of them is in the way it is returned. Otherwise more tells that the holder may be born yet, or has
// claimed it for another life that it may not have got: then that has to be waited for, and the claimants before have to be looked at.
func NextClaim(u *job.Unique, id ID, key string, at uint64, known []Claimant, lapsed bool, now time.Time) (next KeyClaimed, taken *Claimant, more bool) {
	next.Holder = id
	if len(known) == 0 {
		return next, nil, false
	}
	holder := &known[0]
	switch taken = InTheWay(u, id, key, known, now); {
	case taken != nil:
		return next, taken, false
	case holder.Born >= at || holder.Born == 0 && holder.ID == id:
		next.Before = []ID{holder.ID}
		return next, nil, false
	case !lapsed:
		return next, nil, true
	}
	next.Before = []ID{holder.ID}
	found := false
	for _, c := range known[1:] { // all that have not ended, and of the others the first that was born
		if c.Seq > 0 && (!found || !c.State.Terminal()) {
			next.Before, found = append(next.Before, c.ID), true
		}
	}
	return next, nil, false
}

// ClaimedBy is what a claim was decided by: the claimants that were known, and when others are in its way.
func ClaimedBy(u *job.Unique, known []Claimant, lapsed bool) *By {
	if len(known) == 0 {
		return nil
	}
	by := &By{Ends: make([]uint64, len(known))}
	for i := range known {
		by.Ends[i] = known[i].Seq
	}
	if lapsed {
		by.Rule = RuleLapsed
	}
	if len(u.While) > 0 || u.TTL > 0 {
		by.Unique = &job.Unique{While: u.While, TTL: u.TTL}
	}
	return by
}

// KeyEvent is a fact about a unique key. The set is closed.
type KeyEvent interface{ isKeyEvent() }

func (KeyClaimed) isKeyEvent() {}

// Locks tells whether a task is in the way of another one with its key. That it was never
// born, it is not.
func (t *Task) Locks(u *job.Unique, now time.Time) bool {
	switch {
	case t.State == Unknown:
		return false
	case u.TTL > 0 && now.After(t.SubmittedAt.Add(u.TTL.Std())):
		return false
	case len(u.While) == 0:
		return !t.State.Terminal()
	}
	return slices.Contains(u.While, t.State.String())
}
