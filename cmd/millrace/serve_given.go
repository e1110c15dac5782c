package main

import (
	"errors"

	"millrace/client"
	"millrace/jet"
)

// given is resolve for a process that brings a server of its own: it tells
// whether flags or environment name another one.
func (a *app) given() (t client.Target, given bool, err error) {
	if t, err = a.resolve(); err != nil {
		return t, false, err
	}
	return t, t.By == client.Named, nil
}

// unusable says what to do when a process cannot work on the server that was chosen.
func (a *app) unusable(t client.Target, err error) error {
	switch {
	case errors.Is(err, jet.ErrNoJetStream):
		return &fault{code: exitRefused, err: err}
	case errors.Is(err, jet.ErrElecting):
		return electing(t.Name, err)
	case client.Denied(err):
		return &fault{code: exitNoServer, err: err, hint: hint(whoYouAre)}
	case client.Unreachable(err):
		return noServer(t.Name, err)
	}
	return err
}
