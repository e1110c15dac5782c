package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"millrace/client"
	"millrace/jet"
	"millrace/jet/natscontext"
)

// defaultTimeout bounds one exchange with the server.
const defaultTimeout = 5 * time.Second

// connection is what flags and environment say about the NATS server, under
// the names of the nats command line.
type connection struct {
	server, context, user, password, creds, nkey string
	passwordFile, tokenFile                      string
	tlsCert, tlsKey, tlsCA, inboxPrefix          string
	timeout                                      time.Duration
	bounded                                      bool // a flag or the environment says timeout
	set                                          *pflag.FlagSet
}

// connectionFlags are the flags with a text, and their environment variables.
func (c *connection) texts() []connectionFlag {
	return []connectionFlag{
		{"server", "s", "NATS_URL", "`URL` of the NATS server, or several with commas", &c.server},
		{"context", "", "NATS_CONTEXT", "`name` of a context of the nats command line, or the path of one with a slash in it", &c.context},
		{"user", "", "NATS_USER", "`name` of the user", &c.user},
		{"password", "", "NATS_PASSWORD", "", &c.password},
		{"password-file", "", "NATS_PASSWORD_FILE", "`file` with the password of the user, which may also stand in $NATS_PASSWORD", &c.passwordFile},
		{"token-file", "", "NATS_TOKEN_FILE", "`file` with a token, which may also stand in $NATS_USER if there is no password", &c.tokenFile},
		{"creds", "", "NATS_CREDS", "`file` with the user's credentials", &c.creds},
		{"nkey", "", "NATS_NKEY", "`file` with the user's nkey seed", &c.nkey},
		{"tlscert", "", "NATS_CERT", "`file` with the TLS certificate of the client", &c.tlsCert},
		{"tlskey", "", "NATS_KEY", "`file` with the TLS key of the client", &c.tlsKey},
		{"tlsca", "", "NATS_CA", "`file` with the certificate authority of the server", &c.tlsCA},
		{"inbox-prefix", "", "NATS_INBOX_PREFIX", "`prefix` of the subjects of answers, if this user has one of its own", &c.inboxPrefix},
	}
}

type connectionFlag struct {
	name, short, env, usage string
	value                   *string
}

func (c *connection) flags(fs *pflag.FlagSet) {
	for _, f := range c.texts() {
		fs.StringVarP(f.value, f.name, f.short, "", f.usage+" ($"+f.env+")")
	}
	fs.Lookup("password").Hidden = true // it is refused, with what to do instead
	fs.DurationVar(&c.timeout, "timeout", defaultTimeout, "how `long` to wait for an answer ($NATS_TIMEOUT)")
	c.set = fs
}

// resolve decides which server to talk to, by the flags and by the rule that programs share.
func (a *app) resolve() (client.Target, error) {
	c := &a.conn
	o, err := c.options()
	if err != nil {
		return client.Target{}, err
	}
	o.Name, o.Log, o.Clock = "millrace command line", a.logger(), a.clock
	t, err := client.FindServer(o)
	if err != nil {
		return t, err
	}
	if t.Options.Timeout > 0 {
		c.timeout, c.bounded = t.Options.Timeout, true
	} else {
		t.Options.Timeout = c.timeout
	}
	switch {
	case t.Others > 0:
		a.note("using the newest of %d servers that run here, that of %s; --server chooses another one", t.Others+1, t.Running.Data)
	case t.Passed != "":
		a.note("using the running `millrace %s` of %s, not the nats context %q; --context %s chooses that", t.Running.Role, t.Running.Data, t.Passed, t.Passed)
	case t.Withheld:
		a.note("nobody has said where the server is, so the credentials are not offered to %s; say it with --server or $NATS_URL", t.Name)
	}
	return t, nil
}

// connect connects to the server that flags and environment choose.
func (a *app) connect(ctx context.Context) (*client.Client, error) {
	t, err := a.resolve()
	if err != nil {
		return nil, err
	}
	a.dev, a.reached = t.Running.Role == roleDev, nil
	t.Options.Patience = a.patience(t)
	opening, cancel := context.WithTimeout(ctx, max(a.conn.timeout, t.Options.Patience.For))
	defer cancel()
	c, err := t.Connect(opening)
	switch {
	case err == nil:
		a.now = c.Now
		a.reached = &t
		return c, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, jet.ErrElecting):
		return nil, electing(t.Name, err)
	case client.Denied(err):
		return nil, &fault{code: exitNoServer, err: fmt.Errorf("%s refuses these credentials: %w", t.Name, err),
			hint: hint(whoYouAre)}
	case client.Unreachable(err):
		return nil, noServer(t.Name, err)
	}
	return nil, badConnection(t.Options, err)
}

// online makes the RunE of a command of a server.
func (a *app) online(do func(ctx context.Context, cl *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		cl, err := a.connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		ctx, cancel := context.WithCancelCause(c.Context())
		defer cancel(nil)
		defer cl.Store().OnDenied(cancel)()
		err = do(ctx, cl, args)
		if denied, ok := errors.AsType[*jet.Denied](context.Cause(ctx)); ok && err != nil {
			return denied // it waited for an answer that cannot come
		}
		return err
	}
}

