package embed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"millrace/jet/natscontext"
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
	old, err := natscontext.Load(name)
	if !errors.Is(err, natscontext.ErrUnknown) && !strings.HasPrefix(old.Description, contextMark) {
		return nil, fmt.Errorf("there is a context %q that is somebody's own", name)
	}
	dir, err := filepath.Abs(s.cfg.Dir)
	if err != nil {
		return nil, err
	}
	c := natscontext.Context{Description: contextMark + dir, URL: s.Address(), User: s.cfg.Auth.User, Password: s.cfg.Auth.Password}
	if s.cfg.TLSCert != "" {
		if c.CA, err = filepath.Abs(s.cfg.TLSCert); err != nil {
			return nil, err
		}
	}
	if err := c.Save(name); err != nil {
		return nil, err
	}
	return func() {
		now, err := natscontext.Load(name)
		if path, bad := natscontext.Path(name); err == nil && bad == nil && now.Password == c.Password && now.URL == c.URL {
			_ = os.Remove(path) // of one that is selected, too
		}
	}, nil
}
