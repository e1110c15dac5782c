package client

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/nats-io/nats.go"

	"millrace/events/jet/request"
)

// Unreachable tells whether an error of [Connect], or of a later call, means that there was no
// server or that it did not answer. Trying again may help.
func Unreachable(err error) bool {
	var network *net.OpError // not net.Error: a missing file also is one
	return errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrDisconnected) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.As(err, &network)
}

// Denied tells whether an error of [Connect] means that the server wants other credentials, or any.
func Denied(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) ||
		errors.Is(err, nats.ErrAuthRevoked) || errors.Is(err, nats.ErrAccountAuthExpired)
}

// Contexts returns the names of the contexts of the nats command line.
func Contexts() []string { return request.Known() }
