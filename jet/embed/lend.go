package embed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/jsm.go/natscontext"
)

// contextMark begins the description of a context that a server of Millrace has left, by which it
// knows that it may replace it.
const contextMark = "Millrace, data in "

// LendContext leaves a context with which the nats command line of this user reaches the server, in
// that command's own form and readable for the user alone. TakeBack removes it, unless another
// server has taken the name since. A context of that name that no server of Millrace has left
// stays as it is, and is an error.
func (s *Server) LendContext(name string) (takeBack func(), err error) {
	if !s.own {
		return nil, errors.New("only a credential that the server has made itself is handed on")
	}
	if natscontext.IsKnown(name) {
		old, err := natscontext.New(name, true)
		if err != nil || !strings.HasPrefix(old.Description(), contextMark) {
			return nil, fmt.Errorf("there is a context %q that is somebody's own", name)
		}
	}
	dir, err := filepath.Abs(s.cfg.Dir)
	if err != nil {
		return nil, err
	}
	settings := []natscontext.Option{
		natscontext.WithServerURL(s.Address()), natscontext.WithUser(s.cfg.Auth.User), natscontext.WithPassword(s.cfg.Auth.Password),
		natscontext.WithDescription(contextMark + dir),
	}
	if s.cfg.TLSCert != "" {
		ca, err := filepath.Abs(s.cfg.TLSCert)
		if err != nil {
			return nil, err
		}
		settings = append(settings, natscontext.WithCA(ca))
	}
	c, err := natscontext.New(name, false, settings...)
	if err != nil {
		return nil, err
	}
	if err := c.Save(name); err != nil {
		return nil, err
	}
	if err := os.Chmod(c.Path(), 0o600); err != nil { // an older one may have been wider
		return nil, err
	}
	return func() {
		if now, err := natscontext.New(name, true); err == nil && now.Password() == s.cfg.Auth.Password && now.ServerURL() == s.Address() {
			_ = os.Remove(now.Path()) // not natscontext's own way, which refuses the one that is selected
		}
	}, nil
}
