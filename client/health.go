package client

import (
	"context"

	"millrace/jet"
)

// Health is how things stand, as a server of Millrace sees them.
type Health struct {
	// Log says why the log takes no messages; "" if it does.
	Log string `json:"log,omitempty"`
}

// AskHealth asks a server of Millrace how things stand, which needs nothing of the log, on a connection of its own: that is made
// even if the log cannot be opened. The error wraps [jet.ErrNoService] if there is no such server.
func (t Target) AskHealth(ctx context.Context) (h Health, err error) {
	return h, jet.AskOnce(ctx, t.Options, jet.ServerHealth, struct{}{}, &h)
}
