package request

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"golang.org/x/net/proxy"

	"millrace/task/value"
)

// Reach returns what a connection needs: the addresses, separated by commas, and the options. If a
// context leaves its credentials to the programs nsc or op, Reach runs them.
func (c Context) Reach() (servers string, opts []nats.Option, err error) {
	if c.WinCertStore != "" {
		return "", nil, errors.New("certificates in the store of Windows are not supported; name files with cert, key and ca")
	}
	if c.NSC != "" {
		if err := c.askNSC(); err != nil {
			return "", nil, err
		}
	}
	add := func(o ...nats.Option) { opts = append(opts, o...) }
	who, err := c.credentials()
	if err != nil {
		return "", nil, err
	}
	add(who...)
	if c.Cert != "" && c.Key != "" {
		add(nats.ClientCert(expand(c.Cert), expand(c.Key)))
	}
	if c.CA != "" {
		add(nats.RootCAs(expand(c.CA)))
	}
	if c.SocksProxy != "" {
		add(nats.SetCustomDialer(socks(c.SocksProxy)))
	}
	if c.InboxPrefix != "" {
		add(nats.CustomInboxPrefix(c.InboxPrefix))
	}
	if c.TLSFirst {
		add(nats.TLSHandshakeFirst())
	}
	return c.Servers(), opts, nil
}

// Servers returns the addresses, separated by commas; the default address if there are none.
func (c Context) Servers() string {
	if c.URL == "" {
		return nats.DefaultURL
	}
	return c.URL
}

// credentials returns the options for the first kind of credentials that the context has, and for
// its token.
func (c Context) credentials() (opts []nats.Option, err error) {
	switch {
	case c.User != "":
		opts = append(opts, nats.UserInfo(c.User, c.Password))
	case strings.HasPrefix(c.Creds, "op://"):
		o, err := askOP(c.Creds)
		if err != nil {
			return nil, err
		}
		opts = append(opts, o)
	case c.Creds != "":
		opts = append(opts, nats.UserCredentials(expand(c.Creds)))
	case c.NKey != "":
		o, err := nats.NkeyOptionFromSeed(expand(c.NKey))
		if err != nil {
			return nil, err
		}
		opts = append(opts, o)
	case c.UserJWT != "" && c.UserSeed != "":
		opts = append(opts, nats.UserJWTAndSeed(c.UserJWT, c.UserSeed))
	case c.UserJWT != "": // of a server that asks for no signature
		opts = append(opts, nats.UserJWT(func() (string, error) { return c.UserJWT, nil }, func([]byte) ([]byte, error) { return nil, nil }))
	}
	if c.Token != "" {
		opts = append(opts, nats.Token(c.Token))
	}
	return opts, nil
}

// expand replaces variables of the environment, and a leading ~ by the home directory.
func expand(path string) string {
	path = os.ExpandEnv(path)
	rest, home := strings.CutPrefix(path, "~")
	if !home {
		return path
	}
	u, err := user.Current()
	if err != nil {
		return path
	}
	return u.HomeDir + rest
}

// socks makes connections through a proxy.
type socks string

// Dial implements the dialer of nats.go.
func (s socks) Dial(network, address string) (net.Conn, error) {
	u, err := url.Parse(string(s))
	if err != nil {
		return nil, fmt.Errorf("socks_proxy: %w", value.Plainly(err))
	}
	d, err := proxy.FromURL(u, proxy.Direct)
	if err != nil {
		return nil, fmt.Errorf("socks_proxy: %w", err)
	}
	return d.Dial(network, address)
}

// askNSC asks the program nsc for what the context leaves out.
func (c *Context) askNSC() error {
	out, err := exec.Command("nsc", "generate", "profile", c.NSC).Output()
	if err != nil {
		return fmt.Errorf("the context leaves its credentials to nsc: %w%s", err, said(err))
	}
	var profile struct {
		Creds    string `json:"user_creds"`
		Operator struct {
			Service []string `json:"service"`
		} `json:"operator"`
	}
	if err := json.Unmarshal(out, &profile); err != nil {
		return fmt.Errorf("what nsc says cannot be read: %w", value.Plainly(err))
	}
	if c.Creds == "" {
		c.Creds = profile.Creds
	}
	if c.URL == "" {
		c.URL = strings.Join(profile.Operator.Service, ",")
	}
	return nil
}

// askOP runs the program op to read credentials from a password manager.
func askOP(secret string) (nats.Option, error) {
	out, err := exec.Command("op", "read", secret).Output()
	if err != nil {
		return nil, fmt.Errorf("the context leaves its credentials to op: %w%s", err, said(err))
	}
	jwt, err := nkeys.ParseDecoratedJWT(out)
	if err != nil {
		return nil, fmt.Errorf("what op says holds no credentials: %w", err)
	}
	pair, err := nkeys.ParseDecoratedNKey(out)
	if err != nil {
		return nil, fmt.Errorf("what op says holds no credentials: %w", err)
	}
	return nats.UserJWT(func() (string, error) { return jwt, nil }, pair.Sign), nil
}

// said returns the error output of a failed program.
func said(err error) string {
	if e, ok := errors.AsType[*exec.ExitError](err); ok && len(e.Stderr) > 0 {
		return ": " + strings.TrimSpace(string(e.Stderr))
	}
	return ""
}
