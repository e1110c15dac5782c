package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"millrace/events"
	"millrace/events/jet/request"
	"millrace/events/jet/rights"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/service/client"
)

// defaultTimeout bounds one exchange with the server.
const defaultTimeout = 5 * time.Second

// Connection is what flags and environment say about the NATS server, with the names of the nats
// command line.
type Connection struct {
	server, context, user, password, creds, nkey string
	passwordFile, tokenFile                      string
	tlsCert, tlsKey, tlsCA, inboxPrefix          string
	Timeout                                      time.Duration
	bounded                                      bool // a flag or the environment sets Timeout
	// Usual is the server that is tried if nothing names one: [client.UsualServer], except in tests.
	Usual string
	set   *pflag.FlagSet
}

// texts are the flags with a text, and their environment variables.
func (c *Connection) texts() []connectionFlag {
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

// Flags adds --server and the like, which all commands have.
func (c *Connection) Flags(fs *pflag.FlagSet) {
	for _, f := range c.texts() {
		fs.StringVarP(f.value, f.name, f.short, "", f.usage+" ($"+f.env+")")
	}
	fs.Lookup("password").Hidden = true // it is refused, with advice
	c.Timeout = defaultTimeout
	settings.Period(fs, &c.Timeout, "timeout", "how `long` to wait for an answer ($NATS_TIMEOUT)")
	c.set = fs
}

// Resolve chooses the server that the command is going to use, and says so where another one could
// have been meant.
func (a *App) Resolve() (client.Target, error) {
	t, err := a.Target()
	if err != nil {
		return t, err
	}
	switch {
	case t.Others > 0:
		a.Note("using the newest of %d servers that run here, that of %s; --server chooses another one", t.Others+1, t.Running.Data)
	case t.Passed != "":
		a.Note("using the running `millrace %s` of %s, not the nats context %q; --context %s chooses that", t.Running.Role, t.Running.Data, t.Passed, t.Passed)
	case t.Withheld:
		a.Note("no server was named, so %s is not offered the credentials; name one with --server or $NATS_URL", t.Name)
	}
	return t, nil
}

// Target is the server that flags, environment and the rule that programs share choose.
func (a *App) Target() (client.Target, error) {
	c := &a.Conn
	if a.Inside != nil {
		return a.Inside.target(a), nil
	}
	o, err := c.options()
	if err != nil {
		return client.Target{}, err
	}
	o.Name, o.Log, o.Clock = "millrace command line", a.Logger(), a.Clock
	t, err := client.FindServer(o)
	if err != nil {
		return t, err
	}
	if t.By == client.Usual {
		t.Options.Server, t.Name = c.Usual, c.Usual
	}
	if t.Options.Timeout > 0 {
		c.Timeout, c.bounded = t.Options.Timeout, true
	} else {
		t.Options.Timeout = c.Timeout
	}
	return t, nil
}

// Connect connects to the server that flags and environment choose.
func (a *App) Connect(ctx context.Context) (*client.Client, error) {
	t, err := a.Resolve()
	if err != nil {
		return nil, err
	}
	a.Dev, a.reached, a.store = t.Running.Role == RoleDev, nil, nil
	t.Options.Patience = a.patience(t)
	opening, cancel := context.WithTimeout(ctx, max(a.Conn.Timeout, t.Options.Patience.For))
	defer cancel()
	why, note := "", t.Options.Patience.Say
	t.Options.Patience.Say = func(waiting error) {
		// JetStream that has shut itself down, because its disk was full, answers no more than a
		// cluster without a leader. A millrace server knows which it is, and waiting makes no room.
		if why = mute(opening, t); why != "" {
			cancel()
			return
		}
		note(waiting)
	}
	c, err := t.Connect(opening)
	if errors.As(err, new(*request.Denied)) {
		if c, err = t.Attend(opening, err); err == nil {
			if err = a.entitled(c); err != nil {
				c.Close()
				return nil, err
			}
		}
	}
	if errors.Is(err, request.ErrElecting) && why == "" {
		why = mute(ctx, t) // the wait was too short to be spoken of
	}
	switch {
	case err == nil:
		a.Now = c.Now
		a.reached, a.store = &t, c.Store()
		return c, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, events.ErrGone):
		return nil, err
	case why != "":
		return nil, mutely(why)
	case errors.Is(err, request.ErrElecting):
		return nil, Electing(t.Name, err)
	case client.Denied(err):
		return nil, &term.Fault{Code: term.ExitNoServer, Err: fmt.Errorf("%s refuses these credentials: %w", t.Name, err),
			Hint: term.Hint(term.WhoYouAre)}
	case client.Unreachable(err):
		return nil, NoServer(t.Name, err)
	}
	return nil, badConnection(t.Options, err)
}

// entitled refuses a command to a user who may not read the log, unless the service does its work.
func (a *App) entitled(c *client.Client) error {
	a.lacks = &rights.Lacking{User: c.Store().Caller(), Role: c.Role()}
	if a.Typed == "" { // completion: it offers what it can
		return nil
	}
	if verb := verbOf(a.Typed); verb != "" {
		return c.May(verb)
	}
	return a.lacks
}

// Online makes the RunE of a command of a server.
func (a *App) Online(do func(ctx context.Context, cl *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		cl, err := a.Connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		ctx, cancel := context.WithCancelCause(c.Context())
		defer cancel(nil)
		defer cl.Store().OnDenied(cancel)()
		err = do(ctx, cl, args)
		if denied, ok := errors.AsType[*request.Denied](context.Cause(ctx)); ok && err != nil {
			return denied // it waited for an answer that cannot come; [App.Blame] says what that takes
		}
		return err
	}
}

