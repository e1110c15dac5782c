package task

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Unique refuses a task while another one with the same key is in certain states. The
// state of that task is the lock: nothing else has to be given back, so nothing can be
// forgotten. The zero value refuses nothing.
type Unique struct {
	// Key is what no two tasks may have in common at a time, filled in as that of
	// [Concurrency]: of one job, or of all if it begins with /.
	Key string `json:"key,omitempty"`
	// While are the states of the other task in which it is in the way. Default: all but those
	// in which a task has ended.
	While []string `json:"while,omitempty"`
	// TTL is for how long it is in the way at most, from its submission on. Default: no bound.
	TTL Duration `json:"ttl,omitempty"`
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
	return validKey("unique.key", u.Key)
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

// KeyMark is what stands for a unique key where only plain characters may: 32 of them.
func KeyMark(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}

// KeyClaimed says that a submission claims a unique key for the task that it will make. The
// birth follows, and is taken only as long as no other claim has come in between.
type KeyClaimed struct {
	// Holder is the task.
	Holder ID
	// Before are claimants of earlier, the latest first, of which one may be the holder if
	// this one is never born.
	Before []ID
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
