package reach

import (
	"context"
	"errors"
	"time"

	"millrace/client"
	"millrace/cmd/millrace/exit"
	"millrace/events"
)

// blameTime is how long it may take to ask why something was not answered.
const blameTime = 2 * time.Second

// Blame asks why a server that was reached has not answered what it was asked, if a millrace server
// knows: a log that takes no messages gives no answer at all. The error that it
// returns says so; any other is returned as it is.
func (a *App) Blame(ctx context.Context, err error) error {
	unanswered := errors.Is(err, events.ErrUnknown) || client.Unreachable(err) || errors.Is(err, context.Canceled)
	if err == nil || a.reached == nil || !unanswered || ctx.Err() != nil {
		return err
	}
	why := mute(ctx, *a.reached)
	if why == "" {
		return err
	}
	if errors.Is(err, events.ErrUnknown) {
		why += "; what was asked for may or may not be recorded"
	}
	return &exit.Fault{Code: exit.Mute, Err: errors.New(why), Hint: exit.Of(events.ErrMute).Hint}
}

// mute is why the log takes no messages, as a millrace server says; "" if it does, or if no server says so.
func mute(ctx context.Context, t client.Target) string {
	ctx, cancel := context.WithTimeout(ctx, blameTime)
	defer cancel()
	health, err := t.AskHealth(ctx)
	if err != nil {
		return ""
	}
	return health.Log
}
