package birth

import (
	"errors"
	"fmt"

	"millrace/task"
	"millrace/task/placement"
)

// Spawning bounds the children that a running task may ask for (SPAWN, or Spawn of a handler). The
// zero value means the defaults.
type Spawning struct {
	// Children is how many one attempt may ask for, including existing ones. Default
	// [DefaultSpawned]; [NoChildren] for none.
	Children int
	// Depth is how many ancestors a child may have: its parent, the parent of that and so on. With
	// 1, children may not spawn. Default [DefaultSpawnDepth]; [NoChildren] for none, so that no task
	// has children.
	Depth int
	// Anywhere allows children with a command of their own to have another queue and another user
	// than their parent's, and to name nodes.
	Anywhere bool
}

// Defaults of [Spawning].
const (
	DefaultSpawned    = 1000
	DefaultSpawnDepth = 4
)

// NoChildren in a field of [Spawning] means none.
const NoChildren = -1

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

// Validate refuses other bounds below 0 than [NoChildren] and names the field.
func (b Spawning) Validate() error {
	switch {
	case b.Children < NoChildren:
		return fmt.Errorf("Children is %d, want at least 1, or NoChildren", b.Children)
	case b.Depth < NoChildren:
		return fmt.Errorf("Depth is %d, want at least 1, or NoChildren", b.Depth)
	}
	return nil
}

// ErrSpawn refuses a child that a running task asks for.
var ErrSpawn = errors.New("the worker does not allow this child")

// Check refuses the n-th child of an attempt of t, which has the given number of ancestors. A child
// without a queue of its own gets t's. A child of a job runs as the job is defined, but not in
// another queue. Any other child, with its steps, must have t's queue and user, and may name no node
// but the one where t runs. The error wraps [ErrSpawn] and names the bound and the flag that lifts
// it.
func (b Spawning) Check(t *task.Task, s *Submission, n, ancestors int) error {
	if err := placement.ValidLabels(s.Labels); err != nil {
		return err
	}
	switch {
	case b.Children == NoChildren:
		return fmt.Errorf("%w: no attempt may have any here (--spawn-children 0)", ErrSpawn)
	case b.Depth == NoChildren:
		return fmt.Errorf("%w: no task may be above another one here (--spawn-depth 0)", ErrSpawn)
	case n > b.Children:
		return fmt.Errorf("%w: an attempt may have %d of them (--spawn-children)", ErrSpawn, b.Children)
	case ancestors+1 > b.Depth:
		return fmt.Errorf("%w: %d tasks are above it already, and at most %d may be (--spawn-depth)", ErrSpawn, ancestors+1, b.Depth)
	}
	home := t.QueueName()
	if _, own := t.Route.Node(); own { // which is no queue that a child could wait in
		home = t.FallbackQueue()
	}
	if s.Queue == "" && s.Job == "" {
		s.Queue = home
	}
	if b.Anywhere {
		return nil
	}
	queues, nodes := []string{s.Queue}, s.Nodes
	if s.Place != nil {
		queues, nodes = append(queues, s.Place.Queue), append(nodes[:len(nodes):len(nodes)], s.Place.Nodes...)
	}
	if s.Spec != nil {
		of, on := s.Spec.Named()
		queues, nodes = append(queues, of...), append(nodes[:len(nodes):len(nodes)], on...)
	}
	for _, q := range queues {
		if q != "" && q != home {
			return fmt.Errorf("%w: it asks for queue %q, and its parent's is %q (--spawn-anywhere)", ErrSpawn, q, home)
		}
	}
	if s.Job != "" || s.Spec == nil {
		return nil
	}
	for _, n := range nodes {
		if n != t.Node {
			return fmt.Errorf("%w: it names node %q, which need not serve its parent's queue %q; a job may name nodes (--spawn-anywhere)", ErrSpawn, n, home)
		}
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
