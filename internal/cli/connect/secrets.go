package connect

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"millrace/events/jet"
	"millrace/internal/cli/term"
	"millrace/service/client"
)

// Every user of a machine can read the arguments of every process, and shells remember them. So no
// secret is taken from an argument: it is in a file, or in the environment.

// options returns the flags' connection options, with the secrets of the files that they name. It
// refuses a secret in an argument.
func (c *Connection) options() (o client.Options, err error) {
	refuse := func(what, instead string) error {
		return &term.Fault{Code: term.ExitUsage, Err: fmt.Errorf("%s, where every user of this machine can read it", what), Hint: term.Hint("%s", instead)}
	}
	named := c.set.Changed
	switch {
	case named("password"):
		return o, refuse("--password puts the password into the list of processes", "write it into a file and pass --password-file FILE, or set $NATS_PASSWORD")
	case jet.Nameless(c.server) != c.server:
		return o, refuse("--server names a user or a token beside the address", "take that out and pass --user with --password-file, or --token-file; or set $NATS_URL")
	case named("token-file") && (named("user") || named("password-file")):
		return o, term.MisuseOf(errors.New("--token-file does not go together with --user or --password-file"))
	case c.Timeout <= 0:
		return o, term.MisuseOf(fmt.Errorf("--timeout is %v, want more than 0", c.Timeout))
	case c.user != "" && c.passwordFile == "" && os.Getenv("NATS_PASSWORD") == "" && os.Getenv("NATS_PASSWORD_FILE") == "":
		return o, refuse("--user without a password names a token", "write the token into a file and pass --token-file FILE, or set $NATS_USER; the password of a user comes from --password-file FILE or $NATS_PASSWORD")
	}
	o = client.Options{
		Server: c.server, Context: c.context, User: c.user, Creds: c.creds, NKey: c.nkey,
		TLSCert: c.tlsCert, TLSKey: c.tlsKey, TLSCA: c.tlsCA, InboxPrefix: c.inboxPrefix,
	}
	if named("timeout") {
		o.Timeout = c.Timeout
	}
	if c.tokenFile != "" {
		if o.Token, err = client.ReadSecret(c.tokenFile); err != nil {
			return o, err
		}
	}
	if c.passwordFile != "" {
		o.Password, err = client.ReadSecret(c.passwordFile)
	}
	return o, err
}

// ForgetEnvironment removes the NATS variables from the environment, once they were read: no later
// child process may get them. It also removes the trace context, for tasks are not part of the
// trace in which their worker was started.
func ForgetEnvironment() {
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, "NATS_") || name == "TRACEPARENT" {
			_ = os.Unsetenv(name)
		}
	}
}
