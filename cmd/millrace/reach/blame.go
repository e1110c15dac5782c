package reach

import (
	"context"
	"errors"
	"time"

	"millrace/client"
	"millrace/cmd/millrace/exit"
	"millrace/events"
)

// blameTime is how long it may take to find out why there was no answer.
const blameTime = 2 * time.Second

// Blame asks a millrace server why a request was not answered: a log that takes no messages gives
// no answer at all. The returned error says so; any other error is returned as it is.
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

// mute returns why the log takes no messages, according to a millrace server; "" if it does, or if
// no server answers.
func mute(ctx context.Context, t client.Target) string {
	ctx, cancel := context.WithTimeout(ctx, blameTime)
	defer cancel()
	health, err := t.AskHealth(ctx)
	if err != nil {
		return ""
	}
	return health.Log
}
