package task

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/task/limit"
	"millrace/task/value"
)

// Unique refuses a task while another one with the same key is in certain states. The
// state of that task is the lock: nothing else has to be given back, so nothing can be
// forgotten. The zero value refuses nothing.
type Unique struct {
	// Key is what no two tasks may have in common at a time, filled in as that of
	// [limit.Concurrency]: of one job, or of all if it begins with /.
	Key string `json:"key,omitempty"`
	// While are the states of the other task in which it is in the way. Default: all but those
	// in which a task has ended.
	While []string `json:"while,omitempty"`
	// TTL is for how long it is in the way at most, from its submission on. Default: no bound.
	TTL value.Duration `json:"ttl,omitempty"`
	// OnConflict is what a refused submission is told: [ConflictFail], the default, or [ConflictReturn].
	OnConflict string `json:"on_conflict,omitempty"`
}

// What a submission is told that is refused because of its key.
const (
	ConflictFail   = "fail"   // an error that names the other task
	ConflictReturn = "return" // the other task, as if it were its own
)

// Conflicts lists the values of [Unique.OnConflict].
var Conflicts = []string{ConflictFail, ConflictReturn}

func (u *Unique) validate() error {
	switch {
	case u.Key == "" && (len(u.While) > 0 || u.TTL != 0 || u.OnConflict != ""):
		return errors.New("unique.key is missing: what no two tasks may have in common")
	case u.TTL < 0:
		return fmt.Errorf("unique.ttl is %v, want 0 or more", u.TTL)
	case u.OnConflict != "" && !slices.Contains(Conflicts, u.OnConflict):
		return fmt.Errorf("unique.on_conflict is %q, want %s or %s", u.OnConflict, ConflictFail, ConflictReturn)
	}
	for _, name := range u.While {
		if _, err := ParseState(name); err != nil {
			return fmt.Errorf("unique.while: %w", err)
		}
	}
	return limit.ValidKey("unique.key", u.Key)
}

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
func (u *Unique) InTheWay(id ID, key string, claimants []Claimant, now time.Time) *Claimant {
	for i := range claimants {
		c := &claimants[i]
		t := Task{State: c.State, SubmittedAt: c.Submitted}
		if c.ID != id && c.ID != "" && c.Key == key && t.Locks(u, now) {
			return c
		}
	}
	return nil
}

// Next is the claim by which a task claims a key, behind the claim at a sequence. Known is the holder of that, or with
// lapsed the claimants before it as well. If one of them is in the way it is returned. Otherwise more tells that the holder may be born yet, or has
// claimed it for another life that it may not have got: then that has to be waited for, and the claimants before have to be looked at.
func (u *Unique) Next(id ID, key string, at uint64, known []Claimant, lapsed bool, now time.Time) (next KeyClaimed, taken *Claimant, more bool) {
	next.Holder = id
	if len(known) == 0 {
		return next, nil, false
	}
	holder := &known[0]
	switch taken = u.InTheWay(id, key, known, now); {
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
func (u *Unique) ClaimedBy(known []Claimant, lapsed bool) *By {
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
		by.Unique = &Unique{While: u.While, TTL: u.TTL}
	}
	return by
}

// KeyEvent is a fact about a unique key. The set is closed.
type KeyEvent interface{ isKeyEvent() }

func (KeyClaimed) isKeyEvent() {}

// Locks tells whether a task is in the way of another one with its key. That it was never
// born, it is not.
func (t *Task) Locks(u *Unique, now time.Time) bool {
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
