package events

import (
	"context"

	"millrace/task"
)

// Keeper keeps what tasks share: the chains of admissions by limits, and the chains of unique
// keys, to which [Appender] writes.
type Keeper interface {
	// Admitted is the sequence of the last message on the chain of a scope's admissions ([task.Granted]), 0 if
	// there is none.
	Admitted(ctx context.Context, of task.Scope) (uint64, error)
	// Claimed returns the last claim of a unique key; false if there is none.
	Claimed(ctx context.Context, key string) (Record, bool, error)
	// PlaceClaimed is [Placer.Place] for the birth of a task under a unique key: it records it
	// only if the claim with this sequence is still the key's last one. Else it records nothing
	// and returns an error that wraps [ErrConflict].
	PlaceClaimed(ctx context.Context, f *Fact, key string, claim uint64) (uint64, error)
	// AppendClaimed records f on the chain of its task under the same condition, and in place of that of
	// [Appender.Append]: wherever the chain stands. It is for a fact that means nothing unless the task has ended.
	AppendClaimed(ctx context.Context, f *Fact, key string, claim uint64) (uint64, error)
}
