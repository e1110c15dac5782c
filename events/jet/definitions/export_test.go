package definitions

import (
	"context"

	"millrace/task"
)

// Internals for the tests, which open stores that import this package.

const (
	FewChanges  = fewChanges
	MostChanges = mostChanges
	FarBehind   = farBehind
	CopyStream  = copyStream
)

// CopyKeeper looks on request.
type CopyKeeper struct{ k *copyKeeper }

func NewCopyKeeper(b *Registry, told func(task.CopiesRestored)) *CopyKeeper {
	return &CopyKeeper{&copyKeeper{s: b, told: told}}
}

func (c *CopyKeeper) Look(ctx context.Context) error { return c.k.look(ctx) }

func (c *CopyKeeper) State(ctx context.Context) (bucketState, error) { return c.k.state(ctx) }

func (c *CopyKeeper) Untold() task.CopiesRestored { return c.k.untold }