// Brief is Online for a command that takes no longer than --timeout.
func (a *App) Brief(do func(ctx context.Context, cl *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return a.Online(func(ctx context.Context, cl *client.Client, args []string) error {
		ctx, cancel := a.Asking(ctx)
		defer cancel()
		return do(ctx, cl, args)
	})
}

// badConnection explains an error that occurred before any server was asked.
func badConnection(o client.Options, err error) error {
	if errors.Is(err, request.ErrUnknown) {
		there := "there are none; `nats context add` makes one"
		if known := client.Contexts(); len(known) > 0 {
			there = "there are " + strings.Join(known, ", ")
		}
		return &term.Fault{Code: term.ExitNotFound, Err: fmt.Errorf("no context of the nats command line is called %q", o.Context), Hint: term.Hint("%s", there)}
	}
	if o.Creds+o.NKey+o.TLSCert+o.TLSKey+o.TLSCA+o.Context != "" {
		return &term.Fault{Code: term.ExitError, Err: err, Hint: term.Hint("check the files that --creds, --nkey, --tls... or the context name")}
	}
	return err
}

// How long a command, and a long-lived process, waits for the leader of a cluster. An election
// takes some ten seconds at most, a starting cluster as long as its servers do.
const (
	electionPatience = 30 * time.Second
	FormingPatience  = 2 * time.Minute
)

// patience is how a command waits for a cluster: no longer than --timeout, if given.
func (a *App) patience(t client.Target) request.Patience {
	p := request.Patience{For: electionPatience}
	if a.Conn.bounded {
		p.For = a.Conn.Timeout
	}
	p.Say = func(waiting error) { a.Note("waiting up to %v for %s: %v", p.For, t.Name, waiting) }
	return p
}

// Electing is the error that a cluster has no leader.
func Electing(name string, err error) error {
	return &term.Fault{Code: term.ExitNoServer, Err: fmt.Errorf("%s: %w", name, err),
		Hint: term.Hint("see that more than half of its servers run, with room on their disks (one that had none has to be restarted); `nats server report jetstream` lists them")}
}

// NoServer is the error that no server answers there, with advice.
func NoServer(name string, err error) error {
	return &term.Fault{Code: term.ExitNoServer, Err: NothingAt(name, err), Hint: term.Hint("start `millrace dev`, or say where it is with --server or --context")}
}

// NothingAt is the error that no server answers there; it adds the cause only if that is more than
// a refused connection.
func NothingAt(name string, err error) error {
	text := "no NATS server at " + name
	var cause *net.OpError
	if errors.As(err, &cause) {
		text += " (" + cause.Error() + ")"
	} else if errors.Is(err, io.EOF) {
		text += " (what answers there ended the connection before it said who it is; the API over HTTP is for curl and browsers)"
	}
	return errors.New(text)
}

// Asking bounds one exchange with the server. Without a --timeout it goes on after the default
// time, and says so: a cluster that elects a leader needs longer. For a log that takes no messages
// waiting is useless, so the exchange ends then, and [App.Blame] says why.
func (a *App) Asking(ctx context.Context) (context.Context, context.CancelFunc) {
	look, patience := a.Conn.Timeout, electionPatience
	if a.Conn.bounded {
		look, patience = defaultTimeout, a.Conn.Timeout
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	reached, store, said := a.reached, a.store, a.Conn.bounded
	late := time.AfterFunc(look, func() {
		for ; ctx.Err() == nil; a.rests(ctx) {
			switch {
			case reached != nil && a.mute(ctx, reached, store):
				cancel()
			case !said && ctx.Err() == nil:
				said = true
				a.Note("no answer for %v; waiting up to %v, for a NATS cluster may be electing its leaders", look, patience)
			}
		}
	})
	return ctx, func() {
		late.Stop()
		cancel()
	}
}

// Page returns the page "millrace help connection".
func Page(flags *pflag.FlagSet, width int) string {
	return `Every command that needs the NATS server finds it like this; the first rule that applies wins:

  1. --server or $NATS_URL
  2. --context or $NATS_CONTEXT, a context of the nats command line
  3. a "millrace dev" or "millrace server" with a NATS server of its own that the same user runs
     on this machine, the newest of several, with the password that it has made for itself
  4. the selected context of the nats command line ("nats context select")
  5. ` + client.UsualServer + `, without credentials

"millrace worker" with the profile prod, its default, follows rules 1, 2 and 4 only: it joins
only a server that you have named.

A running "millrace dev" comes before the selected context, so that experiments on your own
machine do not end up elsewhere; if both exist a note says so.
A flag wins over the environment, and one that says who you are (--user, --token-file,
--creds, --nkey) over all credentials there but the password. --server together with --context
goes to that server and takes the rest from the context (TLS, and credentials if nothing else
names any). Go programs that use millrace/service/client follow the same rules.

Flags of all commands:
` + flags.FlagUsagesWrapped(width) + `
In "run" and "schedule add", --timeout is how long an attempt may run, in "task wait" and "node wait"
how long to wait, in "node ping" for one answer; there $NATS_TIMEOUT says how long to wait for the server.`
}

// The role of a process with a server of its own: in metrics, in its record and, after "millrace-",
// as a context of the nats command line.
const (
	RoleDev    = "dev"
	RoleServer = "server"
)