// brief is online for a command that takes no longer than --timeout.
func (a *app) brief(do func(ctx context.Context, cl *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return a.online(func(ctx context.Context, cl *client.Client, args []string) error {
		ctx, cancel := a.asking(ctx)
		defer cancel()
		return do(ctx, cl, args)
	})
}

// badConnection explains an error that comes before any server was asked.
func badConnection(o client.Options, err error) error {
	if errors.Is(err, natscontext.ErrUnknown) {
		there := "there are none; `nats context add` makes one"
		if known := client.Contexts(); len(known) > 0 {
			there = "there are " + strings.Join(known, ", ")
		}
		return &fault{code: exitNotFound, err: fmt.Errorf("no context of the nats command line is called %q", o.Context), hint: hint("%s", there)}
	}
	if o.Creds+o.NKey+o.TLSCert+o.TLSKey+o.TLSCA+o.Context != "" {
		return &fault{code: exitError, err: err, hint: hint("check the files that --creds, --nkey, --tls... or the context name")}
	}
	return err
}

// How long a command waits for the leader of a cluster, and a process that is to stay. An election
// takes some ten seconds at most, a cluster that starts as long as its servers do.
const (
	electionPatience = 30 * time.Second
	formingPatience  = 2 * time.Minute
)

// patience is how a command waits for a cluster: if --timeout was given, no longer.
func (a *app) patience(t client.Target) jet.Patience {
	p := jet.Patience{For: electionPatience}
	if a.conn.bounded {
		p.For = a.conn.timeout
	}
	p.Say = func(waiting error) { a.note("waiting up to %v for %s: %v", p.For, t.Name, waiting) }
	return p
}

// electing says that a cluster has no leader.
func electing(name string, err error) error {
	return &fault{code: exitNoServer, err: fmt.Errorf("%s: %w", name, err),
		hint: hint("see that more than half of its servers run; `nats server report jetstream` lists them")}
}

// noServer says that nothing answers there, and how to have something that does.
func noServer(name string, err error) error {
	return &fault{code: exitNoServer, err: nothingAt(name, err), hint: hint("start `millrace dev`, or say where it is with --server or --context")}
}

// nothingAt says that nothing answers there; why, only if that is more than that
// nobody listens.
func nothingAt(name string, err error) error {
	text := "no NATS server at " + name
	var cause *net.OpError
	if errors.As(err, &cause) {
		text += " (" + cause.Error() + ")"
	}
	return errors.New(text)
}

// asking bounds one exchange with the server. Without a --timeout it goes on, and says so, when there
// is no answer after the default: a cluster that elects a leader needs longer. A log that takes no
// messages does not, so the exchange ends then, and [app.blame] says why.
func (a *app) asking(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.conn.bounded {
		return context.WithTimeout(ctx, a.conn.timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, electionPatience)
	reached := a.reached
	late := time.AfterFunc(a.conn.timeout, func() {
		if reached != nil && mute(ctx, *reached) != "" {
			cancel()
			return
		}
		a.note("no answer for %v; waiting up to %v, for a NATS cluster may be electing its leaders", a.conn.timeout, electionPatience)
	})
	return ctx, func() {
		late.Stop()
		cancel()
	}
}

// logger tells a person about the connection; it is silent as long as all is well.
func (a *app) logger() *slog.Logger {
	return logger(zerolog.ConsoleWriter{Out: a.errs, NoColor: !colourful(a.errs), TimeFormat: time.TimeOnly}, zerolog.WarnLevel)
}

func connectionPage(flags *pflag.FlagSet) string {
	return `Every command that needs the NATS server finds it like this; the first that applies wins:

  1. --server or $NATS_URL
  2. --context or $NATS_CONTEXT, a context of the nats command line
  3. a "millrace dev" or "millrace server" with a NATS server of its own that the same user runs
     on this machine, the newest of several, with the password that it has made for itself
  4. the selected context of the nats command line ("nats context select")
  5. ` + client.UsualServer + `, without credentials

"millrace worker" with the profile prod, its default, takes part in 1, 2 and 4 only: it joins
nothing that nobody has named.

A running "millrace dev" comes before the selected context, so that what is tried
on one's own machine does not end up elsewhere; when both are there a note says so.
A flag wins over the environment, and one that says who you are (--user, --token-file,
--creds, --nkey) over all credentials there but the password. --server together with --context
takes the rest of the context (TLS, and credentials if nothing else names any) and goes to
that server. Go programs that use millrace/client go by the same rule.

Flags of all commands:
` + flags.FlagUsages() + `
In "run" and "schedule add", --timeout is how long an attempt may run, in "task wait" and "node wait"
how long to wait, in "node ping" for one answer; there $NATS_TIMEOUT says how long to wait for the server.`
}
