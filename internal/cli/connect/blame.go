package connect

import (
	"context"
	"errors"
	"strings"
	"time"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/request"
	"millrace/events/jet/rights"
	"millrace/internal/cli/term"
	"millrace/service/client"
)

// blameTime is how long it may take to find out why there was no answer.
const blameTime = 2 * time.Second

// Blame finds out why a request was not answered. The connection may be closed for good. Or it asks
// a millrace server: a log that takes no messages gives no answer at all. The returned error says
// so. A viewer who may not read contents is told where it may. Any other error is returned as it is.
func (a *App) Blame(ctx context.Context, err error) error {
	if gone := a.gone(); err != nil && gone != nil && ctx.Err() == nil && term.FaultOf(err).Err != nil {
		return gone
	}
	if a.lacks != nil && errors.As(err, new(*request.Denied)) {
		err = a.lacks
	}
	if lacking, ok := errors.AsType[*rights.Lacking](err); ok {
		if lacking.Role == rights.Viewer && (a.Typed == "files pull" || a.Typed == "task artifacts") {
			return &term.Fault{Code: term.ExitRefused, Err: err, Hint: term.Hint("viewers get what files contain over HTTP: GET /api/v1/files/VERSION/content; the version of artifacts is their digest in `millrace task artifacts -o json`")}
		}
		return err
	}
	unanswered := errors.Is(err, events.ErrUnknown) || client.Unreachable(err) || errors.Is(err, context.Canceled)
	if err == nil || a.reached == nil || !unanswered || ctx.Err() != nil {
		return err
	}
	why := mute(ctx, *a.reached)
	if silent := a.silent.Load(); why == "" && silent != nil {
		why = (*silent).Error()
	}
	if why == "" {
		return err
	}
	if errors.Is(err, events.ErrUnknown) {
		why += "; what was asked for may or may not be recorded"
	}
	return mutely(why)
}

// gone is why the command's connection was closed for good, other than by the command; nil if it was
// not.
func (a *App) gone() error {
	if a.store == nil {
		return nil
	}
	select {
	case <-a.store.Gone():
		return a.store.WhyGone()
	default:
		return nil
	}
}

// mutely is the error that the log takes no messages, and why.
func mutely(why string) error {
	return &term.Fault{Code: term.ExitMute, Err: errors.New(why), Hint: term.FaultOf(events.ErrMute).Hint}
}

// silentLook is the pause between two looks at a write that gets no answer.
const silentLook = time.Second

// mute tells whether the log takes no messages: a millrace server says so, or this command's own
// write gets no answer at two looks although the server answers. It keeps what the second one finds
// for [App.Blame].
func (a *App) mute(ctx context.Context, t *client.Target, store *jet.Store) bool {
	if mute(ctx, *t) != "" {
		return true
	}
	looks := func() error {
		ctx, cancel := context.WithTimeout(ctx, blameTime)
		defer cancel()
		return store.Silent(ctx)
	}
	if looks() == nil || !a.rests(ctx) {
		return false
	}
	silent := looks()
	if silent != nil {
		a.silent.Store(&silent)
	}
	return silent != nil
}

// rests waits a moment; false if ctx ends.
func (a *App) rests(ctx context.Context) bool {
	select {
	case <-time.After(silentLook):
		return true
	case <-ctx.Done():
		return false
	}
}

// mute returns why the log takes no messages, according to a millrace server; "" if it does, or if
// no server answers. A server that cannot ask the log does not know: its cluster may be electing.
func mute(ctx context.Context, t client.Target) string {
	ctx, cancel := context.WithTimeout(ctx, blameTime)
	defer cancel()
	health, err := t.AskHealth(ctx)
	if err != nil || !strings.HasPrefix(health.Log, events.ErrMute.Error()) {
		return ""
	}
	return health.Log
}
