package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"millrace/events/jet/embed"
	"millrace/events/jet/request"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
)

// Dev is millrace dev.
func (a *Commands) Dev() *cobra.Command {
	var e Embedded
	var w WorkerConfig
	c := &cobra.Command{
		Use:     "dev",
		Aliases: []string{"start-all"},
		Short:   "Start everything in one process on this machine",
		Long: `Starts a NATS server, the scheduler, the read model and a worker in this process, and
keeps the data in a directory between starts. It listens on loopback only; other
commands of millrace on this machine find it by themselves. When everything is
ready, DIR/nats.url holds the server's URL.`,
		Example: `  millrace dev
  millrace dev --data ./data --port 0 --slots 8`,
		Args: settings.Takes(0, 0, ""),
	}
	e.flags(c.Flags())
	w.flags(c.Flags())
	flags := settings.AddFlags(c.Flags(), settings.Dev, settings.Staying)
	c.RunE = untilTold(func(c *cobra.Command) error {
		if err := w.check(c); err != nil {
			return err
		}
		s, _, err := a.LoadSettings(flags, settings.Dev)
		if err != nil {
			return err
		}
		return a.EmbeddedServer(c.Context(), &e, s, &w, nil)
	})
	return c
}

// EmbeddedServer runs a server with everything that it needs, and a worker if w is not nil, until
// ctx ends. It calls ready, if that is not nil, when all is ready.
func (a *Commands) EmbeddedServer(ctx context.Context, e *Embedded, s settings.Values, w *WorkerConfig, ready func(*embed.Server)) error {
	conceal()
	if w != nil {
		if err := w.makeFolders(&s); err != nil {
			return err
		}
	}
	log := a.ProcessLogger()
	role := connect.RoleServer
	if w != nil {
		role, e.another = connect.RoleDev, true
	}
	server, err := e.Start(s, log)
	if err != nil {
		return err
	}
	defer server.Stop()
	p := a.newParts(ctx, dialEmbedded(server, log), s, settings.Slowly, log)
	defer p.close()
	p.own, p.data = server, e.Data
	if err := p.listen(role); err != nil {
		return err
	}
	if err := p.listenHTTP(e.Data); err != nil {
		return err
	}
	p.start(func(ctx context.Context) error { return Guard(ctx, server) })
	view, err := p.serve(e.Data)
	if err != nil {
		return err
	}
	if w != nil {
		if err := p.work(*w); err != nil {
			return err
		}
	}
	p.serveFigures()
	if !p.ready() {
		return p.wait()
	}
	forget, err := request.Announce(server.URL(), role, e.Data)
	if err != nil {
		log.Warn("other commands do not find this server by themselves; use --server", "error", err)
	} else {
		defer forget()
	}
	context := ""
	if ready == nil { // else it lives too briefly for that
		var takeBack func()
		context, takeBack = lendContext(server, role)
		defer takeBack()
	}
	remove, err := e.Publish(server) // last, for others wait for this
	if err != nil {
		return err
	}
	defer remove()
	a.sayReady(server, e.Data, w)
	forgetHTTP, err := a.sayHTTP(p, e.Data, role == connect.RoleDev)
	if err != nil {
		return err
	}
	defer forgetHTTP()
	if ready == nil {
		fmt.Fprintln(a.Errs, context)
	} else {
		ready(server)
	}
	tellManager(started)
	p.start(a.activity(view))
	return p.wait()
}

// Guard watches over the embedded server, and adds advice if that fails.
func Guard(ctx context.Context, server *embed.Server) error {
	// A file that may not grow (ulimit -f) then causes an error, as on a full disk, instead of
	// ending the process. The signal is caught and not ignored, for tasks would inherit an ignored
	// signal.
	tooLarge := make(chan os.Signal, 1)
	signal.Notify(tooLarge, syscall.SIGXFSZ)
	defer signal.Stop(tooLarge)
	err := server.Guard(ctx)
	if errors.Is(err, embed.ErrNotBack) {
		return &term.Fault{Code: term.ExitMute, Err: err, Hint: term.Hint("what was acknowledged is on the disk; start this process again, as a service manager does, and see its first words")}
	}
	return err
}

func (a *Commands) sayReady(server *embed.Server, data string, w *WorkerConfig) {
	fmt.Fprintf(a.Errs, "Millrace is ready at %s, its data in %s.\n", server.Address(), data)
	if w != nil {
		fmt.Fprint(a.Errs, "Try `millrace run --follow -- echo hello` in another terminal. Ctrl-C ends it; tasks that run get time to end.\n")
	}
}

// lendContext makes a context by which the nats command line reaches the server, and returns a
// message about it; takeBack removes the context.
func lendContext(server *embed.Server, role string) (says string, takeBack func()) {
	name := "millrace-" + role
	takeBack, err := server.LendContext(name)
	if err != nil {
		return fmt.Sprintf("millrace: the nats command line has to be told: NATS_URL is what DIR/nats.url says (%v)", err), func() {}
	}
	return fmt.Sprintf("The nats command line gets there by `nats --context %s`.", name), takeBack
}
