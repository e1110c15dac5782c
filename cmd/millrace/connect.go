package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"millrace/client"
	"millrace/jet"
	"millrace/local"
)

// defaultServer is where a NATS server listens if nothing else is known.
const defaultServer = "nats://127.0.0.1:4222"

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
		{"context", "", "NATS_CONTEXT", "`name` of a context of the nats command line, or a file", &c.context},
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

// fill takes from the environment what no flag says. A flag that says where the
// server is silences the environment's other word on it.
func (c *connection) fill(getenv func(string) string) error {
	for _, f := range c.texts() {
		other := map[string]string{"server": "context", "context": "server"}[f.name]
		if c.set.Changed(f.name) || other != "" && c.set.Changed(other) {
			continue
		}
		*f.value = getenv(f.env)
	}
	if text := getenv("NATS_TIMEOUT"); text != "" && !c.set.Changed("timeout") {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return &fault{code: exitUsage, err: fmt.Errorf("$NATS_TIMEOUT is %q, want a duration such as 5s", text)}
		}
		c.timeout, c.bounded = d, true
	}
	if c.timeout <= 0 {
		return &fault{code: exitUsage, err: fmt.Errorf("--timeout is %v, want more than 0", c.timeout)}
	}
	c.bounded = c.bounded || c.set.Changed("timeout")
	return c.readSecrets()
}

// target is the server that a command talks to.
type target struct {
	options client.Options
	// name is what to call it in a message. It holds no secret.
	name string
	// dev is whether it is a `millrace dev` that was found on this machine.
	dev bool
	// chosen is whether somebody has said which server: a flag, the environment, or a context that is selected.
	chosen bool
}

// resolve decides which server to talk to; connectionPage says how.
func (a *app) resolve() (target, error) {
	c := &a.conn
	if err := c.fill(os.Getenv); err != nil {
		return target{}, err
	}
	t := target{options: client.Options{
		Server: c.server, Context: c.context, User: c.user, Password: c.password, Creds: c.creds, NKey: c.nkey,
		TLSCert: c.tlsCert, TLSKey: c.tlsKey, TLSCA: c.tlsCA, InboxPrefix: c.inboxPrefix, Timeout: c.timeout, Name: "millrace command line", Log: a.logger(), Clock: a.clock,
	}}
	selected := client.SelectedContext()
	switch {
	case c.server != "":
		t.name, t.chosen = jet.Nameless(c.server), true
	case c.context != "":
		t.name, t.chosen = fmt.Sprintf("the server of context %q", c.context), true
	default:
		found, others, err := local.Find()
		switch {
		case err == nil:
			t.options.Server, t.name, t.dev = found.URL, jet.Nameless(found.URL), found.Role == roleDev
			if others > 0 {
				a.note("using the newest of %d servers that run here, that of %s; --server chooses another one", others+1, found.Data)
			} else if selected != "" {
				a.note("using the running `millrace %s` of %s, not the nats context %q; --context %s chooses that", found.Role, found.Data, selected, selected)
			}
		case !errors.Is(err, local.ErrNone):
			return target{}, err
		case selected != "":
			t.options.Context, t.name, t.chosen = selected, fmt.Sprintf("the server of context %q (selected)", selected), true
		default:
			a.fallBack(&t)
		}
	}
	return t, nil
}

// fallBack goes where a NATS server mostly listens. Whoever does listen there has asked for no
// secrets, so it is offered none.
func (a *app) fallBack(t *target) {
	o := &t.options
	if o.User+o.Password+o.Creds+o.NKey+o.TLSCert+o.TLSKey != "" {
		a.note("nobody has said where the server is, so the credentials are not offered to %s; say it with --server or $NATS_URL", defaultServer)
	}
	o.User, o.Password, o.Creds, o.NKey, o.TLSCert, o.TLSKey = "", "", "", "", "", ""
	o.Server, t.name = defaultServer, defaultServer
}

// connect connects to the server that flags and environment choose.
func (a *app) connect(ctx context.Context) (*client.Client, error) {
	t, err := a.resolve()
	if err != nil {
		return nil, err
	}
	a.dev, a.reached = t.dev, nil
	t.options.Patience = a.patience(t)
	opening, cancel := context.WithTimeout(ctx, max(a.conn.timeout, t.options.Patience.For))
	defer cancel()
	c, err := client.Connect(opening, t.options)
	switch {
	case err == nil:
		a.now = c.Now
		a.reached = &t.options
		return c, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, jet.ErrElecting):
		return nil, electing(t.name, err)
	case client.Denied(err):
		return nil, &fault{code: exitNoServer, err: fmt.Errorf("%s refuses these credentials: %w", t.name, err),
			hint: hint(whoYouAre)}
	case client.Unreachable(err):
		return nil, noServer(t.name, err)
	}
	return nil, a.badConnection(err)
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
func (a *app) badConnection(err error) error {
	c := &a.conn
	known := client.Contexts()
	if _, noFile := os.Stat(c.context); c.context != "" && noFile != nil && !slices.Contains(known, c.context) {
		there := "there are none; `nats context add` makes one"
		if len(known) > 0 {
			there = "there are " + strings.Join(known, ", ")
		}
		return &fault{code: exitNotFound, err: fmt.Errorf("no context of the nats command line is called %q", c.context), hint: hint("%s", there)}
	}
	if c.creds+c.nkey+c.tlsCert+c.tlsKey+c.tlsCA+c.context != "" {
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
func (a *app) patience(t target) jet.Patience {
	p := jet.Patience{For: electionPatience}
	if a.conn.bounded {
		p.For = a.conn.timeout
	}
	p.Say = func(waiting error) { a.note("waiting up to %v for %s: %v", p.For, t.name, waiting) }
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
func (a *app) logger() zerolog.Logger {
	return zerolog.New(zerolog.ConsoleWriter{Out: a.errs, NoColor: !colourful(a.errs), TimeFormat: time.TimeOnly}).
		Level(zerolog.WarnLevel).With().Timestamp().Logger()
}

func connectionPage(flags *pflag.FlagSet) string {
	return `Every command that needs the NATS server finds it like this; the first that applies wins:

  1. --server or $NATS_URL
  2. --context or $NATS_CONTEXT, a context of the nats command line
  3. a "millrace dev" or "millrace server" with a NATS server of its own that the same user runs
     on this machine, the newest of several, with the password that it has made for itself
  4. the selected context of the nats command line ("nats context select")
  5. ` + defaultServer + `, without credentials

"millrace worker" with the profile prod, its default, takes part in 1, 2 and 4 only: it joins
nothing that nobody has named.

A running "millrace dev" comes before the selected context, so that what is tried
on one's own machine does not end up elsewhere; when both are there a note says so.
A flag wins over the environment. --server together with --context takes the rest
of the context (credentials, TLS) and goes to that server.

Flags of all commands:
` + flags.FlagUsages() + `
In "run" and "schedule add", --timeout is how long an attempt may run, in "task wait" and "node wait"
how long to wait, in "node ping" for one answer; there $NATS_TIMEOUT says how long to wait for the server.`
}
