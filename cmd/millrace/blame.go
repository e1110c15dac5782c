package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/client"
	"millrace/events"
)

// blameTime is how long it may take to ask why something was not answered.
const blameTime = 2 * time.Second

// blame asks why a server that was reached has not answered what it was asked, if a millrace server
// knows: a log that takes no messages gives no answer at all. The error that it
// returns says so; any other is returned as it is.
func (a *app) blame(ctx context.Context, err error) error {
	unanswered := errors.Is(err, events.ErrUnknown) || client.Unreachable(err)
	if err == nil || a.reached == nil || !unanswered || ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, blameTime)
	defer cancel()
	health, asking := a.reached.AskHealth(ctx)
	if asking != nil || health.Log == "" {
		return err
	}
	said := fmt.Errorf("%s", health.Log)
	if errors.Is(err, events.ErrUnknown) {
		said = fmt.Errorf("%s; what was asked for may or may not be recorded", health.Log)
	}
	return &fault{code: exitMute, err: said, hint: faultOf(events.ErrMute).hint}
}
