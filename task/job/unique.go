package job

import (
	"errors"
	"fmt"
	"slices"

	"millrace/task/limit"
	"millrace/task/value"
)

// Unique refuses a task while another task with the same key is in certain states. The state of
// that task is the lock: nothing must be released, so no lock can be left behind. The zero value
// refuses nothing.
type Unique struct {
	// Key must be unique among tasks at a time, expanded like that of [limit.Concurrency]: within
	// one job, or across all jobs if it begins with /.
	Key string `json:"key,omitempty" redact:"template"`
	// While are the states in which the other task blocks this one. Default: all states but the
	// terminal ones.
	While []string `json:"while,omitempty" redact:"word" words:"scheduled,held,pending,running,retrying,cancelling,finished,error,cancelled,abnormal"`
	// TTL is how long the other task blocks at most, from its submission. Default: no bound.
	TTL value.Duration `json:"ttl,omitempty"`
	// OnConflict is the answer to a refused submission: [ConflictFail], the default, or
	// [ConflictReturn].
	OnConflict string `json:"on_conflict,omitempty" redact:"word" words:"fail,return"`
}

// Values of [Unique.OnConflict].
const (
	ConflictFail   = "fail"   // an error that names the other task
	ConflictReturn = "return" // the other task, as if it were its own
)

// Conflicts lists the values of [Unique.OnConflict].
var Conflicts = value.WordsOf[Unique]("on_conflict")

// validate refuses an invalid key, and names the field.
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
		if err := value.ValidState(name); err != nil {
			return fmt.Errorf("unique.while: %w", err)
		}
	}
	return limit.ValidKey("unique.key", u.Key)
}
