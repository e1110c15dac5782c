package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"millrace/events/jet"
	"millrace/events/jet/embed"
	"millrace/events/jet/request"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/service/client"
)

// Server is millrace server.
func (a *Commands) Server() *cobra.Command {
	var e Embedded
	c := &cobra.Command{
		Use:   "server",
		Short: "Start the scheduler, the read model and the service, with a NATS server unless you name one",
		Long: `With --server or --context (or $NATS_URL, $NATS_CONTEXT) it uses that NATS server
or cluster, beside any number of other millrace servers. Without, it starts a NATS
server in this process. It runs no tasks: start "millrace worker" for that.`,
		Example: `  millrace server --data /var/lib/millrace
  millrace server --server nats://nats.example:4222 --creds millrace.creds --data /var/lib/millrace`,
		Args: settings.Takes(0, 0, ""),
	}
	e.flags(c.Flags())
	flags := settings.AddFlags(c.Flags(), settings.Prod, settings.Serving)
	c.RunE = untilTold(func(c *cobra.Command) error {
		conceal()
		s, _, err := a.LoadSettings(flags, settings.Prod)
		if err != nil {
			return err
		}
		t, given, err := a.given()
		if err != nil {
			return err
		}
		if !given {
			return a.EmbeddedServer(c.Context(), &e, s, nil, nil)
		}
		if err := e.unused(t.Name); err != nil {
			return err
		}
		return a.serverOn(c.Context(), t, &e, s)
	})
	return c
}

// serverOn runs a server process on an external NATS server.
func (a *Commands) serverOn(ctx context.Context, t client.Target, e *Embedded, s settings.Values) error {
	if e.Data == "" {
		e.Data = defaultData()
	}
	lock, err := embed.LockDir(e.Data) // the read model has one writer
	if errors.Is(err, embed.ErrLocked) {
		return &term.Fault{Code: term.ExitRefused, Err: err, Hint: term.Hint("each server process has a data directory of its own: choose one with --data")}
	}
	if err != nil {
		return shared(err)
	}
	defer func() { _ = lock.Unlock() }() // the process's end would release it, too
	p := a.newParts(ctx, a.dialTo(t, s.Ping), s, settings.Slowly, a.ProcessLogger())
	defer p.close()
	if err := p.listen("server"); err != nil {
		return err
	}
	if err := p.listenHTTP(e.Data); err != nil {
		return err
	}
	view, err := p.serve(e.Data)
	if client.Unreachable(err) && !errors.Is(err, request.ErrElecting) {
		return &term.Fault{Code: term.ExitNoServer, Err: connect.NothingAt(t.Name, err),
			Hint: term.Hint("--server, --context, $NATS_URL or $NATS_CONTEXT says that it is there; without them `millrace server` starts one of its own")}
	}
	if err != nil {
		return a.unusable(t, err)
	}
	p.serveFigures()
	if !p.ready() {
		return p.wait()
	}
	fmt.Fprintf(a.Errs, "Millrace serves %s, its read model is in %s.\n", t.Name, e.Data)
	forgetHTTP, err := a.sayHTTP(p, e.Data, false)
	if err != nil {
		return err
	}
	defer forgetHTTP()
	tellManager(started)
	p.start(a.activity(view))
	return p.wait()
}

// dialTo connects to the chosen server, and asks so often whether it is there.
func (a *Commands) dialTo(t client.Target, ping time.Duration) dial {
	return func(name string) (*nats.Conn, error) {
		o := t.Options
		o.Ping = ping
		o.Name, o.Log = name, a.ProcessLogger()
		return jet.Connect(o)
	}
}
