package embed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"millrace/events/jet/request"
)

// contextMark begins the description of a context that a server of Millrace has made, and may
// therefore replace.
const contextMark = "Millrace, data in "

// LendContext writes a context by which the nats command line of this user reaches the server,
// readable for that user alone. takeBack removes it, unless another server has taken the name
// since. If a context of that name exists that no server of Millrace has made, it stays, and
// LendContext returns an error.
func (s *Server) LendContext(name string) (takeBack func(), err error) {
	if !s.own {
		return nil, errors.New("only a credential that the server has made itself is handed on")
	}
	old, err := request.Load(name)
	if !errors.Is(err, request.ErrUnknown) && !strings.HasPrefix(old.Description, contextMark) {
		return nil, fmt.Errorf("there is a context %q that is somebody's own", name)
	}
	dir, err := filepath.Abs(s.cfg.Dir)
	if err != nil {
		return nil, err
	}
	c := request.Context{Description: contextMark + dir, URL: s.Address(), User: s.cfg.Auth.User, Password: s.cfg.Auth.Password}
	if s.cfg.TLSCert != "" {
		if c.CA, err = filepath.Abs(s.cfg.TLSCert); err != nil {
			return nil, err
		}
	}
	if err := c.Save(name); err != nil {
		return nil, err
	}
	return func() {
		now, err := request.Load(name)
		if path, bad := request.Path(name); err == nil && bad == nil && now.Password == c.Password && now.URL == c.URL {
			_ = os.Remove(path) // also the link of a selected one
		}
	}, nil
}
