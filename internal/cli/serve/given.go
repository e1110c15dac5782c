package serve

import (
	"errors"

	"millrace/events/jet"
	"millrace/events/jet/request"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/term"
	"millrace/service/client"
)

// given is Target for a process that starts a server of its own unless flags or environment name
// one: it tells whether they do.
func (a *Commands) given() (t client.Target, given bool, err error) {
	if t, err = a.Target(); err != nil {
		return t, false, err
	}
	return t, t.By == client.Named, nil
}

// unusable adds advice when a process cannot work on the chosen server.
func (a *Commands) unusable(t client.Target, err error) error {
	switch {
	case errors.Is(err, jet.ErrNoJetStream):
		return &term.Fault{Code: term.ExitRefused, Err: err}
	case errors.Is(err, request.ErrElecting):
		return connect.Electing(t.Name, err)
	case client.Denied(err):
		return &term.Fault{Code: term.ExitNoServer, Err: err, Hint: term.Hint(term.WhoYouAre)}
	case client.Unreachable(err):
		return connect.NoServer(t.Name, err)
	}
	return err
}
