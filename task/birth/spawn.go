package birth

import (
	"errors"
	"fmt"

	"millrace/task"
)

// Spawning bounds the children that a running task may ask for (SPAWN, or Spawn of a handler). The
// zero value means the defaults.
type Spawning struct {
	// Children is how many one attempt may ask for, including existing ones. Default
	// [DefaultSpawned], at least 1.
	Children int
	// Depth is how many ancestors a child may have: its parent, the parent of that and so on. With
	// 1, children may not spawn. Default [DefaultSpawnDepth], at least 1.
	Depth int
	// Anywhere allows children with another queue and another user than their parent's.
	Anywhere bool
}

// Defaults of [Spawning].
const (
	DefaultSpawned    = 1000
	DefaultSpawnDepth = 4
)

// WithDefaults fills in zero fields.
func (b Spawning) WithDefaults() Spawning {
	if b.Children == 0 {
		b.Children = DefaultSpawned
	}
	if b.Depth == 0 {
		b.Depth = DefaultSpawnDepth
	}
	return b
}

// Validate refuses bounds below 1 and names the field.
func (b Spawning) Validate() error {
	switch {
	case b.Children < 1:
		return fmt.Errorf("Children is %d, want at least 1", b.Children)
	case b.Depth < 1:
		return fmt.Errorf("Depth is %d, want at least 1", b.Depth)
	}
	return nil
}

// ErrSpawn refuses a child that a running task asks for.
var ErrSpawn = errors.New("the worker does not allow this child")

// Check refuses the n-th child of an attempt of t, which has the given number of ancestors. A child
// without a queue of its own gets t's. A child of a job runs as the job is defined; any other child
// must have t's queue and user. The error wraps [ErrSpawn] and names the bound and the flag that
// lifts it.
func (b Spawning) Check(t *task.Task, s *Submission, n, ancestors int) error {
	switch {
	case n > b.Children:
		return fmt.Errorf("%w: an attempt may have %d of them (--spawn-children)", ErrSpawn, b.Children)
	case ancestors+1 > b.Depth:
		return fmt.Errorf("%w: %d tasks are above it already, and at most %d may be (--spawn-depth)", ErrSpawn, ancestors+1, b.Depth)
	}
	if s.Queue == "" && s.Job == "" {
		s.Queue = t.QueueName()
	}
	if b.Anywhere {
		return nil
	}
	if s.Queue != "" && s.Queue != t.QueueName() {
		return fmt.Errorf("%w: it asks for queue %q, and its parent's is %q (--spawn-anywhere)", ErrSpawn, s.Queue, t.QueueName())
	}
	if s.Spec == nil {
		return nil
	}
	if q := s.Spec.Place.Queue; q != "" && q != t.QueueName() {
		return fmt.Errorf("%w: it asks for queue %q, and its parent's is %q (--spawn-anywhere)", ErrSpawn, q, t.QueueName())
	}
	own := ""
	if t.Spec != nil && t.Spec.Run != nil {
		own = t.Spec.Run.User
	}
	for _, user := range s.Spec.Users() {
		if user != own {
			return fmt.Errorf("%w: it asks for user %q, and its parent's is %q (--spawn-anywhere)", ErrSpawn, user, own)
		}
	}
	return nil
}
